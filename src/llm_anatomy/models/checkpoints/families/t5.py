"""T5 and T5 1.1: an encoder-decoder with a relative position bias that the layers of a stack share."""

from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, given, of_right_type
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
        name, tied = given(record, ("tie_word_embeddings",), True)
        name, scaled = given(record, ("scale_decoder_outputs",), of_right_type(record, name, "tie_embeddings", tied))
        return {"scale_logits": of_right_type(record, name, "scale_logits", scaled)}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"tie_word_embeddings": config.scale_logits, "scale_decoder_outputs": config.scale_logits}


FEEDFORWARDS = {
    "relu": "relu",
    "gated-gelu": "geglu_tanh",
    "gated-silu": "swiglu",
    "gated-relu": "reglu",
    "gelu": "gelu",
    "silu": "swish",
}

FAMILY = Family(
    name="t5",
    architectures=("T5ForConditionalGeneration", "T5WithLMHeadModel"),
    model_type="t5",
    fields=(
        Field("vocab_size", "n_vocab"),
        Field(("d_model", "hidden_size"), "d_model"),
        Field("num_decoder_layers", "n_layers", default=lambda hf: hf.get("num_layers")),
        Field("num_layers", "n_encoder_layers"),
        Field(("num_heads", "num_attention_heads"), "n_heads"),
        Field("d_kv", "d_head", default=64),
        Field("d_ff", "d_ff"),
        Field("relative_attention_num_buckets", "buckets.n_buckets", default=32),
        Field("relative_attention_max_distance", "buckets.max_distance", default=128),
        Field("layer_norm_epsilon", "norm_eps", default=1e-6),
        Field("feed_forward_proj", "feedforward", FEEDFORWARDS, default="relu"),
        ScaledLogits(),
    ),
    fixed=dict(kind="encoder-decoder", position="t5", norm="rmsnorm", tie_embeddings=True),
    rules=rules,
    harmless=("dropout_rate n_positions is_decoder is_gated_act dense_act_fn"),
    ignored=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    copies={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
)
