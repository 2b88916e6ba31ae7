import torch  # noqa: F401

from llm_anatomy.shapes import Float, Int, Tensor


def rotary_angles(positions: Int[Tensor, "n_tokens"], d_head: int, base: int) -> Float[Tensor, "n_tokens n_pairs"]:
    """The angle of each of the d_head / 2 planes at each position, in radians."""
    raise NotImplementedError
