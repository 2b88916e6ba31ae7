"""Qwen 3 without experts: Qwen 2's layout with QK-norm per head instead of biases."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.families import llama, qwen2
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope, Shared
from llm_anatomy.models.checkpoints.rules import Rule


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: Yang et al. (2025), "Qwen3 Technical Report", section 2, in the layout of Hugging Face; CMU-20.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[-1].hf
    ('model.layers.{layer}.self_attn.k_norm.weight',)
    """
    return [
        *llama.rules(config),
        Rule(llama.HF + "self_attn.q_norm.weight", llama.AT + "attention.query_norm.weight"),
        Rule(llama.HF + "self_attn.k_norm.weight", llama.AT + "attention.key_norm.weight"),
    ]


FAMILY = Family(
    name="qwen3",
    architectures=("Qwen3ForCausalLM",),
    model_type="qwen3",
    fields=(
        *llama.sizes(n_kv_heads=32),
        Field("head_dim", "d_head", default=128),
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        qwen2.Windows(),
        Rope(n_trained=32768),
    ),
    fixed=dict(position="rope", norm="rmsnorm", qk_norm="per_head"),
    rules=rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
