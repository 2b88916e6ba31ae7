import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def deberta_scores(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    place_query: Float[Tensor, "n_heads n_rows d_head"],
    place_key: Float[Tensor, "n_heads n_rows d_head"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """Disentangled attention, as in the paper: word with word, word with place, place with word."""
    span = place_key.shape[1] // 2
    distance = query_positions[:, None] - key_positions
    from_query = distance.clamp(-span, span - 1) + span  # (n_queries, n_keys)
    from_key = (-distance).clamp(-span, span - 1) + span
    asks_for_place = torch.einsum("hqd,hqkd->hqk", query, place_key[:, from_query])
    asked_by_place = torch.einsum("hkd,hqkd->hqk", key, place_query[:, from_key])
    return (query @ key.mT + asks_for_place + asked_by_place) / math.sqrt(3 * query.shape[-1])
