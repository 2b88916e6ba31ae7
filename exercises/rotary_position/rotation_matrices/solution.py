import torch

from llm_anatomy.shapes import Float, Tensor


def rotation_matrices(angles: Float[Tensor, "n_tokens n_pairs"]) -> Float[Tensor, "n_tokens d_head d_head"]:
    """For each token the block-diagonal rotation of d_head = 2 n_pairs entries, neighbours paired."""
    n_tokens, n_pairs = angles.shape
    first = torch.arange(0, 2 * n_pairs, 2)
    matrices = angles.new_zeros(n_tokens, 2 * n_pairs, 2 * n_pairs)
    matrices[:, first, first] = matrices[:, first + 1, first + 1] = angles.cos()
    matrices[:, first, first + 1], matrices[:, first + 1, first] = -angles.sin(), angles.sin()
    return matrices
