"""The loop of a training run: steps, evaluations, samples and checkpoints, and what is done about spikes."""

import math
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from llm_anatomy.models.checkpoints import save
from llm_anatomy.models.sampling import Sampler, Temperature
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.data.batches import Batch, Sequences, loader
from llm_anatomy.training.data.shards import TokenShards
from llm_anatomy.training.lab.checkpoints import Checkpoints, restore_training_state, training_state
from llm_anatomy.training.lab.config import FILE, TrainConfig
from llm_anatomy.training.lab.diagnostics import Diagnostics
from llm_anatomy.training.lab.metrics import Metrics, Throughput, flops_per_token, peak_flops
from llm_anatomy.training.lab.objective import DTYPES
from llm_anatomy.training.lab.parallel import Ranks
from llm_anatomy.training.lab.signals import EXIT_STATUS, StopSignals
from llm_anatomy.training.lab.spikes import SpikeDetector
from llm_anatomy.training.lab.step import Gradients, Stepper
from llm_anatomy.training.lab.weights import AveragedWeights, finished, first_weights, plain_model

MODEL, CHECKPOINTS = "model", "checkpoints"
"""Folders of a run: its model, and its checkpoints."""


class Result(NamedTuple):
    """How a run ended.

    Source: GT-03.

    >>> Result(0, 500, 1.25, "the run is finished").status
    0
    """

    status: int
    """The status that the command exits with: 0 for a finished run, 75 for one that a signal has stopped after a
    checkpoint, and 1 for one that a spike has stopped."""

    step: int
    """Number of steps that were done."""

    validation_loss: float | None
    """The last one that was computed, in nats per token."""

    message: str
    """The same in a sentence."""


def run(config: TrainConfig) -> Result:
    """Train a model, or go on with the run that the folder ``config.out`` holds.

    Under torchrun, each rank calls this with the same config.

    Args:
        config: of the run.

    Raises:
        ValueError: if something is wrong with the config, the data or a checkpoint, in one sentence.
        OSError: if a checkpoint cannot be written.

    Source: Zhang et al. (2022), "OPT", section 2.5; Chowdhery et al. (2022), "PaLM", section 5.1; GT-03, GT-37.

    >>> import tempfile
    >>> from llm_anatomy.training.data.shards import ShardWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = ShardWriter(f"{folder}/data", n_vocab=7)
    ...     writer.add("train", list(range(7)) * 20)
    ...     writer.finish()
    ...     sizes = dict(d_model=6, n_layers=1, n_heads=2, d_ff=9)
    ...     data = {"path": f"{folder}/data", "n_tokens": 8, "batch_size": 2}
    ...     fields = {"out": f"{folder}/run", "n_steps": 3, "model": sizes, "data": data, "watch": {"quiet": True}}
    ...     result = run(TrainConfig.of(fields | {"watch.evaluate_every": 0}))
    ...     result.step, (Path(folder) / "run" / MODEL / "model.safetensors").is_file()
    (3, True)
    """
    ranks = Ranks(config.parallel)
    try:
        if config.data.batch_size % ranks.world_size:
            what = f"be divisible by {ranks.world_size}, the number of ranks"
            config.data._require(False, "batch_size", what)
        with ExitStack() as stack:
            return _Run(config, ranks, stack).to_the_end()
    finally:
        ranks.close()


