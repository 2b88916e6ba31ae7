r"""What a model costs, told from its config alone: parameters, operations, memory. No model is built.

Operations are those of matrix products, two for each multiplication with its addition, as PyTorch's counter has them;
norms, activations and softmax are left out: they take memory traffic, hardly arithmetic. Every query meets every key,
seen or masked, as a kernel that knows no mask computes them, unless asked otherwise. T tokens through a matrix that is
a wide and b long take

.. math:: \mathrm{forward} = 2\, T a b, \quad \mathrm{backward} = 2 \cdot \mathrm{forward}

since backward has a product for the gradient of the input and another for that of the matrix. So it is for scores and
mixing as well. A fused kernel that forms the scores again in backward does half as much more there.
"""

import dataclasses
import math
from dataclasses import dataclass

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.feedforward import GATES
from llm_anatomy.layers.latent_attention import _absorbing_saves

# --- One row of the table, and the table ---


@dataclass(frozen=True)
class Part:
    """What one part of a model costs in one pass; counts are of numbers, and of operations.

    Args:
        name: of the part.
        n_parameters: trained numbers.
        n_active: those that one token meets: of a mixture of experts, the router and the chosen.
        flops: operations forward.
        flops_backward: operations backward.
        n_kept: numbers that training keeps from forward for backward.
        n_cached: numbers in the cache after the pass.
        n_read: parameters that the pass reads, each once.

    Source: UCL-29.

    >>> (Part("a", 3, 3, 10) + Part("b", 1, 1, 5)).times(2)
    Part(name='a', n_parameters=8, n_active=8, flops=30, flops_backward=0, n_kept=0, n_cached=0, n_read=0)
    """

    name: str
    n_parameters: int = 0
    n_active: int = 0
    flops: int = 0
    flops_backward: int = 0
    n_kept: int = 0
    n_cached: int = 0
    n_read: int = 0

    def _counts(self) -> tuple[int, ...]:
        return dataclasses.astuple(self)[1:]

    def __add__(self, other: "Part") -> "Part":
        return Part(self.name, *(a + b for a, b in zip(self._counts(), other._counts(), strict=True)))

    def times(self, n_layers: int) -> "Part":
        """As many layers of it."""
        return Part(self.name, *(n_layers * count for count in self._counts()))


