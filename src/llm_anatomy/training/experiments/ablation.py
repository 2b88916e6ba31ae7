r"""The experiment of chapter 14: each of the 52 rows of Narang et al.'s table, trained beside the same baseline.

    python -m llm_anatomy experiment ablation --out FOLDER

A row is a small encoder-decoder with one modification. All are trained on span corruption, T5's objective, of stories
in whole words, with the same data in the same order; the seed decides the order and the first weights. The optimizer is
Adam, with T5's schedule: warm-up, then the inverse square root of the step. This schedule does not know where a run
ends, so that the loss at any step is that of a run of this length. T5's own optimizer, Adafactor, makes larger steps
where a parameter's entries are larger. Adam does not, and its runs of this length would leave the tables of embeddings,
whose entries have variance 1, almost where they began: the loss would stay near that of a model without context. So
tables have a larger learning rate than matrices, in all rows alike.

*Tuning.* Each row has a learning rate of its own: the best of three, by the loss on validation stories after a third of
the steps, with a seed of its own.

*Runs.* The baseline is trained with twice as many seeds as a row; their spread is the noise floor. A row is compared
with the baseline seed by seed, by a paired t-test with Holm's correction over all rows.

*Matched time and FLOPs.* A row whose step takes twice the baseline's time is read after half of the steps; where a row
is faster, it is the baseline that is read earlier. The time of a step is measured in turn with the baseline's.

A run of a row is one file in ``FOLDER/runs``, written when it is finished. A command that was stopped goes on when it
is started again, and any number of processes and machines may share the folder. What is to be run is written to
``FOLDER/plan.json`` before the first run, and a command with another plan is refused. The tables are made from the
files that are there.

A run is repeated to the digit on the same kind of processor with one thread. On another, rounding grows from step to
step; the tests allow 0.05 nats there.
"""

import json
import math
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.data import table
from llm_anatomy.evaluation.significance import TTest, holm, kendall_tau, kendall_tau_interval, paired_t_test
from llm_anatomy.files import Record, write_atomically
from llm_anatomy.layers.embeddings import TokenEmbedding
from llm_anatomy.models.checkpoints.engine import _device
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import T5_BASE, auxiliary_loss, baseline, target_log_probs
from llm_anatomy.models.modifications.costs import flops_ratios
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.data.span_corruption import (
    MEAN_SPAN,
    NOISE_DENSITY,
    Corrupted,
    corrupted_batches,
    n_noise_and_spans,
    story_words,
)
from llm_anatomy.training.experiments.runs import Tables, _map
from llm_anatomy.training.schedules import warmup_then_inverse_sqrt

NAME = "ablation"
BASELINE = "baseline"
SEEDS, TUNING_SEED = (0, 1, 2, 3, 4), 100
BETAS, MAX_GRAD_NORM, TABLE_RATE = (0.9, 0.98), 1.0, 40
"""The last is how many times the learning rate of a table of embeddings is that of a matrix."""
N_CURVE, TUNING_SHARE = 20, 3
LEVEL, UNSTABLE = 0.05, 4.0
"""Of a test, after the correction; how many times the baseline's spread makes a row unstable."""
SPEED_ROUNDS, SPEED_STEPS = 7, 3


class Size(NamedTuple):
    """A size of the experiment.

    Args:
        sizes: the sizes of the model.
        n_steps, batch_size: number of steps of a run, and of windows in a batch.
        n_tokens: length of a window before its spans are taken out.
        warmup_steps: number of warm-up steps.
        max_lrs: the learning rates that are tried.
        n_test: number of windows of the test stories; the curve is measured on the first eighth of them.

    Source: Narang et al. (2021), section 3.1; GT-19.

    >>> SIZES["base"].sizes["d_model"]
    768
    """

    sizes: dict[str, int]
    n_steps: int
    batch_size: int
    n_tokens: int
    warmup_steps: int
    max_lrs: tuple[float, ...]
    n_test: int

    def config(self) -> ModelConfig:
        """The config of the baseline."""
        return baseline(**{**self.sizes, "n_vocab": story_words(self.n_spans).n_vocab})

    @property
    def n_spans(self) -> int:
        """Number of spans in a window, and so of sentinels."""
        return n_noise_and_spans(self.n_tokens)[1]

    @property
    def n_source(self) -> int:
        """What the encoder reads of a window: the other tokens, the sentinels and the end."""
        return self.n_tokens - n_noise_and_spans(self.n_tokens)[0] + self.n_spans + 1

    @property
    def n_target(self) -> int:
        """What the decoder predicts for a window: the spans, a sentinel before each, and the end."""
        return sum(n_noise_and_spans(self.n_tokens)) + 1


