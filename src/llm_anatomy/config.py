"""One description for every architecture of the lectures: sizes are numbers, parts are names from the registry, and the
options of a part are a config of their own, such as ``rope=RopeConfig(base=500000.0)``."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, TypeVar, get_args, get_origin

from llm_anatomy.files import write_atomically
from llm_anatomy.registry import PARTS, takes

T = TypeVar("T", bound="Config")


class _Allowed(Mapping[str, tuple[str | None, ...]]):
    OTHERS = {
        "kind": ("decoder", "encoder", "encoder-decoder"),
        "qk_norm": (None, "per_head", "across_heads", "per_head_weights"),
    }

    def __getitem__(self, field: str) -> tuple[str | None, ...]:
        return self.OTHERS[field] if field in self.OTHERS else tuple(PARTS[field])

    def __iter__(self) -> Iterator[str]:
        return iter([*self.OTHERS, *PARTS])

    def __len__(self) -> int:
        return len(self.OTHERS) + len(PARTS)


ALLOWED = _Allowed()
"""The names that a field may hold, by its dotted name. Those of parts are what the registry holds at the time."""

OF_THE_HEAD = ("token_head", "unembedding_bias", "tie_embeddings", "scale_logits", "final_logit_softcapping")
OF_THE_HEAD += ("logit_multiplier",)
"""The options of what computes logits from hidden states, which a model without an unembedding does not have."""

BY_LENGTH = tuple(name for name, scaling in PARTS["rope.scaling.type"].items() if scaling.by_length)
"""The types of scaling of RoPE whose frequencies depend on the length of the text."""

SLIDING, FULL = "sliding_attention", "full_attention"
"""The types of layers, as Hugging Face's configurations call them: with the window, and without."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Check every field when a config is made, and convert it to plain values and back.

    A whole number must be at least 1, any other number above 0. A field may also be 0 if 0 is its default, or if its
    metadata say ``or_zero``.

    >>> before = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="rope")
    >>> after = ModelConfig.of(before.changed() | {"rope.base": 500.0})
    >>> after.get("rope.base"), before.difference(after)
    (500.0, {'rope.base': (10000.0, 500.0)})
    """

    prefix: ClassVar[str] = ""
    """What precedes the names of the fields in messages and in JSON."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            name, value = self.prefix + field.name, getattr(self, field.name)
            if not _has_type(value, field.type):
                kind = field.type.__name__ if isinstance(field.type, type) else field.type
                raise ValueError(f"{name}={value!r} must be {kind}")
            if value not in ALLOWED.get(name, (value,)):
                raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, ALLOWED[name]))}")
            or_zero = field.default == 0 or field.metadata.get("or_zero")
            if type(value) is int and value < (0 if or_zero else 1):
                raise ValueError(f"{name}={value} must be at least {0 if or_zero else 1}")
            if type(value) is float and not (value > 0 or or_zero and value == 0):
                raise ValueError(f"{name}={value} must be {'at least' if or_zero else 'above'} 0")
        for field in dataclasses.fields(self):
            if "owner" in field.metadata:
                self._settle_option(field, field.metadata["owner"])

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)  # allowed here alone: the frozen dataclass is still being made

    def _settle_option(self, field: dataclasses.Field, owner: str) -> None:
        """Require, fill in or refuse an option, according to the part that ``owner`` names."""
        options, value, name = nested_config(field.type), getattr(self, field.name), self.prefix + field.name
        part, here = self.prefix + owner, f"{self.prefix}{owner}={getattr(self, owner)!r}"
        taken = takes(part, getattr(self, owner))
        is_given = value != field.default
        if field.name in taken:
            is_required = taken[field.name]
            if options:
                is_required = any(option.default is dataclasses.MISSING for option in dataclasses.fields(options))
            self._require(is_given or not is_required, field.name, f"be given with {here}")
            if options and not is_given:
                self._set(field.name, options())
        elif is_given:
            changed = value.changed() if isinstance(value, Config) else {name: value}
            owners = [f"{part}={other!r}" for other in PARTS[part] if field.name in takes(part, other)]
            for option, given in changed.items():
                belongs = " or ".join(owners)
                raise ValueError(f"{option}={given!r} must be left out with {here}; it belongs to {belongs}")
            self._set(field.name, field.default)

    def _require(self, holds: object, field: str, what: str) -> None:
        """Raise a ValueError that says what a field must do, such as "be at least 1", unless ``holds`` is true."""
        if not holds:
            raise ValueError(f"{self.prefix}{field}={getattr(self, field)!r} must {what}")

    def changed(self) -> dict[str, object]:
        """The fields that differ from their defaults, in order; those of nested configs as ``rope.base``."""
        changed = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Config):
                changed |= value.changed()
            elif value != field.default:
                changed[self.prefix + field.name] = value
        return changed

    def get(self, name: str) -> Any:
        """The value of a field by its dotted name; None where there is no such nested config.

        Args:
            name: such as ``rope.base``.
        """
        value = self
        for part in name.split("."):
            value = None if value is None else getattr(value, part)
        return value

    def difference(self, other: "Config") -> dict[str, tuple[object, object]]:
        """What changes from this config to the other: each field that differs, with both values.

        Args:
            other: a config of the same class.
        """
        names = self.changed() | other.changed()
        pairs = {name: (self.get(name), other.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    @classmethod
    def of(cls: type[T], values: Mapping[str, object]) -> T:
        """Make a config from a dict.

        Args:
            values: each field and its value; nested fields are dicts or have dotted names such as ``rope.base``.

        Raises:
            ValueError: naming unknown and missing fields, or any value that is not allowed.
        """
        fields, given = {field.name: field for field in dataclasses.fields(cls)}, {}
        for name, value in values.items():
            outer, _, inner = name.partition(".")
            before = given.get(outer)
            given[outer] = {**(before if isinstance(before, dict) else {}), inner: value} if inner else value
        unknown = [cls.prefix + name for name in given if name not in fields]
        if unknown:
            raise ValueError(
                f"unknown fields {', '.join(unknown)}; allowed are {', '.join(map(cls.prefix.__add__, fields))}"
            )
        required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
        missing = [cls.prefix + name for name in required if name not in given]
        if missing:
            raise ValueError(f"missing fields {', '.join(missing)}")
        for name, value in given.items():
            nested = nested_config(fields[name].type)
            if isinstance(value, Mapping) and nested:
                given[name] = nested.of(value)
            elif isinstance(value, list):  # JSON has no tuples
                given[name] = tuple(value)
        return cls(**given)


def _has_type(value: object, kind: Any) -> bool:
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    classes = tuple(get_origin(one) or one for one in kinds)
    classes += (int,) if float in classes else ()
    return isinstance(value, classes) and (bool in classes or not isinstance(value, bool))


def nested_config(kind: Any) -> type[Config] | None:
    """The class of a nested config, from the type of its field; None where values are plain.

    >>> nested_config(RopeConfig | None), nested_config(int | None)
    (<class 'llm_anatomy.config.RopeConfig'>, None)
    """
    return next((one for one in get_args(kind) or (kind,) if isinstance(one, type) and issubclass(one, Config)), None)


def _option_of(owner: str, default: Any = None) -> Any:
    """A field that belongs to the parts which take it (:func:`~llm_anatomy.registry.takes`), of those that the field
    ``owner`` may name."""
    return dataclasses.field(default=default, metadata={"owner": owner})


# --- Options of single parts ---


@dataclass(frozen=True, kw_only=True)
class RopeScaling(Config):
    """How RoPE is scaled for contexts longer than in training. Which options there are depends on the type.

    Args:
        type: ``"linear"``, ``"ntk"``, ``"yarn"`` or ``"llama3"``.
        factor: how many times longer the context becomes.
        original_max_position_embeddings: the length of the training, for YaRN and Llama 3.
        beta_fast, beta_slow: number of rotations within that length above which a plane is kept, and below which it is
            interpolated, for YaRN and Llama 3.
        attention_factor: factor of rotated queries and keys, derived from ``factor`` by default, for YaRN and LongRoPE.
        truncate: whether YaRN's bounds are rounded to whole planes, as by default.
        short_factor, long_factor: LongRoPE's divisors of the frequencies, up to the length of the training and beyond.

    >>> RopeScaling(type="linear", factor=2.0, truncate=False)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: rope.scaling.truncate=False must be left out with rope.scaling.type='linear'; it belongs to
    rope.scaling.type='yarn'
    """

    prefix = "rope.scaling."

    type: str
    factor: float
    original_max_position_embeddings: int | None = _option_of("type")
    beta_fast: float | None = _option_of("type")
    beta_slow: float | None = _option_of("type")
    attention_factor: float | None = _option_of("type")
    truncate: bool | None = _option_of("type")
    short_factor: tuple[float, ...] | None = _option_of("type")
    long_factor: tuple[float, ...] | None = _option_of("type")

    def options(self) -> dict[str, Any]:
        """The arguments of the class that ``type`` names."""
        return {name: value for name, value in vars(self).items() if name != "type" and value is not None}


@dataclass(frozen=True, kw_only=True)
class RopeConfig(Config):
    """Rotary position embedding.

    Args:
        base: of the geometric sequence of frequencies; Hugging Face's ``rope_theta``.
        local_base: that of the layers with a window, which are not scaled then; by default all layers have the same
            RoPE.
        fraction: share of each head that is rotated.
        pairing: which entries of a head form a plane: ``"half_split"`` or ``"interleaved"``.
        layers: whether each layer has RoPE, repeated from the start where there are fewer values than layers; all have
            it by default. A layer without RoPE knows of positions by its causal mask alone (NoPE).
        scaling: for contexts longer than in training.

    >>> ModelConfig.of(dict(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="rope")).rope
    RopeConfig(base=10000.0, local_base=None, fraction=1.0, pairing='half_split', layers=(), scaling=None)
    """

    prefix = "rope."

    base: float = 10000.0
    local_base: float | None = None
    fraction: float = 1.0
    pairing: str = "half_split"
    layers: tuple[bool, ...] = ()
    scaling: RopeScaling | None = None

    def __post_init__(self):
        super().__post_init__()
        self._require(self.fraction <= 1, "fraction", "be above 0 and at most 1")
        are_flags = all(isinstance(layer, bool) for layer in self.layers)
        self._require(are_flags, "layers", "hold True or False for each layer")
        self._require(not self.layers or any(self.layers), "layers", "hold True for at least one layer")

    def has_layer(self, layer: int) -> bool:
        """Whether a layer has RoPE, by its index.

        >>> [RopeConfig(layers=(True, True, False)).has_layer(layer) for layer in range(4)]
        [True, True, False, True]
        """
        return not self.layers or self.layers[layer % len(self.layers)]


@dataclass(frozen=True, kw_only=True)
class ALiBiConfig(Config):
    r"""ALiBi, whose last slope is :math:`2^{-b}` with b = ``bias_max`` where the number of heads is a power of two."""

    prefix = "alibi."

    bias_max: int = 8


@dataclass(frozen=True, kw_only=True)
class LearnedPositionConfig(Config):
    """Learned positions; ``offset`` rows of their table precede that of the first token, as two do in OPT."""

    prefix = "learned."

    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class ClippingConfig(Config):
    """Relative positions whose offsets are clipped at ``max_distance``."""

    prefix = "clipping."

    max_distance: int = 128


@dataclass(frozen=True, kw_only=True)
class BucketConfig(Config):
    """Relative positions in ``n_buckets`` that widen with the distance, the last of them from ``max_distance`` on."""

    prefix = "buckets."

    n_buckets: int = 32
    max_distance: int = 128


@dataclass(frozen=True, kw_only=True)
class LatentAttentionConfig(Config):
    """Multi-head latent attention.

    Args:
        d_latent: width of the latent from which keys and values are computed.
        d_rotary: width of the part of queries and keys that RoPE rotates; None without RoPE.
        d_query_latent: width of the latent of the queries; None to compute queries directly.
    """

    prefix = "latent."

    d_latent: int
    d_rotary: int | None = None
    d_query_latent: int | None = None


@dataclass(frozen=True, kw_only=True)
class LayerNormConfig(Config):
    """Whether layer normalization has a scale, ``weight``, and a shift, ``bias``."""

    prefix = "layernorm."

    weight: bool = True
    bias: bool = True


@dataclass(frozen=True, kw_only=True)
class MoEConfig(Config):
    """A mixture of experts in place of the feed-forward layer.

    Args:
        n_experts: how many routed experts there are.
        n_experts_per_token: how many of them the router selects for a token.
        d_expert: inner width of an expert, ``d_ff`` by default.
        n_shared_experts: experts that every token passes besides.
        n_dense_layers: how many of the first layers keep a plain feed-forward layer.
        dense_layers: which other layers keep one, by their indices in increasing order.
        router: how weights follow from logits, such as ``"softmax_of_top_k"``.
        routed_scaling_factor: factor of the weights of the routed experts.
        n_groups, n_groups_per_token: groups of experts, and how many of them a token may reach; for routers whose name
            ends in ``in_groups``.
        router_bias: whether the logits of ``"softmax_of_top_k"`` have biases.
        expert_bias: whether the projections of the routed experts have biases.

    >>> MoEConfig(n_experts=4, n_experts_per_token=5)
    Traceback (most recent call last):
    ValueError: moe.n_experts_per_token=5 must be at most moe.n_experts=4
    """

    prefix = "moe."

    n_experts: int
    n_experts_per_token: int
    d_expert: int = 0
    n_shared_experts: int = 0
    n_dense_layers: int = 0
    dense_layers: tuple[int, ...] = ()
    router: str = "softmax_of_top_k"
    routed_scaling_factor: float = _option_of("router", 1.0)
    n_groups: int | None = _option_of("router")
    n_groups_per_token: int | None = _option_of("router")
    router_bias: bool = _option_of("router", False)
    expert_bias: bool = False

    def __post_init__(self):
        super().__post_init__()
        n, k, groups, reached = self.n_experts, self.n_experts_per_token, self.n_groups, self.n_groups_per_token
        self._require(k <= n, "n_experts_per_token", f"be at most moe.n_experts={n}")
        dense, first = self.dense_layers, self.n_dense_layers
        rising = all(type(layer) is int and layer >= first for layer in dense) and [*dense] == sorted({*dense})
        self._require(rising, "dense_layers", f"hold increasing indices of layers, from moe.n_dense_layers={first}")
        if groups is not None and reached is not None:
            self._require(n % groups == 0, "n_groups", f"divide moe.n_experts={n}")
            what = f"be at most moe.n_groups={groups}, and hold moe.n_experts_per_token={k} experts"
            self._require(k <= reached * n // groups <= n, "n_groups_per_token", what)

    def has_layer(self, layer: int) -> bool:
        """Whether a layer has experts, by its index.

        >>> moe = MoEConfig(n_experts=4, n_experts_per_token=2, n_dense_layers=1, dense_layers=(2,))
        >>> [moe.has_layer(layer) for layer in range(4)]
        [False, True, False, True]
        """
        return layer >= self.n_dense_layers and layer not in self.dense_layers


@dataclass(frozen=True, kw_only=True)
class ClampedSwiGLUConfig(Config):
    """The gating of gpt-oss: ``alpha``, the parameter of its Swish, and ``limit``, the bound of gate and up."""

    prefix = "clamped_swiglu."

    alpha: float = 1.702
    limit: float = 7.0


# --- The whole model ---


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Config):
    r"""The architecture of a model. Every value is checked at construction.

    Sizes whose default is 0 are derived from other fields at construction, and hold the derived value afterwards.

    Args:
        kind: ``"decoder"`` (causal), ``"encoder"``, or ``"encoder-decoder"``.
        d_model: width of the residual stream.
        n_layers: number of blocks; of the decoder in an encoder-decoder.
        n_encoder_layers: number of blocks of the encoder in an encoder-decoder, ``n_layers`` by default.
        n_heads: number of query heads.
        n_kv_heads: number of key-value heads, ``n_heads`` by default, which it must divide.
        d_head: width of a query or key, ``d_model / n_heads`` by default.
        d_value: width of a value, ``d_head`` by default.
        d_ff: inner width of the feed-forward layer.
        n_vocab: size of the vocabulary.
        n_ctx: the longest text that the model may read; None for no bound.
        attention: ``"multi_head"``, which includes grouped- and multi-query attention by ``n_kv_heads``, or
            ``"latent"`` with the options ``latent``.
        attention_scale: factor of the scores, that of the position scheme by default.
        attn_logit_softcapping, final_logit_softcapping: bounds of the scores and of the logits.
        qk_norm: normalization of queries and keys: ``"per_head"`` (each head by itself, all with the same weights),
            ``"across_heads"`` (all heads at once), ``"per_head_weights"`` (each head by itself with weights of its own,
            by a layer norm without shift) or None.
        clip_qkv: bound to which the entries of queries, keys and values are clipped; None for none.
        window: how many tokens a token attends to, itself included; None for all.
        layer_types: the type of each layer, ``"sliding_attention"`` (with the window) or ``"full_attention"``, repeated
            from the start where there are fewer types than layers. By default all layers have the window.
        position: the position scheme, with the options ``rope``, ``alibi``, ``learned``, ``clipping`` (of Shaw and
            DeBERTa) or ``buckets`` (of T5 and DeBERTa version 2).
        norm: the normalization, with the options ``layernorm``.
        norm_eps: what all norms add to the variance, or to the mean square.
        norm_placement: where the norms are, relative to sublayers and residual connections.
        embedding_norm: whether a norm follows the embeddings.
        parallel_block: whether attention and feed-forward layer read the same input, side by side.
        n_parallel_norms: 1 if they share a norm in a parallel block, 2 if each has its own.
        attention_sinks: whether each head of self-attention has a sink, a learned logit beside its scores.
        feedforward: the activation of a plain feed-forward layer, or the name of a gated one; ``"clamped_swiglu"`` with
            the options ``clamped_swiglu``.
        moe: the mixture of experts; None for none.
        attention_bias, output_bias, ff_bias, unembedding_bias: whether there are biases in the projections of queries,
            keys and values, in that of attention's output, in the feed-forward layer, and in the logits. In latent
            attention ``attention_bias`` holds for the output too.
        tie_embeddings: whether the unembedding shares the embedding's weight.
        scale_embeddings: whether embeddings are multiplied by :math:`\sqrt{d_\mathrm{model}}`.
        scale_logits: whether the stream is divided by :math:`\sqrt{d_\mathrm{model}}` before the unembedding.
        embedding_multiplier, residual_multiplier, logit_multiplier: factors of the embeddings, of the output of every
            sublayer before it is added to the residual stream, and of the logits, as muP sets them; the first and the
            last besides ``scale_embeddings`` and ``scale_logits``.
        n_segments: number of segments with an embedding of their own, 0 for none.
        token_head: whether a dense layer, the activation and a norm precede the unembedding, as in BERT.
        unembedding: whether there is one. A model without it computes hidden states and no logits, like Hugging Face's
            ``BertModel`` and ``LlamaModel``.
        latent, rope, alibi, learned, clipping, buckets, layernorm, clamped_swiglu: options of the parts above, each a
            config of its own such as ``RopeConfig``. They may be left out where all options have defaults, and must be
            left out for parts that are not used.

    Raises:
        ValueError: naming the field, its value and what is allowed.

    Source: the lectures' tables of architectures; Lin et al. (2021), section 2.2 (kinds); GT-12, GT-43, GT-44, UCL-13,
    UCL-26.

    >>> config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101, position="rope", norm="rmsnorm")
    >>> config.d_head, config.n_kv_heads
    (8, 3)
    >>> ModelConfig(d_model=24, n_layers=2, n_heads=5, d_ff=64, n_vocab=101)
    Traceback (most recent call last):
    ValueError: n_heads=5 must divide d_model=24 unless d_head is given
    >>> ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101, rope=RopeConfig(base=500.0))
    Traceback (most recent call last):
    ValueError: rope.base=500.0 must be left out with position='none'; it belongs to position='rope'
    """

    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    n_vocab: int
    kind: str = "decoder"
    n_encoder_layers: int = 0
    n_kv_heads: int = 0
    d_head: int = 0
    d_value: int = 0
    n_ctx: int | None = None
    attention: str = "multi_head"
    latent: LatentAttentionConfig | None = _option_of("attention")
    attention_scale: float | None = None
    attn_logit_softcapping: float | None = None
    qk_norm: str | None = None
    clip_qkv: float | None = None
    window: int | None = None
    layer_types: tuple[str, ...] = ()
    position: str = "none"
    rope: RopeConfig | None = _option_of("position")
    alibi: ALiBiConfig | None = _option_of("position")
    learned: LearnedPositionConfig | None = _option_of("position")
    clipping: ClippingConfig | None = _option_of("position")
    buckets: BucketConfig | None = _option_of("position")
    norm: str = "layernorm"
    norm_eps: float = 1e-5
    layernorm: LayerNormConfig | None = _option_of("norm")
    norm_placement: str = "pre"
    embedding_norm: bool = False
    parallel_block: bool = False
    n_parallel_norms: int = 1
    attention_sinks: bool = False
    feedforward: str = "gelu"
    clamped_swiglu: ClampedSwiGLUConfig | None = _option_of("feedforward")
    moe: MoEConfig | None = None
    attention_bias: bool = False
    output_bias: bool = False
    ff_bias: bool = False
    unembedding_bias: bool = False
    tie_embeddings: bool = False
    scale_embeddings: bool = False
    scale_logits: bool = False
    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0
    logit_multiplier: float = 1.0
    final_logit_softcapping: float | None = None
    n_segments: int = 0
    token_head: bool = False
    unembedding: bool = True

    def __post_init__(self):
        super().__post_init__()
        self._derive_sizes()
        self._check_combinations()

    def _derive_sizes(self) -> None:
        divides = self.d_head or self.d_model % self.n_heads == 0
        self._require(divides, "n_heads", f"divide d_model={self.d_model} unless d_head is given")
        self._set("n_kv_heads", self.n_kv_heads or self.n_heads)
        self._set("d_head", self.d_head or self.d_model // self.n_heads)
        self._set("d_value", self.d_value or self.d_head)
        if self.kind == "encoder-decoder":
            self._set("n_encoder_layers", self.n_encoder_layers or self.n_layers)
        if self.moe and not self.moe.d_expert:
            self._set("moe", dataclasses.replace(self.moe, d_expert=self.d_ff))

    def _check_combinations(self) -> None:
        require, position, kind = self._require, f"with position={self.position!r}", f"with kind={self.kind!r}"
        has_encoder, latent = self.kind == "encoder-decoder", "with attention='latent'"
        require(has_encoder or not self.n_encoder_layers, "n_encoder_layers", f"be left out {kind}")
        require(self.n_heads % self.n_kv_heads == 0, "n_kv_heads", f"divide n_heads={self.n_heads}")
        scheme = PARTS["position"][self.position]
        require(self.n_ctx or not scheme.needs_n_ctx, "n_ctx", f"be given {position}")
        require(self.window or not self.layer_types, "layer_types", "be left out without window")
        types = f"name at most n_layers={self.n_layers} types, each {SLIDING!r} or {FULL!r}"
        require({*self.layer_types} <= {SLIDING, FULL}, "layer_types", types)
        require(len(self.layer_types) <= self.n_layers, "layer_types", types)
        require(self.n_parallel_norms <= 2, "n_parallel_norms", "be 1 or 2")
        if self.parallel_block:
            require(self.norm_placement == "pre", "norm_placement", "be 'pre' with parallel_block=True")
            require(not has_encoder, "parallel_block", f"be False {kind}: it has no cross-attention")
        else:
            require(self.n_parallel_norms == 1, "n_parallel_norms", "be 1 with parallel_block=False")
        if self.latent:
            require(self.position in ("rope", "none"), "position", f"be 'rope' or 'none' {latent}")
            fits = (self.position == "rope") == (self.latent.d_rotary is not None)
            self.latent._require(fits, "d_rotary", "be given with position='rope', and only then")
            for field in ("qk_norm", "clip_qkv", "attn_logit_softcapping"):
                require(getattr(self, field) is None, field, f"be None {latent}")
            require(not self.attention_sinks, "attention_sinks", f"be False {latent}")
            require(not self.output_bias, "output_bias", f"be False {latent}: attention_bias holds for the output too")
            require(not has_encoder, "attention", f"be 'multi_head' {kind}: latent attention reads no source")
        if self.latent or scheme.needs_all_kv_heads:
            where = latent if self.latent else position
            require(self.n_kv_heads == self.n_heads, "n_kv_heads", f"be n_heads={self.n_heads} {where}")
        if self.position == "deberta_v2" and self.buckets:
            self.buckets._require(self.buckets.n_buckets % 4 == 0, "n_buckets", f"be a multiple of 4 {position}")
        if self.norm_placement != "pre" or self.parallel_block:
            unless = "unless norm_placement='pre' and parallel_block=False"
            require(self.residual_multiplier == 1, "residual_multiplier", f"be 1.0 {unless}")
        of_the_head = {*OF_THE_HEAD} & {*self.changed()}
        for field in OF_THE_HEAD:
            require(self.unembedding or field not in of_the_head, field, "be left out with unembedding=False")
        if self.moe:
            fits = self.moe.n_dense_layers <= self.n_layers
            self.moe._require(fits, "n_dense_layers", f"be at most n_layers={self.n_layers}")
            fits = all(layer < self.n_layers for layer in self.moe.dense_layers)
            self.moe._require(fits, "dense_layers", f"hold indices below n_layers={self.n_layers}")
        if self.rope:
            has_window = any(self.window_of(layer) for layer in range(self.n_layers))
            self.rope._require(has_window or not self.rope.local_base, "local_base", "be left out without window")
            fits = not self.latent or self.rope.fraction == 1
            self.rope._require(fits, "fraction", f"be 1.0 {latent}, whose d_rotary says how much of a head is rotated")
            scaling = self.rope.scaling
            if scaling and self.latent:
                is_fixed = not PARTS["rope.scaling.type"][scaling.type].by_length
                scaling._require(is_fixed, "type", f"depend on no length {latent}: {BY_LENGTH} do")
            for field in ("short_factor", "long_factor"):
                divisors, n = scaling and getattr(scaling, field), int(self.d_head * self.rope.fraction / 2)
                if scaling and divisors is not None:
                    scaling._require(len(divisors) == n, field, f"hold {n} numbers, one for each plane of RoPE")
        if self.rope and self.rope.layers:
            n = len(self.rope.layers)
            self.rope._require(n <= self.n_layers, "layers", f"hold at most n_layers={self.n_layers} values")
            self.rope._require(not self.latent, "layers", f"be left out {latent}")

    def window_of(self, layer: int) -> int | None:
        """How many tokens the tokens of a layer attend to, themselves included; None for all.

        Args:
            layer: index of the layer, from 0.
        """
        types = self.layer_types or (SLIDING,)
        return self.window if types[layer % len(types)] == SLIDING else None

    def save(self, path: str | Path) -> None:
        """Write the config as JSON.

        Args:
            path: of the file, which is replaced if there is one.
        """
        write_atomically(path, json.dumps(self.changed(), indent=2) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "ModelConfig":
        """Read what :meth:`save` has written.

        Args:
            path: of the file.

        Raises:
            ValueError: for a file that holds something else, with its name and what is wrong.
        """
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(values, dict):
                raise ValueError(f"it holds {type(values).__name__}, not fields and their values")
            return cls.of(values)
        except ValueError as error:
            raise ValueError(f"{path} holds no model config: {error}") from error


def types_of(cls: type[Config] = ModelConfig) -> dict[str, Any]:
    """The type of every field by its dotted name.

    >>> types_of()["rope.base"], types_of()["n_ctx"]
    (<class 'float'>, int | None)
    """
    types = {}
    for field in dataclasses.fields(cls):
        nested = nested_config(field.type)
        types |= types_of(nested) if nested else {cls.prefix + field.name: field.type}
    return types
