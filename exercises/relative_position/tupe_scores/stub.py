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
    raise NotImplementedError
