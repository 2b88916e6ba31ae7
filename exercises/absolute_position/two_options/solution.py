from llm_anatomy.shapes import Bool, Float, Tensor


def two_options(
    is_word: Bool[Tensor, "batch n_tokens"],
) -> tuple[Float[Tensor, "batch n_tokens"], Float[Tensor, "batch n_tokens"], Float[Tensor, "batch"]]:
    """Index, scaled index and the step of the latter; words are at the right, padding at the left gets 0."""
    index = ((is_word.cumsum(-1) - 1) * is_word).float()
    last = is_word.sum(-1) - 1  # n - 1
    divisor = last.clamp(min=1)
    return index, index / divisor[:, None], (last > 0) / divisor
