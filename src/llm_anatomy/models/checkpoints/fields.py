"""Entries of the table that converts a ``config.json`` to our config and back.

An entry has ``names``, the fields of Hugging Face's config that it reads, and converts in two directions: ``from_hf``
returns fields of our config by their dotted names, ``to_hf`` returns fields of Hugging Face's. A family may define
entries of its own where these do not suffice.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from llm_anatomy.config import Config, ModelConfig, types_of
from llm_anatomy.files import Record
from llm_anatomy.models.before_transformers import MambaConfig

TYPES = types_of(MambaConfig) | types_of()

NEEDED = object()
"""In place of a default: the field is required."""

HARMLESS = " ".join(
    (
        # what the file says of itself, and of where it came from
        "architectures model_type transformers_version torch_dtype dtype auto_map custom_pipelines name name_or_path "
        "_name_or_path _model_name_or_path _commit_hash _auto_class language language_codes license base_model "
        "tokenizer_class finetuning_task is_encoder_decoder",
        # special tokens, and the length of texts
        "bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id cls_token_id mask_token_id image_token_id "
        "decoder_start_token_id forced_bos_token_id forced_eos_token_id prefix model_max_length max_sequence_length "
        "max_seq_length max_seq_len tokenizer_model_max_length tokenizer_padding_side padding_side",
        # generation, which has a file of its own today
        "do_sample max_length min_length max_new_tokens early_stopping num_beams num_beam_groups diversity_penalty "
        "temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size "
        "encoder_no_repeat_ngram_size bad_words_ids num_return_sequences suppress_tokens begin_suppress_tokens "
        "remove_invalid_values exponential_decay_length_penalty task_specific_params cache_implementation use_cache",
        # what is returned besides, and in which form
        "output_attentions output_hidden_states output_past output_scores return_dict return_dict_in_generate "
        "output_router_logits predict_special_tokens",
        # training
        "initializer_range initializer_factor init_std attention_dropout hidden_dropout classifier_dropout dropout "
        "attention_probs_dropout_prob hidden_dropout_prob activation_dropout embd_pdrop attn_pdrop resid_pdrop "
        "summary_first_dropout pooler_dropout embedding_dropout residual_dropout layerdrop gradient_checkpointing "
        "neftune_noise_alpha router_aux_loss_coef router_jitter_noise unsloth_fixed unsloth_version tf_legacy_loss",
        # heads for other tasks
        "problem_type id2label label2id num_labels _num_labels n_special summary_type summary_use_proj "
        "summary_activation summary_proj_to_labels",
        # how the same is computed, and with which program
        "pretraining_tp chunk_size_feed_forward torchscript use_bfloat16 xla_device onnx_export kv_cache_dtype "
        "_attn_implementation _attn_implementation_autoset _attn_implementation_internal attn_implementation "
        "_experts_implementation experts_implementation _flash_attn_2_enabled use_flash_attn use_flash_attention "
        "use_flash_attention_2 transformers.js_config",
        # of windows that another field switches on
        "max_window_layers",
    )
)
"""Fields that do not affect what a model computes, in any family."""

NEUTRAL: dict[str, tuple] = {
    "add_cross_attention": (False,),
    "attention_bias": (False,),
    "is_decoder": (False,),
    "is_llama_config": (True,),
    "logit_scale": (1.0,),
    "mlp_bias": (False,),
    "pruned_heads": ({},),
    "qk_layernorm": (False,),
    "rope_interleaved": (False,),
    "rope_traditional": (False,),
    "tie_encoder_decoder": (False,),
    "use_mrope": (False,),
    "use_qk_norm": (False,),
    "use_sliding_window": (False,),
}
"""Fields that say with these values that something is left out, in families that do not know it anyway."""

COUNTS = ("n_layers", "n_encoder_layers", "n_heads", "moe.n_experts", "n_matrices")
LARGEST: dict[str, int] = dict.fromkeys(COUNTS, 10_000)
LARGEST |= dict.fromkeys(("d_model", "d_head", "latent.d_rotary"), 2**24)
"""Bounds for numbers of modules, and for widths of heads, whose rotations are computed while the model has no weights
yet: a larger number would exhaust time and memory before anything else refuses it."""


@dataclass(frozen=True)
class Field:
    """A field of Hugging Face's config that corresponds to one of ours.

    Args:
        hf: its name there, or several names: all are read, and must agree, and the first is written.
        ours: its dotted name in our config.
        values: our value for each of theirs; by default the values are the same.
        default: the value for a field that is missing or null, or a function of all of Hugging Face's fields.

    Raises:
        ValueError: from ``from_hf``, for a required field that is missing, for a value that is not in ``values``, and
            for names with different values.

    Source: the configurations of Hugging Face's models; GT-43.

    >>> Field("hidden_act", "feedforward", {"silu": "swiglu"}).from_hf(Record("config.json", {"hidden_act": "silu"}))
    {'feedforward': 'swiglu'}
    >>> Field("hidden_act", "feedforward", {"silu": "swiglu"}).from_hf(Record("config.json", {"hidden_act": "relu"}))
    Traceback (most recent call last):
    ValueError: config.json, key 'hidden_act': 'relu' is not supported; it must be 'silu'
    """

    hf: str | tuple[str, ...]
    ours: str
    values: Mapping | None = None
    default: object | Callable[[dict], object] = NEEDED

    @property
    def names(self) -> tuple[str, ...]:
        return (self.hf,) if isinstance(self.hf, str) else self.hf

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        name, value = given(record, self.names, self.default)
        for other in self.names:
            also = record.fields.get(other)
            if also is not None and (type(also), also) != (type(value), value):
                record.refuse(other, f"{also!r:.60} does not agree with {name}={value!r:.60}")
        if self.values is None:
            return {self.ours: of_right_type(record, name, self.ours, value)}
        return {self.ours: self.values[one_of(record, name, value, self.values)]}

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields. A value without a counterpart is left out, and found to be
        missing when the result is read again."""
        value = config.get(self.ours)
        if self.values is not None:
            value = next((hf for hf, ours in self.values.items() if ours == value), None)
        return {} if value is None else {self.names[0]: value}


