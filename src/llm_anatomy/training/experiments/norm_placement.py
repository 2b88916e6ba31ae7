r"""The experiment of chapter 9: how does training depend on where the norms stand?

    python -m llm_anatomy experiment norm_placement

The models are small decoders that predict the next byte of a story, and they differ in their residual connections.
Within a depth, a width and a seed, all start from the same matrices and see the same batches. All have the
initialization of :func:`~llm_anatomy.training.experiments.runs.initialize_`; no other was tried. Before training, the
experiment measures the residual stream and the gradients of each layer. It then trains the models with Adam, with
learning rates from too small to too large, without warm-up and with it. Gradients are not clipped, and there is no
weight decay. The learning rate falls along a cosine to zero.

All learning rates of a model are trained together, as copies of it: PyTorch's ``vmap`` computes the losses of all
copies at once. The copies do not influence each other.

A run has failed if it has not become better than a model that knows how frequent each byte is, and nothing else: if a
loss is not finite, or the mean loss of the last fifth of the batches is not at least 0.05 nats below the entropy of the
bytes.

A run is repeated to the digit on the same processor. On another, rounding grows from step to step, and a run at the
edge of failing may end on its other side.

The command writes the tables ``norm_placement_experiment``, ``…_start``, ``…_widths``, ``…_runs``, ``…_longer`` and
``…_traces`` of :mod:`llm_anatomy.data`.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.residual import FixupResidual, Residual, fixup_
from llm_anatomy.models.block import Block
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.data.stories import stories
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments.runs import Rows, Tables, initialize_
from llm_anatomy.training.schedules import warmup_then_cosine
from llm_anatomy.training.trainer import next_token_cross_entropy

ARMS = {
    "post": {"norm_placement": "post"},
    "pre": {"norm_placement": "pre"},
    "sandwich": {"norm_placement": "sandwich"},
    "post_sublayer": {"norm_placement": "post_sublayer"},
    "pre+qk_norm": {"norm_placement": "pre", "qk_norm": "across_heads"},
    "post_sublayer+qk_norm": {"norm_placement": "post_sublayer", "qk_norm": "across_heads"},
    "rezero": {"norm_placement": "rezero"},
    "fixup": {},
    "none": {},
}
"""The fields of the config in each arm. The last two have residual connections without norms, and no final norm."""
D_MODEL, N_HEADS, N_LAYERS = 32, 2, 6
N_TOKENS, BATCH_SIZE, N_STEPS = 64, 8, 250
N_STORIES, N_TEST_STORIES, N_VOCAB = 1000, 100, 57
DEPTHS = (2, 4, 6, 8, 12, 16, 32)
"""The numbers of layers of the models that are measured before training, on a batch of 64 windows."""
WIDTHS = (32, 64, 128, 256)
N_PROBE = 64
MAX_LRS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064)
WARMUPS = (0.0, 0.25)
"""The steps of the linear warm-up, as a share of all steps."""
TRAINED_DEPTHS = {
    "post": (2, 4, 6, 12),
    "pre": (2, 4, 6, 12),
    "sandwich": (6,),
    "post_sublayer+qk_norm": (6,),
}
OTHER_WIDTH = 64
TWO = ("post", "pre")
"""The arms that are also trained with the other width, measured at several widths, and traced."""
TRACED_LRS = (0.001, 0.004, 0.016)
"""The learning rates of the traces, and of the other width."""
LONGER, LONGER_LAYERS, LONGER_LRS = 4, 12, (0.0005, 0.001)
"""Deep models with post-norm are also trained for so many times as many steps."""
EVERY = 5
"""A trace has one row for so many steps."""
MARGIN = 0.05


@cache
def corpus() -> tuple[Int[Tensor, "training"], Int[Tensor, "test"]]:
    """Load the bytes of the stories: those for training, and those for the test.

    The ids count the different bytes of the training stories, in their order.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seeds 0 and 1; GT-15.

    >>> training, test = corpus()
    >>> int(training.max()) + 1, int(test.max()) < 57, len(training) > 600_000
    (57, True, True)
    """
    texts = ["\n\n".join(stories(seed, n)) for seed, n in enumerate((N_STORIES, N_TEST_STORIES))]
    training, test = (torch.tensor(list(text.encode())) for text in texts)
    vocabulary, ids = training.unique(return_inverse=True)
    return ids, torch.searchsorted(vocabulary, test)


@cache
def entropy_of_bytes() -> float:
    r"""Compute the loss of a model that knows how frequent each byte of the training text is, and nothing else.

    .. math:: -\sum_b p_b \log p_b

    Source: Shannon (1948); GT-15.

    >>> round(entropy_of_bytes(), 3)
    3.083
    """
    p = corpus()[0].bincount() / len(corpus()[0])
    return -(p * p.log()).sum().item()


def model_of(arm: str, seed: int, n_layers: int = N_LAYERS, d_model: int = D_MODEL) -> Transformer:
    """Build a decoder before training. The matrices are the same in all arms, but for those that Fixup rescales.

    The unembedding of Fixup keeps its numbers, though the paper sets them to zero: all gradients in the blocks would
    then be zero at first.

    Args:
        arm: one of ``ARMS``.
        seed: seed of the weights.
        n_layers, d_model: number of blocks and width.

    Source: Xiong et al. (2020), section 3; Zhang, Dauphin and Ma (2019), section 3; GT-13, GT-14.

    >>> model_of("post", seed=0, n_layers=1).stack.norm, model_of("fixup", seed=0, n_layers=1).stack.norm
    (Identity(), Identity())
    """
    sizes = dict(d_model=d_model, n_layers=n_layers, n_heads=N_HEADS, d_ff=4 * d_model, n_vocab=N_VOCAB)
    config = ModelConfig(**sizes, position="sinusoidal", feedforward="relu", scale_embeddings=True, **ARMS[arm])
    with torch.random.fork_rng(devices=[]):
        model = Transformer(config)
    initialize_(model, seed)
    if arm in ("fixup", "none"):
        residual = FixupResidual if arm == "fixup" else Residual
        for block in _blocks(model):
            block.attention_residual, block.feedforward_residual = residual(), residual()
        model.stack.norm = nn.Identity()
    if arm == "fixup":
        attention = [[block.attention.w_value, block.attention.w_output] for block in _blocks(model)]
        fixup_(attention + [[block.feedforward.w_up, block.feedforward.w_down] for block in _blocks(model)])
    return model


def _blocks(model: Transformer) -> list[Block]:
    return [cast(Block, block) for block in model.stack.blocks]


# --- Before training ---


@dataclass(frozen=True)
class LayerMeasure:
    """What is measured in one layer before training.

    Args:
        gradient: norm of the gradient of the mean loss with respect to the second matrix of the feed-forward layer.
        state_gradient: norm of the gradient of the summed loss with respect to the residual stream after the layer,
            at one token: the root of the mean square over tokens.
        stream: root mean square of the entries of the residual stream after the layer.

    Source: Xiong et al. (2020), theorem 1 and figure 3, for the first; GT-14.

    >>> LayerMeasure(gradient=1.0, state_gradient=2.0, stream=3.0).stream
    3.0
    """

    gradient: float
    state_gradient: float
    stream: float


def measures(model: Transformer, windows: Int[Tensor, "batch window"]) -> list[LayerMeasure]:
    """Measure the residual stream and the gradients of each layer.

    Args:
        model: it is not changed.
        windows: each one token longer than the model's input.

    Source: Xiong et al. (2020), section 3.3; GT-14.

    >>> len(measures(model_of("pre", seed=0, n_layers=3), probe(seed=0)))
    3
    """
    streams, handles = [], []
    for block in _blocks(model):
        handles.append(block.register_forward_hook(lambda _, __, output: streams.append(output[0])))
    loss = next_token_cross_entropy(model, windows)
    for handle in handles:
        handle.remove()
    matrices = [block.feedforward.get_parameter("w_down.weight") for block in _blocks(model)]
    gradients = torch.autograd.grad(loss, [*matrices, *streams])
    n_tokens = windows[:, 1:].numel()
    return [
        LayerMeasure(matrix.norm().item(), state.norm().item() * n_tokens**0.5, x.square().mean().sqrt().item())
        for matrix, state, x in zip(gradients[: len(matrices)], gradients[len(matrices) :], streams, strict=True)
    ]


def probe(seed: int) -> Int[Tensor, "batch window"]:
    """Draw the windows for the measurement before training.

    Args:
        seed: seed of the weights whose model reads the windows.

    Source: this project's experiment in chapter 9; GT-14.

    >>> probe(0).shape
    torch.Size([64, 65])
    """
    return next(random_windows(corpus()[0], N_TOKENS, N_PROBE, torch.Generator().manual_seed(2000 + seed)))


# --- Training ---


@dataclass(frozen=True)
class Run:
    """What one training has given.

    Args:
        losses: the loss of each batch before its step.
        gradient_norms: the norm of the gradient of all parameters at each step.
        test_loss: the mean loss on 64 windows of other stories, after training.

    Source: GT-15.

    >>> run = Run([9.0] * 8 + [1.0, 2.0], [1.0] * 10, 1.5)
    >>> run.final_loss, run.failed
    (1.5, False)
    >>> Run([float("inf"), 1.0], [1.0, 1.0], 1.0).failed
    True
    """

    losses: list[float]
    gradient_norms: list[float]
    test_loss: float

    @property
    def final_loss(self) -> float:
        """The mean loss of the last fifth of the batches; infinite if any loss is not finite."""
        losses = torch.tensor(self.losses, dtype=torch.float64)
        last = losses[-max(1, len(losses) // 5) :].mean().item()
        return last if losses.isfinite().all() else float("inf")

    @property
    def failed(self) -> bool:
        """Whether the model has not become better than the frequencies of the bytes."""
        return not self.final_loss <= entropy_of_bytes() - MARGIN


def run(
    arm: str,
    seed: int,
    rates: Iterable[tuple[float, float]],
    n_layers: int = N_LAYERS,
    d_model: int = D_MODEL,
    n_steps: int = N_STEPS,
) -> list[Run]:
    """Train copies of one model, one for each learning rate, on the same batches.

    Args:
        arm: one of ``ARMS``.
        seed: seed of the weights and the batches.
        rates: for each copy, the maximum learning rate and the share of the steps that are warm-up.
        n_layers, d_model: number of blocks and width.
        n_steps: number of training steps.

    Source: Xiong et al. (2020), sections 3.1 and 4; GT-15.

    >>> [len(result.losses) for result in run("pre", 0, [(0.01, 0.0), (0.02, 0.5)], n_layers=1, n_steps=3)]
    [3, 3]
    """
    rates, model = list(rates), model_of(arm, seed, n_layers, d_model)
    copies = {name: p.detach().expand(len(rates), *p.shape).clone() for name, p in model.named_parameters()}
    adam, losses, norms = Adam(list(copies.values())), [], []
    for p in copies.values():
        p.requires_grad_()
    batches = random_windows(corpus()[0], N_TOKENS, BATCH_SIZE, torch.Generator().manual_seed(1000 + seed))
    for step in range(1, n_steps + 1):
        loss = _losses(model, copies, next(batches))
        gradients = torch.autograd.grad(loss.sum(), list(copies.values()))
        losses.append(loss.detach())
        norms.append(torch.stack([g.reshape(len(g), -1).square().sum(1) for g in gradients]).sum(0).sqrt())
        lrs = [lr * warmup_then_cosine(step, n_steps, int(warmup * n_steps)) for lr, warmup in rates]
        adam.step(gradients, torch.tensor(lrs))
    with torch.no_grad():
        windows = random_windows(corpus()[1], N_TOKENS, N_PROBE, torch.Generator().manual_seed(3000))
        test_losses = _losses(model, copies, next(windows))
    columns = zip(torch.stack(losses, 1).tolist(), torch.stack(norms, 1).tolist(), test_losses.tolist(), strict=True)
    return [Run(*column) for column in columns]


def _losses(model: Transformer, copies: dict[str, Tensor], windows: Tensor) -> Float[Tensor, "copies"]:
    def loss(parameters: dict[str, Tensor]) -> Tensor:
        logits = functional_call(model, parameters, (windows[:, :-1],))
        return F.cross_entropy(rearrange(logits, "batch tokens n_vocab -> (batch tokens) n_vocab"), targets)

    targets = windows[:, 1:].flatten()
    with sdpa_kernel(SDPBackend.MATH):  # the only kernel that vmap computes for all copies at once
        return vmap(loss)(copies)


class Adam:
    r"""Adam for copies of a model, each with its own learning rate.

    .. math:: m \leftarrow 0.9\, m + 0.1\, g, \quad v \leftarrow 0.999\, v + 0.001\, g^2, \quad
        \theta \leftarrow \theta - \eta\, \frac{m / (1 - 0.9^t)}{\sqrt{v / (1 - 0.999^t)} + 10^{-8}}

    Args:
        parameters: their first axis counts the copies. They are changed in place.

    Source: Kingma and Ba (2015), algorithm 1; GT-15.

    >>> p = torch.tensor([[1.0], [1.0]])  # two copies of one number
    >>> Adam([p]).step([torch.tensor([[5.0], [0.2]])], lrs=torch.tensor([0.1, 0.5]))
    >>> p.tolist()  # the size of the first step does not depend on that of the gradient
    [[0.8999999761581421], [0.5]]
    """

    def __init__(self, parameters: list[Tensor]):
        self.parameters, self.n_steps = parameters, 0
        self.means, self.squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))

    @torch.no_grad()
    def step(self, gradients: Iterable[Tensor], lrs: Float[Tensor, "copies"]) -> None:
        """Make a step with the gradients of all copies."""
        self.n_steps += 1
        mean_share, square_share = 1 - 0.9**self.n_steps, 1 - 0.999**self.n_steps
        for p, m, v, g in zip(self.parameters, self.means, self.squares, gradients, strict=True):
            m.lerp_(g, 0.1)  # m = 0.9 m + 0.1 g
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            direction = m / ((v / square_share).sqrt_() + 1e-8)
            p.sub_(direction * (lrs / mean_share).view(-1, *[1] * (p.ndim - 1)))


# --- Tables ---

NAME = "norm_placement"
COLUMNS = {
    f"{NAME}_start": ["placement", "n_layers", "seed", "layer", "gradient", "state_gradient", "stream"],
    f"{NAME}_widths": ["placement", "unembedding", "d_model", "seed", "gradient"],
    f"{NAME}_runs": [
        *["placement", "n_layers", "d_model", "warmup", "max_lr", "seed"],
        *["loss", "test_loss", "failed"],
    ],
    f"{NAME}_longer": ["placement", "n_layers", "n_steps", "warmup", "max_lr", "seed", "loss", "test_loss", "failed"],
    f"{NAME}_traces": ["placement", "warmup", "max_lr", "seed", "step", "loss", "gradient_norm"],
}
"""The columns of each table."""


def experiment(out: Path, seeds: Iterable[int] = range(3), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: each model is measured, and trained with each learning rate, once for each seed.
        n_steps: number of training steps.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: GT-13, GT-14, GT-15.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    250
    """
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    with tables.collecting() as collect:
        collect(_start, [(arm, n, seed) for arm in ARMS for n in DEPTHS for seed in seeds], "before training")
        of_widths = [(arm, kind, d) for arm in TWO for kind in ("unit", "scaled") for d in WIDTHS]
        collect(_widths, [(*job, seed) for job in of_widths for seed in seeds], "widths")
        collect(_trained, [(*group, seed, n_steps) for group in groups() for seed in seeds], "trainings")
        collect(_longer, [("post", LONGER_LAYERS, LONGER * n_steps, seed) for seed in seeds], "longer trainings")
    tables.write_settings(f"{NAME}_experiment", _settings(n_steps), seeds, time.monotonic() - began)


