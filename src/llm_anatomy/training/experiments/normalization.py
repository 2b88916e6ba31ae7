r"""The experiment of chapter 8: does normalization help because it keeps the inputs of the layers from shifting?

    python -m llm_anatomy experiment normalization

A deep multilayer perceptron is trained by SGD in four arms: without normalization, with ``BatchNorm``, with
``LayerNorm``, and with ``BatchNorm`` followed by noise whose mean and variance change at each step, which makes the
inputs shift on purpose. Within a setting and a seed, all arms start from the same weights and see the same batches.
Every batch is new, so the loss of a batch is one of unseen examples. The learning rate of each arm is chosen in each
setting from a grid, with a seed of its own. At five steps of each training, the experiment measures how much the inputs
of the layers shift during the step, and how smooth the loss is along the gradient.

A run is repeated to the digit on the same processor. On another, rounding grows from step to step: with PyTorch's plain
kernels, losses differed by up to 0.01, and means of the measurements over the five steps by up to a tenth.

The command writes the tables ``normalization_experiment``, ``…_tuning``, ``…_losses``, ``…_shift`` and
``…_smoothness`` of :mod:`llm_anatomy.data`.
"""

import copy
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.layers.normalization import BatchNorm, LayerNorm
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.experiments.runs import Rows, Tables, best_max_lrs

ARMS = ("none", "batch", "layer", "noisy")
"""No normalization, BatchNorm, LayerNorm, and BatchNorm followed by shifting noise."""
CONTROLS = ("strong",)
"""An arm of the main setting alone: shifting noise four times as large."""
N_CLASSES, D_INPUT = 10, 16
N_STEPS, BATCH_SIZE, N_PROBE, N_TEST = 300, 128, 512, 4000
MEASURED = (0.02, 0.1, 0.2, 0.5, 0.8)
"""When the experiment measures, as shares of the training. The first step is left out: it is like no later one."""
LRS = (0.03, 0.1, 0.3, 1.0, 3.0)
COMMON_LR, ONE_RATE = 0.1, 0.3
FACTORS = (0.5, 1.0, 2.0, 4.0)
"""Smoothness is measured over steps of so many times a learning rate, after Santurkar et al. (2018)."""
TUNING_SEED = 5
NOISE_MEAN, NOISE_SCALE, NOISE_SPREAD = 0.5, 1.25, 0.1


@dataclass(frozen=True)
class Setting:
    """What is trained, apart from the normalization.

    Args:
        n_layers: number of hidden layers.
        width: of each hidden layer.
        activation: ``relu`` or ``tanh``.
        task: ``teacher`` or ``spirals``, see :func:`examples`.
        lrs: the learning rates to choose from.
        weight_variance: the variance of a weight at the start, times the number of inputs of its layer.

    Source: this project's experiment in chapter 8; IITD-36.

    >>> Setting(n_layers=4).lrs
    (0.03, 0.1, 0.3, 1.0, 3.0)
    """

    n_layers: int = 8
    width: int = 64
    activation: str = "relu"
    task: str = "teacher"
    lrs: tuple[float, ...] = LRS
    weight_variance: float = 2.0

    @property
    def d_input(self) -> int:
        return 2 if self.task == "spirals" else D_INPUT


SETTINGS = {
    "main": Setting(),
    "one rate": Setting(lrs=(ONE_RATE,)),
    "tanh": Setting(activation="tanh", weight_variance=1.0),
    "spirals": Setting(task="spirals"),
    "width 32": Setting(width=32),
    "16 layers": Setting(n_layers=16),
}
"""The main setting, and others that differ from it in one thing each.

The variance of the weights is He's for ReLU (2), and LeCun's for tanh (1).
"""


