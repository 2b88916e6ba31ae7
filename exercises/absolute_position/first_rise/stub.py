from llm_anatomy.shapes import Float, Int, Tensor


def first_rise(proximity: Float[Tensor, "n_positions n_positions"]) -> Int[Tensor, "n_positions"]:
    """For each query, the first distance at which proximity to a later key rises; −1 where it never does."""
    raise NotImplementedError
