"""Weights in and out: the layouts of Hugging Face's models, read and written by one engine from tables, and our own."""

from llm_anatomy.models.checkpoints.engine import Checkpoint, load, save
from llm_anatomy.models.checkpoints.families import families

__all__ = ["Checkpoint", "families", "load", "save"]
