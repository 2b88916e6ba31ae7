"""GPT-NeoX and Pythia: parallel blocks, RoPE on a part of each head, queries, keys and values fused head by head."""

from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import fields
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope, Shared, given, of_right_type
from llm_anatomy.models.checkpoints.rules import Rule, Split

AT, HF = "stack.blocks.{layer}.", "gpt_neox.layers.{layer}."


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Black et al. (2022), "GPT-NeoX-20B", section 2.1, in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('gpt_neox.embed_in.weight',)
    """
    projections = tuple(f"{AT}attention.w_{name}.{{kind}}" for name in ("query", "key", "value"))
    attention_norm, feedforward_norm = "attention_residual.norm.{kind}", "feedforward_residual.norm.{kind}"
    if config.parallel_block:
        attention_norm, feedforward_norm = "attention_norm.{kind}", "feedforward_norm.{kind}"
    return [
        Rule("gpt_neox.embed_in.weight", "embedding.weight"),
        Rule(HF + "attention.query_key_value.{kind}", projections, Split((config.d_head,) * 3, config.n_heads)),
        Rule(HF + "attention.dense.{kind}", AT + "attention.w_output.{kind}"),
        Rule(HF + "input_layernorm.{kind}", AT + attention_norm),
        Rule(HF + "post_attention_layernorm.{kind}", AT + feedforward_norm),
        Rule(HF + "mlp.dense_h_to_4h.{kind}", AT + "feedforward.w_up.{kind}"),
        Rule(HF + "mlp.dense_4h_to_h.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule("gpt_neox.final_layer_norm.{kind}", "stack.norm.{kind}"),
        Rule("embed_out.weight", "unembedding.embedding.weight"),
    ]


class ParallelResidual:
    """Whether blocks are parallel, with a norm for each sublayer.

    Source: Black et al. (2022), section 2.1.

    >>> from llm_anatomy.files import Record
    >>> ParallelResidual().from_hf(Record("config.json", {"use_parallel_residual": False}))
    {'parallel_block': False, 'n_parallel_norms': 1}
    """

    names = ("use_parallel_residual",)

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        name, parallel = given(record, self.names, True)
        parallel = of_right_type(record, name, "parallel_block", parallel)
        return {"parallel_block": parallel, "n_parallel_norms": 1 + parallel}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"use_parallel_residual": config.parallel_block}


FAMILY = Family(
    name="gptneox",
    architectures=("GPTNeoXForCausalLM",),
    model_type="gpt_neox",
    fields=(
        *fields.SIZES,
        Field("max_position_embeddings", "n_ctx", default=None),
        Field("hidden_act", "feedforward", {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh"}, "gelu"),
        Field("layer_norm_eps", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=True),
        ParallelResidual(),
        Rope(fraction=0.25, base_name="rotary_emb_base", fraction_name="rotary_pct"),
    ),
    fixed=dict(position="rope", ff_bias=True),
    rules=rules,
    harmless="is_decoder",
    prefix="gpt_neox.",
    renamed={"lm_head.weight": "embed_out.weight"},
    ignored=("gpt_neox.layers.{layer}.attention.bias",),
    copies={"embed_out.weight": "gpt_neox.embed_in.weight"},
)
