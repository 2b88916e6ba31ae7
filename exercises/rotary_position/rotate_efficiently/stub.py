import torch  # noqa: F401

from llm_anatomy.shapes import Float, Tensor


def rotate_efficiently(
    x: Float[Tensor, "batch n_heads n_tokens d_head"], angles: Float[Tensor, "batch n_tokens n_pairs"]
) -> Float[Tensor, "batch n_heads n_tokens d_head"]:
    """Each pair of neighbours in x, turned by its angle."""
    raise NotImplementedError
