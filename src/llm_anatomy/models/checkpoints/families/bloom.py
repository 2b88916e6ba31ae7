"""BLOOM: ALiBi, a norm after the embeddings, and queries, keys and values fused head by head."""

from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must
from llm_anatomy.models.checkpoints.rules import Rule, Split

AT, HF = "stack.blocks.{layer}.", "transformer.h.{layer}."


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: BigScience (2022), "BLOOM", section 3.2, in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('transformer.word_embeddings.weight',)
    """
    projections = tuple(f"{AT}attention.w_{name}.{{kind}}" for name in ("query", "key", "value"))
    fused = Split((config.d_head,) * 3, config.n_heads)
    return [
        Rule("transformer.word_embeddings.weight", "embedding.weight"),
        Rule("transformer.word_embeddings_layernorm.{kind}", "embedding_norm.{kind}"),
        Rule(HF + "self_attention.query_key_value.{kind}", projections, fused),
        Rule(HF + "self_attention.dense.{kind}", AT + "attention.w_output.{kind}"),
        Rule(HF + "input_layernorm.{kind}", AT + "attention_residual.norm.{kind}"),
        Rule(HF + "post_attention_layernorm.{kind}", AT + "feedforward_residual.norm.{kind}"),
        Rule(HF + "mlp.dense_h_to_4h.{kind}", AT + "feedforward.w_up.{kind}"),
        Rule(HF + "mlp.dense_4h_to_h.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule("transformer.ln_f.{kind}", "stack.norm.{kind}"),
        Rule("lm_head.weight", "unembedding.embedding.weight"),
    ]


class FourTimesTheWidth:
    """The inner width of the feed-forward layer, which is always four times ``d_model`` in BLOOM.

    Source: BigScience (2022), table 3.

    >>> from llm_anatomy.files import Record
    >>> FourTimesTheWidth().from_hf(Record("config.json", {"hidden_size": 8}))
    {'d_ff': 32}
    """

    names = ("n_inner",)

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        d_ff = 4 * (record.fields.get("hidden_size") or record.fields.get("n_embed") or 0)
        if record.fields.get("n_inner") not in (None, d_ff):
            record.refuse("n_inner", f"{record.fields['n_inner']!r} is not supported; it must be {d_ff}")
        return {"d_ff": d_ff}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Write nothing: the width follows from ``hidden_size``."""
        return {}


class InOnePiece(Must):
    """The switch for products in as many pieces as ``pretraining_tp`` says, which leave out the biases.

    Raises:
        ValueError: from ``from_hf``, where it is on and there are several pieces.

    Source: BigScience (2022), in the layout of Hugging Face.

    >>> from llm_anatomy.files import Record
    >>> switch = InOnePiece("slow_but_exact", False)
    >>> switch.from_hf(Record("config.json", {"slow_but_exact": True, "pretraining_tp": 4}))
    Traceback (most recent call last):
    ValueError: config.json, key 'slow_but_exact': True is not supported; it must be False
    """

    def from_hf(self, record) -> dict[str, Any]:
        """Check the field; it sets none of ours."""
        return {} if record.fields.get("pretraining_tp") in (None, 1) else super().from_hf(record)


FAMILY = Family(
    name="bloom",
    architectures=("BloomForCausalLM",),
    model_type="bloom",
    fields=(
        Field("vocab_size", "n_vocab"),
        Field(("hidden_size", "n_embed"), "d_model"),
        Field(("n_layer", "num_hidden_layers"), "n_layers"),
        Field(("n_head", "num_attention_heads"), "n_heads"),
        Field("seq_length", "n_ctx", default=None),
        FourTimesTheWidth(),
        Field("layer_norm_epsilon", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Must("apply_residual_connection_post_layernorm", False),
        InOnePiece("slow_but_exact", False),
    ),
    fixed=dict(
        position="alibi",
        embedding_norm=True,
        feedforward="gelu_tanh",
        attention_bias=True,
        output_bias=True,
        ff_bias=True,
    ),
    rules=rules,
    # the last ones are of the training code: fused kernels, and the size of its table of distances
    harmless=(
        "attention_softmax_in_fp32 bias_dropout_fusion masked_softmax_fusion skip_bias_add "
        "skip_bias_add_qkv offset_alibi"
    ),
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.word_embeddings.weight"},
)
