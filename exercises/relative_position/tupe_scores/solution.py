import math

from llm_anatomy.shapes import Float, Int, Tensor


def tupe_scores(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    positions: Float[Tensor, "n_ctx d_model"],
    u_query: Float[Tensor, "n_heads d_model d_head"],
    u_key: Float[Tensor, "n_heads d_model d_head"],
    bias: Float[Tensor, "n_heads n_queries n_keys"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """Scores in which words meet words and positions meet positions, plus a bias."""
    position_query = positions[query_positions] @ u_query  # (n_heads, n_queries, d_head)
    position_key = positions[key_positions] @ u_key
    products = query @ key.mT + position_query @ position_key.mT
    return products / math.sqrt(2 * query.shape[-1]) + bias
