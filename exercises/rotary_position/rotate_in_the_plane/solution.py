import torch

from llm_anatomy.shapes import Float, Int, Tensor


def rotate_in_the_plane(
    x: Float[Tensor, "n_tokens 2"], positions: Int[Tensor, "n_tokens"], theta: float
) -> Float[Tensor, "n_tokens 2"]:
    """Each vector, turned counter-clockwise by its position times theta."""
    angles = positions.to(x.dtype) * theta
    first, second = x.unbind(-1)
    turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
    return torch.stack(turned, -1)
