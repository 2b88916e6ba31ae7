from llm_anatomy.shapes import Float, Tensor


def cached_step(
    query: Float[Tensor, "n_heads d_head"],
    key: Float[Tensor, "n_heads d_head"],
    value: Float[Tensor, "n_heads d_head"],
    cache: dict[str, Tensor],
) -> tuple[Float[Tensor, "n_heads d_head"], dict[str, Tensor]]:
    """What the new token receives, and the cache with it."""
    raise NotImplementedError
