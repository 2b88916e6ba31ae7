from llm_anatomy.shapes import Int, Tensor


def t5_bucket(
    offset: Int[Tensor, "n_queries n_keys"], n_buckets: int, max_distance: int
) -> Int[Tensor, "n_queries n_keys"]:
    """The bucket of each offset, key position minus query position, in both directions."""
    raise NotImplementedError