def examples(
    task: str, n: int, generator: torch.Generator
) -> tuple[Float[Tensor, "batch d_input"], Int[Tensor, "batch"]]:
    """Draw inputs and their classes.

    Args:
        task: ``teacher``: standard normal inputs, and the class that a fixed random network with two hidden layers
            scores highest. ``spirals``: points on ten arms of a spiral in the plane.
        n: number of examples.
        generator: source of randomness.

    Source: this project's experiment in chapter 8; IITD-36.

    >>> x, classes = examples("spirals", 5, torch.Generator().manual_seed(0))
    >>> tuple(x.shape), tuple(classes.shape)
    ((5, 2), (5,))
    """
    if task == "spirals":
        classes, radius = torch.randint(N_CLASSES, (n,), generator=generator), torch.rand(n, generator=generator)
        angle = 2 * math.pi * classes / N_CLASSES + 4 * radius
        x = 2 * radius[:, None] * torch.stack((angle.cos(), angle.sin()), 1)
        return x + 0.02 * torch.randn(n, 2, generator=generator), classes
    fixed = torch.Generator().manual_seed(99)
    h = x = torch.randn(n, D_INPUT, generator=generator)
    for _ in range(2):
        h = torch.tanh(h @ torch.randn(h.shape[1], 32, generator=fixed) * 2 / h.shape[1] ** 0.5)
    return x, (h @ torch.randn(32, N_CLASSES, generator=fixed)).argmax(1)


def shifting_noise(
    x: Float[Tensor, "batch width"], draw: int, layer: int = 0, strength: float = 1.0
) -> Float[Tensor, "batch width"]:
    r"""Scale and shift each unit at random, so that its mean and variance are other ones in each draw.

    .. math:: \tilde x_{ij} = s_{ij} x_{ij} + m_{ij}, \quad s_{ij} \sim N(\sigma_j, 0.1^2), \quad
        m_{ij} \sim U(\mu_j - 0.1, \mu_j + 0.1), \quad \sigma_j \sim U(1, 1.25), \quad \mu_j \sim U(-0.5, 0.5)

    Args:
        x: activations; i is the example, j the unit.
        draw, layer: the same numbers give the same noise.
        strength: multiplies all that the noise adds.

    Source: after Santurkar et al. (2018), section 2.1 and appendix A; IITD-36.

    >>> x = torch.zeros(500, 3)
    >>> [round(v, 1) for v in (shifting_noise(x, 1).mean(0) - shifting_noise(x, 2).mean(0)).abs().tolist()]
    [0.6, 0.2, 0.4]
    """
    seeds = 2000 * draw + 2 * layer, 2000 * draw + 2 * layer + 1
    of_units, of_examples = (torch.Generator().manual_seed(seed) for seed in seeds)
    mean, scale = torch.rand(2, x.shape[1], generator=of_units)
    own_mean, own_scale = torch.rand(x.shape, generator=of_examples), torch.randn(x.shape, generator=of_examples)
    shift = NOISE_MEAN * (2 * mean - 1) + NOISE_SPREAD * (2 * own_mean - 1)
    stretch = (NOISE_SCALE - 1) * scale + NOISE_SPREAD * own_scale
    return x * (1 + strength * stretch) + strength * shift


class DeepNetwork(nn.Module):
    """A multilayer perceptron with a norm before each activation.

    Args:
        arm: one of ``ARMS`` or ``CONTROLS``.
        setting: its sizes.
        seed: seed of the weights, which are the same in all arms.

    Source: Ioffe and Szegedy (2015), section 3.2; Santurkar et al. (2018), section 2; IITD-36.

    >>> network = DeepNetwork("batch", Setting(n_layers=3, width=7), seed=0)
    >>> x = torch.randn(5, D_INPUT)
    >>> tuple(network(x).shape), [tuple(h.shape) for h in network.inputs(x)]
    ((5, 10), [(5, 16), (5, 7), (5, 7), (5, 7)])
    """

    def __init__(self, arm: str, setting: Setting, seed: int):
        super().__init__()
        self.noise = {"noisy": 1.0, "strong": 4.0}.get(arm, 0.0)
        self.activation = getattr(torch, setting.activation)
        widths = [setting.d_input, *[setting.width] * setting.n_layers]
        norm = {"none": lambda _: nn.Identity(), "layer": LayerNorm}.get(arm, BatchNorm)
        hidden = [nn.Sequential(nn.Linear(d, width), norm(width)) for d, width in pairwise(widths)]
        self.layers = nn.ModuleList([*hidden, nn.Linear(setting.width, N_CLASSES)])
        generator = torch.Generator().manual_seed(seed)
        for i, layer in enumerate(self.layers):
            linear = next(module for module in layer.modules() if isinstance(module, nn.Linear))
            variance = setting.weight_variance if i < setting.n_layers else 1.0
            nn.init.normal_(linear.weight, std=(variance / linear.in_features) ** 0.5, generator=generator)
            nn.init.zeros_(linear.bias)

    def inputs(self, x: Float[Tensor, "batch d_input"], draw: int = 0) -> list[Tensor]:
        """What each layer reads, the last one included. In training, ``draw`` chooses the noise, if there is any."""
        read = [x]
        for i, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            if self.noise and self.training:
                x = shifting_noise(x, draw, i, self.noise)
            x = self.activation(x)
            read.append(x)
        return read

    def forward(self, x: Float[Tensor, "batch d_input"], draw: int = 0) -> Float[Tensor, "batch n_classes"]:
        """Score the classes."""
        return self.layers[-1](self.inputs(x, draw)[-1])


