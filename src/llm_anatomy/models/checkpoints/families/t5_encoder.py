"""The encoder of T5, whose hidden states are pooled into vectors of sentences."""

from llm_anatomy.models.checkpoints.families import t5

FAMILY = t5.encoder_of(t5.FAMILY)
