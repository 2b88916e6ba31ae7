"""OLMo: Llama's table with a layer norm that has neither scale nor shift."""

from llm_anatomy.models.checkpoints.families.llama import GATES, SIZES, rules
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope, Shared

FAMILY = Family(
    name="olmo",
    architectures=("OlmoForCausalLM",),
    model_type="olmo",
    fields=(
        *SIZES,
        Field("hidden_act", "feedforward", GATES, default="silu"),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        Rope(),
        Field("clip_qkv", "clip_qkv", default=None),
    ),
    fixed={
        "position": "rope",
        "norm": "layernorm",
        "norm_eps": 1e-5,
        "layernorm.weight": False,
        "layernorm.bias": False,
    },
    rules=rules,
    prefix="model.",
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