# --- What is measured ---


def _loss(network: DeepNetwork, batch: tuple[Tensor, Tensor], draw: int) -> Tensor:
    return F.cross_entropy(network(batch[0], draw), batch[1])


def _flat_gradient(network: nn.Module, loss: Tensor) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(network.parameters()))])


@torch.no_grad()
def _statistics(network: DeepNetwork, x: Tensor, draw: int) -> list[tuple[Tensor, Tensor]]:
    """The mean and standard deviation of each input of the layers after the first, over a batch."""
    read = copy.deepcopy(network).inputs(x, draw)  # of a copy, since BatchNorm updates its running statistics
    return [(h.mean(0), h.std(0, correction=0)) for h in read[1:]]


def input_shift(
    before: DeepNetwork, after: DeepNetwork, x: Float[Tensor, "batch d_input"], draw: int = 0
) -> tuple[float, float]:
    r"""Measure how much the means and standard deviations of the layers' inputs change in one step.

    .. math:: \frac{\sqrt{\frac1d \sum_j (\mu_j' - \mu_j)^2}}{\bar\sigma}, \quad
        \frac{\sqrt{\frac1d \sum_j (\sigma_j' - \sigma_j)^2}}{\bar\sigma}, \quad
        \bar\sigma^2 = \frac1d \sum_j \sigma_j^2

    Both are averaged over the layers after the first, whose inputs are the activations of the layer before.

    Args:
        before, after: the network before and after the step, in training mode.
        x: the batch on which the statistics are computed, the same for both.
        draw: the noise before the step is this draw, and after it the next one.

    Source: Ioffe and Szegedy (2015), section 2; IITD-36.

    >>> network = DeepNetwork("none", Setting(n_layers=2, width=7), seed=0)
    >>> input_shift(network, network, torch.randn(5, D_INPUT))
    (0.0, 0.0)
    """
    shifts = []
    pairs = zip(_statistics(before, x, draw), _statistics(after, x, draw + 1), strict=True)
    for (mean, std), (new_mean, new_std) in pairs:
        scale = std.square().mean().sqrt()
        shifts.append([((new - old).square().mean().sqrt() / scale) for new, old in ((new_mean, mean), (new_std, std))])
    means, stds = torch.tensor(shifts).mean(0).tolist()
    return means, stds


def gradient_shift(
    before: DeepNetwork, after: DeepNetwork, batch: tuple[Tensor, Tensor], draw: int = 0
) -> tuple[float, float]:
    r"""Measure internal covariate shift as Santurkar et al. define it: by the gradient of a layer.

    The gradient of the loss with respect to the parameters of layer k is computed before the step, as :math:`g`, and
    again as :math:`g'` when the layers below have made their step, but neither layer k nor those above have.

    Args:
        before, after: the network before and after the step, in training mode.
        batch: inputs and classes.
        draw: the noise before the step is this draw, and after it the next one.

    Returns:
        :math:`|g' - g| / |g|` and the cosine of :math:`g` and :math:`g'`, averaged over the layers after the first.

    Source: Santurkar et al. (2018), definition 2.1, who do not divide the distance; IITD-36.

    >>> network = DeepNetwork("none", Setting(n_layers=2, width=7), seed=0)
    >>> x, classes = examples("teacher", 5, torch.Generator().manual_seed(0))
    >>> distance, cosine = gradient_shift(network, network, (x, classes))
    >>> distance, round(cosine, 4)
    (0.0, 1.0)
    """
    twin, changes = copy.deepcopy(before), []
    gradients = [_layer_gradient(twin, k, batch, draw) for k in range(len(twin.layers))]
    for k in range(1, len(twin.layers)):
        twin.layers[k - 1].load_state_dict(after.layers[k - 1].state_dict())
        new, old = _layer_gradient(twin, k, batch, draw + 1), gradients[k]
        changes.append([(new - old).norm() / old.norm(), F.cosine_similarity(new, old, dim=0)])
    distance, cosine = torch.tensor(changes).mean(0).tolist()
    return distance, cosine