def groups() -> Iterator[tuple[str, int, int]]:
    """List what is trained, each with several learning rates: arm, number of layers and width.

    Source: GT-15.

    >>> list(groups())[:2]
    [('post', 6, 32), ('pre', 6, 32)]
    """
    depths = {n for of_arm in TRAINED_DEPTHS.values() for n in of_arm}
    for n in (N_LAYERS, *sorted(depths - {N_LAYERS}, reverse=True)):
        yield from ((arm, n, D_MODEL) for arm, of_arm in TRAINED_DEPTHS.items() if n in of_arm)
    yield from ((arm, N_LAYERS, OTHER_WIDTH) for arm in TWO)


def rates_of(d_model: int) -> list[tuple[float, float]]:
    """List the maximum learning rates and the shares of warm-up with which models of a width are trained.

    Args:
        d_model: the width.

    Source: GT-15.

    >>> len(rates_of(32)), rates_of(64)[:2]
    (16, [(0.001, 0.0), (0.001, 0.25)])
    """
    return [(lr, warmup) for lr in (MAX_LRS if d_model == D_MODEL else TRACED_LRS) for warmup in WARMUPS]


def _start(job: tuple[str, int, int]) -> Rows:
    arm, n_layers, seed = job
    found = enumerate(measures(model_of(arm, seed, n_layers), probe(seed)), start=1)
    return {f"{NAME}_start": [[*job, layer, *(f"{x:.4g}" for x in vars(row).values())] for layer, row in found]}


