import torch

from llm_anatomy.shapes import Float, Int, Tensor


def score_and_bound(
    query: Float[Tensor, "d_head"], key: Float[Tensor, "d_head"], offsets: Int[Tensor, "n_offsets"], base: int
) -> tuple[Float[Tensor, "n_offsets"], Float[Tensor, "n_offsets"]]:
    """The unscaled score of query and key under RoPE at each offset, and the paper's bound on it."""
    query, key = (torch.view_as_complex(x.reshape(-1, 2)) for x in (query, key))
    products = query.conj() * key  # (n_pairs,)
    angles = (offsets[:, None] * base ** (-torch.arange(len(query)) / len(query))).to(query.real.dtype)
    turns = torch.polar(torch.ones_like(angles), angles)  # (n_offsets, n_pairs)
    steps = torch.cat((products, torch.zeros_like(products[:1]))).diff().abs()
    return (turns * products).sum(-1).real, steps.max() * turns.cumsum(-1).abs().sum(-1)
