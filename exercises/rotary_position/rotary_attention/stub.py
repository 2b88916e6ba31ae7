import math  # noqa: F401

import torch  # noqa: F401

from llm_anatomy.shapes import Bool, Float, Int, Tensor


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
    raise NotImplementedError
