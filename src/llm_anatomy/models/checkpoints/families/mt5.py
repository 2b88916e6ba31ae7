"""mT5: T5 1.1 under another name, with a gated feed-forward layer by default."""

from dataclasses import replace

from llm_anatomy.models.checkpoints.families import t5
from llm_anatomy.models.checkpoints.fields import Must

FAMILY = replace(
    t5.FAMILY,
    name="mt5",
    architectures=("MT5ForConditionalGeneration",),
    model_type="mt5",
    fields=(
        *(entry for entry in t5.FAMILY.fields if not {"feed_forward_proj", "tie_word_embeddings"} & set(entry.names)),
        t5.FeedForward("gated-gelu"),
        Must("tie_word_embeddings", False, True),  # released files and today's class differ; logits are never scaled
    ),
)
