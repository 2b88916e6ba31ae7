r"""The experiment of chapter 10: which activation, is a gate worth its parameters, and do units and experts die?

    python -m llm_anatomy experiment feedforward

*Variants.* Small decoders read the stories and differ in their feed-forward layers alone: three plain layers and five
gated ones, all with the same number of parameters. Within a seed, all see the same batches, and their other matrices
start from the same numbers. The learning rate of each variant is chosen on validation stories, as a mean over seeds
that are used for nothing else. Some variants are trained again with another width, number of steps, and seeds.

*Units.* While ReLU and GELU are trained, units that are positive for no token of the test stories are counted.

*Experts.* A mixture of experts replaces the feed-forward layer of the last block. It is trained with and without the
balance loss, and the share of tokens that each expert gets is recorded.

A run is repeated to the digit on the same processor, and a stored one was repeated to the digit with PyTorch's plain
kernels. On another processor, rounding grows from step to step.

The command writes the tables ``feedforward_experiment``, ``…_tuning``, ``…_models``, ``…_differences``, ``…_checks``,
``…_check_differences``, ``…_dead``, ``…_dead_checks``, ``…_experts``, ``…_expert_losses`` and ``…_collapse`` of
:mod:`llm_anatomy.data`.
"""

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from llm_anatomy.config import ModelConfig, MoEConfig
from llm_anatomy.evaluation.paired import paired_difference
from llm_anatomy.evaluation.perplexity import next_token_loss
from llm_anatomy.layers.experts import MixtureOfExperts
from llm_anatomy.layers.feedforward import GATES, FeedForward, gated_width
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Bool, Float, Int, Tensor
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments.runs import Rows, Tables, best_max_lrs, initialize_, means_over_seeds
from llm_anatomy.training.experiments.story_models import N_VOCAB, corpus
from llm_anatomy.training.trainer import next_token_cross_entropy, train

VARIANTS = ("relu", "gelu", "swish", "glu", "bilinear", "reglu", "geglu", "swiglu")
"""The plain layers, named after their activation, and the gated ones, all of Shazeer's table."""
PAIRS = {"geglu": "gelu", "swiglu": "swish"}
"""Gated variants that are compared with the plain layer of the same activation, besides ReLU."""
D_MODEL, N_LAYERS, N_HEADS, N_CTX = 48, 2, 4, 32
N_STEPS, BATCH_SIZE, WARMUP_STEPS = 400, 16, 20
MAX_LRS = (1e-2, 2e-2, 4e-2, 8e-2)
TUNING_SEEDS = (5, 6)
N_VALIDATION = 192
"""So many windows of the held-out stories are for the choice of learning rates, and the others for the test."""

CHECKED = ("relu", "gelu", "bilinear")
"""The variants that are trained again in ``CHECKS``, with the best of the other gated ones."""
CHECKS = {"width 24": (24, 1, 0), "800 steps": (D_MODEL, 2, 0), "other seeds": (D_MODEL, 1, 10)}
"""Other widths, multiples of the number of steps, and seeds that are so much higher. The rates are not tuned anew."""

ACTIVATIONS, MODERATE_LR, LARGE_LR = ("relu", "gelu"), 2e-2, 1e-1
DEAD_CHECKS: dict[str, tuple[float, dict]] = {"biases": (LARGE_LR, {"ff_bias": True}), "rate 0.3": (0.3, {})}
"""Learning rates and changes of the config with which dead units are counted again."""
MEASURED = (0, 0.025, 0.05, 0.1, 0.2, 0.4, 0.7, 1)
"""When units are counted, as shares of the training."""
SMALL_DERIVATIVE = 0.01

N_EXPERTS, BALANCES, CAPACITY_FACTOR, N_LOADS = 8, (0.0, 0.01), 1.25, 20
COLLAPSE: dict[str, dict[str, Any]] = {
    "main": {},
    "4 experts": {"n_experts": 4},
    "16 experts": {"n_experts": 16},
    "router / 10": {"router_scale": 0.1},
    "router x 4": {"router_scale": 4.0},
    "rate x 4": {"rate_scale": 4.0},
}
"""Settings in which the balance loss is left out, each of which differs from the main one in one thing."""
IDLE = 0.01
"""An expert is idle if it gets a smaller share of the tokens."""


