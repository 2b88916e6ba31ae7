"""DeepSeek-V3 and R1: the layers of V2, with a sigmoid router whose selection bias has no gradient."""

from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.families.deepseek_v2 import FAMILY as V2
from llm_anatomy.models.checkpoints.families.deepseek_v2 import FIXED, SIZES
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must, NotNull


class SigmoidRouting:
    """Groups of experts; a single group means no groups.

    Source: DeepSeek-AI (2024), "DeepSeek-V3", section 2.1.2, in the layout of Hugging Face.

    >>> SigmoidRouting().from_hf(Record("config.json", {}))
    {'moe.router': 'top_k_of_sigmoid_in_groups', 'moe.n_groups': 8, 'moe.n_groups_per_token': 4}
    """

    names = ("n_group", "topk_group")

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        groups = Field("n_group", "moe.n_groups", default=8).from_hf(record)
        groups |= Field("topk_group", "moe.n_groups_per_token", default=4).from_hf(record)
        if groups["moe.n_groups"] > 1:
            return {"moe.router": "top_k_of_sigmoid_in_groups", **groups}
        Must("topk_group", 1).from_hf(record)
        return {"moe.router": "top_k_of_sigmoid"}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"n_group": config.get("moe.n_groups") or 1, "topk_group": config.get("moe.n_groups_per_token") or 1}


FAMILY = Family(
    name="deepseek_v3",
    architectures=("DeepseekV3ForCausalLM",),
    model_type="deepseek_v3",
    fields=(
        *SIZES,
        NotNull(Field("n_shared_experts", "moe.n_shared_experts", default=1)),
        Field("first_k_dense_replace", "moe.n_dense_layers", default=3),
        Field("routed_scaling_factor", "moe.routed_scaling_factor", default=2.5),
        NotNull(Field("rope_interleave", "rope.pairing", {True: "interleaved", False: "half_split"}, default=True)),
        NotNull(Must("norm_topk_prob", True)),
        Must("scoring_func", "sigmoid"),
        Must("topk_method", "noaux_tc"),
        SigmoidRouting(),
    ),
    fixed=FIXED,
    rules=V2.rules,
    harmless=f"{V2.harmless} num_nextn_predict_layers num_mtp_layers",
    prefix="model.",
    copies=V2.copies,
)
