r"""The experiment of chapter 12: what do decay, learning rate, batch size and schedule do, and what repairs a spike?

    python -m llm_anatomy experiment optimization

*Decay.* Small decoders read 16 stories about 13 times over, so that they overfit. They are trained with Adam and an L2
penalty, and with AdamW, over a grid of learning rates and decays; and with some settings of this grid on 3,000 stories,
of which they read less than a tenth. AdamW's decay is the one of its paper: the share that a step at the maximum
learning rate takes from each matrix. PyTorch's ``weight_decay`` is this share divided by the maximum learning rate.

*Batch size.* Every batch size gets the same number of tokens, and so the larger ones fewer steps.

*Schedules.* Each schedule is tried with and without warm-up, at several maximum learning rates.

*Spikes.* A run goes wrong in its middle, each time for one reason: from then on the learning rate is 30 times what was
planned (``rate``), 10 batches consist of one repeated token (``data``), or the loss scale of float16 grows by a fixed
rule though gradients overflow (``fp16``). The run goes back to a checkpoint and skips some batches. In the causes that
end in ``repaired``, it also goes on with the planned rate, or leaves out a step whose gradient overflows and halves the
scale. ``data clipped`` has bad batches too, but gradients with a norm above 1 are clipped.

Within a seed, all models of a part start from the same weights and, with the same data and batch size, see the same
batches. Gradients are not clipped, apart from that one cause. Losses on validation stories are for choices, and those
on test stories for comparisons. Settings that share a loop are trained together: PyTorch's ``vmap`` computes their
losses at once.

A run is repeated to the digit on the same processor. On another, rounding grows from step to step.

The command writes the tables ``optimization_experiment``, ``…_grid``, ``…_batch``, ``…_schedules``, ``…_spikes`` and
``…_recoveries`` of :mod:`llm_anatomy.data`.
"""

import copy
import math
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from llm_anatomy.config import ModelConfig
from llm_anatomy.evaluation.perplexity import next_token_loss
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.data.stories import stories
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments.feedforward import N_CTX, held_out_windows
from llm_anatomy.training.experiments.runs import Rows, Tables, initialize_
from llm_anatomy.training.experiments.story_models import N_TRAINING_STORIES, N_VOCAB, corpus
from llm_anatomy.training.optimizers import parameter_groups
from llm_anatomy.training.schedules import SCHEDULES

D_MODEL, N_LAYERS, N_HEADS = 32, 2, 4
N_STEPS, BATCH_SIZE, WARMUP = 240, 8, 0.05

FEW, MANY = 16, N_TRAINING_STORIES
MAX_LRS = (0.005, 0.01, 0.02, 0.04)
DECAYS = {
    "adam_l2": (0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016),
    "adamw": (0.002, 0.004, 0.008, 0.016, 0.032, 0.064),
}
"""Weights of the L2 penalty, and the shares of the matrices that a step takes away, in the grid with few stories."""
DECAYS_OF_MANY = {"adam_l2": (0.001,), "adamw": (0.008,)}

BATCH_SIZES = (2, 8, 32, 128)
BATCH_LRS = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
SCHEDULE_LRS, WARMUPS = (0.01, 0.02, 0.04), (0.0, 0.1)

SPIKE_LR, SPIKE_BATCH_SIZE, SPIKE_DECAY = 0.02, 16, 0.002
TOO_HIGH, SCALE, SCALE_DOUBLINGS = 30, 2.0**15, 12
"""Factor of the wrong learning rate; the first loss scale of float16, and how often it doubles in a run."""
CAUSES = ("rate", "data", "fp16")
FIXED = ("rate repaired", "fp16 repaired")


class Setting(NamedTuple):
    """How a model is trained.

    Args:
        max_lr: the maximum learning rate.
        method: ``"adam_l2"`` or ``"adamw"``.
        weight_decay: the weight of the L2 penalty, or the share that a step of AdamW at the maximum learning rate takes
            from each matrix.
        schedule: one of :data:`llm_anatomy.training.schedules.SCHEDULES`.
        warmup: share of the steps that are warm-up.

    Source: Loshchilov and Hutter (2019), algorithm 2; GT-37.

    >>> Setting(0.01).method
    'adamw'
    """

    max_lr: float
    method: str = "adamw"
    weight_decay: float = 0.0
    schedule: str = "cosine"
    warmup: float = WARMUP

    def factor(self, step: int, n_steps: int) -> float:
        """The factor of the maximum learning rate at a step."""
        return SCHEDULES[self.schedule](step, n_steps, int(self.warmup * n_steps))


