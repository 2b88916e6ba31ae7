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
    raise NotImplementedError
