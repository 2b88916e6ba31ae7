import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def deberta_scores(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    position_query: Float[Tensor, "n_heads n_rows d_head"],
    position_key: Float[Tensor, "n_heads n_rows d_head"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """Disentangled attention, as in the paper: word with word, word with position, position with word."""
    span = position_key.shape[1] // 2
    distance = query_positions[:, None] - key_positions
    from_query = distance.clamp(-span, span - 1) + span  # (n_queries, n_keys)
    from_key = (-distance).clamp(-span, span - 1) + span
    asks_for_position = torch.einsum("hqd,hqkd->hqk", query, position_key[:, from_query])
    asked_by_position = torch.einsum("hkd,hqkd->hqk", key, position_query[:, from_key])
    return (query @ key.mT + asks_for_position + asked_by_position) / math.sqrt(3 * query.shape[-1])