SIZES = {
    "small": Size({}, 200, 16, 64, 30, (0.003, 0.006, 0.012), 590),
    "base": Size(T5_BASE, 65536, 128, 568, 10000, (0.0003, 0.001, 0.003), 128),
}
"""The sizes by name: one for two cores, and the paper's, for accelerators."""


# --- One run ---


class Job(NamedTuple):
    """A run of a row.

    Args:
        out: folder of the experiment.
        name: the row.
        seed: seed of the order of the data and of the weights.
        max_lr: the maximum learning rate.
        n_steps: number of steps of this run.
        every: number of steps between two points of the curve.
        size: name of the size.
        device: where it is computed.

    Source: GT-19.

    >>> Job(Path("out"), "geglu", 0, 0.01, 400, 20).path
    PosixPath('out/runs/geglu-0-0.01-400.json')
    """

    out: Path
    name: str
    seed: int
    max_lr: float
    n_steps: int
    every: int
    size: str = "small"
    device: str = "cpu"

    @property
    def path(self) -> Path:
        """The file of the run."""
        return self.out / "runs" / f"{self.name}-{self.seed}-{self.max_lr:g}-{self.n_steps}.json"

    def run(self) -> None:
        """Train, measure and write the file; nothing to do if it is there."""
        if self.path.exists():
            return
        began = time.process_time()
        which = "validation" if self.seed == TUNING_SEED else "test"
        trained = train(self.name, self.seed, self.max_lr, self.n_steps, self.every, which, self.size, self.device)
        fields = self._asdict() | trained._asdict() | {"cpu_seconds": round(time.process_time() - began, 2)}
        write_json(self.path, {**fields, "out": None, **versions()})

    def read(self) -> dict[str, Any]:
        """What the file says."""
        return _read(self.path, "loss")


def _read(path: Path, *keys: str) -> dict[str, Any]:
    """What a file of the experiment says; if it is damaged, what to do about it."""
    try:
        fields = Record.read(path).fields
    except ValueError as error:
        raise ValueError(f"{error}; remove {path}, and the same command writes it again") from None
    missing = [key for key in keys if key not in fields]
    if missing:
        raise ValueError(
            f"{path.name}: key {missing[0]!r} is missing; remove {path}, and the same command writes it again"
        )
    return fields


