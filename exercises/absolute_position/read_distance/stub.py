from llm_anatomy.shapes import Float, Int, Tensor


def read_distance(
    query_codes: Float[Tensor, "n_pairs_of_positions d_model"], key_codes: Float[Tensor, "n_pairs_of_positions d_model"]
) -> Int[Tensor, "n_pairs_of_positions"]:
    """By how many positions each key stands after its query, read off their sinusoidal codes."""
    raise NotImplementedError
