"""Entries of the table that converts a ``config.json`` to our config and back.

An entry has ``names``, the fields of Hugging Face's config that it reads, and converts in two directions: ``from_hf``
returns fields of our config by their dotted names, ``to_hf`` returns fields of Hugging Face's. A family may define
entries of its own where these do not suffice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llm_anatomy.config import Config, ModelConfig, types_of
from llm_anatomy.files import Record

TYPES = types_of()

NEEDED = object()
"""In place of a default: the field is required."""

HARMLESS = """
architectures model_type transformers_version torch_dtype dtype _name_or_path use_cache initializer_range
initializer_factor bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id cls_token_id mask_token_id
decoder_start_token_id is_encoder_decoder task_specific_params pretraining_tp attention_dropout hidden_dropout
classifier_dropout gradient_checkpointing output_attentions output_hidden_states output_past return_dict
problem_type id2label label2id num_labels _num_labels finetuning_task auto_map max_length language language_codes
_attn_implementation attn_implementation attention_probs_dropout_prob hidden_dropout_prob tokenizer_class torchscript
chunk_size_feed_forward
"""
"""Fields that do not affect what a model computes, in any family."""

LARGEST: dict[str, int] = dict.fromkeys(("n_layers", "n_encoder_layers", "n_heads", "moe.n_experts"), 10_000)
LARGEST |= dict.fromkeys(("d_model", "d_head", "latent.d_rotary"), 2**24)
"""Bounds for numbers of modules, and for widths of heads, whose rotations are computed while the model has no weights
yet: a larger number would exhaust time and memory before anything else refuses it."""


@dataclass(frozen=True)
class Field:
    """A field of Hugging Face's config that corresponds to one of ours.

    Args:
        hf: its name there, or several names: all are read, and the first is written.
        ours: its dotted name in our config.
        values: our value for each of theirs; by default the values are the same.
        default: the value for a field that is missing or null, or a function of all of Hugging Face's fields.

    Raises:
        ValueError: from ``from_hf``, for a required field that is missing, and for a value that is not in ``values``.

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
        if self.values is None:
            return {self.ours: of_right_type(record, name, self.ours, value)}
        return {self.ours: self.values[_one_of(record, name, value, self.values)]}

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
        _one_of(record, *given(record, self.names, self.allowed[0]), self.allowed)
        return {}

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Write the supported value."""
        return {self.hf: self.allowed[0]}


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

    Raises:
        ValueError: from ``from_hf``, for a type of scaling that is not supported, and for unknown parameters.

    Source: Su et al. (2021), section 3.4; Chen et al. (2023), section 3.2; Peng et al. (2023), section 3.4; code of
    Llama 3.1; GT-35.

    >>> old = {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    >>> Rope().from_hf(Record("config.json", old))
    {'rope.scaling.type': 'linear', 'rope.scaling.factor': 2.0, 'rope.base': 500.0, 'rope.fraction': 1.0}
    """

    base: float = 10000.0
    fraction: float = 1.0
    base_name: str = "rope_theta"
    fraction_name: str | None = None

    options = {
        "default": (),
        "linear": ("factor",),
        "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
        "yarn": ("factor", "original_max_position_embeddings", "beta_slow", "beta_fast", "attention_factor"),
    }
    ours = {"low_freq_factor": "beta_slow", "high_freq_factor": "beta_fast"}

    @property
    def names(self) -> tuple[str, ...]:
        more = (self.fraction_name,) if self.fraction_name else ()
        return ("rope_parameters", "rope_scaling", self.base_name, *more)

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours; older and newer fields must agree."""
        new, old = (record.fields.get(name) for name in ("rope_parameters", "rope_scaling"))
        if isinstance(new, dict) and isinstance(old, dict):
            kinds = [said.get("rope_type", said.get("type", "default")) for said in (new, old)]
            differ = [key for key in new.keys() & old.keys() - {"type"} if new[key] != old[key]]
            if kinds[0] != kinds[1] or differ:
                record.refuse("rope_scaling", f"{old!r:.60} does not agree with rope_parameters")
        name, said = given(record, ("rope_parameters", "rope_scaling"), {})
        if not isinstance(said, dict):
            record.refuse(name, f"{said!r:.60} must be an object")
        said = {key: value for key, value in said.items() if value is not None}
        base = said.pop("rope_theta", given(record, (self.base_name,), self.base)[1])
        fraction = given(record, (self.fraction_name,), self.fraction)[1] if self.fraction_name else self.fraction
        fraction = said.pop("partial_rotary_factor", fraction)
        if not self.fraction_name and fraction != 1:
            record.refuse(name, f"partial_rotary_factor={fraction!r} is not supported; it must be 1")
        kind = _one_of(record, name, said.pop("rope_type", said.pop("type", "default")), self.options)
        said.pop("type", None)
        unknown = set(said) - set(self.options[kind])
        if unknown:
            key = min(unknown)
            record.refuse(name, f"{key}={said[key]!r} is not supported with {kind!r}")
        hf = {self._ours(key): (key, value) for key, value in said.items()}
        hf |= {"rope.base": ("rope_theta", base), "rope.fraction": ("partial_rotary_factor", fraction)}
        values = {ours: of_right_type(record, name, ours, value, f"{key}=") for ours, (key, value) in hf.items()}
        return values if kind == "default" else {"rope.scaling.type": kind, **values}

    def to_hf(self, config: Config) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        kind, base, fraction = config.get("rope.scaling.type") or "default", config.get("rope.base"), {}
        values = {key: config.get(self._ours(key)) for key in self.options.get(kind, ())}
        scaling = {key: value for key, value in values.items() if value is not None}
        old = {self.base_name: base}
        if kind != "default":
            old["rope_scaling"] = {"rope_type": kind, "type": kind, **scaling}
        if self.fraction_name:
            old[self.fraction_name] = config.get("rope.fraction")
            fraction = {"partial_rotary_factor": config.get("rope.fraction")}
        return {"rope_parameters": {"rope_type": kind, "rope_theta": base, **scaling, **fraction}, **old}

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
        ours: dotted name of our field; a field that ``ModelConfig`` does not have may have any type.
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
    for base, said in names.items():
        if kind in (base, base | None):
            fits = isinstance(value, (int, float) if base is float else base)
            if not (fits and (base is bool or not isinstance(value, bool)) or value is None and kind != base):
                record.refuse(name, f"{before}{value!r:.60} must be {said}")
            if isinstance(value, int | float) and not abs(value) <= largest:
                record.refuse(name, f"{before}{value!r:.60} must be at most {largest}")
            return float(value) if base is float and value is not None else value
    return value


def _one_of(record: Record, name: str, value: Any, allowed) -> Any:
    # 1 is no True here: JSON tells them apart
    if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed):
        record.refuse(name, f"{value!r:.60} is not supported; it must be {' or '.join(map(repr, allowed))}")
    return value