@dataclass(frozen=True)
class OrNull(Field):
    """A field for which null has a meaning of its own, other than that of a missing field.

    Args:
        hf, ours, values, default: as in :class:`Field`.
        null: our value for null.

    Source: the configurations of Hugging Face's models; later releases of Mistral 7B, whose window is null.

    >>> window = OrNull("sliding_window", "window", default=4096)
    >>> window.from_hf(Record("config.json", {})), window.from_hf(Record("config.json", {"sliding_window": None}))
    ({'window': 4096}, {'window': None})
    """

    null: object = None

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        return {self.ours: self.null} if is_null(record, self.names[0]) else super().from_hf(record)

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields, null included."""
        return {self.names[0]: config.get(self.ours)}


SIZES = (
    Field("vocab_size", "n_vocab"),
    Field("hidden_size", "d_model"),
    Field("num_hidden_layers", "n_layers"),
    Field("num_attention_heads", "n_heads"),
    Field("intermediate_size", "d_ff"),
)
"""The sizes, by the names that most families use."""


@dataclass(frozen=True)
class Shared:
    """A field of Hugging Face's config that sets several of ours.

    Args:
        hf: its name.
        ours: their names.
        default: the value for a field that is missing or null.

    Source: the configurations of Hugging Face's models.

    >>> Shared("attention_bias", ("attention_bias", "output_bias"), default=False).from_hf(Record("config.json", {}))
    {'attention_bias': False, 'output_bias': False}
    """

    hf: str
    ours: tuple[str, ...]
    default: object = NEEDED

    @property
    def names(self) -> tuple[str, ...]:
        return (self.hf,)

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        name, value = given(record, self.names, self.default)
        return {ours: of_right_type(record, name, ours, value) for ours in self.ours}

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Convert the first of our fields; if the others differ, that is found when the result is read again."""
        return {self.hf: config.get(self.ours[0])}