def small_model(seed: int) -> Transformer:
    """Build a small decoder, before training.

    Args:
        seed: seed of the weights.

    Source: Radford et al. (2019), section 2.3; GT-37.

    >>> small_model(0)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 480])
    """
    sizes = dict(d_model=D_MODEL, n_layers=N_LAYERS, n_heads=N_HEADS, d_ff=4 * D_MODEL, n_vocab=N_VOCAB, n_ctx=N_CTX)
    parts = dict(position="learned", norm="rmsnorm", feedforward="gelu", tie_embeddings=True, scale_embeddings=True)
    with torch.random.fork_rng(devices=[]):
        model = Transformer(ModelConfig.of(sizes | parts))
    initialize_(model, seed)
    return model


@cache
def training_ids(n_stories: int) -> Int[Tensor, "corpus"]:
    """Encode the first stories of the training text.

    Args:
        n_stories: number of stories.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seed 0; GT-37.

    >>> len(training_ids(16))
    4821
    """
    texts = [f"{text}\n\n" for text in stories(0, n_stories)]
    return torch.tensor([i for ids in corpus().tokenizer.encode_batch(texts) for i in ids])


def make_optimizer(model: nn.Module, setting: Setting) -> torch.optim.Optimizer:
    """Build PyTorch's optimizer for a setting.

    Args:
        model: its matrices decay.
        setting: the method, its maximum learning rate and its decay.

    Source: Loshchilov and Hutter (2019), algorithm 2; GT-37, GT-39.

    >>> make_optimizer(small_model(0), Setting(0.01, weight_decay=0.001)).param_groups[0]["weight_decay"]
    0.1
    """
    if setting.method == "adam_l2":
        return torch.optim.Adam(parameter_groups(model, setting.weight_decay), lr=setting.max_lr, fused=True)
    groups = parameter_groups(model, setting.weight_decay / setting.max_lr)  # the library multiplies by the rate again
    return torch.optim.AdamW(groups, lr=setting.max_lr, fused=True)


class Trained(NamedTuple):
    """A trained model.

    Args:
        model: the model.
        training_loss: mean loss of the batches of the last tenth of the steps.

    Source: GT-37.

    >>> Trained(small_model(0), 1.5).training_loss
    1.5
    """

    model: Transformer
    training_loss: float

    def losses(self) -> list[str]:
        """The training loss, and the losses on the validation and the test stories, in nats per token."""
        held_out = (next_token_loss(self.model, held_out_windows(validation=which)) for which in (True, False))
        return [f"{loss:.4f}" if math.isfinite(loss) else "inf" for loss in (self.training_loss, *held_out)]


