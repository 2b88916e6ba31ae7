"""Where rounding would show."""

import torch


def _wide(dtype: torch.dtype) -> torch.dtype:
    """float32 at least: for angles and distances, for exponentials, and for sums over many numbers."""
    return torch.promote_types(dtype, torch.float32)
