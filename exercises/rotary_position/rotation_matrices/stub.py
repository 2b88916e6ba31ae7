import torch  # noqa: F401

from llm_anatomy.shapes import Float, Tensor


def rotation_matrices(angles: Float[Tensor, "n_tokens n_pairs"]) -> Float[Tensor, "n_tokens d_head d_head"]:
    """For each token the block-diagonal rotation of d_head = 2 n_pairs entries, neighbours paired."""
    raise NotImplementedError