def train_together(
    settings: Sequence[Setting], seed: int, ids: Int[Tensor, "corpus"], n_steps: int, batch_size: int = BATCH_SIZE
) -> list[Trained]:
    """Train models that start from the same weights and see the same batches, one for each setting.

    Args:
        settings: how each is trained.
        seed: seed of the weights and the batches.
        ids: the corpus.
        n_steps: number of steps.
        batch_size: number of windows in a batch.

    Source: GT-37.

    >>> [type(trained.model).__name__ for trained in train_together([Setting(0.01)], 0, training_ids(1), n_steps=2)]
    ['Transformer']
    """
    models = [small_model(seed) for _ in settings]
    optimizers = [make_optimizer(model, setting) for model, setting in zip(models, settings, strict=True)]
    batches = random_windows(ids, N_CTX, batch_size, torch.Generator().manual_seed(seed))
    losses = []
    for step in range(1, n_steps + 1):
        loss = _losses(models, next(batches))
        losses.append(loss.detach())
        loss.sum().backward()
        for setting, optimizer in zip(settings, optimizers, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = setting.max_lr * setting.factor(step, n_steps)
            optimizer.step()
            optimizer.zero_grad()
    last = torch.stack(losses[-max(1, n_steps // 10) :]).mean(0).tolist()
    return [Trained(model, loss) for model, loss in zip(models, last, strict=True)]


def _losses(models: Sequence[Transformer], windows: Tensor) -> Float[Tensor, "models"]:
    def loss(parameters: dict[str, Tensor]) -> Tensor:
        logits = functional_call(models[0], parameters, (windows[:, :-1],))
        return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())

    names = [name for name, _ in models[0].named_parameters()]
    stacked = {name: torch.stack([model.get_parameter(name) for model in models]) for name in names}
    with sdpa_kernel(SDPBackend.MATH):  # the only kernel that vmap computes for all models at once
        return vmap(loss)(stacked)


# --- Spikes ---


class Measured(NamedTuple):
    """What an engineer sees of a step.

    Args:
        step: number of the step, from 1.
        loss: loss of its batch, before the step.
        gradient_norm: norm of the gradient of all parameters, before it is clipped.
        update_ratio: norm of the change of all parameters, divided by the norm of the parameters before it.
        activation_maximum: the largest absolute entry of the residual stream after a block.

    Source: Zhang et al. (2022), section 2.5; GT-03.

    >>> Measured(1, 6.5, 0.8, 0.002, 7.1).gradient_norm
    0.8
    """

    step: int
    loss: float
    gradient_norm: float
    update_ratio: float
    activation_maximum: float


class SpikingRun:
    """A run that goes wrong in its middle, step by step.

    Args:
        cause: ``"none"``, ``"rate"``, ``"data"`` or ``"fp16"``; ``"rate repaired"``, ``"fp16 repaired"`` or
            ``"data clipped"``.
        seed: seed of the weights and the batches.
        n_steps: number of steps.

    Source: Zhang et al. (2022), section 2.5; Chowdhery et al. (2022), section 5.1; GT-03.

    >>> run = SpikingRun("none", seed=0, n_steps=24)
    >>> run.step().step, run.step().step, run.n_done
    (1, 2, 2)
    """

    def __init__(self, cause: str, seed: int, n_steps: int):
        self.cause, self.n_steps, self.n_done, self.n_skipped, self.scale = cause, n_steps, 0, 0, SCALE
        self.model = small_model(seed)
        self.setting = Setting(SPIKE_LR, weight_decay=SPIKE_DECAY)
        self.optimizer = make_optimizer(self.model, self.setting)
        batches = random_windows(corpus().training, N_CTX, SPIKE_BATCH_SIZE, torch.Generator().manual_seed(seed))
        self.batches = [next(batches) for _ in range(n_steps + max(skips(n_steps)))]
        if cause.startswith("data"):
            token = corpus().training.bincount().argmax()  # the most frequent one
            for i in range(n_steps // 2, n_steps // 2 + max(1, n_steps // 24)):
                self.batches[i] = token.expand_as(self.batches[i])

    def fork(self, cause: str, n_skipped: int) -> "SpikingRun":
        """Copy the run at its present state, to go on after so many batches."""
        run = copy.deepcopy(self)
        run.cause, run.n_skipped = cause, n_skipped
        return run

    def step(self) -> Measured:
        """Make a step, and measure it."""
        step, fp16 = self.n_done + 1, self.cause.startswith("fp16")
        windows = self.batches[self.n_done + self.n_skipped]
        lr = self.setting.max_lr * self.setting.factor(step, self.n_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = lr * TOO_HIGH if self.cause == "rate" and step > self.n_steps // 2 else lr
        largest: list[Tensor] = []
        hooks = [
            block.register_forward_hook(lambda _, __, output: largest.append(output[0].detach().abs().amax()))
            for block in self.model.stack.blocks
        ]
        with torch.autocast("cpu", torch.float16, enabled=fp16):
            logits = self.model(windows[:, :-1])
        for hook in hooks:
            hook.remove()
        loss = F.cross_entropy(logits.float().flatten(0, 1), windows[:, 1:].flatten())
        scale = self.scale if fp16 else 1.0
        (loss * scale).backward()
        parameters = list(self.model.parameters())
        for p in parameters:
            assert p.grad is not None
            p.grad /= scale
        norm = nn.utils.clip_grad_norm_(parameters, 1.0 if self.cause == "data clipped" else math.inf)
        before = nn.utils.parameters_to_vector(parameters).detach().clone()
        if self.cause == "fp16 repaired" and not norm.isfinite():
            self.scale /= 2
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()
        change = nn.utils.parameters_to_vector(parameters).detach() - before
        self.n_done = step
        if fp16 and step % max(1, self.n_steps // SCALE_DOUBLINGS) == 0:
            self.scale *= 2
        update_ratio = (change.norm() / before.norm()).item()
        return Measured(step, loss.item(), norm.item(), update_ratio, torch.stack(largest).amax().item())

    def finish(self) -> list[Measured]:
        """Make the steps that are left. After a loss that is not a number, all others are none either."""
        measured: list[Measured] = []
        while self.n_done < self.n_steps:
            if measured and math.isnan(measured[-1].loss):
                self.n_done += 1
                measured.append(measured[-1]._replace(step=self.n_done))
            else:
                measured.append(self.step())
        return measured

    def test_loss(self) -> float:
        """The loss on the test stories; infinite if it is not a number."""
        loss = next_token_loss(self.model, held_out_windows())
        return loss if math.isfinite(loss) else math.inf


def rewinds(n_steps: int) -> list[int]:
    """List the checkpoints to which a run goes back: before the spike, at it, and after it.

    Args:
        n_steps: number of steps of the run, whose first wrong step is the one after its middle.

    Source: GT-03.

    >>> rewinds(240)
    [100, 120, 140]
    """
    return [n_steps // 2 + k * (n_steps // 12) for k in (-1, 0, 1)]


def skips(n_steps: int) -> list[int]:
    """List how many batches are skipped after a rewind.

    Args:
        n_steps: number of steps of the run.

    Source: Chowdhery et al. (2022), section 5.1, who skip some hundreds; GT-03.

    >>> skips(240)
    [0, 20, 40]
    """
    return [k * (n_steps // 12) for k in (0, 1, 2)]


# --- Tables ---

NAME = "optimization"
LOSSES = ["training_loss", "validation_loss", "test_loss"]
COLUMNS = {
    f"{NAME}_grid": ["stories", "method", "max_lr", "weight_decay", "seed", *LOSSES],
    f"{NAME}_batch": ["batch_size", "n_steps", "max_lr", "seed", *LOSSES],
    f"{NAME}_schedules": ["schedule", "warmup", "max_lr", "seed", *LOSSES],
    f"{NAME}_spikes": ["cause", "rewound", "skipped", *Measured._fields],
    f"{NAME}_recoveries": ["cause", "rewound", "skipped", "seed", "test_loss"],
}
"""The columns of each table."""


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: the grid of decays with few stories is trained once for each seed, and all else for the first three; the
            steps of the runs with spikes are stored for the first, and it alone goes back to all checkpoints.
        n_steps: number of training steps.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: GT-03, GT-37, GT-39.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    240
    """
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    few = seeds[:3]
    with tables.collecting() as collect:
        collect(_spikes, [(seed, n_steps, seed == seeds[0]) for seed in few], "spikes")
        collect(_grid, [(FEW, *cell, seed, n_steps) for seed in seeds for cell in grid(FEW)], "decay")
        collect(_batch, [(size, seed, n_steps) for seed in few for size in BATCH_SIZES], "batch sizes")
        tried = [(name, warmup, seed, n_steps) for seed in few for name, warmup in warmed_schedules()]
        collect(_schedules, tried, "schedules")
        collect(_grid, [(MANY, *cell, seed, n_steps) for seed in few for cell in grid(MANY)], "many stories")
    tables.write_settings(f"{NAME}_experiment", _settings(n_steps), seeds, time.monotonic() - began)


def grid(n_stories: int) -> list[tuple[str, float]]:
    """List the methods and decays that are tried, each at all learning rates. Without decay, both methods are Adam.

    Args:
        n_stories: number of stories of the training text.

    Source: GT-37.

    >>> grid(3000)
    [('none', 0.0), ('adam_l2', 0.001), ('adamw', 0.008)]
    """
    decays = DECAYS if n_stories == FEW else DECAYS_OF_MANY
    return [("none", 0.0), *((method, w) for method, of_method in decays.items() for w in of_method)]


def warmed_schedules() -> list[tuple[str, float]]:
    """List the schedules and the shares of warm-up. Without warm-up, the inverse square root is almost constant here.

    Source: GT-39.

    >>> len(warmed_schedules())
    9
    """
    return [(name, warmup) for name in SCHEDULES for warmup in WARMUPS if warmup or name != "inverse_sqrt"]


def _grid(job: tuple[int, str, float, int, int]) -> Rows:
    n_stories, method, weight_decay, seed, n_steps = job
    settings = [Setting(lr, "adamw" if method == "none" else method, weight_decay) for lr in MAX_LRS]
    found = train_together(settings, seed, training_ids(n_stories), n_steps)
    rows = [
        [n_stories, method, lr, weight_decay, seed, *trained.losses()]
        for lr, trained in zip(MAX_LRS, found, strict=True)
    ]
    return {f"{NAME}_grid": rows}


def _batch(job: tuple[int, int, int]) -> Rows:
    size, seed, n_steps = job
    n_steps = max(1, n_steps * BATCH_SIZE // size)
    found = train_together([Setting(lr) for lr in BATCH_LRS], seed, corpus().training, n_steps, size)
    rows = [[size, n_steps, lr, seed, *trained.losses()] for lr, trained in zip(BATCH_LRS, found, strict=True)]
    return {f"{NAME}_batch": rows}


def _schedules(job: tuple[str, float, int, int]) -> Rows:
    name, warmup, seed, n_steps = job
    settings = [Setting(lr, schedule=name, warmup=warmup) for lr in SCHEDULE_LRS]
    found = train_together(settings, seed, corpus().training, n_steps)
    rows = [[name, warmup, lr, seed, *trained.losses()] for lr, trained in zip(SCHEDULE_LRS, found, strict=True)]
    return {f"{NAME}_schedules": rows}


def _spikes(job: tuple[int, int, bool]) -> Rows:
    """The runs of a seed: for each cause the one that is not rewound, and the rewound ones."""
    seed, n_steps, is_stored = job
    rows: Rows = {f"{NAME}_spikes": [], f"{NAME}_recoveries": []}

    def finish(run: SpikingRun, rewound: int | str, skipped: int | str) -> None:
        measured, first = run.finish(), [run.cause, rewound, skipped]
        rows[f"{NAME}_recoveries"].append([*first, seed, f"{run.test_loss():.4f}"])
        if is_stored:
            rows[f"{NAME}_spikes"] += [
                [*first, row.step, *(f"{x:.4g}" for x in row[1:])] for row in measured if is_shown(row.step, n_steps)
            ]

    for cause in ("none", "data clipped", *CAUSES):
        run = SpikingRun(cause, seed, n_steps)
        finish(run.fork(cause, 0), "", "")
        checkpoints = rewinds(n_steps) if is_stored else rewinds(n_steps)[1:2]
        for rewound in checkpoints if cause in CAUSES else ():
            while run.n_done < rewound:
                run.step()
            for skipped in skips(n_steps):
                finish(run.fork(cause, skipped), rewound, skipped)
            if f"{cause} repaired" in FIXED:
                finish(run.fork(f"{cause} repaired", 0), rewound, 0)
    return rows


def is_shown(step: int, n_steps: int) -> bool:
    """Whether a step of a run with a spike is stored: each one around the spike, and every fifth of 240 elsewhere.

    Args:
        step: number of the step.
        n_steps: number of steps of the run.

    Source: GT-03.

    >>> [step for step in range(90, 165) if is_shown(step, 240) and not 102 < step < 149]
    [90, 95, 100, 101, 102, 149, 150, 155, 160]
    """
    return rewinds(n_steps)[0] < step <= n_steps * 5 // 8 or step % max(1, n_steps // 48) == 0


def _settings(n_steps: int) -> list[list]:
    return [
        ["command", f"python -m llm_anatomy experiment {NAME}"],
        ["d_model", D_MODEL],
        ["n_layers", N_LAYERS],
        ["n_heads", N_HEADS],
        ["n_vocab", N_VOCAB],
        ["n_tokens", N_CTX],
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["warmup", WARMUP],
        ["few_stories", FEW],
        ["few_tokens", len(training_ids(FEW))],
        ["many_stories", MANY],
        ["many_tokens", len(corpus().training)],
        ["max_lrs", " ".join(map(str, MAX_LRS))],
        ["validation_tokens", held_out_windows(validation=True)[:, 1:].numel()],
        ["test_tokens", held_out_windows()[:, 1:].numel()],
        ["spike_batch_size", SPIKE_BATCH_SIZE],
        ["spike_max_lr", SPIKE_LR],
        ["spike_weight_decay", SPIKE_DECAY],
        ["too_high", TOO_HIGH],
        ["bad_batches", max(1, n_steps // 24)],
        ["first_scale", int(SCALE)],
        ["scale_doublings", SCALE_DOUBLINGS],
    ]
