import math

import torch

from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.shapes import Float, Int, Tensor


def absolute_attention(
    x: Float[Tensor, "batch n_tokens d_model"],
    positions: Int[Tensor, "batch n_tokens"],
    w_query: Float[Tensor, "d_model d_head"],
    w_key: Float[Tensor, "d_model d_head"],
    w_value: Float[Tensor, "d_model d_value"],
) -> Float[Tensor, "batch n_tokens d_value"]:
    """Attention over tokens that carry sinusoidal codes; no token attends to padding, which is at position −1."""
    placed = x + Sinusoidal(x.shape[-1]).encoding(positions).to(x.dtype)
    query, key, value = placed @ w_query, placed @ w_key, placed @ w_value
    scores = query @ key.transpose(1, 2) / math.sqrt(key.shape[-1])  # (batch, queries, keys)
    is_padding = (positions < 0)[:, None, :]
    return torch.softmax(scores.masked_fill(is_padding, -math.inf), -1) @ value
