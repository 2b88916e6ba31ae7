"""OLMo 3: OLMo 2 with a window in three of four layers, which keep their RoPE when that of the others is scaled."""

from llm_anatomy.models.checkpoints.families import llama, olmo2
from llm_anatomy.models.checkpoints.families.gemma3 import TwoRopes
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Shared
from llm_anatomy.models.checkpoints.windows import Windows

WINDOWS = Windows(4096, period=4)

FAMILY = Family(
    name="olmo3",
    architectures=("Olmo3ForCausalLM",),
    model_type="olmo3",
    fields=(
        *llama.SIZES,
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-5),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        WINDOWS,
        TwoRopes(base=500000.0, local_base=500000.0, windows=WINDOWS),
    ),
    fixed=olmo2.FAMILY.fixed,
    rules=olmo2.rules,
    prefix=olmo2.FAMILY.prefix,
    copies=olmo2.FAMILY.copies,
)
