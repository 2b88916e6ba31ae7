import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def biased_weights(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    table: Float[Tensor, "n_heads n_offsets"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """Attention weights with a trained number per head and clipped offset added to the scaled scores."""
    r_max = table.shape[-1] // 2
    columns = (key_positions - query_positions[:, None]).clamp(-r_max, r_max) + r_max  # (n_queries, n_keys)
    scores = query @ key.mT / math.sqrt(query.shape[-1]) + table[:, columns]
    return torch.softmax(scores, dim=-1)