def _widths(job: tuple[str, str, int, int]) -> Rows:
    arm, unembedding, d_model, seed = job
    model = model_of(arm, seed, d_model=d_model)
    if unembedding == "unit" and model.unembedding is not None:
        model.unembedding.embedding.weight.data *= d_model**0.5
    last = measures(model, probe(seed))[-1]
    return {f"{NAME}_widths": [[*job, f"{last.gradient:.4g}"]]}


def _trained(job: tuple[str, int, int, int, int]) -> Rows:
    arm, n_layers, d_model, seed, n_steps = job
    rates, rows = rates_of(d_model), {f"{NAME}_runs": [], f"{NAME}_traces": []}
    for (lr, warmup), result in zip(rates, run(arm, seed, rates, n_layers, d_model, n_steps), strict=True):
        rows[f"{NAME}_runs"].append([arm, n_layers, d_model, warmup, lr, seed, *_outcome(result)])
        if (n_layers, d_model) == (N_LAYERS, D_MODEL) and arm in TWO and lr in TRACED_LRS:
            for step in range(EVERY, n_steps + 1, EVERY):
                group = slice(step - EVERY, step)
                mean, largest = sum(result.losses[group]) / EVERY, max(result.gradient_norms[group])
                rows[f"{NAME}_traces"].append([arm, warmup, lr, seed, step, f"{mean:.4g}", f"{largest:.4g}"])
    return rows


