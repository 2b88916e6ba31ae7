import math

import torch

from llm_anatomy.shapes import Float, Tensor


def scale_by_turns(d_head: int, base: int, factor: int, n_trained: int) -> Float[Tensor, "n_pairs"]:
    """Frequencies to read factor times further: kept above 4 turns in n_trained positions, slowed below 1."""
    frequencies = base ** (-torch.arange(0, d_head, 2) / d_head)
    turns = n_trained * frequencies / (2 * math.pi)
    kept = ((turns - 1) / 3).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)
