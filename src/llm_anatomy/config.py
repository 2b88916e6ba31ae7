"""One description for every architecture of the lectures: sizes as numbers, parts by name."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

ALLOWED = {
    "kind": ("decoder", "encoder", "encoder-decoder"),
    "attention": ("multi_head", "latent"),
    "position": (
        "none",
        "sinusoidal",
        "learned",
        "rope",
        "alibi",
        "t5",
        "shaw",
        "transformer_xl",
        "deberta",
        "deberta_v2",
        "tupe",
    ),
    "rope_pairing": ("half_split", "interleaved"),
    "rope_scaling": (None, "linear", "ntk", "yarn", "llama3"),
    "norm": ("layernorm", "rmsnorm", "unit_offset_rmsnorm"),
    "norm_placement": ("pre", "post", "sandwich", "post_sublayer", "rezero"),
    "qk_norm": (None, "per_head", "across_heads"),
    "feedforward": (
        "relu",
        "squared_relu",
        "gelu",
        "gelu_tanh",
        "swish",
        "elu",
        "selu",
        "tanh",
        "glu",
        "bilinear",
        "reglu",
        "geglu",
        "geglu_tanh",
        "swiglu",
    ),
    "router": (
        "softmax_of_top_k",
        "top_k_of_softmax",
        "top_k_of_softmax_in_groups",
        "top_k_of_sigmoid",
        "top_k_of_sigmoid_in_groups",
    ),
}
"""What a field that names a part may hold."""

_IN_GROUPS = ("top_k_of_softmax_in_groups", "top_k_of_sigmoid_in_groups")

# Fields that mean something only where another field has one of these values; elsewhere they keep their default.
_BELONGS_TO = {
    "n_encoder_layers": ("kind", ("encoder-decoder",)),
    "n_kv_heads": ("attention", ("multi_head",)),
    "output_bias": ("attention", ("multi_head",)),
    "d_latent": ("attention", ("latent",)),
    "d_rotary": ("attention", ("latent",)),
    "d_query_latent": ("attention", ("latent",)),
    "rope_base": ("position", ("rope",)),
    "rope_fraction": ("position", ("rope",)),
    "rope_pairing": ("position", ("rope",)),
    "rope_scaling": ("position", ("rope",)),
    "position_offset": ("position", ("learned",)),
    "n_buckets": ("position", ("t5", "deberta_v2")),
    "max_distance": ("position", ("t5", "shaw", "deberta", "deberta_v2")),
    "norm_bias": ("norm", ("layernorm",)),
    "norm_weight": ("norm", ("layernorm",)),
    "n_parallel_norms": ("parallel_block", (True,)),
    "n_expert_groups": ("router", _IN_GROUPS),
    "n_open_groups": ("router", _IN_GROUPS),
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    r"""What a model is made of. Names are those of the lectures; every value is checked when it is made.

    Args:
        kind: ``"decoder"`` (causal), ``"encoder"``, or ``"encoder-decoder"``.
        d_model: width of the stream.
        n_layers: blocks; of the decoder where there are two stacks.
        n_encoder_layers: blocks of the encoder where there are two stacks, ``n_layers`` by default.
        n_heads: query heads.
        n_kv_heads: key-value heads, ``n_heads`` by default; must divide it.
        d_head: width of a query or key, ``d_model / n_heads`` by default.
        d_value: width of a value, ``d_head`` by default.
        d_ff: width between the projections of the feed-forward layer; of each of the two where it is gated.
        n_vocab: tokens of the vocabulary.
        n_ctx: the longest text that it may read; None for no bound.
        attention: ``"multi_head"``, which ``n_kv_heads`` makes grouped- or multi-query, or ``"latent"``.
        d_latent, d_rotary, d_query_latent: widths of latent attention; queries have a latent only if it is given.
        attention_scale: factor of the scores in place of the position scheme's.
        attn_logit_softcapping, final_logit_softcapping: bounds of scores and logits.
        qk_norm: of queries and keys: ``"per_head"``, ``"across_heads"`` or None.
        window: how many tokens back a token sees, itself included; None for all.
        global_every: each so many-th layer sees all in spite of the window.
        position: the scheme; with ``rope_base``, ``rope_fraction`` (of the head that is turned), ``rope_pairing``,
            ``rope_scaling`` with ``rope_factor``, ``rope_original_max_position_embeddings``, ``rope_beta_fast``,
            ``rope_beta_slow`` and ``rope_attention_factor`` (YaRN's factor of turned queries and keys), ``n_buckets``
            and ``max_distance`` of relative schemes (``"deberta_v2"`` has buckets, and positions pass attention's own
            matrices), and ``position_offset``, rows of a learned table that are skipped.
        norm: with ``norm_eps``, and ``norm_weight`` and ``norm_bias`` of layer norm.
        norm_placement: where norms stand around attention and feed-forward.
        embedding_norm: a norm right after the embeddings.
        parallel_block: attention and feed-forward read the same stream, side by side, with ``n_parallel_norms`` norms.
        feedforward: its activation, or the name of a gated layer.
        n_experts: 0 for a plain feed-forward layer; with ``n_experts_per_token``, ``d_expert``, ``n_shared_experts``,
            ``n_dense_layers`` (how many first layers have none), ``router``, ``expert_scale``, and ``n_expert_groups``
            of which a token reaches ``n_open_groups``.
        attention_bias, output_bias, ff_bias, unembedding_bias: whether queries, keys and values, attention's output (in
            latent attention it goes with them), the feed-forward layer and the logits have biases.
        tie_embeddings: whether logits read the table of the embeddings.
        scale_embeddings: multiply embeddings by :math:`\sqrt{d_\mathrm{model}}`.
        scale_logits: divide the stream by :math:`\sqrt{d_\mathrm{model}}` before the logits.
        n_segments: kinds of segments with an embedding of their own, 0 for none.
        token_head: before the logits a dense layer, the activation and a norm, as BERT predicts masked tokens.

    Raises:
        ValueError: naming the field, its value and what is allowed.

    Source: the lectures' tables of architectures; GT-43, GT-44, UCL-13, UCL-26.

    >>> config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101, position="rope", norm="rmsnorm")
    >>> config.d_head, config.n_kv_heads
    (8, 3)
    >>> ModelConfig(d_model=24, n_layers=2, n_heads=5, d_ff=64, n_vocab=101)
    Traceback (most recent call last):
    ValueError: n_heads=5 must divide d_model=24 unless d_head is given
    """

    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    n_vocab: int
    kind: str = "decoder"
    n_encoder_layers: int | None = None
    n_kv_heads: int | None = None
    d_head: int | None = None
    d_value: int | None = None
    n_ctx: int | None = None
    attention: str = "multi_head"
    d_latent: int | None = None
    d_rotary: int | None = None
    d_query_latent: int | None = None
    attention_scale: float | None = None
    attn_logit_softcapping: float | None = None
    qk_norm: str | None = None
    window: int | None = None
    global_every: int | None = None
    position: str = "none"
    rope_base: float = 10000.0
    rope_fraction: float = 1.0
    rope_pairing: str = "half_split"
    rope_scaling: str | None = None
    rope_factor: float | None = None
    rope_original_max_position_embeddings: int | None = None
    rope_beta_fast: float | None = None
    rope_beta_slow: float | None = None
    rope_attention_factor: float | None = None
    n_buckets: int = 32
    max_distance: int = 128
    position_offset: int = 0
    norm: str = "layernorm"
    norm_eps: float = 1e-5
    norm_weight: bool = True
    norm_bias: bool = True
    norm_placement: str = "pre"
    embedding_norm: bool = False
    parallel_block: bool = False
    n_parallel_norms: int = 1
    feedforward: str = "gelu"
    n_experts: int = 0
    n_experts_per_token: int | None = None
    d_expert: int | None = None
    n_shared_experts: int = 0
    n_dense_layers: int = 0
    router: str = "softmax_of_top_k"
    n_expert_groups: int | None = None
    n_open_groups: int | None = None
    expert_scale: float = 1.0
    attention_bias: bool = False
    output_bias: bool = False
    ff_bias: bool = False
    unembedding_bias: bool = False
    tie_embeddings: bool = False
    scale_embeddings: bool = False
    scale_logits: bool = False
    final_logit_softcapping: float | None = None
    n_segments: int = 0
    token_head: bool = False

    def __post_init__(self):
        self._check_types()
        for field, allowed in ALLOWED.items():
            if getattr(self, field) not in allowed:
                raise ValueError(f"{field}={getattr(self, field)!r} must be one of {', '.join(map(repr, allowed))}")
        self._check_sizes()
        self._check_dependent_fields()
        self._check_combinations()
        if self.attention == "multi_head":
            self._fill_in("n_kv_heads", self.n_heads)
        self._fill_in("d_head", self.d_model // self.n_heads)
        self._fill_in("d_value", self.d_head)
        if self.kind == "encoder-decoder":
            self._fill_in("n_encoder_layers", self.n_layers)
        if self.n_experts:
            self._fill_in("d_expert", self.d_ff)

    def _fill_in(self, field: str, value: int) -> None:
        if getattr(self, field) is None:
            object.__setattr__(self, field, value)  # the only time: a frozen dataclass is being made

    def _check_types(self) -> None:
        for field in dataclasses.fields(self):
            value, allowed = getattr(self, field.name), _TYPES[field.type]
            if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
                kind = field.type.__name__ if isinstance(field.type, type) else field.type
                raise ValueError(f"{field.name}={value!r} must be {kind}")

    def _check_sizes(self) -> None:
        at_least_zero = ("n_experts", "n_shared_experts", "n_dense_layers", "position_offset", "n_segments")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if field.name in at_least_zero and value < 0:
                raise ValueError(f"{field.name}={value} must be at least 0")
            if field.name not in at_least_zero and isinstance(value, int) and value < 1:
                raise ValueError(f"{field.name}={value} must be at least 1")
            if isinstance(value, float) and not value > 0:
                raise ValueError(f"{field.name}={value} must be above 0")
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(f"n_heads={self.n_heads} must divide d_model={self.d_model} unless d_head is given")
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads={self.n_kv_heads} must divide n_heads={self.n_heads}")
        if self.rope_fraction > 1:
            raise ValueError(f"rope_fraction={self.rope_fraction} must be above 0 and at most 1")
        if self.n_parallel_norms > 2:
            raise ValueError(f"n_parallel_norms={self.n_parallel_norms} must be 1 or 2")

    def _check_dependent_fields(self) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for field, (owner, values) in _BELONGS_TO.items():
            if getattr(self, field) != defaults[field] and getattr(self, owner) not in values:
                raise ValueError(
                    f"{field}={getattr(self, field)!r} means nothing with {owner}={getattr(self, owner)!r}; "
                    f"it belongs to {' or '.join(map(repr, values))}"
                )
        dependants = {
            "rope_scaling": (
                "rope_factor",
                "rope_original_max_position_embeddings",
                "rope_beta_fast",
                "rope_beta_slow",
                "rope_attention_factor",
            ),
            "window": ("global_every",),
            "n_experts": ("n_experts_per_token", "d_expert", "n_shared_experts", "n_dense_layers", "expert_scale"),
        }
        for owner, fields in dependants.items():
            for field in fields:
                if not getattr(self, owner) and getattr(self, field) != defaults[field]:
                    raise ValueError(f"{field}={getattr(self, field)!r} means nothing without {owner}")

    def _check_combinations(self) -> None:
        needed = {
            "n_ctx": self.position in ("learned", "tupe"),
            "d_latent": self.attention == "latent",
            "rope_factor": self.rope_scaling is not None,
            "rope_original_max_position_embeddings": self.rope_scaling in ("yarn", "llama3"),
            "n_experts_per_token": self.n_experts > 0,
            "n_expert_groups": self.router in _IN_GROUPS,
            "n_open_groups": self.router in _IN_GROUPS,
        }
        for field, is_needed in needed.items():
            if is_needed and getattr(self, field) is None:
                raise ValueError(f"{field}=None must be given for the parts that this config names")
        if self.attention == "latent" and self.position not in ("rope", "none"):
            raise ValueError(f"position={self.position!r} must be 'rope' or 'none' with attention='latent'")
        if self.attention == "latent" and (self.position == "rope") != (self.d_rotary is not None):
            raise ValueError(f"d_rotary={self.d_rotary} must be given for position='rope', and only then")
        if self.attention == "latent" and (self.qk_norm or self.attn_logit_softcapping):
            raise ValueError("qk_norm and attn_logit_softcapping must be None with attention='latent'")
        if self.attention == "latent" and self.kind == "encoder-decoder":
            raise ValueError("attention='latent' must not be with kind='encoder-decoder': it reads no source")
        if self.parallel_block and self.norm_placement != "pre":
            raise ValueError(f"norm_placement={self.norm_placement!r} must be 'pre' with parallel_block=True")
        if self.parallel_block and self.kind == "encoder-decoder":
            raise ValueError("parallel_block=True must not be with kind='encoder-decoder': it has no cross-attention")
        if self.position in ("deberta", "deberta_v2") and self.n_kv_heads not in (None, self.n_heads):
            raise ValueError(
                f"n_kv_heads={self.n_kv_heads} must be n_heads={self.n_heads} with position={self.position!r}"
            )
        if self.position == "deberta_v2" and self.n_buckets % 4:
            raise ValueError(f"n_buckets={self.n_buckets} must be a multiple of 4 with position='deberta_v2'")
        if self.n_experts and not 1 <= self.n_experts_per_token <= self.n_experts:
            raise ValueError(f"n_experts_per_token={self.n_experts_per_token} must be 1 to n_experts={self.n_experts}")
        if self.n_expert_groups is not None:
            if self.n_experts % self.n_expert_groups:
                raise ValueError(f"n_expert_groups={self.n_expert_groups} must divide n_experts={self.n_experts}")
            reached = self.n_open_groups * self.n_experts // self.n_expert_groups
            if not self.n_experts_per_token <= reached <= self.n_experts:
                raise ValueError(
                    f"n_open_groups={self.n_open_groups} must be at most n_expert_groups={self.n_expert_groups}, "
                    f"and hold n_experts_per_token={self.n_experts_per_token} experts"
                )
        if self.n_dense_layers > self.n_layers:
            raise ValueError(f"n_dense_layers={self.n_dense_layers} must be at most n_layers={self.n_layers}")

    # --- To and from JSON, and beside each other ---

    def changed(self) -> dict[str, object]:
        """The fields that differ from their defaults, in order: what there is to say about this model."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.default is dataclasses.MISSING or getattr(self, field.name) != field.default
        }

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        Path(path).write_text(json.dumps(self.changed(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "ModelConfig":
        """Read what ``save`` has written; a file that is no such thing is refused with its name and what is wrong."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(values, dict):
                raise ValueError(f"it holds {type(values).__name__}, not fields and their values")
            return cls.of(values)
        except ValueError as error:
            raise ValueError(f"{path} holds no model config: {error}") from error

    @classmethod
    def of(cls, values: dict) -> "ModelConfig":
        """From a dict; unknown and missing fields are named."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        unknown = [name for name in values if name not in fields]
        if unknown:
            raise ValueError(f"unknown fields {', '.join(unknown)}; allowed are {', '.join(fields)}")
        missing = [n for n, field in fields.items() if field.default is dataclasses.MISSING and n not in values]
        if missing:
            raise ValueError(f"missing fields {', '.join(missing)}")
        return cls(**values)

    def difference(self, other: "ModelConfig") -> dict[str, tuple[object, object]]:
        """What changes from this to the other: each field that differs, with both values."""
        return {
            field.name: (getattr(self, field.name), getattr(other, field.name))
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(other, field.name)
        }


_TYPES = {
    int: (int,),
    float: (float, int),
    str: (str,),
    bool: (bool,),
    int | None: (int, type(None)),
    float | None: (float, int, type(None)),
    str | None: (str, type(None)),
}
