"""Llama, Llama 2, 3 and 3.1: RoPE and its scaling, RMSNorm, SwiGLU. Many other families build on this table."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints import fields
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, OrNull, Rope, Shared
from llm_anatomy.models.checkpoints.rules import Reversed, Rule, Split

AT, HF = "stack.blocks.{layer}.", "model.layers.{layer}."


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Touvron et al. (2023), "LLaMA", section 2.2, in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('model.embed_tokens.weight',)
    """
    return [
        Rule("model.embed_tokens.weight", "embedding.weight"),
        Rule(HF + "self_attn.q_proj.{kind}", AT + "attention.w_query.{kind}"),
        Rule(HF + "self_attn.k_proj.{kind}", AT + "attention.w_key.{kind}"),
        Rule(HF + "self_attn.v_proj.{kind}", AT + "attention.w_value.{kind}"),
        Rule(HF + "self_attn.o_proj.{kind}", AT + "attention.w_output.{kind}"),
        Rule(HF + "input_layernorm.{kind}", AT + "attention_residual.norm.{kind}"),
        Rule(HF + "post_attention_layernorm.{kind}", AT + "feedforward_residual.norm.{kind}"),
        Rule(
            (HF + "mlp.gate_proj.{kind}", HF + "mlp.up_proj.{kind}"),
            AT + "feedforward.w_gate_up.{kind}",
            Reversed(Split((config.d_ff, config.d_ff))),
        ),
        Rule(HF + "mlp.down_proj.{kind}", AT + "feedforward.w_down.{kind}"),
        Rule("model.norm.{kind}", "stack.norm.{kind}"),
        Rule("lm_head.weight", "unembedding.embedding.weight"),
    ]


GATES = {"silu": "swiglu", "gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh", "relu": "reglu"}
"""The gated layer for each ``hidden_act``."""

SIZES = (
    *fields.SIZES,
    Field("num_key_value_heads", "n_kv_heads", default=0),
    Field("max_position_embeddings", "n_ctx", default=None),
)
"""The fields that most families after Llama share."""


def sizes(n_kv_heads: int) -> tuple[Field, ...]:
    """The sizes of models after Llama, in which null stands for as many key-value heads as query heads.

    Args:
        n_kv_heads: the default of the architecture for a missing field.

    Source: the configurations of Hugging Face's models; GT-43.

    >>> from llm_anatomy.files import Record
    >>> sizes(8)[5].from_hf(Record("config.json", {}))
    {'n_kv_heads': 8}
    """
    kv_heads = OrNull("num_key_value_heads", "n_kv_heads", default=n_kv_heads, null=0)
    return tuple(kv_heads if field.ours == kv_heads.ours else field for field in SIZES)


FAMILY = Family(
    name="llama",
    architectures=("LlamaForCausalLM",),
    model_type="llama",
    fields=(
        *SIZES,
        Field("head_dim", "d_head", default=0),
        Field("hidden_act", "feedforward", GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Field("mlp_bias", "ff_bias", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        Rope(),
    ),
    fixed=dict(position="rope", norm="rmsnorm"),
    rules=rules,
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
