"""T5 and T5 1.1: an encoder-decoder with a relative position bias that the layers of a stack share."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, given, of_right_type, refuse_null
from llm_anatomy.models.checkpoints.rules import Reversed, Rule, Split


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Raffel et al. (2020), section 2.1, in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('shared.weight',)
    """
    return [
        Rule("shared.weight", "embedding.weight"),
        *_stack(config, "encoder", "encoder", ["SelfAttention"]),
        *_stack(config, "decoder", "stack", ["SelfAttention", "EncDecAttention"]),
        Rule("lm_head.weight", "unembedding.embedding.weight"),
    ]


def _stack(config: ModelConfig, hf: str, ours: str, sublayers: list[str]) -> list[Rule]:
    at = {name: f"{hf}.block.{{layer}}.layer.{i}." for i, name in enumerate([*sublayers, "DenseReluDense"])}
    here = f"{ours}.blocks.{{layer}}."
    names = {"SelfAttention": "attention", "EncDecAttention": "cross_attention", "DenseReluDense": "feedforward"}
    feedforward = at["DenseReluDense"] + "DenseReluDense."
    return [
        *(
            Rule(f"{at[sublayer]}{sublayer}.{letter}.weight", f"{here}{names[sublayer]}.w_{name}.weight")
            for sublayer in sublayers
            for letter, name in {"q": "query", "k": "key", "v": "value", "o": "output"}.items()
        ),
        *(Rule(f"{at[name]}layer_norm.weight", f"{here}{names[name]}_residual.norm.weight") for name in at),
        Rule(at["SelfAttention"] + "SelfAttention.relative_attention_bias.weight", here + "attention.position.table"),
        Rule(feedforward + "wi.weight", here + "feedforward.w_up.weight"),
        Rule(
            (feedforward + "wi_0.weight", feedforward + "wi_1.weight"),
            here + "feedforward.w_gate_up.weight",
            Reversed(Split((config.d_ff, config.d_ff))),
        ),
        Rule(feedforward + "wo.weight", here + "feedforward.w_down.weight"),
        Rule(f"{hf}.final_layer_norm.weight", f"{ours}.norm.weight"),
    ]


class ScaledLogits:
    """Whether logits are scaled, as in T5 but not in its successors.

    Older files write it as ``tie_word_embeddings``, newer ones as ``scale_decoder_outputs``. Whether embeddings are
    tied is another question, which the weights answer: they either contain a head or not.

    Source: Raffel et al. (2020), in the layout of Hugging Face.

    >>> from llm_anatomy.files import Record
    >>> ScaledLogits().from_hf(Record("config.json", {"tie_word_embeddings": False}))
    {'scale_logits': False}
    """

    names = ("tie_word_embeddings", "scale_decoder_outputs")

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        refuse_null(record, "scale_decoder_outputs")  # which is false to their class, where it is not missing
        name, tied = given(record, ("tie_word_embeddings",), True)
        name, scaled = given(record, ("scale_decoder_outputs",), of_right_type(record, name, "tie_embeddings", tied))
        return {"scale_logits": of_right_type(record, name, "scale_logits", scaled)}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"tie_word_embeddings": config.scale_logits, "scale_decoder_outputs": config.scale_logits}


@dataclass(frozen=True)
class FeedForward:
    """The feed-forward layer: ``feed_forward_proj`` names it, and ``dense_act_fn`` and ``is_gated_act``, which files of
    some versions hold too, have the last word on its activation and on its gate.

    Args:
        default: the value for a ``feed_forward_proj`` that is missing.

    Raises:
        ValueError: from ``from_hf``, for an activation that is not supported.

    Source: Raffel et al. (2020) and Shazeer (2020), in the layout of Hugging Face, whose configuration sets the two
    fields after it has derived them.

    >>> read = FeedForward("relu").from_hf
    >>> read(Record("config.json", {"feed_forward_proj": "gated-gelu"}))
    {'feedforward': 'geglu_tanh'}
    >>> read(Record("config.json", {"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu", "is_gated_act": False}))
    {'feedforward': 'gelu'}
    """

    default: str

    names: ClassVar = ("feed_forward_proj", "dense_act_fn", "is_gated_act")
    plain: ClassVar = {"relu": "relu", "gelu_new": "gelu_tanh", "gelu": "gelu", "silu": "swish"}
    gated: ClassVar = {"relu": "reglu", "gelu_new": "geglu_tanh", "gelu": "geglu", "silu": "swiglu"}

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        projections = [*self.plain, *(f"gated-{activation}" for activation in self.gated)]
        Field("feed_forward_proj", "", dict.fromkeys(projections), self.default).from_hf(record)
        projection = given(record, ("feed_forward_proj",), self.default)[1]
        activation = "gelu_new" if projection == "gated-gelu" else projection.removeprefix("gated-")
        refuse_null(record, "is_gated_act")
        name, is_gated = given(record, ("is_gated_act",), projection.startswith("gated-"))
        values = self.gated if of_right_type(record, name, "tie_embeddings", is_gated) else self.plain
        return Field("dense_act_fn", "feedforward", values, activation).from_hf(record)

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        for before, values in (("", self.plain), ("gated-", self.gated)):
            for activation, ours in values.items():
                if ours == config.feedforward:
                    more = {"dense_act_fn": activation, "is_gated_act": bool(before)}
                    return {"feed_forward_proj": before + activation.removesuffix("_new")} | more
        return {}


