from llm_anatomy.shapes import Int, Tensor


def offset_matrix(
    query_positions: Int[Tensor, "batch n_queries"], key_positions: Int[Tensor, "batch n_keys"]
) -> Int[Tensor, "batch n_queries n_keys"]:
    """Key position minus query position, for every pair."""
    return key_positions[:, None, :] - query_positions[:, :, None]
