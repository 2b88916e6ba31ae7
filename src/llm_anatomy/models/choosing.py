r"""Choose an architecture for a budget: how many parameters, how long a context, and how much memory at inference.

All choices that cost nothing are those of most models since 2023: RoPE, RMSNorm before the sublayers, SwiGLU, no
biases. What remains is arithmetic. A decoder with N layers of width d, heads as wide as d together, and G key-value
heads has

.. math:: t\, d\, n_\mathrm{vocab} + d + N \left( 2 d^2 + 2 d\, G\, d_\mathrm{head} + 3 d\, d_\mathrm{ff} + 2 d \right)

parameters, with t = 1 table if input and output share it, and else 2. The reasons are in the table
``architecture_reasons``.
"""

import json
from collections.abc import Iterator
from math import log
from typing import Any, NamedTuple

from llm_anatomy.config import ModelConfig
from llm_anatomy.data import table
from llm_anatomy.layers._checks import _check_at_least_one

WIDTHS = (
    *(32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 1792),
    *(2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384),
)
MAX_LAYERS = 200
FF_RATIO, FF_RATIOS = 8 / 3, (2.0, 3.6)
"""The width of a gated feed-forward layer, divided by that of the model: that of a plain layer's parameters, and the
range."""
ASPECTS = (8, 256)
"""The range of the width, divided by the number of layers."""
TIED_FROM, TOLERANCE, BYTES = 0.1, 0.03, 2
"""The share of the budget from which a table is shared; how far a count may be from the budget; bytes of a number."""
PARTS: dict[str, Any] = dict(position="rope", norm="rmsnorm", norm_placement="pre", feedforward="swiglu")


class Shape(NamedTuple):
    """The sizes that follow from the number of parameters, apart from those of a cache.

    Args:
        d_model: width of the residual stream.
        n_layers: number of blocks.
        tied: whether input and output share a table.

    Source: Touvron et al. (2023), table 2, for widths, depths and heads; GT-19.

    >>> shape = Shape(d_model=4096, n_layers=32, tied=False)
    >>> shape.n_heads, shape.count(n_kv_heads=32, d_ff=11008, n_vocab=32000)  # LLaMA 7B
    (32, 6738415616)
    """

    d_model: int
    n_layers: int
    tied: bool

    @property
    def d_head(self) -> int:
        """Width of a head: 16 in the narrowest models, 128 from a width of 2,048 on."""
        return next(d_head for d_head, to in ((16, 96), (32, 384), (64, 1792), (128, WIDTHS[-1])) if self.d_model <= to)

    @property
    def n_heads(self) -> int:
        """Number of query heads."""
        return self.d_model // self.d_head

    def count(self, n_kv_heads: int, d_ff: int, n_vocab: int) -> int:
        """The number of parameters."""
        d = self.d_model
        block = 2 * d * d + 2 * d * n_kv_heads * self.d_head + 3 * d * d_ff + 2 * d
        return (1 if self.tied else 2) * d * n_vocab + d + self.n_layers * block

    def flops(self, n_kv_heads: int, d_ff: int, n_vocab: int, n_ctx: int) -> int:
        """The operations of the forward pass for each token of a text, all pairs of tokens counted."""
        d, n = self.d_model, self.count(n_kv_heads, d_ff, n_vocab)
        looked_up = d * n_vocab * (not self.tied) + (2 * self.n_layers + 1) * d  # and the gains of the norms
        return 2 * (n - looked_up) + 4 * n_ctx * self.n_layers * d

    def width_for(self, n_parameters: int, n_kv_heads: int, n_vocab: int) -> int:
        """The width of the feed-forward layer, a multiple of 8 or 64, that comes closest to so many parameters."""
        unit = 64 if self.d_model >= 512 else 8
        rest = n_parameters - self.count(n_kv_heads, 0, n_vocab)
        return max(1, round(rest / (3 * self.d_model * self.n_layers * unit))) * unit

    def badness(self, n_parameters: int, n_vocab: int) -> float | None:
        """How far the shape is from the usual proportions and from the budget; None if too far."""
        d_ff = self.width_for(n_parameters, self.n_heads, n_vocab)
        ratio, aspect = d_ff / self.d_model, self.d_model / self.n_layers
        error = abs(self.count(self.n_heads, d_ff, n_vocab) / n_parameters - 1)
        if not (FF_RATIOS[0] <= ratio <= FF_RATIOS[1] and ASPECTS[0] <= aspect <= ASPECTS[1] and error <= TOLERANCE):
            return None
        narrow = min(64.0, max(16.0, self.d_model / 12))  # GPT-2's 12 layers of width 768
        usual = max(narrow, min(128.0, self.d_model / 32))  # LLaMA's 32 of width 4,096
        return abs(log(aspect / usual)) + abs(log(ratio / FF_RATIO)) + 10 * error


