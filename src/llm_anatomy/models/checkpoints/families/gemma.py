"""Gemma: Llama's layout with scaled and tied embeddings, norms with scale 1 + w, and GeGLU."""

from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, Rope, Shared

FAMILY = Family(
    name="gemma",
    architectures=("GemmaForCausalLM",),
    model_type="gemma",
    fields=(
        *llama.sizes(n_kv_heads=16),
        Field("head_dim", "d_head", default=256),
        # the first releases write gelu for its tanh approximation
        Field(
            "hidden_act",
            "feedforward",
            {"gelu_pytorch_tanh": "geglu_tanh", "gelu": "geglu_tanh"},
            default="gelu_pytorch_tanh",
        ),
        Must("hidden_activation", None, "gelu_pytorch_tanh"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=True),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        Must("use_bidirectional_attention", False),
        Rope(n_trained=8192),
    ),
    fixed=dict(position="rope", norm="unit_offset_rmsnorm", scale_embeddings=True),
    rules=llama.rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
