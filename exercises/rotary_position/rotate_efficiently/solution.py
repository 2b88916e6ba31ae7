import torch

from llm_anatomy.shapes import Float, Tensor


def rotate_efficiently(
    x: Float[Tensor, "batch n_heads n_tokens d_head"], angles: Float[Tensor, "batch n_tokens n_pairs"]
) -> Float[Tensor, "batch n_heads n_tokens d_head"]:
    """Each pair of neighbours in x, turned by its angle."""
    angles = angles[:, None].repeat_interleave(2, -1)  # (batch, 1, n_tokens, d_head)
    shuffled = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    return x * angles.cos() + shuffled * angles.sin()
