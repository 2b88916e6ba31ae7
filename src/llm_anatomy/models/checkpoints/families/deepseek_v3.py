"""DeepSeek-V3 and R1: V2's layers, and a router that judges each expert by itself, with a bias that no loss trains."""

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.families.deepseek_v2 import FAMILY as V2
from llm_anatomy.models.checkpoints.families.deepseek_v2 import FIXED, SIZES
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import Field, Must


class SigmoidRouting:
    """Groups of experts; one group is none.

    Source: DeepSeek-AI (2024), "DeepSeek-V3", section 2.1.2, in the layout of Hugging Face.

    >>> SigmoidRouting().inward(Record("config.json", {}))
    {'router': 'top_k_of_sigmoid_in_groups', 'n_expert_groups': 8, 'n_open_groups': 4}
    """

    names = ("n_group", "topk_group")

    def inward(self, record: Record) -> dict[str, object]:
        """Ours from theirs."""
        groups = Field("n_group", "n_expert_groups", default=8).inward(record)
        groups |= Field("topk_group", "n_open_groups", default=4).inward(record)
        if groups["n_expert_groups"] > 1:
            return {"router": "top_k_of_sigmoid_in_groups", **groups}
        Must("topk_group", 1).inward(record)
        return {"router": "top_k_of_sigmoid"}

    def outward(self, config: ModelConfig) -> dict[str, object]:
        """Theirs from ours."""
        return {"n_group": config.n_expert_groups or 1, "topk_group": config.n_open_groups or 1}


FAMILY = Family(
    name="deepseek_v3",
    architectures=("DeepseekV3ForCausalLM",),
    model_type="deepseek_v3",
    fields=(
        *SIZES,
        Field("first_k_dense_replace", "n_dense_layers", default=3),
        Field("routed_scaling_factor", "expert_scale", default=2.5),
        Field("rope_interleave", "rope_pairing", {True: "neighbours", False: "halves"}, default=True),
        Must("norm_topk_prob", True),
        Must("scoring_func", "sigmoid"),
        Must("topk_method", "noaux_tc"),
        SigmoidRouting(),
    ),
    fixed=FIXED,
    rules=V2.rules,
    harmless=f"{V2.harmless} num_nextn_predict_layers num_mtp_layers",
    prefix="model.",
    ignored=V2.ignored,
    copies=V2.copies,
)
