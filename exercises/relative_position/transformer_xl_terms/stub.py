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
    """The four terms of the scores: query–key, query–distance, bias of the key, bias of the distance."""
    raise NotImplementedError
