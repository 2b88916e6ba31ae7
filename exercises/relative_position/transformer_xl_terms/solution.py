import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def transformer_xl_terms(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    u: Float[Tensor, "n_heads d_head"],
    v: Float[Tensor, "n_heads d_head"],
    w_position: Float[Tensor, "n_heads d_head d_model"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "4 n_heads n_queries n_keys"]:
    """The four terms of the scores: word by word, word by distance, key for everyone, distance for everyone."""
    d_model, d_head = w_position.shape[-1], query.shape[-1]
    frequencies = 10000 ** (-torch.arange(0, d_model, 2, dtype=query.dtype, device=query.device) / d_model)
    angles = (query_positions[:, None] - key_positions)[..., None] * frequencies
    sinusoids = torch.cat((angles.sin(), angles.cos()), dim=-1)  # (n_queries, n_keys, d_model)
    positions = torch.einsum("qkm,hdm->hqkd", sinusoids, w_position)
    words = query @ key.mT
    asked = torch.einsum("hqd,hqkd->hqk", query, positions)
    weighed = torch.einsum("hd,hkd->hk", u, key)[:, None].expand_as(words)
    distant = torch.einsum("hd,hqkd->hqk", v, positions)
    return torch.stack((words, asked, weighed, distant)) / math.sqrt(d_head)