@dataclass(frozen=True)
class Must:
    """A field of Hugging Face's config for which one value is supported.

    Args:
        hf: its name.
        allowed: ways to write that value, the default of the architecture first.

    Raises:
        ValueError: from ``from_hf``, for another value.

    Source: the configurations of Hugging Face's models.

    >>> Must("add_cross_attention", False).from_hf(Record("config.json", {"add_cross_attention": True}))
    Traceback (most recent call last):
    ValueError: config.json, key 'add_cross_attention': True is not supported; it must be False
    """

    hf: str
    allowed: tuple

    def __init__(self, hf: str, *allowed: object):
        object.__setattr__(self, "hf", hf)
        object.__setattr__(self, "allowed", allowed)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.hf,)

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Check the field; it sets none of ours."""
        one_of(record, *given(record, self.names, self.allowed[0]), self.allowed)
        return {}

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Write the supported value."""
        return {self.hf: self.allowed[0]}


@dataclass(frozen=True)
class NotNull:
    """An entry whose field must not be null, because null has another meaning than a missing field, and none of ours.

    Args:
        entry: of one field.

    Raises:
        ValueError: from ``from_hf``, for null, and as the entry does.

    Source: as :class:`Must`.

    >>> NotNull(Must("norm_topk_prob", True)).from_hf(Record("config.json", {"norm_topk_prob": None}))
    Traceback (most recent call last):
    ValueError: config.json, key 'norm_topk_prob': null is not supported
    """

    entry: Field | Must

    @property
    def names(self) -> tuple[str, ...]:
        return self.entry.names

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Check that the field is not null, and convert it."""
        refuse_null(record, self.names[0])
        return self.entry.from_hf(record)

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Convert our config to Hugging Face's field."""
        return self.entry.to_hf(config)


@dataclass(frozen=True)
class WidthOfEmbeddings:
    """The width of the embeddings, which must be that of the residual stream: a projection is not supported.

    Args:
        hf: its name.

    Raises:
        ValueError: from ``from_hf``, for another width, as in OPT-350M.

    Source: Zhang et al. (2022), the released models; GT-43.

    >>> fields = {"hidden_size": 1024, "word_embed_proj_dim": 512}
    >>> WidthOfEmbeddings("word_embed_proj_dim").from_hf(Record("config.json", fields))
    Traceback (most recent call last):
    ValueError: config.json, key 'word_embed_proj_dim': 512 is not supported; it must be hidden_size=1024
    """

    hf: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.hf,)

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Check the field; it sets none of ours."""
        width, d_model = record.fields.get(self.hf), record.fields.get("hidden_size")
        if width not in (None, d_model):
            record.refuse(self.hf, f"{width!r:.60} is not supported; it must be hidden_size={d_model!r}")
        return {}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Write the width of the residual stream."""
        return {self.hf: config.d_model}


