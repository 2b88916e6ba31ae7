import torch

from llm_anatomy.shapes import Float, Int, Tensor


def sinusoidal_encoding(
    positions: Int[Tensor, "batch n_tokens"], d_model: int
) -> Float[Tensor, "batch n_tokens d_model"]:
    """The sinusoidal code of each position, sine and cosine of a pair side by side."""
    wavelengths = 10000 ** (torch.arange(0, d_model, 2) / d_model)  # over 2π, one for each pair
    angles = positions[..., None] / wavelengths  # (batch, n_tokens, pairs)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :d_model]
