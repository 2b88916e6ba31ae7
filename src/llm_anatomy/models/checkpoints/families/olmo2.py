"""OLMo 2: RMSNorm after each sublayer instead of before it, and QK-norm across all heads."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope, Shared
from llm_anatomy.models.checkpoints.rules import Rule


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors: those of Llama, with the norms in other places.

    Args:
        config: of the model.

    Source: OLMo team (2025), "2 OLMo 2 Furious", section 3.2, in the layout of Hugging Face; GT-49.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[-1].ours
    ('stack.blocks.{layer}.attention.key_norm.norm.{kind}',)
    """
    at, hf = llama.AT, llama.HF
    return [
        *(rule for rule in llama.rules(config) if "layernorm" not in rule.hf[0]),
        Rule(hf + "post_attention_layernorm.{kind}", at + "attention_residual.norm.{kind}"),
        Rule(hf + "post_feedforward_layernorm.{kind}", at + "feedforward_residual.norm.{kind}"),
        Rule(hf + "self_attn.q_norm.{kind}", at + "attention.query_norm.norm.{kind}"),
        Rule(hf + "self_attn.k_norm.{kind}", at + "attention.key_norm.norm.{kind}"),
    ]


FAMILY = Family(
    name="olmo2",
    architectures=("Olmo2ForCausalLM",),
    model_type="olmo2",
    fields=(
        *llama.SIZES,
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        Rope(),
    ),
    fixed=dict(position="rope", norm="rmsnorm", norm_placement="post_sublayer", qk_norm="across_heads"),
    rules=rules,
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
