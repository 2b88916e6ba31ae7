"""What evaluations ask of a language model; see :mod:`llm_anatomy.models.checkpoints.scoring`."""

import os

import torch

from llm_anatomy.models.checkpoints.engine import Checkpoint
from llm_anatomy.models.checkpoints.scoring import MOST_LOGITS, Likelihood, Pair, TextModel, likelihoods, rolling_pairs
from llm_anatomy.models.loading import load

__all__ = ["MOST_LOGITS", "Likelihood", "Pair", "TextModel", "likelihoods", "read_checkpoint", "rolling_pairs"]


def read_checkpoint(
    name: str | os.PathLike[str], *, dtype: str | None = None, device: str | torch.device = "cpu"
) -> Checkpoint:
    """The former name of :func:`llm_anatomy.models.loading.load`.

    Args:
        name, dtype, device: as there.

    Raises:
        ValueError: as there.

    Source: :mod:`llm_anatomy.models.stored`; GT-43.

    >>> read_checkpoint("story_rope").config.n_ctx
    96
    """
    return load(name, dtype=dtype, device=device)