def versions() -> dict[str, str]:
    """What a run depends on apart from its settings.

    Source: GT-19.

    >>> sorted(versions())
    ['processor', 'python', 'torch']
    """
    return {
        "torch": torch.__version__.partition("+")[0],
        "python": platform.python_version(),
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a file of JSON whole or not at all.

    Args:
        path: of the file.
        fields: its content.

    Source: GT-19.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(Path(folder) / "a.json", {"loss": 1.5})
    ...     json.loads((Path(folder) / "a.json").read_text())
    {'loss': 1.5}
    """
    write_atomically(path, json.dumps(fields) + "\n")


class Trained(NamedTuple):
    """What a run gives.

    Args:
        loss: on the held-out stories after the last step, in nats per token; None if it is not finite.
        curve: steps, and the loss on an eighth of these windows after them; it ends where a loss is not finite.
        diverged: whether a loss was not finite.

    Source: GT-19.

    >>> Trained(1.5, [(20, 1.5)], False).loss
    1.5
    """

    loss: float | None
    curve: list[tuple[int, float]]
    diverged: bool


@cache
def held_out(which: str, size: str) -> Corrupted:
    """Corrupt windows of stories that no model is trained on.

    Args:
        which: ``"validation"``, for choices, or ``"test"``, for comparisons.
        size: name of the size.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seeds 1 and 2; GT-19.

    >>> batch = held_out("test", "small")
    >>> batch.targets.numel() >= 8192
    True
    """
    seed, setting = {"test": 1, "validation": 2}[which], SIZES[size]
    ids = story_words(setting.n_spans, seed, 400).ids
    return next(corrupted_batches(ids, setting.n_tokens, setting.n_test, torch.Generator().manual_seed(seed)))


@torch.inference_mode()
def held_out_loss(model: Transformer, batch: Corrupted, device: torch.device | str = "cpu") -> float:
    """The mean loss on held-out windows, in nats per target token, with the model in evaluation mode.

    Args:
        model: a model.
        batch: the windows.
        device: where the model is.

    Source: GT-19.

    >>> model = MODIFICATIONS["baseline"].build(SIZES["small"].config())
    >>> held_out_loss(model, Corrupted(*(x[:4] for x in held_out("test", "small")))) > 5
    True
    """
    model.eval()
    pieces = zip(*(x.split(160) for x in batch), strict=True)
    total = sum(target_log_probs(model, *(x.to(device) for x in piece)).double().sum().item() for piece in pieces)
    model.train()
    return -total / batch.targets.numel()


def train(
    name: str,
    seed: int,
    max_lr: float,
    n_steps: int,
    every: int,
    which: str = "test",
    size: str = "small",
    device: str = "cpu",
) -> Trained:
    """Train a row with a seed, and measure it.

    Args:
        name: the row.
        seed: seed of the order of the data and of the weights.
        max_lr: the maximum learning rate.
        n_steps: number of steps.
        every: number of steps between two points of the curve.
        which: the stories of the measurement, as in :func:`held_out`.
        size: name of the size.
        device: where it is computed.

    Source: Raffel et al. (2020), section 3.1; Narang et al. (2021), section 3.1; GT-19.

    >>> train("baseline", 0, 0.01, n_steps=2, every=2).diverged
    False
    """
    setting, held, curve = SIZES[size], held_out(which, size), []
    eighth = Corrupted(*(x[: max(1, setting.n_test // 8)] for x in held))
    steps = training(name, seed, max_lr, size, device)
    for step in range(1, n_steps + 1):
        model, loss = next(steps)
        if not math.isfinite(loss):
            return Trained(None, curve, True)
        if step % every == 0:
            curve.append((step, round(held_out_loss(model, eighth, device), 6)))
            if not math.isfinite(curve[-1][1]):
                return Trained(None, curve[:-1], True)
    loss = held_out_loss(model, held, device)
    return Trained(round(loss, 6), curve, False) if math.isfinite(loss) else Trained(None, curve, True)


def training(
    name: str, seed: int, max_lr: float, size: str = "small", device: str = "cpu"
) -> Iterator[tuple[Transformer, float]]:
    """Train a row step by step, without end.

    Args:
        name, seed, max_lr, size, device: as in :func:`train`.

    Returns:
        The model after each step, and the loss of the batch before it.

    Source: Raffel et al. (2020), section 3.1; GT-19.

    >>> model, loss = next(training("baseline", 0, 0.01))
    >>> 5 < loss < 9
    True
    """
    setting = SIZES[size]
    model = MODIFICATIONS[name].build(setting.config(), seed).to(device)
    optimizer = torch.optim.Adam(with_table_rates(model, max_lr), lr=max_lr, betas=BETAS, fused=True)
    ids = story_words(setting.n_spans).ids
    batches = corrupted_batches(ids, setting.n_tokens, setting.batch_size, torch.Generator().manual_seed(seed))
    for step, batch in enumerate(batches, 1):
        factor = warmup_then_inverse_sqrt(step, setting.n_steps, setting.warmup_steps)
        for group in optimizer.param_groups:
            group["lr"] = group["max_lr"] * factor
        loss = -target_log_probs(model, *(x.to(device) for x in batch)).mean()
        optimizer.zero_grad()
        (loss + auxiliary_loss(model)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        yield model, loss.item()


def with_table_rates(model: Transformer, max_lr: float) -> list[dict[str, Any]]:
    """Group the parameters by their learning rates: tables of embeddings have a larger one.

    Adafactor, T5's optimizer, makes steps in proportion to the size of a parameter's entries. Adam's steps have one
    size, which is small for tables, whose entries have variance 1, beside matrices. In short runs it is also the tables
    that lack steps, since most words are in few batches.

    Args:
        model: a model.
        max_lr: the maximum learning rate of all other parameters.

    Source: Shazeer and Stern (2018), section 8 (Adafactor); GT-19.

    >>> matrices, tables = with_table_rates(MODIFICATIONS["baseline"].build(baseline(60)), 0.01)
    >>> matrices["max_lr"], tables["max_lr"], [tuple(weight.shape) for weight in tables["params"]]
    (0.01, 0.4, [(60, 48)])
    """
    tables = {id(each.weight) for each in model.modules() if isinstance(each, TokenEmbedding)}
    groups: dict[bool, list[nn.Parameter]] = {False: [], True: []}
    for parameter in model.parameters():
        groups[id(parameter) in tables].append(parameter)
    return [
        {"params": groups[is_table], "max_lr": max_lr * (TABLE_RATE if is_table else 1)} for is_table in (False, True)
    ]


# --- The speed of a step ---


class Speed(NamedTuple):
    """What a step of a row costs.

    Args:
        parameters: number of parameters.
        seconds: time of a training step: on a CPU its own time there, whatever else the processor does.
        baseline_seconds: that of the baseline, measured in turn.
        flops: of a forward pass, divided by the baseline's.

    Source: GT-19.

    >>> Speed(1000, 0.06, 0.04, 1.2).time_ratio
    1.5
    """

    parameters: int
    seconds: float
    baseline_seconds: float
    flops: float

    @property
    def time_ratio(self) -> float:
        """The time of a step, divided by the baseline's."""
        return round(self.seconds / self.baseline_seconds, 4)


def measure_speed(name: str, size: str = "small", device: str = "cpu") -> Speed:
    """Measure the time of a training step, in turn with the baseline, as the median of some rounds.

    Args:
        name: the row.
        size: name of the size.
        device: where it is computed.

    Source: GT-19.

    >>> from inspect import signature
    >>> signature(measure_speed).parameters["device"].default
    'cpu'
    """
    runs = [training(each, 0, 1e-4, size, device) for each in (BASELINE, name)]
    seconds: list[list[float]] = [[], []]
    model = next(runs[1])[0]
    next(runs[0])
    for _ in range(SPEED_ROUNDS):
        for run, times in zip(runs, seconds, strict=True):
            began = _clock(device)
            for _ in range(SPEED_STEPS):
                next(run)
            times.append((_clock(device) - began) / SPEED_STEPS)
    base, own = (statistics.median(times) for times in seconds)
    n, setting = sum(p.numel() for p in model.parameters()), SIZES[size]
    counted = setting.batch_size, setting.n_source, setting.n_target
    flops = flops_ratios([MODIFICATIONS[name]], setting.config(), *counted, device=device)[name]
    return Speed(n, round(own, 6), round(base, 6), round(flops, 4))


def _clock(device: str) -> float:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


# --- All runs ---


class Plan(NamedTuple):
    """What is to be run; it is written down before the first run.

    Args:
        size: name of the size.
        n_steps: number of steps of a run.
        seeds: the seeds of each row.
        device: where it is computed.

    Source: GT-19.

    >>> Plan("small", 400, (0, 1, 2)).baseline_seeds
    (0, 1, 2, 3, 4, 5)
    """

    size: str
    n_steps: int
    seeds: tuple[int, ...]
    device: str = "cpu"

    @property
    def baseline_seeds(self) -> tuple[int, ...]:
        """Twice as many seeds."""
        others = [seed for seed in range(2 * len(self.seeds)) if seed not in self.seeds]
        return (*self.seeds, *others[: len(self.seeds)])

    @property
    def every(self) -> int:
        """Number of steps between two points of the curve."""
        return max(1, self.n_steps // N_CURVE)

    def fields(self) -> dict[str, Any]:
        """All settings of the experiment, and how its results are judged."""
        setting = SIZES[self.size]
        config = setting.config()
        held = held_out("test", self.size)
        return {
            "rows": "1 to 52 of narang2021.csv",
            "size": self.size,
            "d_model": config.d_model,
            "n_layers": config.n_layers,
            "n_heads": config.n_heads,
            "d_ff": config.d_ff,
            "n_vocab": config.n_vocab,
            "n_tokens": setting.n_tokens,
            "noise_density": NOISE_DENSITY,
            "mean_span": MEAN_SPAN,
            "n_source": setting.n_source,
            "n_target": setting.n_target,
            "batch_size": setting.batch_size,
            "n_steps": self.n_steps,
            "warmup_steps": setting.warmup_steps,
            "schedule": "inverse_sqrt",
            "optimizer": "adam",
            "betas": " ".join(map(str, BETAS)),
            "max_grad_norm": MAX_GRAD_NORM,
            "table_rate": TABLE_RATE,
            "max_lrs": " ".join(map(str, setting.max_lrs)),
            "tuning_steps": self.n_steps // TUNING_SHARE,
            "tuning_seed": TUNING_SEED,
            "test_tokens": held.targets.numel(),
            "curve_tokens": max(1, setting.n_test // 8) * setting.n_target,
            "curve_every": self.every,
            "seeds": " ".join(map(str, self.seeds)),
            "baseline_seeds": " ".join(map(str, self.baseline_seeds)),
            "test": "paired t-test over the seeds of a row",
            "correction": "Holm, over all rows but the baseline",
            "level": LEVEL,
            "unstable": "a run has a loss that is not finite, or the standard deviation of the row's losses is above "
            f"{UNSTABLE:g} times that of the baseline's",
            "device": torch.device(self.device).type,
        }

    def tuning_jobs(self, out: Path, name: str) -> list[Job]:
        """The runs that choose the learning rate of a row."""
        steps = max(1, self.n_steps // TUNING_SHARE)
        return [self._job(out, name, TUNING_SEED, lr, steps) for lr in SIZES[self.size].max_lrs]

    def seed_jobs(self, out: Path, name: str) -> list[Job]:
        """The runs of a row that count, at the best learning rate."""
        seeds = self.baseline_seeds if name == BASELINE else self.seeds
        max_lr = best_max_lr(self.tuning_jobs(out, name))
        return [self._job(out, name, seed, max_lr, self.n_steps) for seed in seeds]

    def _job(self, out: Path, name: str, seed: int, max_lr: float, n_steps: int) -> Job:
        return Job(out, name, seed, max_lr, n_steps, self.every, self.size, self.device)


def best_max_lr(jobs: Sequence[Job]) -> float:
    """Choose the learning rate of the run with the smallest loss; the smallest one if all have diverged.

    Args:
        jobs: finished runs.

    Source: GT-19.

    >>> from inspect import signature
    >>> list(signature(best_max_lr).parameters)
    ['jobs']
    """
    losses = {job.max_lr: job.read()["loss"] for job in jobs}
    return min(losses, key=lambda lr: (math.inf if losses[lr] is None else losses[lr], lr))


def check_plan(out: Path, plan: Plan) -> None:
    """Write the plan, or compare it with that of the runs in the folder.

    Args:
        out: folder of the experiment.
        plan: the plan.

    Raises:
        ValueError: if the folder has another plan.

    Source: GT-19.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_plan(Path(folder), Plan("small", 400, (0, 1)))
    ...     check_plan(Path(folder), Plan("small", 200, (0, 1)))
    Traceback (most recent call last):
    ValueError: plan.json has n_steps=400, not 200; take another folder, or what its plan says
    """
    path, fields = out / "plan.json", plan.fields()
    if not path.exists():
        write_atomically(path, json.dumps(fields, indent=1) + "\n")
    planned = _read(path)
    for field in {**fields, **planned}:
        if planned.get(field) != fields.get(field):
            raise ValueError(
                f"plan.json has {field}={planned.get(field)}, not {fields.get(field)}; take another folder, or what "
                "its plan says"
            )


def experiment(
    out: Path,
    seeds: Iterable[int] = SEEDS,
    n_steps: int | None = None,
    n_workers: int = 1,
    *,
    rows: Sequence[str] = (),
    size: str = "small",
    device: str = "cpu",
    task: tuple[int, int] = (1, 1),
    is_run: bool = True,
) -> None:
    """Run what is not run yet, and write the tables of all that is.

    Args:
        out: folder of the plan, the runs and the tables; it is created if it does not exist.
        seeds: the seeds of each row; the baseline has twice as many.
        n_steps: number of steps of a run; by default that of the size.
        n_workers: number of processes, each with one thread. It does not change the losses.
        rows: names of the rows that are run now, beside the baseline; all by default.
        size: one of :data:`SIZES`.
        device: where it is computed.
        task: ``(i, n)`` runs the i-th of n shares of the rows, so that n machines share the work. It makes no
            tables.
        is_run: False to run nothing, and write the tables of what is there.

    Raises:
        ValueError: if an argument is not what it must be, or the folder holds runs of another plan or a damaged file.

    Source: Narang et al. (2021), section 3; GT-19, GT-51.

    >>> from inspect import signature
    >>> signature(experiment).parameters["size"].default
    'small'
    """
    if size not in SIZES:
        raise ValueError(f"{size=} must be one of {', '.join(SIZES)}")
    unknown = [name for name in rows if name not in MODIFICATIONS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no row; the rows are {', '.join(MODIFICATIONS)}")
    i, n = task
    if not 1 <= i <= n:
        raise ValueError(f"task={i}/{n} must be one of 1/{n} to {n}/{n}")
    plan = Plan(size, SIZES[size].n_steps if n_steps is None else n_steps, tuple(seeds), device)
    if plan.n_steps < 1 or len(set(plan.seeds)) < len(plan.seeds) or not plan.seeds:
        raise ValueError(f"n_steps={plan.n_steps} must be at least 1, and seeds={plan.seeds} different")
    if n_workers < 1:
        raise ValueError(f"{n_workers=} must be at least 1")
    if is_run:
        _device(device)  # before the plan is written, which names it
    (out / "runs").mkdir(parents=True, exist_ok=True)
    check_plan(out, plan)
    if is_run:
        chosen = [name for name in MODIFICATIONS if not rows or name in (BASELINE, *rows)]
        _run_all(out, plan, chosen[i - 1 :: n], n_workers)
    if n == 1 or not is_run:
        write_tables(out, plan)


def _run_all(out: Path, plan: Plan, names: Sequence[str], n_workers: int) -> None:
    with _map(n_workers) as run_all:
        ours = [name for name in names if name == BASELINE]
        others = [name for name in names if name != BASELINE]
        for group in (ours, others):  # the noise floor first
            finish(run_all, [job for name in group for job in plan.tuning_jobs(out, name)], "tuning")
            jobs = [plan.seed_jobs(out, name) for name in group]
            finish(run_all, [job for of_seed in zip(*jobs, strict=True) for job in of_seed], "runs")
        finish(run_all, [SpeedJob(out, name, plan.size, plan.device) for name in names], "speed")


class SpeedJob(NamedTuple):
    """The measurement of a row's speed.

    Args:
        out, name, size, device: as in :class:`Job`.

    Source: GT-19.

    >>> SpeedJob(Path("out"), "geglu").path
    PosixPath('out/speed/geglu.json')
    """

    out: Path
    name: str
    size: str = "small"
    device: str = "cpu"

    @property
    def path(self) -> Path:
        """The file of the measurement."""
        return self.out / "speed" / f"{self.name}.json"

    def run(self) -> None:
        """Measure and write the file; nothing to do if it is there."""
        if not self.path.exists():
            self.path.parent.mkdir(exist_ok=True)
            write_json(self.path, measure_speed(self.name, self.size, self.device)._asdict() | versions())


def _run(job: Job | SpeedJob) -> None:
    job.run()


def finish(run_all: Any, jobs: Sequence[Job | SpeedJob], what: str) -> None:
    """Run the jobs that have no file yet, and print a line after each, with the time that is left.

    Args:
        run_all: a map over jobs, in this process or in several.
        jobs: the jobs.
        what: what they are, for the lines.

    Source: GT-19.

    >>> finish(map, [], "runs")
    """
    left, began = [job for job in jobs if not job.path.exists()], time.monotonic()
    for n_done, (job, _) in enumerate(zip(left, run_all(_run, left), strict=True), 1):
        seconds = (time.monotonic() - began) / n_done * (len(left) - n_done)
        found = _read(job.path)
        said = f"loss {found['loss']}" if isinstance(job, Job) else f"{1000 * found['seconds']:.0f} ms a step"
        print(
            f"{what} {n_done}/{len(left)}: {job.path.stem}, {said}; {_left(seconds)} left", file=sys.stderr, flush=True
        )


def _left(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


# --- Tables ---

COLUMNS = {
    f"{NAME}_losses": [
        "row", "name", "seed", "max_lr", "steps", "loss", "matched_time_loss", "matched_flops_loss", "diverged"
    ],
    f"{NAME}_curves": ["name", "step", "loss"],
    f"{NAME}_tuning": ["name", "max_lr", "loss"],
    f"{NAME}_speed": ["name", "parameters", "flops_ratio", "time_ratio", "seconds", "baseline_seconds"],
    f"{NAME}_results": [
        "row", "name", "loss", "spread", "rank", "paper_rank",
        *(f"{kind}{field}" for kind in ("", "time_", "flops_")
          for field in ("difference", "low", "high", "p", "p_holm", "verdict")),
    ],
}  # fmt: skip
"""The columns of each table."""


def loss_at(run: Mapping[str, Any], step: float) -> float:
    """The loss of a run after a number of steps, from its curve.

    The curve is measured on fewer windows than the last loss, so it is moved to end at it. Between two points it is a
    line; before the first, it is the first.

    Args:
        run: what the file of a run says.
        step: number of steps, which need not be whole; after the last step, the loss is the last.

    Source: GT-19.

    >>> run = {"loss": 2.0, "curve": [[20, 4.1], [40, 3.1], [60, 2.1]]}
    >>> [round(loss_at(run, step), 2) for step in (1, 20, 30, 60, 99)]
    [4.0, 4.0, 3.5, 2.0, 2.0]
    """
    if run["loss"] is None:
        return math.inf
    (step_before, before), *rest = run["curve"]
    value = before
    for step_after, after in rest:
        if step > step_before:
            value = before + (after - before) * min(1.0, (step - step_before) / (step_after - step_before))
        step_before, before = step_after, after
    return value + run["loss"] - run["curve"][-1][1]


def write_tables(out: Path, plan: Plan) -> None:
    """Write the tables from the files that are there.

    Args:
        out: folder of the plan, the runs and the tables.
        plan: the plan.

    Without all runs of the baseline, nothing is compared, and the table of results has no rows.

    Source: Narang et al. (2021), table 1; GT-19, GT-51.

    >>> from inspect import signature
    >>> list(signature(write_tables).parameters)
    ['out', 'plan']
    """
    tables = Tables(out, COLUMNS)
    runs: dict[str, dict[int, dict[str, Any]]] = {}
    for name in MODIFICATIONS:
        tuning = [job.read() for job in plan.tuning_jobs(out, name) if job.path.exists()]
        tables.rows[f"{NAME}_tuning"] += [[name, run["max_lr"], _number(run["loss"])] for run in tuning]
        if len(tuning) == len(SIZES[plan.size].max_lrs):
            found = {job.seed: job.read() for job in plan.seed_jobs(out, name) if job.path.exists()}
            if found:
                runs[name] = found
    speeds = {
        name: _read(path, "parameters", "flops", "seconds", "baseline_seconds")
        for name in MODIFICATIONS
        if (path := SpeedJob(out, name).path).exists()
    }
    costs = {name: _costs(name, speeds) for name in runs}
    for name, speed in speeds.items():
        ratio = round(speed["seconds"] / speed["baseline_seconds"], 3)
        row = [name, speed["parameters"], speed["flops"], ratio, speed["seconds"], speed["baseline_seconds"]]
        tables.rows[f"{NAME}_speed"].append(row)
    for name, of_name in runs.items():
        for seed, run in of_name.items():
            matched = [_number(loss_at(run, plan.n_steps / max(1.0, ratio))) for ratio in costs[name]]
            first = [MODIFICATIONS[name].row, name, seed, run["max_lr"], run["n_steps"]]
            tables.rows[f"{NAME}_losses"].append([*first, _number(run["loss"]), *matched, int(run["diverged"])])
        for k, point in enumerate(next(iter(of_name.values()))["curve"]):
            values = [run["curve"][k][1] for run in of_name.values() if len(run["curve"]) > k]
            tables.rows[f"{NAME}_curves"].append([name, point[0], _number(statistics.fmean(values))])
    if set(runs.get(BASELINE, ())) == set(plan.baseline_seeds):
        tables.rows[f"{NAME}_results"] = results_rows(runs, costs, plan)
    for name, rows in tables.rows.items():
        tables.write(name, COLUMNS[name], rows)
    seconds = math.fsum(_read(path, "cpu_seconds")["cpu_seconds"] for path in sorted(out.glob("runs/*.json")))
    command = f"python -m llm_anatomy experiment {NAME} --size {plan.size}"
    fields = {key: value for key, value in plan.fields().items() if key != "seeds"}
    settings = [["command", command], *map(list, fields.items()), *agreement(tables.rows[f"{NAME}_results"])]
    tables.write_settings(f"{NAME}_experiment", settings, list(plan.seeds), seconds)


def _costs(name: str, speeds: Mapping[str, Mapping[str, float]]) -> tuple[float, float]:
    """The time and the FLOPs of a step, divided by the baseline's; 1 where they are not measured."""
    if name == BASELINE or name not in speeds:
        return 1.0, 1.0
    return speeds[name]["seconds"] / speeds[name]["baseline_seconds"], speeds[name]["flops"]


def _number(loss: float | None) -> str:
    return "inf" if loss is None or not math.isfinite(loss) else f"{loss:.4f}"


def results_rows(
    runs: Mapping[str, Mapping[int, Mapping[str, Any]]], costs: Mapping[str, tuple[float, float]], plan: Plan
) -> list[list]:
    """Compare each row with the baseline, at the same number of steps, in the same time, and for the same FLOPs.

    Args:
        runs: what the files say, by row and seed.
        costs: the time and the FLOPs of a step of each row, divided by the baseline's.
        plan: the plan.

    Source: Narang et al. (2021), table 1; GT-19, GT-51.

    >>> run = {"loss": 2.0, "curve": [[20, 2.0]], "diverged": False}
    >>> rows = results_rows({"baseline": {0: run, 1: run}}, {"baseline": (1.0, 1.0)}, Plan("small", 20, (0,)))
    >>> rows[0][:6]
    [1, 'baseline', '2.0000', '0.0000', 1, 1]
    """
    losses = {name: [run["loss"] for run in of_name.values()] for name, of_name in runs.items()}
    means = {name: math.inf if None in values else statistics.fmean(values) for name, values in losses.items()}
    floor = statistics.stdev(losses[BASELINE])
    paper = losses_of_the_paper("final_loss")
    present = [paper[MODIFICATIONS[name].row] for name in runs]
    columns: dict[str, list] = {name: [] for name in runs}
    for costs_of in (lambda name: 1.0, lambda name: costs[name][0], lambda name: costs[name][1]):
        compared = {
            name: _compare(runs[name], runs[BASELINE], costs_of(name), plan) for name in runs if name != BASELINE
        }
        corrected = dict(zip(compared, holm([test.p for test in compared.values()]), strict=True))
        for name, test in compared.items():
            is_unstable = means[name] == math.inf or _spread(losses[name]) > UNSTABLE * floor
            verdict = "unstable" if is_unstable else _verdict(test, corrected[name])
            numbers = [_signed(x) for x in (test.mean, test.low, test.high)]
            columns[name] += [*numbers, f"{test.p:.3g}", f"{corrected[name]:.3g}", verdict]
    columns[BASELINE] = ["0.0000", "0.0000", "0.0000", "", "", "baseline"] * 3
    return [
        [
            MODIFICATIONS[name].row,
            name,
            _number(means[name]),
            _number(_spread(losses[name])),
            1 + sum(other < means[name] for other in means.values()),
            1 + sum(other < paper[MODIFICATIONS[name].row] for other in present),
            *columns[name],
        ]
        for name in runs
    ]


def _spread(losses: Sequence[float | None]) -> float:
    """The standard deviation of the losses; infinite if one is, and 0 of a single one."""
    finite = [loss for loss in losses if loss is not None]
    if len(finite) < len(losses):
        return math.inf
    return statistics.stdev(finite) if len(finite) > 1 else 0.0


def _compare(own: Mapping[int, Mapping], other: Mapping[int, Mapping], cost: float, plan: Plan) -> TTest:
    """The paired test of a row, each read where its cost is that of the whole run of the cheaper of the two."""
    losses = [
        (loss_at(own[s], plan.n_steps / max(1, cost)), loss_at(other[s], plan.n_steps * min(1, cost))) for s in own
    ]
    if len(losses) < 2 or not all(math.isfinite(x) for pair in losses for x in pair):
        mean = statistics.fmean(a - b for a, b in losses)
        return TTest(mean, -math.inf, math.inf, math.nan, 1.0)
    return paired_t_test([a for a, _ in losses], [b for _, b in losses])


def _verdict(test: TTest, p: float) -> str:
    if p >= LEVEL:
        return "within noise"
    return "better" if test.mean < 0 else "worse"


def _signed(x: float) -> str:
    return f"{x:+.4f}" if math.isfinite(x) else str(x)


def losses_of_the_paper(column: str) -> dict[int, float]:
    """Read a column of losses of Narang et al.'s table by the number of the row.

    Args:
        column: ``"final_loss"`` or ``"early_loss_mean"``.

    Source: Narang et al. (2021), table 1; GT-19.

    >>> losses_of_the_paper("final_loss")[1]
    1.838
    """
    return {cast(int, row["row"]): cast(float, row[column]) for row in table("narang2021")}


def agreement(rows: Sequence[Sequence[Any]]) -> list[list]:
    """Compare our ranking with the paper's: Kendall's tau with its interval, for its last and its early losses.

    Args:
        rows: the table of results.

    Source: Narang et al. (2021), table 1; GT-19, GT-51.

    >>> agreement([[1, "baseline", "2.0"], [6, "geglu", "1.9"], [9, "swiglu", "1.8"]])[0]
    ['tau_final_loss', '1.000']
    """
    if len(rows) < 3:
        return []
    ours, found = [float(row[2]) for row in rows], []
    for column in ("final_loss", "early_loss_mean"):
        paper = losses_of_the_paper(column)
        theirs = [paper[row[0]] for row in rows]
        tau, (low, high) = kendall_tau(ours, theirs), kendall_tau_interval(ours, theirs)
        found += [[f"tau_{column}{end}", f"{x:.3f}"] for end, x in (("", tau), ("_low", low), ("_high", high))]
    return found