@dataclass(frozen=True)
class Rope:
    """Base, fraction and scaling of RoPE, from the older fields or from ``rope_parameters``; both are written.

    Args:
        base, fraction: the defaults of the architecture.
        base_name, fraction_name: names of the older fields. A family without the latter rotates whole heads.
        n_trained: the default of ``max_position_embeddings``, where dynamic scaling begins; the model may then read
            longer texts.

    Raises:
        ValueError: from ``from_hf``, for a type of scaling that is not supported, and for unknown parameters.

    Source: Su et al. (2021), section 3.4; Chen et al. (2023), section 3.2; Peng et al. (2023), sections 3.3 and 3.4;
    code of Llama 3.1; GT-35.

    >>> old = {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    >>> Rope().from_hf(Record("config.json", old))
    {'rope.scaling.type': 'linear', 'rope.scaling.factor': 2.0, 'rope.base': 500.0, 'rope.fraction': 1.0}
    """

    base: float = 10000.0
    fraction: float = 1.0
    base_name: str = "rope_theta"
    fraction_name: str | None = None
    n_trained: int = 2048

    options = {
        "default": (),
        "linear": ("factor",),
        "dynamic": ("factor",),
        "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
        "yarn": (
            "factor",
            "original_max_position_embeddings",
            "beta_slow",
            "beta_fast",
            "attention_factor",
            "truncate",
        ),
    }
    ours = {"low_freq_factor": "beta_slow", "high_freq_factor": "beta_fast"}
    read_too: ClassVar[dict[str, tuple[str, ...]]] = {}
    """More options of some kinds, which a subclass takes from what ``from_hf`` returns."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("rope_parameters", "rope_scaling", self.base_name, self.fraction_name or "partial_rotary_factor")

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours; older and newer fields must agree."""
        name, parameters = self._parameters(record)
        base, fraction = parameters.pop("rope_theta"), parameters.pop("partial_rotary_factor")
        if not self.fraction_name and fraction != 1:
            record.refuse(name, f"partial_rotary_factor={fraction!r} is not supported; it must be 1")
        kind = one_of(record, name, parameters.pop("rope_type"), self.options)
        unknown = set(parameters) - set(self.options[kind]) - set(self.read_too.get(kind, ()))
        if unknown:
            key = min(unknown)
            record.refuse(name, f"{key}={parameters[key]!r} is not supported with {kind!r}")
        lost = [key for key in self.options[kind] if key not in parameters and kind == "llama3"]
        if lost:  # their class has no defaults for these
            record.refuse(name, f"{lost[0]} is missing, which {kind!r} needs")
        hf = {self._ours(key): (key, value) for key, value in parameters.items()}
        hf |= {"rope.base": ("rope_theta", base), "rope.fraction": ("partial_rotary_factor", fraction)}
        values = {ours: of_right_type(record, name, ours, value, f"{key}=") for ours, (key, value) in hf.items()}
        if kind == "dynamic":  # the longest text in training is no bound then
            refuse_null(record, "max_position_embeddings", " with 'dynamic'")  # theirs cannot compute with it
            n_trained = at_least_one(record, "max_position_embeddings", self.n_trained)
            values |= {"rope.scaling.original_max_position_embeddings": n_trained, "n_ctx": None}
        return values if kind == "default" else {"rope.scaling.type": kind, **values}

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        kind, base, fraction = config.get("rope.scaling.type") or "default", config.get("rope.base"), {}
        values = {key: config.get(self._ours(key)) for key in self.options.get(kind, ())}
        scaling = {key: value for key, value in values.items() if value is not None}
        old = {self.base_name: base}
        if kind != "default":
            old["rope_scaling"] = {"rope_type": kind, "type": kind, **scaling}
        if kind == "dynamic":
            old["max_position_embeddings"] = config.get("rope.scaling.original_max_position_embeddings")
        if self.fraction_name:
            old[self.fraction_name] = config.get("rope.fraction")
            fraction = {"partial_rotary_factor": config.get("rope.fraction")}
        return {"rope_parameters": {"rope_type": kind, "rope_theta": base, **scaling, **fraction}, **old}

    def _parameters(self, record: Record) -> tuple[str, dict[str, Any]]:
        """The field that holds the parameters, and all of them by their newer names, without null."""
        usual = {"rope_type": "default", "rope_theta": given(record, (self.base_name,), self.base)[1]}
        usual["partial_rotary_factor"] = given(record, self.names[3:4], self.fraction)[1]
        found = {}
        for name in ("rope_scaling", "rope_parameters"):
            parameters = record.fields.get(name)
            if not isinstance(parameters, dict | None):
                record.refuse(name, f"{parameters!r:.60} must be an object")
            if parameters:
                parameters = {key: value for key, value in parameters.items() if value is not None}
                old_kind = parameters.pop("type", "default")
                found[name] = usual | {"rope_type": old_kind} | parameters
        if len(found) == 2 and found["rope_scaling"] != found["rope_parameters"]:
            record.refuse("rope_scaling", f"{record.fields['rope_scaling']!r:.60} does not agree with rope_parameters")
        return found.popitem() if found else ("rope_parameters", usual)

    def _ours(self, key: str) -> str:
        return f"rope.scaling.{self.ours.get(key, key)}"


def is_null(record: Record, name: str) -> bool:
    """Whether a field is present and null.

    Args:
        record: of ``config.json``.
        name: of the field.

    Source: RFC 8259, section 3.

    >>> is_null(Record("config.json", {"sliding_window": None}), "sliding_window")
    True
    """
    return name in record.fields and record.fields[name] is None