class Buckets(Field):
    """The number of buckets, half of which are for each direction where both are read.

    Raises:
        ValueError: from ``from_hf``, for a number that is odd or below 4.

    Source: Raffel et al. (2020), section 2.1.

    >>> buckets = Buckets("relative_attention_num_buckets", "buckets.n_buckets", default=32)
    >>> buckets.from_hf(Record("config.json", {"relative_attention_num_buckets": 7}))
    Traceback (most recent call last):
    ValueError: config.json, key 'relative_attention_num_buckets': 7 is not supported; it must be even, from 4
    """

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's field to ours."""
        ours = super().from_hf(record)
        n_buckets = ours[self.ours]
        if n_buckets < 4 or n_buckets % 2:
            record.refuse(self.names[0], f"{n_buckets} is not supported; it must be even, from 4")
        return ours


FAMILY = Family(
    name="t5",
    architectures=("T5ForConditionalGeneration", "T5WithLMHeadModel"),
    model_type="t5",
    fields=(
        Field("vocab_size", "n_vocab"),
        Field(("d_model", "hidden_size"), "d_model"),
        Field("num_decoder_layers", "n_layers", default=lambda hf: hf.get("num_layers", hf.get("num_hidden_layers"))),
        Field(("num_layers", "num_hidden_layers"), "n_encoder_layers"),
        Field(("num_heads", "num_attention_heads"), "n_heads"),
        Field(("d_kv", "head_dim"), "d_head", default=64),
        Field("d_ff", "d_ff"),
        Buckets("relative_attention_num_buckets", "buckets.n_buckets", default=32),
        Field("relative_attention_max_distance", "buckets.max_distance", default=128),
        Field("layer_norm_epsilon", "norm_eps", default=1e-6),
        FeedForward("relu"),
        ScaledLogits(),
    ),
    fixed=dict(kind="encoder-decoder", position="t5", norm="rmsnorm", tie_embeddings=True),
    rules=rules,
    harmless="dropout_rate n_positions is_decoder",
    ignored=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    copies={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
)


def encoder_of(family: Family) -> Family:
    """The family of the encoders alone, such as ``T5EncoderModel``, whose files may hold the decoder too.

    Args:
        family: T5 or one of its successors.

    Source: Raffel et al. (2020), section 2.1; Ni et al. (2022), "Sentence-T5", section 3, for the use of the encoder.

    >>> encoder_of(FAMILY).architectures
    ('T5EncoderModel',)
    """
    bare, counts = family.without_head(), {"num_layers", "num_decoder_layers"}
    fields = (
        *(entry for entry in bare.fields if not counts & {*entry.names}),
        Field(("num_layers", "num_hidden_layers"), "n_layers"),
        Must("is_decoder", False),  # for an encoder with cross-attention
    )
    return replace(
        bare,
        name=f"{family.name}_encoder",
        architectures=(family.bare_architecture.replace("Model", "EncoderModel"),),
        fields=fields,
        fixed={**bare.fixed, "kind": "encoder"},
        rules=_rules_of_encoder,
        harmless=f"{bare.harmless.replace('is_decoder', '')} num_decoder_layers",
        ignored=(*family.ignored, "decoder.{any}", "lm_head.weight"),
        copies={"encoder.embed_tokens.weight": "shared.weight"},
    )


def _rules_of_encoder(config: ModelConfig) -> list[Rule]:
    return [Rule("shared.weight", "embedding.weight"), *_stack(config, "encoder", "stack", ["SelfAttention"])]
