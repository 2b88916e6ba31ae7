import torch

from llm_anatomy.shapes import Float, Int, Tensor


def rotary_angles(positions: Int[Tensor, "n_tokens"], d_head: int, base: int) -> Float[Tensor, "n_tokens n_pairs"]:
    """The angle of each of the d_head / 2 planes at each position, in radians."""
    frequencies = base ** (-torch.arange(0, d_head, 2) / d_head)  # (n_pairs,)
    return positions[:, None] * frequencies