def small_config(variant: str, d_model: int = D_MODEL, **changes) -> ModelConfig:
    """Config of a small decoder. All variants have the same number of parameters.

    Args:
        variant: one of ``VARIANTS``.
        d_model: a multiple of 12, so that two thirds of the feed-forward layer's width are a whole number, and the
            heads' width is one.
        changes: values of further fields of the config.

    Raises:
        ValueError: if the variant is not one of these, or the config does not allow a value.

    Source: Shazeer (2020), section 3; CMU-06, CMU-07.

    >>> small_config("relu").d_ff, small_config("swiglu").d_ff
    (192, 128)
    """
    if variant not in VARIANTS:
        raise ValueError(f"{variant=} must be one of {', '.join(VARIANTS)}")
    d_ff = gated_width(4 * d_model) if variant in GATES else 4 * d_model
    sizes = dict(d_model=d_model, n_layers=N_LAYERS, n_heads=N_HEADS, d_ff=d_ff, n_vocab=N_VOCAB)
    parts = dict(position="rope", norm="rmsnorm", tie_embeddings=True, scale_embeddings=True)
    return ModelConfig.of(sizes | parts | dict(feedforward=variant) | changes)


def small_model(config: ModelConfig, seed: int = 0) -> Transformer:
    """Build a small decoder, before training.

    Args:
        config: from :func:`small_config`.
        seed: seed of the weights.

    Source: Vaswani et al. (2017), section 3.4; CMU-07.

    >>> small_model(small_config("geglu"))(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 480])
    """
    with torch.random.fork_rng(devices=[]):
        model = Transformer(config)
    initialize_(model, seed)
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, MixtureOfExperts):
            for weight in module.experts.parameters():  # one matrix for each expert
                nn.init.normal_(weight, std=weight.shape[-1] ** -0.5, generator=generator)
    return model


def held_out_windows(*, validation: bool = False) -> Int[Tensor, "windows window"]:
    """Cut the held-out stories into windows, each of which begins with the last token of the one before it.

    Args:
        validation: take the first windows, for the choice of learning rates, and not the others, for the test.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`; CMU-07.

    >>> held_out_windows().shape, held_out_windows(validation=True).shape
    (torch.Size([399, 33]), torch.Size([192, 33]))
    """
    windows = corpus().held_out.unfold(1, N_CTX + 1, N_CTX).flatten(0, 1)
    return windows[:N_VALIDATION] if validation else windows[N_VALIDATION:]


def fit(
    model: Transformer,
    seed: int,
    max_lr: float,
    n_steps: int = N_STEPS,
    *,
    batch_loss: Callable[[nn.Module, Tensor], Tensor] = next_token_cross_entropy,
    after_step: Callable[[int], None] | None = None,
) -> list[float]:
    """Train a small decoder on the stories.

    Args:
        model: it is changed.
        seed: seed of the batches.
        max_lr: the maximum learning rate.
        n_steps: number of training steps.
        batch_loss, after_step: as in :func:`llm_anatomy.training.trainer.train`.

    Returns:
        The loss of each batch before its step.

    Raises:
        FloatingPointError: if a loss is not finite.

    Source: CMU-07.

    >>> len(fit(small_model(small_config("relu")), seed=0, max_lr=0.01, n_steps=2))
    2
    """
    batches = random_windows(corpus().training, N_CTX, BATCH_SIZE, torch.Generator().manual_seed(seed))
    return train(
        model,
        batches,
        batch_loss=batch_loss,
        n_steps=n_steps,
        max_lr=max_lr,
        warmup_steps=min(WARMUP_STEPS, n_steps - 1),
        after_step=after_step,
    )


# --- Units that no token makes positive ---