@dataclass(frozen=True)
class Costs:
    r"""The parts, and what follows from their sum. Printed, it is a table.

    Args:
        parts: what the model is made of, in order.
        batch: how many texts were read at once.
        n_tokens: of each text, those that this pass reads.
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
        """Operations forward for one text of the batch."""
        return self.total.flops / self.batch

    @property
    def flops_per_token(self) -> float:
        """Operations forward for one token."""
        return self.total.flops / (self.batch * self.n_tokens)

    @property
    def flops_per_token_backward(self) -> float:
        """Operations backward for one token."""
        return self.total.flops_backward / (self.batch * self.n_tokens)

    @property
    def weight_bytes(self) -> int:
        """What the parameters take."""
        return self.bytes_per_number * self.total.n_parameters

    @property
    def activation_bytes(self) -> int:
        """What training keeps for backward, with a fused kernel that forms no scores, at least: what each product,
        norm and activation reads. PyTorch keeps some percent more, and much more where a position scheme or a bound
        changes the scores."""
        return self.bytes_per_number * self.total.n_kept

    @property
    def cache_bytes(self) -> int:
        """What the cache takes after the pass."""
        return self.bytes_per_number * self.total.n_cached

    @property
    def bytes_moved(self) -> int:
        """What has to come out of memory at least: the parameters once, and all that the cache holds."""
        return self.bytes_per_number * (self.total.n_read + self.total.n_cached)

    @property
    def intensity(self) -> float:
        """Operations forward for each byte moved: below what the processor does in the time of one byte, memory is
        what the pass waits for."""
        return self.total.flops / self.bytes_moved

    @property
    def rule_of_thumb(self) -> int:
        r"""Operations forward and backward, as 6 N D has them: N active parameters, D tokens."""
        return 6 * self.total.n_active * self.batch * self.n_tokens

    def __str__(self) -> str:
        heads = ["", "parameters", "active", "forward, FLOP", "backward, FLOP", "activations, B", "cache, B"]
        rows = [heads]
        for part in [*self.parts, self.total]:
            bytes_ = (self.bytes_per_number * n for n in (part.n_kept, part.n_cached))
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


# --- The parts ---


@dataclass(frozen=True)
class _Reading:
    """Texts of which some tokens are in the cache and others are read now; a layer's window bounds what is cached."""

    batch: int
    n_new: int
    n_cached: int = 0
    window: int | None = None

    @property
    def tokens(self) -> int:
        return self.batch * self.n_new

    @property
    def n_slots(self) -> int:
        return min(self.n_cached + self.n_new, self.window or math.inf)

    @property
    def n_keys(self) -> int:
        """Several new tokens are given the window of the first of them and themselves; one takes the place of the
        oldest."""
        all_keys = self.n_cached + self.n_new
        if self.window is None or self.window >= all_keys:
            return all_keys
        return self.window if self.n_new == 1 else min(self.n_cached, self.window) + self.n_new

    @property
    def keys(self) -> int:
        return self.batch * self.n_keys

    @property
    def pairs(self) -> int:
        return self.batch * self.n_new * self.n_keys

    def visible_pairs(self, causal: bool) -> int:
        """Of a query and a key that its mask lets it see."""

        def of_first(n: int) -> int:  # 1 + 2 + … up to the window, then as many for each
            rising = min(n, self.window or n)
            return rising * (rising + 1) // 2 + (n - rising) * (self.window or 0)

        backward = of_first(self.n_cached + self.n_new) - of_first(self.n_cached)
        each = backward if causal else 2 * backward - self.n_new  # as many ahead; itself is counted twice
        return self.batch * each


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
    r"""What one pass costs, part by part: a text read whole, or some tokens more after those in a cache.

    For a decoder of ``h`` heads with :math:`h\, d_\mathrm{head} = h\, d_\mathrm{value} = d`, forward:

    .. math:: \mathrm{FLOPs} = 2 n N (4 d^2 + 2 d\, d_\mathrm{ff}) + 4 n^2 N d + 2 n d\, n_\mathrm{vocab}

    Args:
        config: of the model.
        n_tokens: how many of each text are read in this pass, from 1; of the target, where there is a source.
        batch: how many texts are read at once, from 1.
        n_cached: how many tokens of each text were read before, whose keys and values are kept; a source was read
            then too.
        n_source: tokens of each source, for an encoder-decoder and only there.
        bytes_per_number: 4 for float32, 2 for bfloat16.
        only_visible: count a query's products with the keys that its mask lets it see, and no others.

    Returns:
        The table.

    Raises:
        ValueError: for sizes out of range, more tokens than ``n_ctx``, a source where none belongs or none where one
            does, or a cache for an encoder.

    Source: UCL-29; Kaplan et al. (2020), section 2.1; Pope et al. (2022), section 2 (intensity); CMU-10.

    >>> config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101, position="rope", norm="rmsnorm")
    >>> prefill, decode = costs(config, n_tokens=20), costs(config, n_tokens=1, n_cached=19)
    >>> prefill.total.n_parameters, prefill["scores and mixing"].flops, decode["scores and mixing"].flops
    (15720, 76800, 3840)
    >>> prefill.intensity > 10 * decode.intensity
    True
    """
    _check_shapes(config, n_tokens, batch, n_cached, n_source, bytes_per_number)
    two_stacks, d_model = config.kind == "encoder-decoder", config.d_model
    reading, source = _Reading(batch, n_tokens, n_cached), _Reading(batch, n_source) if two_stacks else None
    n_looked_up = reading.tokens + (source.tokens if two_stacks and not n_cached else 0)
    parts = [
        _lookup("token embedding", config.n_vocab * d_model, n_looked_up * d_model),
        _lookup("segments", config.n_segments * d_model, d_model),
        _embedding_positions(config, reading),
    ]
    if two_stacks:
        encoder = _stack(config, config.n_encoder_layers, source, None, only_visible, causal=False)
        if n_cached:  # it was run before
            encoder = [Part(part.name, part.n_parameters, part.n_active) for part in encoder]
        parts += [dataclasses.replace(part, name=f"encoder: {part.name}", n_cached=0) for part in encoder]
    stack = _stack(config, config.n_layers, reading, source, only_visible, causal=config.kind != "encoder")
    if config.kind == "encoder":
        stack = [dataclasses.replace(part, n_cached=0) for part in stack]
    parts += [dataclasses.replace(part, name=f"decoder: {part.name}") for part in stack] if two_stacks else stack
    if config.embedding_norm:
        parts.append(_matrices("embedding norm", vectors=_norm(config), kept=reading.tokens * d_model))
    if config.token_head:
        dense = (reading.tokens, d_model, d_model, True)
        parts.append(_matrices("token head", dense, vectors=_norm(config), kept=3 * reading.tokens * d_model))
    parts.append(_logits(config, reading))
    return Costs(tuple(part for part in parts if any(part._counts())), batch, n_tokens, bytes_per_number)


