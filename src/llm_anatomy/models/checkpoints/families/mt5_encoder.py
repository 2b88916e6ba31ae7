"""The encoder of mT5."""

from llm_anatomy.models.checkpoints.families import mt5, t5

FAMILY = t5.encoder_of(mt5.FAMILY)
