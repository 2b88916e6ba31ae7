import torch

from llm_anatomy.shapes import Float, Int, Tensor


def read_distance(
    query_codes: Float[Tensor, "n_pairs_of_positions d_model"], key_codes: Float[Tensor, "n_pairs_of_positions d_model"]
) -> Int[Tensor, "n_pairs_of_positions"]:
    """By how many positions each key stands after its query, read off their sinusoidal codes."""
    d_model = query_codes.shape[-1]
    (s_q, c_q), (s_k, c_k) = query_codes[:, -2:].T, key_codes[:, -2:].T  # the slowest pair
    angle = torch.atan2(s_k * c_q - c_k * s_q, c_k * c_q + s_k * s_q)
    return (angle * 10000 ** ((d_model - 2) / d_model)).round().long()
