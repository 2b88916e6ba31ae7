import torch
from einops import rearrange

from llm_anatomy.shapes import Float, Tensor


def half_split_to_interleaved(
    weight: Float[Tensor, "n_heads·d_head d_model"], n_heads: int, d_rotary: int
) -> Float[Tensor, "n_heads·d_head d_model"]:
    """The same projection for code that pairs neighbours among the first d_rotary entries of a head."""
    heads = rearrange(weight, "(n_heads d_head) d_model -> n_heads d_head d_model", n_heads=n_heads)
    turned, others = heads[:, :d_rotary], heads[:, d_rotary:]
    turned = rearrange(turned, "n_heads (half plane) d_model -> n_heads (plane half) d_model", half=2)
    return torch.cat((turned, others), 1).flatten(0, 1)