def unit_states(
    model: Transformer, windows: Int[Tensor, "windows window"]
) -> tuple[Bool[Tensor, "units"], Bool[Tensor, "units"]]:
    r"""Find the units of all feed-forward layers that no token makes positive, and those that are silent.

    A unit reads :math:`z = x \cdot w`, or with a bias :math:`z = x \cdot w + b`, and passes on :math:`f(z)`. It is
    *dead* if :math:`z \leq 0` for all tokens: the same condition for each activation. It is *silent* if the gradient
    that it lets through is small for all tokens, :math:`|f'(z)| < 0.01`. With ReLU the two are the same, but for z = 0.
    With GELU a unit may be dead and still learn: it is silent where z is below about -3.

    Args:
        model: with plain feed-forward layers.
        windows: token ids, each window one token longer than the model's input.

    Returns:
        For each unit, layer by layer, whether it is dead and whether it is silent.

    Source: this project's experiment in chapter 10; GT-22.

    >>> dead, silent = unit_states(small_model(small_config("relu")), held_out_windows()[:8])
    >>> dead.shape, torch.equal(dead, silent)
    (torch.Size([384]), True)
    """
    largest: list[Tensor] = []

    def measure(layer: nn.Module, _: Any, z: Tensor) -> None:
        z = z.detach().flatten(0, 1).requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(of_layer[layer](z).sum(), z)
        largest.append(torch.stack((z.detach().amax(0), slope.abs().amax(0))))

    layers = [module for module in model.modules() if isinstance(module, FeedForward)]
    of_layer: dict[nn.Module, Callable] = {layer.w_up: layer.activation for layer in layers}
    hooks = [layer.w_up.register_forward_hook(measure) for layer in layers]
    with torch.no_grad():
        parts = windows.split(64)
        for part in parts:
            model(part[:, :-1])
    for hook in hooks:
        hook.remove()
    units = torch.stack(largest).unflatten(0, (len(parts), len(layers))).amax(0)  # (layers, 2, units of a layer)
    return units[:, 0].flatten() <= 0, units[:, 1].flatten() < SMALL_DERIVATIVE


def count_dead(config: ModelConfig, seed: int, max_lr: float, n_steps: int) -> list[tuple[int, float, float, float]]:
    """Train a model, and count its dead and silent units at the steps in ``MEASURED``.

    Args:
        config: with plain feed-forward layers.
        seed: seed of weights and batches.
        max_lr: the maximum learning rate.
        n_steps: number of training steps.

    Returns:
        The step, and the shares of all units that are dead, that are silent, and that were dead when they were counted
        last and no longer are.

    Source: this project's experiment in chapter 10; GT-22.

    >>> counts = count_dead(small_config("relu", d_model=12), seed=0, max_lr=0.01, n_steps=2)
    >>> [step for step, *_ in counts]
    [0, 1, 2]
    """
    model, windows, counts = small_model(config, seed), held_out_windows(), []
    steps, before = {int(share * n_steps) for share in MEASURED}, None

    def count(step: int) -> None:
        nonlocal before
        if step in steps:
            dead, silent = unit_states(model, windows)
            revived = torch.zeros_like(dead) if before is None else before & ~dead
            counts.append((step, *(mask.float().mean().item() for mask in (dead, silent, revived))))
            before = dead

    count(0)
    fit(model, seed, max_lr, n_steps, after_step=count)
    return counts


# --- Experts ---


def expert_config(n_experts: int = N_EXPERTS) -> ModelConfig:
    """Config of the decoder whose last feed-forward layer is a mixture, with one expert for each token, as in Switch.

    An expert has the size of the feed-forward layer that it replaces, so that a token costs as much as in the model
    without experts, apart from the router.

    Args:
        n_experts: number of experts.

    Source: Fedus et al. (2022), section 2.1; GT-19.

    >>> expert_config().moe.d_expert
    192
    """
    moe = MoEConfig(n_experts=n_experts, n_experts_per_token=1, n_dense_layers=N_LAYERS - 1, router="top_k_of_softmax")
    return small_config("relu", moe=moe)


