import torch  # noqa: F401

from llm_anatomy.shapes import Float, Int, Tensor


def rotate_in_the_plane(
    x: Float[Tensor, "n_tokens 2"], positions: Int[Tensor, "n_tokens"], theta: float
) -> Float[Tensor, "n_tokens 2"]:
    """Each vector, turned counter-clockwise by its position times theta."""
    raise NotImplementedError
