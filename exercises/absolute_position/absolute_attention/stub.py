from llm_anatomy.layers.positions.absolute import Sinusoidal  # noqa: F401
from llm_anatomy.shapes import Float, Int, Tensor


def absolute_attention(
    x: Float[Tensor, "batch n_tokens d_model"],
    positions: Int[Tensor, "batch n_tokens"],
    w_query: Float[Tensor, "d_model d_head"],
    w_key: Float[Tensor, "d_model d_head"],
    w_value: Float[Tensor, "d_model d_value"],
) -> Float[Tensor, "batch n_tokens d_value"]:
    """Attention over tokens that carry sinusoidal codes; no token attends to padding, which is at position −1."""
    raise NotImplementedError
