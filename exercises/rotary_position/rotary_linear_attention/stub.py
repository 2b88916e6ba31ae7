import torch  # noqa: F401

from llm_anatomy.shapes import Float, Int, Tensor


def rotary_linear_attention(
    queries: Float[Tensor, "n_heads n_tokens d_head"],
    keys: Float[Tensor, "n_heads n_tokens d_head"],
    values: Float[Tensor, "n_heads n_tokens d_value"],
    positions: Int[Tensor, "n_tokens"],
    base: int,
) -> Float[Tensor, "n_heads n_tokens d_value"]:
    """Causal linear attention with features elu + 1, turned in the numerator only."""
    raise NotImplementedError
