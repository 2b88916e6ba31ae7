from llm_anatomy.shapes import Float, Int, Tensor


def add_learned_positions(
    x: Float[Tensor, "batch n_tokens d_model"],
    positions: Int[Tensor, "batch n_tokens"],
    table: Float[Tensor, "d_model n_ctx"],
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Add to each token the column of its position; −1 is padding, any other position outside is a ValueError."""
    raise NotImplementedError