def _matrices(name: str, *matrices: tuple[int, int, int, bool], vectors: int = 0, kept: int = 0) -> Part:
    """Rows through matrices, ``(rows, d_in, d_out, has_bias)`` each, and trained vectors beside them."""
    sizes = [d_in * d_out + has_bias * d_out for _, d_in, d_out, has_bias in matrices]
    n, flops = vectors + sum(sizes), sum(2 * rows * d_in * d_out for rows, d_in, d_out, _ in matrices)
    n_read = vectors + sum(size for size, (rows, *_) in zip(sizes, matrices, strict=True) if rows)
    return Part(name, n, n, flops, 2 * flops, kept, n_read=n_read)


def _lookup(name: str, n: int, n_read: int) -> Part:
    return Part(name, n, n, n_read=min(n, n_read))


def _embedding_positions(config: ModelConfig, reading: _Reading) -> Part:
    n_rows = config.n_ctx + config.learned.offset if config.learned else 0
    return _lookup("positions", n_rows * config.d_model, reading.n_new * config.d_model)


def _logits(config: ModelConfig, reading: _Reading) -> Part:
    """A tied table was counted where it is looked up; here it is read whole."""
    part = _matrices("logits", (reading.tokens, config.d_model, config.n_vocab, config.unembedding_bias))
    table = config.n_vocab * config.d_model
    if config.tie_embeddings:
        part += Part("", n_parameters=-table, n_active=-table)
    return part + Part("", n_kept=reading.tokens * config.n_vocab)


def _stack(
    config: ModelConfig, n_layers: int, reading: _Reading, source: _Reading | None, only_visible: bool, *, causal: bool
) -> list[Part]:
    n_all = sum(config.window_of(layer) is None for layer in range(n_layers))
    windowed = dataclasses.replace(reading, window=config.window)
    of_all = _self_attention(config, reading, only_visible, causal)
    of_windowed = _self_attention(config, windowed, only_visible, causal)
    parts = [a.times(n_all) + b.times(n_layers - n_all) for a, b in zip(of_all, of_windowed, strict=True)]
    parts[-1] += _shared_positions(config)
    if source is not None:
        parts += [part.times(n_layers) for part in _cross_attention(config, reading, source)]
    n_dense = min(config.moe.n_dense_layers, n_layers) if config.moe else n_layers
    parts.append(_feedforward(config, config.d_ff, reading.tokens).times(n_dense))
    parts += [part.times(n_layers - n_dense) for part in _experts(config, reading.tokens)] if config.moe else []
    return [*parts, _norms(config, n_layers, reading, n_sublayers=2 if source is None else 3)]


# --- Attention of one layer: its projections, its products of queries and keys, its positions ---


def _self_attention(config: ModelConfig, reading: _Reading, only_visible: bool, causal: bool) -> list[Part]:
    pairs = reading.visible_pairs(causal) if only_visible else reading.pairs
    if config.attention == "latent":
        projections, pair_width = _latent_projections(config, reading)
        slot_width = config.latent.d_latent + (config.latent.d_rotary or 0)
    else:
        projections, pair_width = _projections(config, reading.tokens, reading.tokens), config.d_head + config.d_value
        slot_width = config.n_kv_heads * pair_width
    projections += Part("", n_cached=reading.batch * reading.n_slots * slot_width)
    mixing = _mixing(config, reading.tokens, pairs, pair_width)
    if config.position == "shaw":  # its weights are formed
        mixing += Part("", n_kept=2 * config.n_heads * pairs)
    return [projections, mixing, _positions(config, reading, causal)]