def choose_architecture(
    *,
    n_parameters: int,
    n_ctx: int = 2048,
    memory: float | None = None,
    max_flops: float | None = None,
    batch: int = 1,
    n_vocab: int = 32000,
) -> ModelConfig:
    r"""Choose the config of a decoder for a budget.

    Width and depth are chosen for the number of parameters, as near to the usual proportions as the budget allows.
    Then there are as many key-value heads as fit into the memory, and what shared heads save goes to the feed-forward
    layer.

    Args:
        n_parameters: the budget; the config has this number within 3 %.
        n_ctx: the longest text.
        memory: bytes for the weights and for the cache of ``batch`` texts of this length, with two bytes for each
            number; None for no bound.
        max_flops: the most operations of the forward pass for each token of a text of this length; None for no bound.
            A bound that excludes the most usual proportions leads to the next ones.
        batch: number of texts that are generated together.
        n_vocab: size of the vocabulary.

    Raises:
        ValueError: if no architecture meets the budget, with what would.

    Source: Narang et al. (2021), table 1; Touvron et al. (2023), section 2; GT-19, CMU-21.

    >>> config = choose_architecture(n_parameters=6_700_000_000, n_ctx=4096, memory=16e9)
    >>> config.d_model, config.n_layers, config.n_heads, config.n_kv_heads, config.d_ff
    (4096, 32, 32, 32, 10880)
    >>> choose_architecture(n_parameters=6_700_000_000, n_ctx=32768, memory=16e9).n_kv_heads
    4
    >>> choose_architecture(n_parameters=6_700_000_000, memory=8e9)
    Traceback (most recent call last):
    ValueError: memory=8e+09 is too small: the weights of n_parameters=6700000000 take about 1.34e+10 bytes
    """
    _check_at_least_one(n_parameters=n_parameters, n_ctx=n_ctx, batch=batch, n_vocab=n_vocab)
    for name, bound in {"memory": memory, "max_flops": max_flops}.items():
        if bound is not None and not bound > 0:
            raise ValueError(f"{name}={bound!r} must be above 0, or None for no bound")
    if memory is not None and memory < BYTES * (1 - TOLERANCE) * n_parameters:
        raise ValueError(
            f"{memory=:.3g} is too small: the weights of {n_parameters=} take about {BYTES * n_parameters:.3g} bytes"
        )
    shape = _shape(n_parameters, n_ctx, n_vocab, max_flops)
    for n_kv_heads in _divisors(shape.n_heads):
        config = _config(shape, n_kv_heads, n_parameters, n_ctx, n_vocab)
        needed = inference_bytes(config, n_ctx, batch)
        if memory is None or needed <= memory:
            return config
    raise ValueError(
        f"{memory=:.3g} is too small: weights and cache of {n_parameters=}, {batch=} and {n_ctx=} take {needed:.3g} "
        "bytes, even if all heads share their keys and values"
    )


def _shape(n_parameters: int, n_ctx: int, n_vocab: int, max_flops: float | None) -> Shape:
    """The most usual shape whose operations are within the bound."""
    shapes = _shapes(n_parameters, n_vocab)
    if max_flops is None:
        return shapes[0]
    counts = [
        max(
            shape.flops(n, shape.width_for(n_parameters, n, n_vocab), n_vocab, n_ctx)
            for n in _divisors(shape.n_heads)  # which differ a little, as the widths are rounded
        )
        for shape in shapes
    ]
    for shape, count in zip(shapes, counts, strict=True):
        if count <= max_flops:
            return shape
    raise ValueError(
        f"{max_flops=:.3g} is too small: with {n_parameters=} and {n_ctx=}, a token takes at least {min(counts):.3g} "
        "operations"
    )