def refuse_null(record: Record, name: str, where: str = "") -> None:
    """Refuse a field that is present and null, where Hugging Face's class would not take it for a missing one.

    Args:
        record: of ``config.json``.
        name: of the field.
        where: what follows in the sentence, for a field that may be null elsewhere.

    Raises:
        ValueError: if the field is null.

    Source: RFC 8259, section 3.

    >>> refuse_null(Record("config.json", {"multi_query": None}), "multi_query")
    Traceback (most recent call last):
    ValueError: config.json, key 'multi_query': null is not supported
    """
    if is_null(record, name):
        record.refuse(name, f"null is not supported{where}")


def given(record: Record, names: tuple[str, ...], default: object) -> tuple[str, Any]:
    """Find the first of these fields that is present and not null; return its name and value, or the default.

    Args:
        record: of ``config.json``.
        names: of the field, the newest first.
        default: a value, a function of all fields, or ``NEEDED``.

    Raises:
        ValueError: for a required field that is missing.

    Source: as :class:`Field`.

    >>> given(Record("config.json", {"n_embed": 8}), ("hidden_size", "n_embed"), NEEDED)
    ('n_embed', 8)
    """
    for name in names:
        if record.fields.get(name) is not None:
            return name, record.fields[name]
    if default is NEEDED:
        record.refuse(names[0], "it is missing")
    return names[0], default(record.fields) if callable(default) else default


def of_right_type(record: Record, name: str, ours: str, value: Any, before: str = "") -> Any:
    """Check that the type of a value is that of a field of ours, and convert an integer where that is a float.

    Args:
        record: of ``config.json``.
        name: of the field there.
        ours: dotted name of our field; a field that our configs do not have may have any type.
        value: of the field.
        before: text that precedes the value in the message.

    Raises:
        ValueError: for another type.

    Source: RFC 8259, section 3, whose values have types of their own.

    >>> of_right_type(Record("config.json", {}), "hidden_size", "d_model", 2.5)
    Traceback (most recent call last):
    ValueError: config.json, key 'hidden_size': 2.5 must be a number without fraction
    """
    kind, largest = TYPES.get(ours, object), LARGEST.get(ours, 2**31 - 1)
    names = {int: "a number without fraction", float: "a number", str: "a text", bool: "true or false"}
    for base, what in names.items():
        if kind in (base, base | None):
            fits = isinstance(value, (int, float) if base is float else base)
            if not (fits and (base is bool or not isinstance(value, bool)) or value is None and kind != base):
                record.refuse(name, f"{before}{value!r:.60} must be {what}")
            if isinstance(value, int | float) and not abs(value) <= largest:
                record.refuse(name, f"{before}{value!r:.60} must be at most {largest}")
            return float(value) if base is float and value is not None else value
    return value


def at_least_one(record: Record, name: str, default: object) -> int:
    """Read a number without fraction that is at least 1.

    Args:
        record: of ``config.json``.
        name: of the field there.
        default: for a field that is missing or null, or ``NEEDED``.

    Raises:
        ValueError: for anything else.

    Source: as :class:`Field`.

    >>> at_least_one(Record("config.json", {"decoder_sparse_step": 0}), "decoder_sparse_step", 1)
    Traceback (most recent call last):
    ValueError: config.json, key 'decoder_sparse_step': 0 must be a number without fraction, from 1
    """
    _, value = given(record, (name,), default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        record.refuse(name, f"{value!r:.60} must be a number without fraction, from 1")
    return value


def one_of(record: Record, name: str, value: Any, allowed: Collection) -> Any:
    """Check that a value is one of those that are allowed.

    Args:
        record: of ``config.json``.
        name: of the field there.
        value: of the field.
        allowed: the values.

    Raises:
        ValueError: for another value.

    Source: as :class:`Must`.

    >>> one_of(Record("config.json", {}), "mlp_bias", False, (False,))
    False
    """
    # 1 is no True here: JSON tells them apart
    if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed):
        record.refuse(name, f"{value!r:.60} is not supported; it must be {' or '.join(map(repr, allowed))}")
    return value