def _layer_gradient(network: DeepNetwork, k: int, batch: tuple[Tensor, Tensor], draw: int) -> Tensor:
    parameters = list(network.layers[k].parameters())
    return torch.cat([g.flatten() for g in torch.autograd.grad(_loss(network, batch, draw), parameters)])


@dataclass(frozen=True)
class Smoothness:
    """How the loss and its gradient change along the gradient.

    Args:
        loss_range: the largest loss minus the smallest one.
        gradient_distance: the largest distance of the gradient from where it was.
        beta: the largest distance of the gradient, each divided by the length of the step: the effective smoothness.
        gradient_change: the largest distance of the gradient, divided by its norm before the step.
        loss_error: by how much the loss falls short of what the gradient predicts, as a share of the prediction, at
            the longest step. It is 0 for a plane, and above 1 if the loss has risen.

    Source: Santurkar et al. (2018), section 3.1 and figure 4, for the first three; IITD-36.

    >>> Smoothness(0.5, 1.0, 2.0, 0.5, 0.25).beta
    2.0
    """

    loss_range: float
    gradient_distance: float
    beta: float
    gradient_change: float
    loss_error: float


def smoothness(network: DeepNetwork, batch: tuple[Tensor, Tensor], lr: float, draw: int = 0) -> Smoothness:
    """Walk along the gradient, and measure how smooth the loss is.

    Args:
        network: it is not changed.
        batch: inputs and classes, the same for all steps.
        lr: the steps are 1/2, 1, 2 and 4 times this learning rate times the gradient.
        draw: the noise, the same for all steps.

    Source: Santurkar et al. (2018), section 3.1; IITD-36.

    >>> network = DeepNetwork("batch", Setting(n_layers=2, width=7), seed=0)
    >>> batch = examples("teacher", 50, torch.Generator().manual_seed(0))
    >>> smoothness(network, batch, lr=1e-4).loss_error < 0.05
    True
    """
    twin = copy.deepcopy(network)
    start = nn.utils.parameters_to_vector(twin.parameters()).detach()
    loss = _loss(twin, batch, draw)
    gradient = _flat_gradient(twin, loss)
    norm, losses, distances, betas = gradient.norm(), [loss.item()], [], []
    for length in (lr * factor for factor in FACTORS):
        nn.utils.vector_to_parameters(start - length * gradient, twin.parameters())
        after = _loss(twin, batch, draw)
        losses.append(after.item())
        distances.append((_flat_gradient(twin, after) - gradient).norm().item())
        betas.append(distances[-1] / (length * norm.item()))
    error = 1 - (losses[0] - losses[-1]) / (lr * FACTORS[-1] * norm.item() ** 2)
    return Smoothness(max(losses) - min(losses), max(distances), max(betas), max(distances) / norm.item(), error)


# --- Training and tables ---

NAME = "normalization"
COLUMNS = {
    f"{NAME}_tuning": ["setting", "arm", "lr", "loss"],
    f"{NAME}_losses": ["setting", "arm", "seed", "loss", "test_loss"],
    f"{NAME}_shift": ["setting", "arm", "seed", "step", "mean", "std", "gradient", "cosine"],
    f"{NAME}_smoothness": ["setting", "arm", "seed", "step", "lr", *Smoothness.__dataclass_fields__],
}
"""The columns of each table."""


