"""Cohere's Command R: parallel blocks with one norm, interleaved RoPE, and logits that are multiplied by a constant."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, NotNull, Rope, Shared
from llm_anatomy.models.checkpoints.rules import Rule


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors: those of Llama, with one norm for both sublayers and QK-norm.

    Args:
        config: of the model.

    Source: Cohere (2024), "Command R", in the layout of Hugging Face; GT-43.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[-1].ours
    ('stack.blocks.{layer}.attention.key_norm.weight',)
    """
    return [
        *llama.rules(config),
        Rule(llama.HF + "input_layernorm.weight", llama.AT + "attention_norm.weight"),
        Rule(llama.HF + "self_attn.q_norm.weight", llama.AT + "attention.query_norm.weight"),
        Rule(llama.HF + "self_attn.k_norm.weight", llama.AT + "attention.key_norm.weight"),
    ]


FAMILY = Family(
    name="cohere",
    architectures=("CohereForCausalLM",),
    model_type="cohere",
    fields=(
        *llama.SIZES,
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("layer_norm_eps", "norm_eps", default=1e-5),
        NotNull(Field("logit_scale", "logit_multiplier", default=0.0625)),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Field("use_qk_norm", "qk_norm", {False: None, True: "per_head_weights"}, default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        Rope(base=500000.0, n_trained=8192),
    ),
    fixed={"position": "rope", "rope.pairing": "interleaved", "layernorm.bias": False, "parallel_block": True},
    rules=rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