def _cross_attention(config: ModelConfig, reading: _Reading, source: _Reading) -> list[Part]:
    """Keys and values are made of the source once, and kept."""
    pair_width = config.d_head + config.d_value
    projections = _projections(config, reading.tokens, 0 if reading.n_cached else source.tokens)
    projections += Part("", n_cached=source.tokens * config.n_kv_heads * pair_width)
    mixing = _mixing(config, reading.tokens, reading.tokens * source.n_new, pair_width)
    return [dataclasses.replace(part, name=f"source: {part.name}") for part in (projections, mixing)]


def _mixing(config: ModelConfig, tokens: int, pairs: int, pair_width: int) -> Part:
    """Scores are products over the width of a key, mixing over that of a value."""
    flops, n_kept = 2 * pairs * config.n_heads * pair_width, tokens * config.n_heads * config.d_value
    if config.attn_logit_softcapping is not None:  # the path that forms scores and weights
        n_kept += 2 * config.n_heads * pairs
    return Part("scores and mixing", flops=flops, flops_backward=2 * flops, n_kept=n_kept)


def _projections(config: ModelConfig, tokens: int, asked: int) -> Part:
    """Queries and output of ``tokens``, keys and values of those ``asked``."""
    h, kv, d, d_head, d_value = config.n_heads, config.n_kv_heads, config.d_model, config.d_head, config.d_value
    norms = {
        None: 0,
        "per_head": 2 * _norm(config, d_head),
        "across_heads": _norm(config, h * d_head) + _norm(config, kv * d_head),
    }
    return _matrices(
        "attention projections",
        (tokens, d, h * d_head, config.attention_bias),
        (asked, d, kv * d_head, config.attention_bias),
        (asked, d, kv * d_value, config.attention_bias),
        (tokens, h * d_value, d, config.output_bias),
        vectors=norms[config.qk_norm],
        kept=(1 if config.qk_norm is None else 2) * (tokens * h + asked * kv) * d_head + asked * kv * d_value,
    )


def _latent_projections(config: ModelConfig, reading: _Reading) -> tuple[Part, int]:
    """And the widths of the products with them. Keys and values are formed of the latents of all tokens, or the
    matrices that would form them are absorbed: whichever takes fewer multiplications, by the layer's own rule."""
    h, d, d_head, d_value, d_latent = (
        config.n_heads,
        config.d_model,
        config.d_head,
        config.d_value,
        config.latent.d_latent,
    )
    d_rotary, bias, rows = config.latent.d_rotary or 0, config.attention_bias, reading.tokens
    absorbed = _absorbing_saves(reading.n_new, reading.n_keys, d_latent, d_head + d_value)
    mapped_rows, d_query = rows if absorbed else reading.keys, h * (d_head + d_rotary)
    through_latent = [
        (rows, d, config.latent.d_query_latent, bias),
        (rows, config.latent.d_query_latent, d_query, False),
    ]
    matrices = [
        *([(rows, d, d_query, bias)] if config.latent.d_query_latent is None else through_latent),
        (rows, d, d_latent + d_rotary, bias),
        (mapped_rows, d_latent, h * d_head, False),
        (mapped_rows, d_latent, h * d_value, False),
        (rows, h * d_value, d, bias),
    ]
    norms = _norm(config, d_latent) + (
        _norm(config, config.latent.d_query_latent) if config.latent.d_query_latent else 0
    )
    kept = rows * (2 * d_latent + d_rotary + 2 * d_query + h * d_value + 2 * (config.latent.d_query_latent or 0))
    part = _matrices("attention projections", *matrices, vectors=norms, kept=kept)
    return part, 2 * (d_latent + d_rotary) if absorbed else d_head + d_rotary + d_value


def _shared_positions(config: ModelConfig) -> Part:
    """What all layers of a stack have together."""
    d, width = config.d_model, config.n_heads * config.d_head
    n = {
        "t5": (config.get("buckets.n_buckets") or 0) * config.n_heads,
        "tupe": (config.n_ctx or 0) * d + 2 * d * width,
        "deberta": 2 * (config.get("clipping.max_distance") or 0) * d,
        "deberta_v2": (config.get("buckets.n_buckets") or 0) * d + _norm(config),
    }.get(config.position, 0)
    return Part("", n, n, n_read=n)


