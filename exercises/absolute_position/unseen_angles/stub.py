from llm_anatomy.shapes import Bool, Int, Tensor


def unseen_angles(
    positions: Int[Tensor, "n_positions"], d_model: int, n_trained: int
) -> Bool[Tensor, "n_positions n_frequencies"]:
    """True where a pair shows an angle that it never passed at the positions 0 to n_trained − 1."""
    raise NotImplementedError
