import math

import torch

from llm_anatomy.shapes import Float, Tensor


def cached_step(
    query: Float[Tensor, "n_heads d_head"],
    key: Float[Tensor, "n_heads d_head"],
    value: Float[Tensor, "n_heads d_head"],
    cache: dict[str, Tensor],
) -> tuple[Float[Tensor, "n_heads d_head"], dict[str, Tensor]]:
    """What the new token receives, and the cache with it."""
    keys, values = (torch.cat((cache[n], x[:, None]), 1) for n, x in (("keys", key), ("values", value)))
    scores = torch.einsum("hd,htd->ht", query, keys) / math.sqrt(query.shape[-1])
    return torch.einsum("ht,htd->hd", torch.softmax(scores, -1), values), {"keys": keys, "values": values}