def train_experts(
    balance: float,
    seed: int,
    max_lr: float,
    n_steps: int = N_STEPS,
    *,
    n_experts: int = N_EXPERTS,
    router_scale: float = 1.0,
    rate_scale: float = 1.0,
) -> tuple[Transformer, Float[Tensor, "steps n_experts"]]:
    """Train a mixture of experts without a bound on the number of tokens of an expert.

    Args:
        balance: weight of the balance loss.
        seed: seed of weights and batches.
        max_lr: the maximum learning rate, before it is scaled.
        n_steps: number of training steps.
        n_experts: number of experts.
        router_scale: factor of the router's weights before training, which are drawn from N(0, 1/d_model).
        rate_scale: factor of the learning rate.

    Returns:
        The model, and the share of each batch's tokens that each expert got.

    Source: Fedus et al. (2022), section 2.2, whose weight is 0.01; GT-19.

    >>> _, shares = train_experts(0.01, seed=0, max_lr=0.01, n_steps=2)
    >>> shares.shape, shares.sum(1).tolist()
    (torch.Size([2, 8]), [1.0, 1.0])
    """
    model, shares = small_model(expert_config(n_experts), seed), []
    with torch.no_grad():
        _mixture(model).router.w_router.weight *= router_scale

    def with_balance(_: nn.Module, window: Tensor) -> Tensor:
        x, records = model.hidden_states(window[:, :-1])
        record = records[-1].routing
        assert record is not None
        shares.append(record.tokens_per_expert / len(record.experts))
        loss = nn.functional.cross_entropy(model.logits(x).flatten(0, 1), window[:, 1:].flatten())
        return loss + balance * record.load_balance_loss

    fit(model, seed, rate_scale * max_lr, n_steps, batch_loss=with_balance)
    return model, torch.stack(shares)


def _mixture(model: Transformer) -> MixtureOfExperts:
    mixture = model.stack.blocks[-1].feedforward
    assert isinstance(mixture, MixtureOfExperts)
    return mixture


def loss_within_capacity(model: Transformer, windows: Int[Tensor, "windows window"]) -> tuple[float, float]:
    """Measure what a trained mixture loses if an expert may process no more than 1.25 times its even share.

    Args:
        model: a trained mixture.
        windows: token ids, each window one token longer than the model's input, in batches of 32.

    Returns:
        The loss, and the share of tokens that are dropped.

    Source: Fedus et al. (2022), section 2.2; GT-19.

    >>> loss, dropped = loss_within_capacity(small_model(expert_config()), held_out_windows()[:32])
    >>> 0 < dropped < 1
    True
    """
    mixture, dropped = _mixture(model), []
    hook = mixture.register_forward_hook(lambda layer, x, result: dropped.append(result[1].n_dropped.item()))
    mixture.capacity_factor = CAPACITY_FACTOR
    loss = next_token_loss(model, windows)
    mixture.capacity_factor = None
    hook.remove()
    return loss, sum(dropped) / windows[:, 1:].numel()


# --- Training and tables ---

