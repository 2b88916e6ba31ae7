from llm_anatomy.shapes import Float, Tensor


def previous_token_head(n_tokens: int) -> tuple[Float[Tensor, "n_tokens d_head"], Float[Tensor, "n_tokens d_head"]]:
    """w_query and w_key of a head in which each token attends to the one before it."""
    raise NotImplementedError
