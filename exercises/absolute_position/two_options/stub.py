from llm_anatomy.shapes import Bool, Float, Tensor


def two_options(
    is_word: Bool[Tensor, "batch n_tokens"],
) -> tuple[Float[Tensor, "batch n_tokens"], Float[Tensor, "batch n_tokens"], Float[Tensor, "batch"]]:
    """Index, scaled index and the step of the latter; words are at the right, padding at the left gets 0."""
    raise NotImplementedError
