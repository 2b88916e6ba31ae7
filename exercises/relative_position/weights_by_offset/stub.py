from llm_anatomy.shapes import Float, Int, Tensor


def weights_by_offset(
    weights: Float[Tensor, "n_heads n_queries n_keys"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
    r_max: int,
) -> Float[Tensor, "n_heads n_queries n_offsets"]:
    """The weight that each query puts on each clipped offset, from -r_max to r_max."""
    raise NotImplementedError
