import math

import torch

from llm_anatomy.shapes import Bool, Int, Tensor


def unseen_angles(
    positions: Int[Tensor, "n_positions"], d_model: int, n_trained: int
) -> Bool[Tensor, "n_positions n_frequencies"]:
    """True where a pair shows an angle that it never passed at the positions 0 to n_trained − 1."""
    wavelengths = 2 * math.pi * 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.remainder(positions[:, None], wavelengths) > n_trained - 1
