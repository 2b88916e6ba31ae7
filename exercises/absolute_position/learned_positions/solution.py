from llm_anatomy.shapes import Float, Int, Tensor


def add_learned_positions(
    x: Float[Tensor, "batch n_tokens d_model"],
    positions: Int[Tensor, "batch n_tokens"],
    table: Float[Tensor, "d_model n_ctx"],
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Add to each token the column of its place; −1 is padding, any other place outside is a ValueError."""
    outside = positions[(positions < -1) | (positions >= table.shape[1])]
    if len(outside):
        raise ValueError(f"there is no vector for place {outside[0]}: places are 0 to {table.shape[1] - 1}, or -1")
    of_places = table.T[positions.clamp(min=0)]  # (batch, n_tokens, d_model)
    return x + of_places * (positions >= 0)[..., None]
