import math

import torch

from llm_anatomy.shapes import Bool, Float, Int, Tensor


def shaw_attention(
    query: Float[Tensor, "batch n_heads n_queries d_head"],
    key: Float[Tensor, "batch n_heads n_keys d_head"],
    value: Float[Tensor, "batch n_heads n_keys d_value"],
    key_vectors: Float[Tensor, "n_offsets d_head"],
    value_vectors: Float[Tensor, "n_offsets d_value"],
    query_positions: Int[Tensor, "batch n_queries"],
    key_positions: Int[Tensor, "batch n_keys"],
    mask: Bool[Tensor, "batch n_queries n_keys"],
) -> Float[Tensor, "batch n_heads n_queries d_value"]:
    """Attention in which each clipped offset adds a vector to the keys and another to the values."""
    r_max = len(key_vectors) // 2
    offset = key_positions[:, None, :] - query_positions[:, :, None]
    rows = offset.clamp(-r_max, r_max) + r_max  # (batch, n_queries, n_keys)
    by_position = torch.einsum("bhqd,bqkd->bhqk", query, key_vectors[rows])
    scores = (query @ key.mT + by_position) / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), dim=-1)
    return weights @ value + torch.einsum("bhqk,bqkd->bhqd", weights, value_vectors[rows])
