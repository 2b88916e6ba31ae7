from llm_anatomy.shapes import Float, Int, Tensor


def sinusoidal_encoding(
    positions: Int[Tensor, "batch n_tokens"], d_model: int
) -> Float[Tensor, "batch n_tokens d_model"]:
    """The sinusoidal code of each position, sine and cosine of a pair side by side."""
    raise NotImplementedError
