"""Mistral: Llama's layout with a sliding window in all layers."""

from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, OrNull, Rope

FAMILY = Family(
    name="mistral",
    architectures=("MistralForCausalLM",),
    model_type="mistral",
    fields=(
        *llama.sizes(n_kv_heads=8),
        Field("head_dim", "d_head", default=0),
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        OrNull("sliding_window", "window", default=4096),
        Rope(n_trained=131072),
    ),
    fixed=dict(position="rope", norm="rmsnorm"),
    rules=llama.rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
