from llm_anatomy.shapes import Float, Int, Tensor


def alibi_bias(
    n_heads: int, query_positions: Int[Tensor, "n_queries"], key_positions: Int[Tensor, "n_keys"]
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """The bias that ALiBi adds to the scores of each head: minus its slope times the distance."""
    raise NotImplementedError