def _positions(config: ModelConfig, reading: _Reading, causal: bool) -> Part:
    """What each layer has of its own, and its products with queries and keys."""
    d, h, d_head, far = config.d_model, config.n_heads, config.d_head, config.get("clipping.max_distance")
    width, text_pairs = h * d_head, reading.n_new * reading.n_keys
    added = h * text_pairs  # to the scores, the same for all texts
    if config.position in ("t5", "alibi"):
        return Part("positions", n_kept=added)
    if config.position == "tupe":  # positions of queries and keys through a matrix each, and their products
        n_texts = reading.batch if reading.n_cached else 1  # a cache tells positions of each text
        flops = 2 * d * width * (reading.n_new + n_texts * reading.n_keys) + 2 * n_texts * text_pairs * width
        return Part("positions", flops=flops, flops_backward=2 * flops, n_kept=added)
    if config.position == "shaw":  # queries by the vectors of all offsets, and weights by those for values
        n = (far + 1 if causal else 2 * far + 1) * (d_head + config.d_value)
        flops = 2 * reading.tokens * h * n
        return Part("positions", n, n, flops, 2 * flops, n_read=n)
    if config.position == "transformer_xl":
        n = 2 * width + d * width
        trained = 2 * reading.keys * width + 2 * reading.tokens * width * d
        turned = 2 * reading.pairs * h * d  # sinusoids have no gradient: one product backward, not two
        return Part("positions", n, n, trained + turned, 2 * trained + turned, reading.batch * added, n_read=n)
    if config.position == "deberta":  # all rows of the table through two matrices, then by queries and by keys
        n_rows = 2 * far
        part = _matrices("positions", (n_rows, d, width, True), (n_rows, d, width, False), kept=reading.batch * added)
        flops = 2 * (reading.tokens + reading.keys) * width * n_rows
        return part + Part("", flops=flops, flops_backward=2 * flops)
    if config.position == "deberta_v2":  # the same through attention's own matrices, which are counted there
        matrices = [(config.buckets.n_buckets, d, width, False)] * 2
        part = dataclasses.replace(_matrices("positions", *matrices), n_parameters=0, n_active=0, n_read=0)
        flops = 2 * (reading.tokens + reading.keys) * width * config.buckets.n_buckets
        return part + Part("", flops=flops, flops_backward=2 * flops, n_kept=reading.batch * added)
    return Part("positions")


# --- Feed-forward, experts, norms ---


def _feedforward(config: ModelConfig, width: int, rows: int) -> Part:
    d, bias, n_up = config.d_model, config.ff_bias, 2 if config.feedforward in GATES else 1
    kept = rows * width * _n_kept_widths(config)
    return _matrices("feed-forward", (rows, d, n_up * width, bias), (rows, width, d, bias), kept=kept)


def _n_kept_widths(config: ModelConfig) -> int:
    """ReLU and tanh need their result alone, which the next product keeps; the others what they were given as well."""
    if config.feedforward in GATES:  # gate and up, the bent gate, the product
        return 3 if config.feedforward == "bilinear" else 4
    return 1 if config.feedforward in ("relu", "tanh") else 2


def _experts(config: ModelConfig, tokens: int) -> list[Part]:
    """Router, experts, and those that all tokens pass. What a batch chooses is not known: as many experts are read as
    it could reach."""
    d, k, n_experts = config.d_model, config.moe.n_experts_per_token, config.moe.n_experts
    one = _feedforward(dataclasses.replace(config, ff_bias=False), config.moe.d_expert, tokens * k)
    weighing = Part("", flops=2 * tokens * k * d, flops_backward=4 * tokens * k * d, n_kept=2 * tokens * k * d)
    experts = weighing + Part("", 0, 0, one.flops, one.flops_backward, one.n_kept)
    reached = min(n_experts, tokens * k)
    experts += Part("", n_experts * one.n_parameters, k * one.n_parameters, n_read=reached * one.n_parameters)
    parts = [
        _matrices("router", (tokens, d, n_experts, False), kept=2 * tokens * n_experts),
        dataclasses.replace(experts, name="experts"),
    ]
    if config.moe.n_shared_experts:
        shared = _feedforward(config, config.moe.n_shared_experts * config.moe.d_expert, tokens)
        parts.append(dataclasses.replace(shared, name="shared experts"))
    return parts


