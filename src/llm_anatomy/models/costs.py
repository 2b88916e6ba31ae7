r"""The cost of a model: parameters, operations (FLOPs) and memory of one pass, part by part.

Parameters and caches are counted on a model on PyTorch's meta device, which takes no memory. It has one layer for all
layers that are alike. Operations are those of matrix products, two for each multiplication with its addition, as in
``torch.utils.flop_counter.FlopCounterMode``; norms, activations and softmax move memory rather than compute, and are
left out. When T tokens pass a matrix of a rows and b columns,

.. math:: \mathrm{forward} = 2\, T a b, \quad \mathrm{backward} = 2 \cdot \mathrm{forward}

because the backward pass has one product for the gradient of the input and one for that of the matrix. The same holds
for scores and mixing, where every query meets every key, masked or not, unless ``only_visible`` is set. A fused kernel
that computes the scores again in the backward pass needs half as much more there. Latent attention is counted as the
package computes it: its absorbed form averages the rotated keys as well and drops the result, 256 operations for each
cached byte of DeepSeek-V2 in 16 bits, where the formulas need 242.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.deprecation import renamed_attribute
from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.feedforward import GATES
from llm_anatomy.layers.latent_attention import _absorbing_saves
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.models.parts import model_sizes
from llm_anatomy.models.transformer import Transformer

# --- One row of the table, and the table ---


@dataclass(frozen=True)
class Part:
    """The cost of one part of a model in one pass. Counts are of numbers, or of operations.

    Args:
        name: of the part.
        n_parameters: parameters.
        n_active: parameters that one token uses; in a mixture of experts, those of the router and the selected experts.
        flops: operations of the forward pass.
        flops_backward: operations of the backward pass.
        n_activations: activations that training keeps for the backward pass.
        n_cached: numbers in the cache after the pass.
        n_weights_read: parameters that the pass reads, each counted once.

    Source: UCL-29.

    >>> both = Part("a", 3, 3, 10) + Part("b", 1, 1, 5)
    >>> both.name, both.n_parameters, both.flops
    ('a', 4, 15)
    """

    name: str
    n_parameters: int = 0
    n_active: int = 0
    flops: int = 0
    flops_backward: int = 0
    n_activations: int = 0
    n_cached: int = 0
    n_weights_read: int = 0

    n_kept = renamed_attribute("n_kept", "n_activations")
    n_read = renamed_attribute("n_read", "n_weights_read")

    def _counts(self) -> tuple[int, ...]:
        return tuple(vars(self).values())[1:]

    def __add__(self, other: "Part") -> "Part":
        return Part(self.name, *(a + b for a, b in zip(self._counts(), other._counts(), strict=True)))


@dataclass(frozen=True)
class Costs:
    r"""The table of all parts, with what follows from their sum.

    Args:
        parts: of the model, in order.
        batch: number of texts.
        n_tokens: number of tokens of each text that the pass reads.
        bytes_per_number: of parameters, activations and cache.

    Source: UCL-29; Kaplan et al. (2020), section 2.1, for the rule of thumb.

    >>> config = ModelConfig(d_model=768, n_layers=12, n_heads=12, d_ff=3072, n_vocab=50257, tie_embeddings=True)
    >>> print(costs(config, n_tokens=1024))
                           parameters  active  forward, FLOP  backward, FLOP  activations, B  cache, B
    token embedding            38.6 M  38.6 M              0               0               0         0
    attention projections      28.3 M  28.3 M         58.0 G           116 G           113 M    75.5 M
    scores and mixing               0       0         38.7 G          77.3 G          37.7 M         0
    feed-forward               56.6 M  56.6 M          116 G           232 G           302 M         0
    norms                      38.4 k  38.4 k              0               0           157 M         0
    logits                          0       0         79.0 G           158 G           206 M         0
    total                       124 M   124 M          292 G           583 G           816 M    75.5 M
    """

    parts: tuple[Part, ...]
    batch: int
    n_tokens: int
    bytes_per_number: int

    def __getitem__(self, name: str) -> Part:
        """The part of that name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(f"no part {name!r}; there are {', '.join(part.name for part in self.parts)}")

    @property
    def total(self) -> Part:
        """The sum of all parts."""
        return sum(self.parts, Part("total"))

    @property
    def flops_per_text(self) -> float:
        """Operations of the forward pass for each text."""
        return self.total.flops / self.batch

    @property
    def flops_per_token(self) -> float:
        """Operations of the forward pass for each token."""
        return self.total.flops / (self.batch * self.n_tokens)

    @property
    def flops_per_token_backward(self) -> float:
        """Operations of the backward pass for each token."""
        return self.total.flops_backward / (self.batch * self.n_tokens)

    @property
    def weight_bytes(self) -> int:
        """Memory of the parameters."""
        return self.bytes_per_number * self.total.n_parameters

    @property
    def gradient_bytes(self) -> int:
        """Memory of the gradients, which are as precise as the parameters."""
        return self.weight_bytes

    @property
    def optimizer_bytes(self) -> int:
        """Memory of AdamW's states: two moments in float32 and, for parameters in 16 bits, a copy of these in float32,
        to which the steps are applied (Rajbhandari et al. (2020), "ZeRO", section 3.1)."""
        return (8 if self.bytes_per_number >= 4 else 12) * self.total.n_parameters

    @property
    def activation_bytes(self) -> int:
        """Memory of the activations that training keeps for the backward pass: what each product, norm and activation
        reads, if attention runs in a fused kernel that forms no scores. It is a lower bound: PyTorch keeps a few
        percent more, and much more where a position scheme or softcapping changes the scores."""
        return self.bytes_per_number * self.total.n_activations

    @property
    def cache_bytes(self) -> int:
        """Memory of the cache after the pass."""
        return self.bytes_per_number * self.total.n_cached

    @property
    def bytes_moved(self) -> int:
        """The least that the pass reads from memory: its parameters once, and the whole cache."""
        return self.bytes_per_number * (self.total.n_weights_read + self.total.n_cached)

    @property
    def intensity(self) -> float:
        """Operations of the forward pass for each byte moved. Where it is less than the processor computes in the time
        that it takes to read a byte, the pass waits for memory."""
        return self.total.flops / self.bytes_moved

    @property
    def rule_of_thumb(self) -> int:
        r"""Operations of both passes by the rule 6 N D, for N active parameters and D tokens."""
        return 6 * self.total.n_active * self.batch * self.n_tokens

    def __str__(self) -> str:
        heads = ["", "parameters", "active", "forward, FLOP", "backward, FLOP", "activations, B", "cache, B"]
        rows = [heads]
        for part in [*self.parts, self.total]:
            bytes_ = (self.bytes_per_number * n for n in (part.n_activations, part.n_cached))
            counts = (part.n_parameters, part.n_active, part.flops, part.flops_backward, *bytes_)
            rows.append([part.name, *map(_readable, counts)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)


def _readable(n: int) -> str:
    """Three digits and a prefix: k, M, G, T, P, E for 10^3, 10^6 and so on."""
    power = 0
    while n >= 999.5 * 1000**power and power < 6:
        power += 1
    value = n / 1000**power
    digits = 0 if value >= 99.95 or not power else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {' kMGTPE'[power]}".rstrip()


# --- Counting ---


def costs(
    config: ModelConfig,
    n_tokens: int,
    *,
    batch: int = 1,
    n_cached: int = 0,
    n_source: int | None = None,
    bytes_per_number: int = 4,
    only_visible: bool = False,
) -> Costs:
    r"""Count the cost of one pass, which reads whole texts, or some tokens after those in a cache.

    For a decoder with plain feed-forward layers whose heads together are as wide as the stream, the forward pass takes

    .. math:: \mathrm{FLOPs} = 2 n N (4 d^2 + 2 d\, d_\mathrm{ff}) + 4 n^2 N d + 2 n d\, n_\mathrm{vocab}

    Args:
        config: of the model.
        n_tokens: number of tokens of each text that the pass reads, at least 1; those of the target, if there is a
            source.
        batch: number of texts, at least 1.
        n_cached: number of tokens of each text in the cache. The source, if there is one, was read with them.
        n_source: number of tokens of each source, for an encoder-decoder only.
        bytes_per_number: 4 for float32, 2 for bfloat16.
        only_visible: whether to count the scores that the mask lets a query see only.

    Returns:
        The table.

    Raises:
        ValueError: for sizes out of range, more tokens than ``n_ctx``, a source without an encoder-decoder or an
            encoder-decoder without a source, and for an encoder with a cache.

    Source: UCL-29; Kaplan et al. (2020), section 2.1; Pope et al. (2022), section 2 (intensity); CMU-10.

    >>> config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101, position="rope", norm="rmsnorm")
    >>> prefill, decode = costs(config, n_tokens=20), costs(config, n_tokens=1, n_cached=19)
    >>> prefill.total.n_parameters, prefill["scores and mixing"].flops, decode["scores and mixing"].flops
    (15720, 76800, 3840)
    >>> prefill.intensity > 10 * decode.intensity
    True
    """
    _check_shapes(config, n_tokens, batch, n_cached, n_source, bytes_per_number)
    text, source = _Pass(batch, n_tokens, n_cached), _Pass(batch, n_source or 0)
    stacks = [("", text, config.n_layers, config.kind != "encoder")]
    if config.kind == "encoder-decoder":
        encoders = [] if n_cached else [("encoder: ", source, config.n_encoder_layers, False)]
        stacks = [*encoders, ("decoder: ", text, config.n_layers, True)]
    found = [_of_parameters(config, text, source), _of_the_ends(config, text), _of_caches(config, text, source)]
    found += [_of_activations(config, source, only_visible, *stack) for stack in stacks]
    parts = {name: Part(name) for name in _names(config)}
    for name, counts in chain(*found):
        parts[name] += Part(name, **counts)
    return Costs(tuple(part for part in parts.values() if any(part._counts())), batch, n_tokens, bytes_per_number)


@dataclass(frozen=True)
class _Pass:
    """Texts of which some tokens are in the cache and others are read now."""

    batch: int
    n_new: int
    n_cached: int = 0

    @property
    def tokens(self) -> int:
        return self.batch * self.n_new

    def n_keys(self, window: int | None) -> int:
        """Keys of each text. With a window, one new token replaces the oldest one; several see all of the cache."""
        all_keys = self.n_cached + self.n_new
        if window is None or window >= all_keys:
            return all_keys
        return window if self.n_new == 1 else min(self.n_cached, window) + self.n_new

    def n_visible(self, window: int | None, causal: bool) -> int:
        """Pairs of a query and a key that the mask allows, over all texts."""

        def of_first(n: int) -> int:  # 1 + 2 + … up to the window, then as many for each
            rising = min(n, window or n)
            return rising * (rising + 1) // 2 + (n - rising) * (window or 0)

        backward = of_first(self.n_cached + self.n_new) - of_first(self.n_cached)
        return self.batch * (backward if causal else 2 * backward - self.n_new)  # as many ahead; itself counts once


_ROWS = {
    "position": "positions",
    "segment_embedding": "segments",
    "embedding_norm": "embedding norm",
    "token_head": "token head",
    "unembedding": "logits",
    "embedding": "token embedding",
    "cross_attention": "source: attention projections",
    "attention": "attention projections",
    "router": "router",
    "experts": "experts",
    "shared": "shared experts",
    "feedforward": "feed-forward",
}
"""The row of a parameter is that of the first of these words in its path, and otherwise that of the norms."""


def _names(config: ModelConfig) -> list[str]:
    """The names of all rows, in the order of the table."""
    attention = ["attention projections", "scores and mixing"]
    stack = [*attention, "positions", *(f"source: {name}" for name in attention)]
    stack += ["feed-forward", "router", "experts", "shared experts", "norms"]
    if config.kind == "encoder-decoder":
        stack = [prefix + name for prefix in ("encoder: ", "decoder: ") for name in stack]
    return ["token embedding", "segments", "positions", *stack, "embedding norm", "token head", "logits"]


def _n_alike(config: ModelConfig, n_layers: int) -> Counter[int]:
    """For the first layer of each kind, how many layers of a stack are of its kind.

    Layer 0 is of a kind of its own, since it holds what all layers share, such as the bias of T5.
    """
    experts = [config.moe is not None and config.moe.has_layer(layer) for layer in range(n_layers)]
    kinds = [(layer == 0, experts[layer], config.window_of(layer)) for layer in range(n_layers)]
    return Counter(map(kinds.index, kinds))


@lru_cache(maxsize=128)
def _on_meta(config: ModelConfig) -> Transformer:
    """The first layers of the model, with one of each kind, on a device where tensors have shapes and no values.

    To make all layers of a large model takes a tenth of a second.
    """
    n = 1 + max(_n_alike(config, max(config.n_layers, config.n_encoder_layers)))
    n = max(n, len(config.layer_types), len(config.rope.layers) if config.rope else 0)  # no fewer than the config names
    if config.moe:
        n = max(n, config.moe.n_dense_layers, *(layer + 1 for layer in config.moe.dense_layers))
    first = dict(n_layers=min(n, config.n_layers), n_encoder_layers=min(n, config.n_encoder_layers))
    with torch.device("meta"):
        return Transformer(dataclasses.replace(config, **first))


_Rows = Iterator[tuple[str, dict[str, int]]]


def _of_parameters(config: ModelConfig, text: _Pass, source: _Pass) -> _Rows:
    """The parameters, and the products of tokens with those that are matrices."""
    n_encoded = 0 if text.n_cached else source.tokens  # with a cache, the encoder has run before
    looked_up = {"embedding": text.tokens + n_encoded, "position": text.n_new, "segment_embedding": 1}
    stacks = {"encoder": "encoder: ", "stack": "decoder: " if config.kind == "encoder-decoder" else ""}
    n_alike = {"encoder": _n_alike(config, config.n_encoder_layers), "stack": _n_alike(config, config.n_layers)}
    for name, parameter in _on_meta(config).named_parameters():
        path, n = name.split("."), parameter.numel()
        row = stacks.get(path[0], "") + next((row for word, row in _ROWS.items() if word in path), "norms")
        tokens, n_active, n_weights_read = text.tokens, n, n
        if path[0] in looked_up:
            tokens, n_weights_read = 0, min(n, looked_up[path[0]] * config.d_model)
        elif path[0] == "encoder" or "cross_attention" in path and {"w_key", "w_value"} & {*path}:
            tokens = n_encoded
        elif {"w_up_key", "w_up_value"} & {*path}:
            absorbed, n_keys = _way(config, text, layer=int(path[2]))
            tokens = tokens if absorbed else text.batch * n_keys
        if config.moe and "experts" in path:  # nobody knows which ones a batch selects: as many are read as it could
            one, k = n // config.moe.n_experts, config.moe.n_experts_per_token
            n_active, n_weights_read = k * one, min(config.moe.n_experts, tokens * k) * one
        n_weights_read = n_weights_read if tokens or path[0] in looked_up else 0
        # biases have a row for each expert, and weights of norms may have one for each head
        is_matrix = parameter.ndim > 1 and not {"b_up", "b_down", "query_norm", "key_norm"} & {*path}
        flops = 2 * tokens * n_active if is_matrix and "position" not in path else 0
        counts = dict(n_parameters=n, n_active=n_active, n_weights_read=n_weights_read) | _flops(flops)
        n_layers = n_alike[path[0]][int(path[2])] if path[1] == "blocks" else 1
        yield row, {name: n_layers * count for name, count in counts.items()}


def _of_the_ends(config: ModelConfig, text: _Pass) -> _Rows:
    """A tied unembedding, whose parameters are those of the token embedding, and the activations beside the stacks."""
    if config.tie_embeddings:
        n = config.n_vocab * config.d_model
        yield "logits", _flops(2 * text.tokens * n) | dict(n_weights_read=n)
    yield "logits", dict(n_activations=config.unembedding * text.tokens * config.n_vocab)
    yield "embedding norm", dict(n_activations=config.embedding_norm * text.tokens * config.d_model)
    yield "token head", dict(n_activations=config.token_head * 3 * text.tokens * config.d_model)


def _of_caches(config: ModelConfig, text: _Pass, source: _Pass) -> _Rows:
    if config.kind == "encoder":
        return
    model, n_alike = _on_meta(config), _n_alike(config, config.n_layers)
    cache = model.new_cache(text.batch, text.n_cached + text.n_new, source.n_new or None)
    here, itemsize = "" if cache.cross_attention is None else "decoder: ", model.embedding.weight.element_size()
    for row, layers in {"": cache.blocks, "source: ": cache.cross_attention or []}.items():
        n_bytes = sum(n_alike[i] * layer.n_bytes for i, layer in enumerate(layers))
        yield f"{here}{row}attention projections", dict(n_cached=n_bytes // itemsize)


# FlopCounterMode over a forward pass on the meta device could count the products of activations as well, but cannot be
# relied on: routing and TUPE look at values, which tensors there do not have; where values are not as wide as keys,
# attention takes another path there than elsewhere; and it needs a second for 32 layers. So these are formulas, and so
# is what training keeps: on the meta device attention has no fused kernel.


def _of_activations(
    config: ModelConfig,
    source: _Pass,
    only_visible: bool,
    stack: str,
    text: _Pass,
    n_layers: int,
    causal: bool,
) -> _Rows:
    """The products of activations with each other in one stack, and the activations that training keeps."""
    h, kv, d_model, d_head, d_value = config.n_heads, config.n_kv_heads, config.d_model, config.d_head, config.d_value
    tokens, moe, is_capped = text.tokens, config.moe, config.attn_logit_softcapping is not None
    has_source = stack == "decoder: "
    model, sizes = _on_meta(config), model_sizes(config, n_layers, causal)
    blocks = model.encoder.blocks if stack == "encoder: " and model.encoder else model.stack.blocks

    def projections(n_keys: int) -> dict[str, int]:
        """All are kept before they are clipped too, and queries and keys before their norm and before its weights."""
        n_clipped = 1 if config.clip_qkv is None else 2
        n_normed = n_clipped + {None: 0, "per_head_weights": 2}.get(config.qk_norm, 1)
        return dict(n_activations=n_normed * (tokens * h + n_keys * kv) * d_head + n_clipped * n_keys * kv * d_value)

    def scores(pairs: int, width: int, are_formed: bool) -> dict[str, int]:
        """Scores are products over the width of a key, and mixing has products over the width of a value."""
        return _flops(2 * pairs * h * width) | dict(n_activations=tokens * h * d_value + are_formed * 2 * h * pairs)

    for layer in range(n_layers):
        window, (absorbed, n_keys) = config.window_of(layer), _way(config, text, layer)
        pairs = text.n_visible(window, causal) if only_visible else tokens * n_keys
        width, kept = d_head + d_value, projections(tokens)
        if latent := config.latent:
            d_rotary, d_query = latent.d_rotary or 0, latent.d_query_latent or 0
            # absorbed, the layer averages the rotated keys as well, and drops that part of the average
            width = 2 * (latent.d_latent + d_rotary) if absorbed else width + d_rotary
            kept = 2 * (latent.d_latent + d_query + h * (d_head + d_rotary)) + d_rotary + h * d_value
            kept = dict(n_activations=tokens * kept)
        yield stack + "attention projections", kept
        scheme = getattr(blocks[min(layer, len(blocks) - 1)].attention, "position", None) or PositionScheme()
        yield stack + "scores and mixing", scores(pairs, width, is_capped or scheme.explicit_only is not None)
        n_positions = text.batch if text.n_cached else 1  # with a cache, each text has its own positions
        shape = dict(batch=text.batch, n_positions=n_positions, n_queries=text.n_new, n_keys=n_keys)
        yield stack + "positions", scheme.costs(sizes, **shape)
        if has_source:
            yield stack + "source: attention projections", projections(0 if text.n_cached else source.tokens)
            yield stack + "source: scores and mixing", scores(tokens * source.n_new, d_head + d_value, is_capped)
        if moe and moe.has_layer(layer):
            n = tokens * moe.n_experts_per_token
            weighing = 2 * n * d_model
            yield stack + "router", dict(n_activations=2 * tokens * moe.n_experts)
            yield (
                stack + "experts",
                _flops(weighing) | dict(n_activations=weighing + _n_inner(config) * n * moe.d_expert),
            )
            yield (
                stack + "shared experts",
                dict(n_activations=_n_inner(config) * tokens * moe.n_shared_experts * moe.d_expert),
            )
        else:
            yield stack + "feed-forward", dict(n_activations=_n_inner(config) * tokens * config.d_ff)
    # the input of each norm and that of each sublayer, and the same at the end of the stack
    n_activations = (3 if config.norm_placement == "sandwich" else 2) * (3 if has_source else 2)
    n_activations = n_layers * (1 + config.n_parallel_norms if config.parallel_block else n_activations)
    has_last = config.norm_placement not in ("post", "rezero")
    yield stack + "norms", dict(n_activations=(n_activations + 1 + has_last) * tokens * d_model)


def _flops(forward: int) -> dict[str, int]:
    return dict(flops=forward, flops_backward=2 * forward)


def _way(config: ModelConfig, text: _Pass, layer: int) -> tuple[bool, int]:
    """Whether latent attention absorbs its up-projections, by the layer's own rule, and the number of keys per text."""
    n_keys = text.n_keys(config.window_of(layer))
    if config.latent is None:
        return False, n_keys
    latent, widths = config.latent, config.d_head + config.d_value
    return _absorbing_saves(text.n_new, n_keys, latent.d_latent, latent.d_rotary or 0, widths), n_keys


def _n_inner(config: ModelConfig) -> int:
    """How many tensors of the inner width a feed-forward layer keeps: input and output of the activation, but the
    output alone for ReLU and tanh; and of a gated layer the other half and the product."""
    if config.clamped_swiglu:  # both sides, and what follows from each; the parameter of Swish scales one more
        return 6
    if config.feedforward in GATES:
        return 3 if config.feedforward == "bilinear" else 4
    return 1 if config.feedforward in ("relu", "tanh") else 2


def _check_shapes(config, n_tokens, batch, n_cached, n_source, bytes_per_number) -> None:
    _check_at_least_one(n_tokens=n_tokens, batch=batch, bytes_per_number=bytes_per_number)
    if n_cached < 0:
        raise ValueError(f"{n_cached=} must be at least 0")
    if n_cached and config.kind == "encoder":
        raise ValueError(f"{n_cached=} must be 0 for an encoder, whose tokens see those that come after them")
    if (config.kind == "encoder-decoder") != (n_source is not None):
        raise ValueError(f"{n_source=} must be given for an encoder-decoder, and only then; kind={config.kind!r}")
    if n_source is not None:
        _check_at_least_one(n_source=n_source)
    for name, n in {"n_cached + n_tokens": n_cached + n_tokens, "n_source": n_source or 0}.items():
        if config.n_ctx is not None and n > config.n_ctx:
            raise ValueError(f"{name}={n} must be at most n_ctx={config.n_ctx}")


# --- How costs grow ---


def exponents(config: ModelConfig, n_tokens: int) -> dict[str, dict[str, float]]:
    r"""Measure how operations grow with each size: the exponent, when one size at a time is doubled.

    .. math:: \mathrm{exponent} = \log_2 \frac{\mathrm{FLOPs}(2 s)}{\mathrm{FLOPs}(s)}

    When ``d_model`` is doubled, so are the widths of the heads, and :math:`h\, d_\mathrm{head} = d_\mathrm{model}`
    still holds; when ``n_heads`` is doubled they are halved, and nothing changes. ``n_tokens`` is the length of the
    text, which the lecture calls n_ctx.

    Args:
        config: of a decoder or an encoder, with even ``d_head`` and ``d_value``.
        n_tokens: number of tokens of the text.

    Returns:
        For each size, the exponent of each part that computes, and of the total.

    Raises:
        ValueError: for an encoder-decoder, and for odd widths.

    Source: UCL-29: projections :math:`O(N h (d_k + d_v)\, d\, n)`, scores and mixing :math:`O(N h (d_k + d_v)\, n^2)`,
    feed-forward :math:`O(N d\, d_\mathrm{ff}\, n)`, logits :math:`O(d\, n_\mathrm{voc}\, n)`.

    >>> config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101)
    >>> grown = exponents(config, n_tokens=50)
    >>> grown["n_tokens"]["scores and mixing"], grown["d_model"]["attention projections"], grown["n_heads"]["total"]
    (2.0, 2.0, 0.0)
    """
    if config.kind == "encoder-decoder":
        raise ValueError(f"kind={config.kind!r} must be 'decoder' or 'encoder': two lengths would grow at once")
    if config.d_head % 2 or config.d_value % 2:
        raise ValueError(f"d_head={config.d_head} and d_value={config.d_value} must be even, to be halved")
    config = dataclasses.replace(config, n_ctx=None if config.n_ctx is None else max(config.n_ctx, 2 * n_tokens))
    h, kv, d_head, d_value = config.n_heads, config.n_kv_heads, config.d_head, config.d_value
    changes = {
        "d_model": dict(d_model=2 * config.d_model, d_head=2 * d_head, d_value=2 * d_value),
        "n_vocab": dict(n_vocab=2 * config.n_vocab),
        "n_tokens": {},
        "d_ff": dict(d_ff=2 * config.d_ff),
        "n_heads": dict(n_heads=2 * h, n_kv_heads=2 * kv, d_head=d_head // 2, d_value=d_value // 2),
        "n_layers": dict(n_layers=2 * config.n_layers),
    }
    before = costs(config, n_tokens)
    grown = {}
    for size, change in changes.items():
        after = costs(dataclasses.replace(config, **change), n_tokens * (2 if size == "n_tokens" else 1))
        grown[size] = {
            part.name: math.log2(new.flops / part.flops)
            for part, new in zip([*before.parts, before.total], [*after.parts, after.total], strict=True)
            if part.flops
        }
    return grown


def crossover(config: ModelConfig) -> float:
    r"""Find the length at which scores and mixing take as many operations as all matrices of the blocks.

    .. math:: 4 d^2 + 2 d\, d_\mathrm{ff} = 2 n d \;\Rightarrow\; n = 2 d + d_\mathrm{ff}

    in multiplications per token and layer, where the heads together are as wide as the stream and the feed-forward
    layer is plain. Below that length, a token of a long text costs little more than one of a short text. Every query is
    assumed to meet every key; with a causal kernel that skips masked scores, the length is twice as large.

    Args:
        config: of a decoder or an encoder.

    Raises:
        ValueError: for an encoder-decoder, which has two lengths.

    Source: UCL-29.

    >>> crossover(ModelConfig(d_model=768, n_layers=12, n_heads=12, d_ff=3072, n_vocab=50257))
    4608.0
    """
    if config.kind == "encoder-decoder":
        raise ValueError(f"kind={config.kind!r} must be 'decoder' or 'encoder': there are two lengths")
    flops = {part.name: part.flops for part in costs(config, n_tokens=1).parts}
    matrices = ("attention projections", "feed-forward", "router", "experts", "shared experts")
    return sum(flops.get(name, 0) for name in matrices) / flops["scores and mixing"]
