"""The precision of computations in which rounding would show."""

import torch


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Return at least float32: for angles and distances, for exponentials, and for sums over many numbers."""
    return torch.promote_types(dtype, torch.float32)
