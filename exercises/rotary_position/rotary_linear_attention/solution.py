import torch
from torch.nn.functional import elu

from llm_anatomy.shapes import Float, Int, Tensor


def turn(x: Tensor, positions: Tensor, base: int) -> Tensor:
    angles = (positions[:, None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])).to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned = first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()
    return torch.stack(turned, -1).flatten(-2)


def rotary_linear_attention(
    queries: Float[Tensor, "n_heads n_tokens d_head"],
    keys: Float[Tensor, "n_heads n_tokens d_head"],
    values: Float[Tensor, "n_heads n_tokens d_value"],
    positions: Int[Tensor, "n_tokens"],
    base: int,
) -> Float[Tensor, "n_heads n_tokens d_value"]:
    """Causal linear attention with features elu + 1, turned in the numerator only."""
    queries, keys = elu(queries) + 1, elu(keys) + 1
    below = (queries * keys.cumsum(1)).sum(-1, keepdim=True)
    state = torch.einsum("htd,htv->htdv", turn(keys, positions, base), values).cumsum(1)
    return torch.einsum("htd,htdv->htv", turn(queries, positions, base), state) / below