def _longer(job: tuple[str, int, int, int]) -> Rows:
    arm, n_layers, n_steps, seed = job
    rates = [(lr, warmup) for lr in LONGER_LRS for warmup in WARMUPS]
    results = run(arm, seed, rates, n_layers, n_steps=n_steps)
    first = [[arm, n_layers, n_steps, warmup, lr, seed] for lr, warmup in rates]
    return {f"{NAME}_longer": [[*row, *_outcome(result)] for row, result in zip(first, results, strict=True)]}


def _outcome(result: Run) -> list:
    return [f"{result.final_loss:.4g}", f"{result.test_loss:.4g}", int(result.failed)]


def _settings(n_steps: int) -> list[list]:
    return [
        ["command", f"python -m llm_anatomy experiment {NAME}"],
        ["d_model", D_MODEL],
        ["other_width", OTHER_WIDTH],
        ["n_heads", N_HEADS],
        ["n_layers", N_LAYERS],
        ["n_tokens", N_TOKENS],
        ["n_stories", N_STORIES],
        ["n_test_stories", N_TEST_STORIES],
        ["n_probe", N_PROBE],
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["max_lrs", " ".join(map(str, MAX_LRS))],
        ["warmups", " ".join(map(str, WARMUPS))],
        ["margin", MARGIN],
        ["entropy_of_bytes", f"{entropy_of_bytes():.4f}"],
    ]
