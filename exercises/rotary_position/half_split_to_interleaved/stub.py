import torch  # noqa: F401
from einops import rearrange  # noqa: F401

from llm_anatomy.shapes import Float, Tensor


def half_split_to_interleaved(
    weight: Float[Tensor, "n_heads·d_head d_model"], n_heads: int, d_rotary: int
) -> Float[Tensor, "n_heads·d_head d_model"]:
    """The same projection for code that pairs neighbours among the first d_rotary entries of a head."""
    raise NotImplementedError
