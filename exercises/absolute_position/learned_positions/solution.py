from llm_anatomy.shapes import Float, Int, Tensor


def add_learned_positions(
    x: Float[Tensor, "batch n_tokens d_model"],
    positions: Int[Tensor, "batch n_tokens"],
    table: Float[Tensor, "d_model n_ctx"],
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Add to each token the column of its position; −1 is padding, any other position outside is a ValueError."""
    outside = positions[(positions < -1) | (positions >= table.shape[1])]
    if len(outside):
        raise ValueError(
            f"there is no vector for position {outside[0]}: positions are 0 to {table.shape[1] - 1}, or -1"
        )
    of_positions = table.T[positions.clamp(min=0)]  # (batch, n_tokens, d_model)
    return x + of_positions * (positions >= 0)[..., None]
