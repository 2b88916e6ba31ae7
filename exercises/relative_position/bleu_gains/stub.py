from llm_anatomy.shapes import Float, Int, Tensor


def bleu_gains(
    bleu: Float[Tensor, "n_models 2 n_pairs"],
) -> tuple[Float[Tensor, "n_models n_pairs"], Int[Tensor, "n_pairs"]]:
    """Gain of relative over absolute positions, and for each pair of languages the model that gains most."""
    raise NotImplementedError
