import torch  # noqa: F401

from llm_anatomy.shapes import Float, Int, Tensor


def score_and_bound(
    query: Float[Tensor, "d_head"], key: Float[Tensor, "d_head"], offsets: Int[Tensor, "n_offsets"], base: int
) -> tuple[Float[Tensor, "n_offsets"], Float[Tensor, "n_offsets"]]:
    """The unscaled score of query and key under RoPE at each offset, and the paper's bound on it."""
    raise NotImplementedError
