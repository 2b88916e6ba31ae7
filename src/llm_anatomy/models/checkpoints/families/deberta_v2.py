"""DeBERTa, versions 2 and 3: logarithmic buckets, and positions projected by attention's own matrices."""

from typing import Any

from llm_anatomy.config import ModelConfig
from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints.families.deberta import (
    ATTENTION,
    FIELDS,
    FIXED,
    HF_ATTENTION,
    MaxDistance,
    Stated,
    attention_residual,
)
from llm_anatomy.models.checkpoints.families.deberta import FAMILY as V1
from llm_anatomy.models.checkpoints.family import Family
from llm_anatomy.models.checkpoints.fields import NEEDED, Must, given, of_right_type
from llm_anatomy.models.checkpoints.rules import Rule


def rules(config: ModelConfig) -> list[Rule]:
    """The rules for tensors.

    Args:
        config: of the model.

    Source: the code of He et al. (2021), version 2; He et al. (2023), "DeBERTaV3", in the layout of Hugging Face.

    >>> rules(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))[0].hf
    ('deberta.encoder.layer.{layer}.attention.self.query_proj.{kind}',)
    """
    return [
        *(Rule(f"{HF_ATTENTION}{part}_proj.{{kind}}", f"{ATTENTION}w_{part}.{{kind}}") for part in _PARTS),
        Rule("deberta.encoder.rel_embeddings.weight", ATTENTION + "position.table.0.weight"),
        Rule("deberta.encoder.LayerNorm.{kind}", ATTENTION + "position.table.1.{kind}"),
        *attention_residual(),
    ]


_PARTS = ("query", "key", "value")


class Buckets:
    """The number of buckets; Hugging Face counts those of one direction, we count both.

    Raises:
        ValueError: from ``from_hf``, if it is missing or not an even number of at least 4.

    Source: the code of He et al. (2021), version 2.

    >>> Buckets().from_hf(Record("config.json", {"position_buckets": 256}))
    {'buckets.n_buckets': 512}
    """

    names = ("position_buckets",)

    def from_hf(self, record: Record) -> dict[str, Any]:
        """Convert Hugging Face's fields to ours."""
        name, n = given(record, self.names, NEEDED)
        n = of_right_type(record, name, "buckets.n_buckets", n)
        if n < 4 or n % 2:
            record.refuse(name, f"{n} is not supported; it must be even, from 4")
        return {"buckets.n_buckets": 2 * n}

    def to_hf(self, config: ModelConfig) -> dict[str, Any]:
        """Convert our config to Hugging Face's fields."""
        return {"position_buckets": config.buckets.n_buckets // 2} if config.buckets else {}


FAMILY = Family(
    name="deberta_v2",
    architectures=("DebertaV2ForMaskedLM",),
    model_type="deberta-v2",
    fields=(
        *FIELDS,
        MaxDistance("buckets.max_distance"),
        Buckets(),
        Stated("share_att_key", True),
        Stated("norm_rel_ebd", "layer_norm"),
        Must("conv_kernel_size", 0),
    ),
    fixed=FIXED | dict(position="deberta_v2"),
    rules=rules,
    harmless=f"{V1.harmless} conv_act conv_groups",
    prefix=V1.prefix,
    renamed=V1.renamed,
    ignored=V1.ignored,
    copies=V1.copies,
)
