from llm_anatomy.shapes import Float, Tensor


def look_by_offset(
    offset: int, d_model: int
) -> tuple[Float[Tensor, "d_model d_head"], Float[Tensor, "d_model d_head"]]:
    """w_query and w_key of a head by which each token attends to the one `offset` positions on."""
    raise NotImplementedError
