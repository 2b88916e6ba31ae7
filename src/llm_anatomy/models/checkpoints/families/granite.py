"""Granite 3 and 4.1 without experts: Llama's table with four multipliers, as muP sets them."""

from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.families import llama
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Rope, Shared, given, of_right_type


class LogitsScaling:
    """The number by which logits are divided, where ours is the factor.

    Raises:
        ValueError: from ``from_hf``, for a number that is not above 0.

    Source: Granite Team (2024), "Granite 3.0 Language Models", section 2, in the words of Hugging Face's
    configurations.

    >>> from llm_anatomy.files import Record
    >>> LogitsScaling().from_hf(Record("config.json", {"logits_scaling": 8}))
    {'logit_multiplier': 0.125}
    """

    names = ("logits_scaling",)

    def from_hf(self, record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        name, divisor = given(record, self.names, 1.0)
        divisor = of_right_type(record, name, "logit_multiplier", divisor)
        if divisor <= 0:
            record.refuse(name, f"{divisor!r} must be above 0")
        return {"logit_multiplier": 1 / divisor}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields. Twice inverted, a number comes back up to its last bit; that is
        left out here."""
        return {"logits_scaling": float(f"{1 / config.logit_multiplier:.15g}")}


FAMILY = Family(
    name="granite",
    architectures=("GraniteForCausalLM",),
    model_type="granite",
    fields=(
        *llama.SIZES,
        Field("head_dim", "d_head", default=0),
        Field("hidden_act", "feedforward", llama.GATES, default="silu"),
        Field("rms_norm_eps", "norm_eps", default=1e-6),
        Field("tie_word_embeddings", "tie_embeddings", default=False),
        Field("mlp_bias", "ff_bias", default=False),
        Shared("attention_bias", ("attention_bias", "output_bias"), default=False),
        Field("embedding_multiplier", "embedding_multiplier", default=1.0),
        Field("attention_multiplier", "attention_scale", default=1.0),
        Field("residual_multiplier", "residual_multiplier", default=1.0),
        LogitsScaling(),
        Rope(),
    ),
    fixed=dict(position="rope", norm="rmsnorm"),
    rules=llama.rules,
    prefix=llama.FAMILY.prefix,
    copies=llama.FAMILY.copies,
)