NAME = "feedforward"
DIFFERENCE = ["difference", "low", "high"]
COLUMNS = {
    f"{NAME}_tuning": ["variant", "max_lr", "seed", "test_loss"],
    f"{NAME}_models": ["variant", "d_ff", "parameters", "max_lr", "seed", "test_loss"],
    f"{NAME}_differences": ["variant", "baseline", *DIFFERENCE],
    f"{NAME}_dead": ["activation", "max_lr", "seed", "step", "dead", "silent", "revived"],
    f"{NAME}_experts": ["balance", "seed", "step", "expert", "share"],
    f"{NAME}_expert_losses": ["balance", "seed", "test_loss", "dropped", "bounded_loss"],
    f"{NAME}_checks": ["setting", "variant", "d_ff", "parameters", "max_lr", "seed", "test_loss"],
    f"{NAME}_check_differences": ["setting", "variant", "baseline", *DIFFERENCE],
    f"{NAME}_dead_checks": ["setting", "activation", "max_lr", "seed", "step", "dead", "silent", "revived"],
    f"{NAME}_collapse": ["setting", "balance", "seed", "n_experts", "largest", "idle", "effective", "test_loss"],
}
"""The columns of each table. In the tuning table, the loss is that of the validation stories."""


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: each variant is trained once for each seed; dead units and experts are observed for the first three.
        n_steps: number of training steps of each model; half as many where dead units or collapse are counted.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: CMU-07, GT-22, GT-26.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    400
    """
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    few, half = seeds[:3], max(1, n_steps // 2)
    with tables.collecting() as collect:
        tried = [(variant, lr, seed, n_steps) for variant in VARIANTS for lr in MAX_LRS for seed in TUNING_SEEDS]
        collect(_tuning, tried, "learning rates")
        best = best_max_lrs(means_over_seeds(tables.rows[f"{NAME}_tuning"]))
        collect(_trained, [(variant, best[variant], seed, n_steps) for seed in seeds for variant in VARIANTS], "models")
        models = [["main", *row] for row in tables.rows[f"{NAME}_models"]]
        against = [(variant, "relu") for variant in VARIANTS[1:]] + [*PAIRS.items()]
        tables.rows[f"{NAME}_differences"] = [row[1:] for row in _differences(models, against)]
        rates = (MODERATE_LR, LARGE_LR)
        collect(_dead, [(name, lr, seed, half) for lr in rates for name in ACTIVATIONS for seed in few], "dead units")
        collect(_experts, [(balance, seed, best["relu"], n_steps) for balance in BALANCES for seed in few], "experts")
        checked = [*CHECKED, _best_gated(models)]
        for name in CHECKS:
            collect(_checked, [(name, v, best[v], seed, n_steps) for seed in seeds for v in checked], name)
        against = [(variant, "relu") for variant in checked[1:]] + [(checked[-1], "gelu")]
        checks = tables.rows[f"{NAME}_checks"]
        tables.rows[f"{NAME}_check_differences"] = _differences(checks, against)
        dead = [(name, activation, seed, half) for name in DEAD_CHECKS for activation in ACTIVATIONS for seed in few]
        collect(_dead_checks, dead, "dead units, checks")
        hard = [(name, balance, seed, best["relu"], half) for name in COLLAPSE for balance in BALANCES for seed in few]
        collect(_collapse, hard, "collapse")
    for name in (f"{NAME}_differences", f"{NAME}_check_differences"):
        tables.write(name, COLUMNS[name], tables.rows[name])
    tables.write_settings(f"{NAME}_experiment", _settings(n_steps), seeds, time.monotonic() - began)


def _losses(models: list[list], setting: str, variant: str) -> list[float]:
    return [float(row[-1]) for row in models if row[:2] == [setting, variant]]


def _differences(models: list[list], against: list[tuple[str, str]]) -> list[list]:
    """The paired differences of the test losses in each setting. There are none if there is one seed only."""
    rows = []
    for setting in dict.fromkeys(row[0] for row in models):
        for variant, baseline in against:
            pair = [_losses(models, setting, name) for name in (variant, baseline)]
            if len(pair[0]) > 1:
                found = paired_difference(*pair)
                rows.append([setting, variant, baseline, *(f"{x:.4f}" for x in (found.mean, found.low, found.high))])
    return rows


def _best_gated(models: list[list]) -> str:
    """The gated variant with the smallest mean loss, apart from those that are checked anyway."""
    gated = [variant for variant in VARIANTS if variant in GATES and variant not in CHECKED]
    return min(gated, key=lambda variant: statistics.fmean(_losses(models, "main", variant)))


def _tuning(job: tuple[str, float, int, int]) -> Rows:
    variant, max_lr, seed, n_steps = job
    model = small_model(small_config(variant), seed)
    try:
        fit(model, seed, max_lr, n_steps)
        loss = next_token_loss(model, held_out_windows(validation=True))
    except FloatingPointError:  # the learning rate was too high
        loss = math.inf
    return {f"{NAME}_tuning": [[variant, max_lr, seed, f"{loss:.4f}"]]}


def _model_row(variant: str, d_model: int, max_lr: float, seed: int, n_steps: int) -> list:
    model = small_model(small_config(variant, d_model), seed)
    fit(model, seed, max_lr, n_steps)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    loss = next_token_loss(model, held_out_windows())
    return [variant, model.config.d_ff, n_parameters, max_lr, seed, f"{loss:.4f}"]


def _trained(job: tuple[str, float, int, int]) -> Rows:
    variant, max_lr, seed, n_steps = job
    return {f"{NAME}_models": [_model_row(variant, D_MODEL, max_lr, seed, n_steps)]}


def _checked(job: tuple[str, str, float, int, int]) -> Rows:
    setting, variant, max_lr, seed, n_steps = job
    d_model, longer, higher = CHECKS[setting]
    return {f"{NAME}_checks": [[setting, *_model_row(variant, d_model, max_lr, seed + higher, longer * n_steps)]]}


def _dead(job: tuple[str, float, int, int]) -> Rows:
    activation, max_lr, seed, n_steps = job
    counts = count_dead(small_config(activation), seed, max_lr, n_steps)
    rows = [[activation, max_lr, seed, step, *(f"{x:.4f}" for x in shares)] for step, *shares in counts]
    return {f"{NAME}_dead": rows}


def _dead_checks(job: tuple[str, str, int, int]) -> Rows:
    setting, activation, seed, n_steps = job
    max_lr, changes = DEAD_CHECKS[setting]
    counts = count_dead(small_config(activation, **changes), seed, max_lr, n_steps)
    rows = [[setting, activation, max_lr, seed, step, *(f"{x:.4f}" for x in shares)] for step, *shares in counts]
    return {f"{NAME}_dead_checks": rows}


def _experts(job: tuple[float, int, float, int]) -> Rows:
    balance, seed, max_lr, n_steps = job
    model, shares = train_experts(balance, seed, max_lr, n_steps)
    together = max(1, n_steps // N_LOADS)
    means = shares.unfold(0, together, together).mean(-1)
    loads = [(0, shares[0]), *((i * together, mean) for i, mean in enumerate(means, 1))]
    windows = held_out_windows()
    bounded, dropped = loss_within_capacity(model, windows)
    losses = f"{next_token_loss(model, windows):.4f}", f"{dropped:.4f}", f"{bounded:.4f}"
    return {
        f"{NAME}_experts": [
            [balance, seed, step, e, f"{share:.4f}"] for step, load in loads for e, share in enumerate(load.tolist())
        ],
        f"{NAME}_expert_losses": [[balance, seed, *losses]],
    }


def _collapse(job: tuple[str, float, int, float, int]) -> Rows:
    """What became of a mixture: the largest share, the idle experts, and how many equal ones have the same entropy."""
    setting, balance, seed, max_lr, n_steps = job
    model, shares = train_experts(balance, seed, max_lr, n_steps, **COLLAPSE[setting])
    last = shares[-max(1, n_steps // N_LOADS) :].mean(0)
    effective = torch.special.entr(last).sum().exp().item()
    found = len(last), f"{last.max():.4f}", (last < IDLE).sum().item(), f"{effective:.3f}"
    loss = next_token_loss(model, held_out_windows())
    return {f"{NAME}_collapse": [[setting, balance, seed, *found, f"{loss:.4f}"]]}


def _settings(n_steps: int) -> list[list]:
    config = dataclasses.asdict(small_config("relu"))
    shown = ("d_model", "n_layers", "n_heads", "d_ff", "n_vocab", "position", "norm", "tie_embeddings")
    return [
        ["command", f"python -m llm_anatomy experiment {NAME}"],
        *([field, config[field]] for field in shown),
        ["n_tokens", N_CTX],
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["warmup_steps", WARMUP_STEPS],
        ["max_lrs", " ".join(map(str, MAX_LRS))],
        ["tuning_seeds", " ".join(map(str, TUNING_SEEDS))],
        ["validation_tokens", held_out_windows(validation=True)[:, 1:].numel()],
        ["test_tokens", held_out_windows()[:, 1:].numel()],
        ["small_derivative", SMALL_DERIVATIVE],
        ["n_experts", N_EXPERTS],
        ["n_experts_per_token", 1],
        ["capacity_factor", CAPACITY_FACTOR],
    ]
