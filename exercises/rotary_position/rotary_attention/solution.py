import math

import torch

from llm_anatomy.shapes import Bool, Float, Int, Tensor


def turn(x: Tensor, positions: Tensor, base: int) -> Tensor:
    frequencies = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = (positions[:, None, :, None] * frequencies).to(x.dtype)  # (batch, 1, tokens, pairs)
    first, second = x[..., 0::2], x[..., 1::2]
    turned = first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()
    return torch.stack(turned, -1).flatten(-2)


def rotary_attention(
    queries: Float[Tensor, "batch n_heads n_queries d_head"],
    keys: Float[Tensor, "batch n_heads n_keys d_head"],
    values: Float[Tensor, "batch n_heads n_keys d_value"],
    query_positions: Int[Tensor, "batch n_queries"],
    key_positions: Int[Tensor, "batch n_keys"],
    mask: Bool[Tensor, "batch n_queries n_keys"],
    base: int,
) -> Float[Tensor, "batch n_heads n_queries d_value"]:
    """Scaled dot-product attention between queries and keys that are turned by their positions."""
    queries, keys = turn(queries, query_positions, base), turn(keys, key_positions, base)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), -1) @ values