def run(
    setting: Setting, arm: str, seed: int, lr: float, n_steps: int = N_STEPS, measured: Iterable[int] = ()
) -> tuple[DeepNetwork, list[float], list[list], list[list]]:
    """Train one network.

    Args:
        setting, arm: what is trained.
        seed: seed of the weights and the batches.
        lr: the learning rate, which does not change.
        n_steps: number of training steps.
        measured: the steps, counted from 0, at which shift and smoothness are measured. Measuring changes nothing.

    Returns:
        The network, the loss of each batch before its step, and the rows of the measurements.

    Raises:
        FloatingPointError: if the loss is not finite.

    Source: Santurkar et al. (2018), section 2; IITD-36.

    >>> _, losses, shift, _ = run(Setting(n_layers=2), "batch", seed=0, lr=0.1, n_steps=3, measured=[1])
    >>> len(losses), [row[0] for row in shift]
    (3, [1])
    """
    generator, measured = torch.Generator().manual_seed(1000 + seed), set(measured)
    network, losses, shifts, smooth = DeepNetwork(arm, setting, seed), [], [], []
    descent = torch.optim.SGD(network.parameters(), lr=lr)
    probe = examples(setting.task, N_PROBE, torch.Generator().manual_seed(2000 + seed))
    for step in range(n_steps):
        batch = examples(setting.task, BATCH_SIZE, generator)
        before = copy.deepcopy(network) if step in measured else None
        loss = _loss(network, batch, step)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(f"the loss of step {step} is {losses[-1]}")
        descent.zero_grad()
        loss.backward()
        descent.step()
        if before is not None:
            shifts.append([step, *input_shift(before, network, probe[0], step)])
            shifts[-1] += gradient_shift(before, network, batch, step)
            for along in (COMMON_LR, lr):
                smooth.append([step, along, *vars(smoothness(before, probe, along, step)).values()])
    return network, losses, shifts, smooth


def final_loss(losses: list[float]) -> float:
    """Average the loss over the last fifth of the batches.

    Args:
        losses: the loss of each batch.

    Source: this project's experiment in chapter 8; IITD-36.

    >>> final_loss([9.0, 9.0, 9.0, 9.0, 2.0])
    2.0
    """
    last = losses[-max(1, len(losses) // 5) :]
    return sum(last) / len(last)


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: each arm is trained once for each seed and setting.
        n_steps: number of training steps.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: IITD-36.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    300
    """
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    with tables.collecting() as collect:
        for name, setting in SETTINGS.items():
            collect(_tuning, [(name, arm, lr, n_steps) for arm in _arms(name) for lr in setting.lrs], f"{name}, rates")
            tuning = [row[1:] for row in tables.rows[f"{NAME}_tuning"] if row[0] == name]
            best = best_max_lrs(tuning)
            collect(_trained, [(name, arm, seed, best[arm], n_steps) for seed in seeds for arm in _arms(name)], name)
    tables.write_settings(f"{NAME}_experiment", _settings(n_steps), seeds, time.monotonic() - began)


def _arms(setting: str) -> tuple[str, ...]:
    return (*ARMS, *CONTROLS) if setting == "main" else ARMS


def _tuning(job: tuple[str, str, float, int]) -> Rows:
    name, arm, lr, n_steps = job
    try:
        loss = final_loss(run(SETTINGS[name], arm, TUNING_SEED, lr, n_steps)[1])
    except FloatingPointError:  # the learning rate was too high
        loss = math.inf
    return {f"{NAME}_tuning": [[name, arm, lr, f"{loss:.4f}"]]}


def _trained(job: tuple[str, str, int, float, int]) -> Rows:
    name, arm, seed, lr, n_steps = job
    setting, first = SETTINGS[name], [name, arm, seed]
    measured = {int(share * n_steps) for share in MEASURED}
    network, losses, shifts, smooth = run(setting, arm, seed, lr, n_steps, measured)
    network.noise = 0.0  # without it, and with the statistics of the test examples, all arms are read alike
    with torch.no_grad():
        test_loss = _loss(network, examples(setting.task, N_TEST, torch.Generator().manual_seed(3000)), 0)
    return {
        f"{NAME}_losses": [[*first, f"{final_loss(losses):.4f}", f"{test_loss:.4f}"]],
        f"{NAME}_shift": [[*first, step, *(f"{x:.4f}" for x in values)] for step, *values in shifts],
        f"{NAME}_smoothness": [[*first, step, lr, *(f"{x:.4g}" for x in values)] for step, lr, *values in smooth],
    }


def _settings(n_steps: int) -> list[list]:
    return [
        ["command", f"python -m llm_anatomy experiment {NAME}"],
        *([field, value] for field, value in vars(Setting()).items() if field != "lrs"),
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["lrs", " ".join(map(str, LRS))],
        ["tuning_seed", TUNING_SEED],
        ["common_lr", COMMON_LR],
        ["one_rate", ONE_RATE],
        ["n_probe", N_PROBE],
        ["n_test", N_TEST],
    ]
