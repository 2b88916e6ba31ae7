from llm_anatomy.shapes import Float, Int, Tensor


def biased_weights(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    table: Float[Tensor, "n_heads n_offsets"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """Attention weights with a trained number per head and clipped offset added to the scaled scores."""
    raise NotImplementedError