def _norm(config: ModelConfig, width: int | None = None) -> int:
    width = config.d_model if width is None else width
    return width * (config.layernorm.weight + config.layernorm.bias) if config.layernorm else width


def _norms(config: ModelConfig, n_layers: int, reading: _Reading, n_sublayers: int) -> Part:
    """Norms around sublayers and at the end; kept is what they read, and what the sublayers read of them."""
    norm, one = _norm(config), reading.tokens * config.d_model
    if config.parallel_block:
        n, kept = config.n_parallel_norms * norm, (1 + config.n_parallel_norms) * one
    else:
        n, kept = {
            "pre": (norm, 2 * one),
            "post": (norm, 2 * one),
            "sandwich": (2 * norm, 3 * one),
            "post_sublayer": (norm, 2 * one),
            "rezero": (1, 2 * one),
        }[config.norm_placement]
        n, kept = n_sublayers * n, n_sublayers * kept
    has_last = config.norm_placement not in ("post", "rezero")
    vectors = n_layers * n + has_last * norm
    return _matrices("norms", vectors=vectors, kept=n_layers * kept + (1 + has_last) * one)


def _check_shapes(config, n_tokens, batch, n_cached, n_source, bytes_per_number) -> None:
    _check_at_least_one(n_tokens=n_tokens, batch=batch, bytes_per_number=bytes_per_number)
    if n_cached < 0:
        raise ValueError(f"{n_cached=} must be at least 0")
    if n_cached and config.kind == "encoder":
        raise ValueError(f"{n_cached=} must be 0 for an encoder: each token sees those that come after it")
    if (config.kind == "encoder-decoder") != (n_source is not None):
        raise ValueError(f"{n_source=} must be given for an encoder-decoder, and only then; kind={config.kind!r}")
    if n_source is not None:
        _check_at_least_one(n_source=n_source)
    for name, n in {"n_cached + n_tokens": n_cached + n_tokens, "n_source": n_source or 0}.items():
        if config.n_ctx is not None and n > config.n_ctx:
            raise ValueError(f"{name}={n} must be at most n_ctx={config.n_ctx}")


# --- How costs grow ---


def exponents(config: ModelConfig, n_tokens: int) -> dict[str, dict[str, float]]:
    r"""How operations grow with each size: the exponent, measured by doubling one size at a time.

    .. math:: \mathrm{exponent} = \log_2 \frac{\mathrm{FLOPs}(2 s)}{\mathrm{FLOPs}(s)}

    With ``d_model`` heads grow as wide, so that :math:`h\, d_\mathrm{head} = d_\mathrm{model}` stays; with ``n_heads``
    they get half as wide, and nothing changes. ``n_tokens`` is the length that is read, up to the lecture's n_ctx.

    Args:
        config: of a decoder or an encoder, with ``d_head`` and ``d_value`` even.
        n_tokens: how many tokens are read.

    Returns:
        For each size, the exponent of each part that computes, and of the total.

    Raises:
        ValueError: for an encoder-decoder, or odd widths.

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
    wide = dict(d_head=2 * config.d_head, d_value=2 * config.d_value)
    many = dict(n_heads=2 * config.n_heads, d_head=config.d_head // 2, d_value=config.d_value // 2)
    many |= dict(n_kv_heads=2 * config.n_kv_heads)
    changes = {
        "d_model": dict(d_model=2 * config.d_model, **wide),
        "n_vocab": dict(n_vocab=2 * config.n_vocab),
        "n_tokens": {},
        "d_ff": dict(d_ff=2 * config.d_ff),
        "n_heads": many,
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
    r"""The length at which scores and mixing take as many operations as all matrices of the blocks.

    .. math:: 4 d^2 + 2 d\, d_\mathrm{ff} = 2 n d \;\Rightarrow\; n = 2 d + d_\mathrm{ff}

    in multiplications for a token and layer, where the heads together are as wide as the stream and the feed-forward
    layer is plain. Below it, long texts cost little more than short ones, token by token. Every query is taken to meet
    every key; a causal kernel that skips what is hidden crosses at twice the length.

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
    parts = {part.name: part.flops for part in costs(config, n_tokens=1).parts}
    of_pairs = parts.pop("scores and mixing")
    return (
        sum(
            parts.get(name, 0)
            for name in ("attention projections", "feed-forward", "router", "experts", "shared experts")
        )
        / of_pairs
    )