class _Run:
    """A run in progress on this rank."""

    def __init__(self, config: TrainConfig, ranks: Ranks, stack: ExitStack):
        self.config, self.ranks, self.folder = config, ranks, Path(config.out)
        shards = TokenShards(config.data.path, "train")
        self.data = self._sequences(shards)
        self.validation = self._sequences(shards, "validation") if config.watch.evaluate_every else None
        self.first = first_weights(config, shards)
        self.model = cast(Transformer, self.first.model).to(ranks.device)
        self.stepper = Stepper(config, ranks, self.model)
        decay = config.optimizer.ema_decay
        self.average = None if decay is None else AveragedWeights(self.model, decay)
        spikes = config.spikes
        self.detector = SpikeDetector(spikes.window, spikes.loss_threshold, spikes.gradient_factor)
        self.step, self.position, self.n_rewinds, self.n_skips = 0, 0, 0, 0
        self.loss: float | None = None
        self.validation_loss: float | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            config._require(False, "out", f"be a folder, or one that can be made ({error.strerror})")
        self.checkpoints = Checkpoints(
            self.folder / CHECKPOINTS,
            keep_last=config.checkpoint.keep_last,
            keep_best=config.checkpoint.keep_best,
            asynchronous=config.checkpoint.asynchronous,
            fingerprint=self._fingerprint(shards),
        )
        stack.callback(self.checkpoints.close)
        watch = config.watch
        self.metrics = Metrics(
            self.folder, n_steps=config.n_steps, tensorboard=watch.tensorboard, wandb=watch.wandb, quiet=watch.quiet
        )
        stack.callback(self.metrics.close)
        peak = peak_flops(ranks.device, DTYPES[config.parallel.precision])
        self.throughput = Throughput(
            flops_per_token(self.model.config, config.data.n_tokens), peak and peak * ranks.world_size
        )
        self.signals = stack.enter_context(StopSignals(ranks.device))

    def _sequences(self, shards: TokenShards, split: str = "train") -> Sequences:
        data = self.config.data
        try:
            shards = shards if split == "train" else TokenShards(data.path, split)
            return Sequences(shards, data.n_tokens, seed=self.config.seed, mask_documents=data.mask_documents)
        except ValueError as error:
            if split == "train":
                raise
            what = "tokenize with a larger --validation, or set watch.evaluate_every to 0"
            raise ValueError(f"{error}; {what}") from None

    def _fingerprint(self, shards: TokenShards) -> dict[str, Any]:
        """What a checkpoint must share with the run that goes on from it."""
        config = self.config
        return {
            "model": self.model.config.changed(),
            "seed": config.seed,
            "data": {
                "sha256": shards.sha256,
                "n_tokens": config.data.n_tokens,
                "mask_documents": config.data.mask_documents,
            },
            "parallel.precision": config.parallel.precision,
            "optimizer.ema_decay": config.optimizer.ema_decay,
            "finetune": {"lora_rank": config.finetune.lora_rank, "lora_targets": config.finetune.lora_targets},
        }

    # --- The loop ---

    def to_the_end(self) -> Result:
        self._resume()
        batches = self._batches()
        self.throughput.start()
        while self.step < self.config.n_steps:
            with self._diagnostics() as diagnostics:
                gradients = self.stepper.gradients(next(batches))
                reason = self._spike(gradients)
                action = self._action(gradients, reason)
                if action == "stop":
                    return self._stopped(f"the run was stopped at step {self.step + 1}: {reason}")
                if action == "rewind":
                    if not self._rewind(reason):
                        return self._stopped(f"step {self.step + 1}: {reason}, and no checkpoint is left to rewind to")
                    batches = self._batches()
                    continue
                self._take(action)
            self.step += 1
            self.position += self.config.data.batch_size
            numbers = {"loss": gradients.loss, "learning_rate": self.stepper.learning_rate(self.step)}
            numbers |= {"gradient_norm": gradients.norm, "position": self.position}
            numbers |= diagnostics.measurements.as_metrics() if diagnostics else {}
            self._after_step(numbers)
            if self.signals.stop() and self.step < self.config.n_steps:
                self._save()
                self.checkpoints.wait()
                return self._end(
                    EXIT_STATUS, f"a signal stopped the run after step {self.step}; the same command goes on"
                )
        return self._finish()

    def _batches(self) -> Any:
        data, ranks = self.config.data, self.ranks
        return iter(
            loader(
                self.data,
                first=self.position,
                batch_size=data.batch_size,
                rank=ranks.rank,
                world_size=ranks.world_size,
                workers=data.workers,
                pin_memory=ranks.device.type == "cuda",
            )
        )

    def _take(self, action: str) -> None:
        """Take the step, or leave it out."""
        if action == "skip":
            self.n_skips += 1
            self.stepper.discard()
        else:
            self.n_skips = 0
            self.stepper.update(self.step + 1)
            if self.average:
                self.average.update()

    def _after_step(self, numbers: dict[str, float]) -> None:
        watch, is_last = self.config.watch, self.step == self.config.n_steps
        numbers |= self.throughput.read(self.config.data.batch_size * self.config.data.n_tokens)
        if self.validation and (is_last or self.step % watch.evaluate_every == 0):
            numbers["validation_loss"] = self.validation_loss = self._evaluate()
        self.loss = numbers.get("loss")
        self.metrics.log(self.step, **numbers)
        if watch.sample_every and (is_last or self.step % watch.sample_every == 0):
            self._sample()
        first_to_rewind_to = self.step == 1 and self.config.spikes.action == "rewind"
        if is_last or first_to_rewind_to or self.step % self.config.checkpoint.every == 0:
            self._save(numbers.get("validation_loss"))
        self.throughput.start()

    def _diagnostics(self) -> Any:
        every = self.config.watch.diagnose_every
        is_due = every and (self.step + 1) % every == 0
        return Diagnostics(self.model, self.stepper.optimizer) if is_due else nullcontext()

    # --- Spikes ---

    def _spike(self, gradients: Gradients) -> str | None:
        if gradients.overflowed(self.stepper.scaler.is_enabled()):
            self._event("overflow", "gradients overflowed in float16: the step is left out, and the loss scale halved")
            return None
        return self.detector.check(gradients.loss, gradients.norm)

    def _action(self, gradients: Gradients, reason: str | None) -> str:
        """What to do with the step: ``take`` it, or as the config says."""
        if reason is None:
            return "take"
        spikes = self.config.spikes
        action = spikes.action
        limits = {"rewind": (self.n_rewinds, spikes.max_rewinds), "skip": (self.n_skips, spikes.max_skips)}
        n_done, limit = limits.get(action, (0, 1))
        if n_done >= limit:
            action = "stop"
        if action == "none":
            action = "take" if math.isfinite(gradients.loss) and math.isfinite(gradients.norm) else "stop"
        self._event("spike", f"{reason}: {action}")
        return action

    def _rewind(self, reason: str | None) -> bool:
        """Go back to a checkpoint, and to the data after the spike. Returns whether there was one."""
        spiked, position, n_rewinds = self.step + 1, self.position + self.config.data.batch_size, self.n_rewinds + 1
        self.stepper.discard()
        self.checkpoints.wait()
        steps = self.checkpoints.steps()
        if not steps:
            return False
        wanted = [step for step in steps if step <= spiked - self.config.spikes.rewind_steps]
        self._load(up_to=max(wanted, default=steps[0]))
        skipped = position - self.position
        self.position, self.n_rewinds = position, n_rewinds
        self._event("rewind", f"back from step {spiked} to {self.step}, without {skipped} sequences: {reason}")
        return True

    def _stopped(self, message: str) -> Result:
        return self._end(1, message)

    # --- Checkpoints ---

    def _state(self) -> dict[str, Any]:
        average = {"average": self.average.tensors} if self.average else {}
        return training_state(self.model, self.stepper.optimizer, **self._progress(), **average)

    def _progress(self) -> dict[str, Any]:
        """How far the run is, in plain values."""
        return {
            "step": self.step,
            "position": self.position,
            "n_rewinds": self.n_rewinds,
            "n_skips": self.n_skips,
            "spikes": self.detector.state_dict()["last"].tolist(),
            "scaler": self.stepper.scaler.state_dict(),
            "validation_loss": self.validation_loss,
        }

    def _save(self, loss: float | None = None) -> None:
        if self.step not in self.checkpoints.steps():
            self.checkpoints.save(self.step, self._state(), loss)

    def _load(self, up_to: int | None = None) -> bool:
        """Load the newest checkpoint. Returns whether there was one."""
        report = partial(self._event, "damaged")
        found = self.checkpoints.resume(self._state, up_to=up_to, report=report)
        if found is None:
            return False
        saved = restore_training_state(self.model, self.stepper.optimizer, found[1])
        missing = [name for name in self._progress() if name not in saved]
        if missing:
            raise ValueError(
                f"the checkpoint of step {found[0]} has no {', '.join(missing)}, because another version of "
                "llm_anatomy wrote it; go on with that version, or begin again in another folder"
            )
        self.step, self.position = saved["step"], saved["position"]
        self.n_rewinds, self.n_skips = saved["n_rewinds"], saved["n_skips"]
        self.validation_loss = saved["validation_loss"]
        self.detector.load_state_dict({"last": torch.tensor(saved["spikes"], dtype=torch.float64)})
        if saved["scaler"]:
            self.stepper.scaler.load_state_dict(saved["scaler"])
        self.metrics.rewind(self.step)
        return True

    def _resume(self) -> None:
        if self._load():
            self._event("resume", f"the run goes on after step {self.step} on {self._ranks_in_words()}")
            self._report_changes()
        else:
            self.metrics.rewind(0)  # a run that was killed before its first checkpoint begins again
            self._event("start", f"the run begins on {self._ranks_in_words()}")
        if self.ranks.is_first:
            self.config.save(self.folder)
            self.model.config.save(self.folder / "model_config.json")

    def _ranks_in_words(self) -> str:
        n = self.ranks.world_size
        return f"{n} ranks" if n > 1 else "one rank"

    def _report_changes(self) -> None:
        """Write down which fields of the config have changed since the run was last started."""
        if not self.ranks.is_first or not (self.folder / FILE).is_file():
            return
        try:
            before = TrainConfig.load(self.folder)
        except ValueError as error:  # the run needs the one that it is given alone
            self._event("damaged", f"the config of the run until now cannot be read ({error}); it is written anew")
            return
        for name, (was, is_now) in before.difference(self.config).items():
            self._event("change", f"{name} was {was}, and is {is_now}")

    # --- Looking at the model ---

    def _averaged(self) -> Any:
        return self.average.swapped() if self.average else nullcontext()

    def _evaluate(self) -> float:
        """The mean loss on the first sequences of the validation split, of which each rank reads its share."""
        assert self.validation
        n, world_size = self.config.watch.evaluation_sequences, self.ranks.world_size
        n = min(n, len(self.validation))
        n_rows = self.config.data.micro_batch_size or self.config.data.batch_size // world_size
        total, n_targets = 0.0, 0
        with self._averaged():
            for start in range(0, n, n_rows * world_size):  # as many passes on each rank: shards need all ranks
                mine = range(start + self.ranks.rank * n_rows, start + (self.ranks.rank + 1) * n_rows)
                loss, counted = self.stepper.loss(_rows(self.validation, mine, n))
                total, n_targets = total + loss, n_targets + counted
        total, n_counted = self.ranks.sum(total, n_targets)
        return total / max(1.0, n_counted)

    def _sample(self) -> None:
        with self._averaged():
            model = plain_model(self.model, self.config.finetune)
        texts, watch = self.first.texts, self.config.watch
        if model is None or texts.tokenizer is None:
            return
        generator = torch.Generator().manual_seed(self.config.seed + self.step)
        beginning = "" if texts.before else texts.tokenizer.decode(self.data.shards.ids(0, 1).tolist())
        pieces = texts.write(
            model,
            beginning if watch.prompt is None else watch.prompt,
            max_new_tokens=watch.sample_tokens,
            sampler=Sampler(Temperature(1.0), generator=generator),
            overflow="stop",
            allowed_special="all",
        )
        self._event("sample", "".join(pieces))

    # --- The end ---

    def _finish(self) -> Result:
        self._save()
        self.checkpoints.wait()
        with self._averaged():
            model = plain_model(self.model, self.config.finetune)
        if model is not None:
            save(finished(self.first, model), self.folder / MODEL)
        found = {"loss": self.loss, "validation loss": self.validation_loss}
        losses = " and a ".join(f"{name} of {loss:.3f}" for name, loss in found.items() if loss is not None)
        message = f"the run is finished after {self.step} steps{f', with a {losses}' if losses else ''}"
        return self._end(0, f"{message}; its model is in {self.folder / MODEL}")

    def _end(self, status: int, message: str) -> Result:
        self._event({0: "finish", EXIT_STATUS: "signal"}.get(status, "stop"), message)
        self.ranks.barrier()
        return Result(status, self.step, self.validation_loss, message)

    def _event(self, kind: str, message: str) -> None:
        self.metrics.event(self.step, kind, message)


def _rows(sequences: Sequences, numbers: range, n: int) -> Batch:
    """Sequences below number n; those from n on repeat the first, and none of their targets counts."""
    batch = sequences.batch([number if number < n else 0 for number in numbers])
    counts = torch.tensor([number < n for number in numbers])
    if counts.all():
        return batch
    targets = torch.ones_like(batch.ids[:, 1:], dtype=torch.bool) if batch.targets is None else batch.targets
    return batch._replace(targets=targets & counts[:, None])
