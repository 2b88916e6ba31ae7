from llm_anatomy.shapes import Float, Int, Tensor


def turned_cosines(
    angles: Float[Tensor, "n_words"], positions: Int[Tensor, "n_words"], theta: float
) -> Float[Tensor, "n_words n_words"]:
    """The cosine of the angle between any two words, when each is turned by its position times theta."""
    turned = angles + positions * theta
    return (turned[None, :] - turned[:, None]).cos()
