"""Released weights in and out: the layouts of Hugging Face's models, read and written by one engine from tables."""

from llm_anatomy.models.checkpoints.engine import Checkpoint, load, save
from llm_anatomy.models.checkpoints.families import families

__all__ = ["Checkpoint", "families", "load", "save"]