def _shapes(n_parameters: int, n_vocab: int) -> list[Shape]:
    """All shapes for a number of parameters, the most usual one first."""
    rated = [(shape.badness(n_parameters, n_vocab), shape) for shape in _all(n_parameters, n_vocab)]
    found = sorted((badness, shape) for badness, shape in rated if badness is not None)
    if not found:
        counts = [
            Shape(d_model, n_layers, tied).count(d_model // 32, round(ratio * d_model), n_vocab)
            for d_model, tied, ratio in ((WIDTHS[0], True, FF_RATIOS[0]), (WIDTHS[-1], False, FF_RATIOS[1]))
            for n_layers in (1, MAX_LAYERS)
        ]
        raise ValueError(
            f"{n_parameters=} does not suit {n_vocab=}: no architecture of usual proportions has this number within "
            f"{TOLERANCE:.0%}; with this vocabulary they have from about {min(counts):.3g} to {max(counts):.3g}"
        )
    return [shape for _, shape in found]


def _all(n_parameters: int, n_vocab: int) -> Iterator[Shape]:
    for d_model in WIDTHS:
        tied = d_model * n_vocab > TIED_FROM * n_parameters
        for n_layers in range(1, MAX_LAYERS + 1):
            yield Shape(d_model, n_layers, tied)


def _divisors(number: int) -> list[int]:
    """All divisors, the largest first."""
    return [n for n in range(number, 0, -1) if number % n == 0]


def _config(shape: Shape, n_kv_heads: int, n_parameters: int, n_ctx: int, n_vocab: int) -> ModelConfig:
    return ModelConfig(
        d_model=shape.d_model,
        n_layers=shape.n_layers,
        n_heads=shape.n_heads,
        n_kv_heads=n_kv_heads,
        d_ff=shape.width_for(n_parameters, n_kv_heads, n_vocab),
        n_vocab=n_vocab,
        n_ctx=n_ctx,
        tie_embeddings=shape.tied,
        **PARTS,
    )


def inference_bytes(config: ModelConfig, n_ctx: int, batch: int = 1) -> int:
    """The memory of the weights and of a cache, with two bytes for each number.

    Args:
        config: of a decoder that :func:`choose_architecture` chose.
        n_ctx: number of tokens of each text in the cache.
        batch: number of texts.

    Source: CMU-10.

    >>> inference_bytes(choose_architecture(n_parameters=6_700_000_000), 4096) / 1e9  # doctest: +ELLIPSIS
    15.5...
    """
    shape = Shape(config.d_model, config.n_layers, config.tie_embeddings)
    cached = 2 * batch * n_ctx * config.n_layers * config.n_kv_heads * config.d_head
    return BYTES * (shape.count(config.n_kv_heads, config.d_ff, config.n_vocab) + cached)


def reasons(config: ModelConfig) -> dict[str, str]:
    """Say why each field of a chosen config has its value, with the chapter that has the evidence.

    Args:
        config: what :func:`choose_architecture` returned.

    Returns:
        A sentence or two by the name of the field.

    Source: the table ``architecture_reasons``; CMU-01, CMU-21.

    >>> print(reasons(choose_architecture(n_parameters=100_000_000))["norm"])  # doctest: +NORMALIZE_WHITESPACE
    Chapter 8: RMSNorm leaves out the mean. In the paper's table it ends at 1.821 nats against LayerNorm's 1.838, and
    makes 3.68 steps per second against 3.50.
    """
    known = {name: config.get(name) for name in ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff")}
    known |= {"aspect": round(config.d_model / config.n_layers), "tied": "yes" if config.tie_embeddings else "no"}
    return {
        str(row["field"]): f"Chapter {row['chapter']}: {str(row['reason']).format(**known)}"
        for row in table("architecture_reasons")
    }


def train_yaml(config: ModelConfig, path: str, *, out: str = "runs/chosen", n_steps: int = 1000) -> str:
    """Write the file with which ``python -m llm_anatomy train`` trains a chosen config.

    The size of the vocabulary is not in it, since it is that of the data.

    Args:
        config: what :func:`choose_architecture` returned.
        path: the folder of the data, which the command ``tokenize`` writes.
        out: the folder of the run.
        n_steps: number of optimizer steps.

    Source: CMU-01.

    >>> config = choose_architecture(n_parameters=1_000_000, n_ctx=128, n_vocab=1024)
    >>> print(train_yaml(config, "data/stories"))
    out: "runs/chosen"
    n_steps: 1000
    model:
      d_model: 96
      n_layers: 7
      n_heads: 6
      d_ff: 272
      n_kv_heads: 6
      n_ctx: 128
      position: rope
      norm: rmsnorm
      feedforward: swiglu
    data:
      path: "data/stories"
      n_tokens: 128
    <BLANKLINE>
    """
    fields = {name: value for name, value in config.changed().items() if name not in ("n_vocab", "d_head", "d_value")}
    lines = [f"out: {json.dumps(out)}", f"n_steps: {n_steps}", "model:"]
    lines += [f"  {name}: {str(value).lower()}" for name, value in fields.items()]
    return "\n".join([*lines, "data:", f"  path: {json.dumps(path)}", f"  n_tokens: {config.n_ctx}"]) + "\n"
