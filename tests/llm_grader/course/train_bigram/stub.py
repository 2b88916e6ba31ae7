from llm_anatomy.shapes import Int, Tensor


def train_bigram(pairs: Int[Tensor, "n_pairs 2"], n_vocab: int) -> dict[str, Tensor]:
    """A trained table of logits, by the name of logits."""
    raise NotImplementedError
