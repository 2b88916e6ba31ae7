from llm_anatomy.shapes import Bool, Tensor


def causal_mask(n_queries: int, n_keys: int) -> Bool[Tensor, "n_queries n_keys"]:
    """True where a query may attend to a key; the last query is at the position of the last key."""
    raise NotImplementedError
