r"""Product-key memory: a large table of values, of which each token reads those few whose keys match its query best.

Shapes: ``heads`` (of the memory, not of attention), ``n_keys`` (sub-keys in each of the two tables), ``k``
(values that a head reads). There are n_keys² values. The key of value :math:`n_\mathrm{keys}\, i + j` is the i-th
sub-key of the first table, followed by the j-th of the second, so that no table of all keys is ever made.
"""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.shapes import Float, Int, Tensor


def product_key_top_k(
    scores: Float[Tensor, "*batch 2 n_keys"], k: int
) -> tuple[Float[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    r"""Find the k best of all pairs of sub-keys, without a score for every pair.

    .. math:: s_{i, j} = a_i + b_j, \quad \mathrm{TopK}_{i, j}(s) \subseteq \mathrm{TopK}_i(a) \times \mathrm{TopK}_j(b)

    The search is exact. If i is not among the k best of the first table, then at least k other sub-keys make a pair
    with j that scores at least as much as (i, j); the same holds for the second table. So k² pairs are compared instead
    of n_keys².

    Args:
        scores: of the sub-keys of both tables, :math:`a` and :math:`b`.
        k: number of pairs, at most ``n_keys``.

    Returns:
        The scores of the k best pairs, best first, and their indices :math:`n_\mathrm{keys}\, i + j`.

    Raises:
        ValueError: for ``k`` out of range.

    Source: Lample et al. (2019), "Large Memory Layers with Product Keys", section 3.1; GT-19.

    >>> best, indices = product_key_top_k(torch.tensor([[4.0, 1.0, 2.0], [0.0, 5.0, 3.0]]), k=3)
    >>> best.tolist(), indices.tolist()
    ([9.0, 7.0, 7.0], [1, 2, 7])
    """
    n_keys = scores.shape[-1]
    if not 1 <= k <= n_keys:
        raise ValueError(f"{k=} must be from 1 to {n_keys=}")
    best, indices = scores.topk(k, dim=-1)
    pairs = best[..., 0, :, None] + best[..., 1, None, :]
    indices_of_pairs = n_keys * indices[..., 0, :, None] + indices[..., 1, None, :]
    best, chosen = pairs.flatten(-2).topk(k, dim=-1)
    return best, indices_of_pairs.flatten(-2).gather(-1, chosen)


class ProductKeyMemory(nn.Module):
    r"""A memory in place of a feed-forward layer: each head reads the k values whose keys match its query best.

    .. math:: q_h = \mathrm{LayerNorm}(x W_h^Q + b_h), \quad S_h = \mathrm{TopK}_{i, j}
        \big(q_h^{(1)} \cdot c_{h, i}^{(1)} + q_h^{(2)} \cdot c_{h, j}^{(2)}\big), \quad
        y = \sum_h \sum_{(i, j) \in S_h} \mathrm{softmax}(s_h)_{i, j}\, v_{i, j}

    A query is cut into halves, one for each table of sub-keys, and each half is normalized. Heads have their own
    queries and sub-keys, and share the values. As the memory grows, so do its parameters, but the operations only with
    the square root of their number.

    Args:
        d_model: width of the tokens and of the values, at least 1.
        n_keys: number of sub-keys in each table; the memory has its square of values.
        n_heads: number of heads.
        k: number of values that a head reads, at most ``n_keys``.
        d_query: width of a query, which must be even.

    Raises:
        ValueError: for sizes below one, a ``k`` above ``n_keys``, and an odd ``d_query``.

    Source: Lample et al. (2019), "Large Memory Layers with Product Keys", sections 3.1 and 3.2; LayerNorm in place of
    their batch normalization as in the code of Narang et al. (2021); GT-19.

    >>> memory = ProductKeyMemory(d_model=8, n_keys=5, n_heads=2, k=3, d_query=6)
    >>> memory.values.shape, memory(torch.randn(2, 4, 8)).shape
    (torch.Size([25, 8]), torch.Size([2, 4, 8]))
    """

    def __init__(self, d_model: int, n_keys: int, *, n_heads: int = 4, k: int = 32, d_query: int = 256):
        super().__init__()
        _check_at_least_one(d_model=d_model, n_keys=n_keys, n_heads=n_heads, k=k, d_query=d_query)
        if k > n_keys:
            raise ValueError(f"{k=} must be at most {n_keys=}")
        if d_query % 2:
            raise ValueError(f"{d_query=} must be even: each half is compared with one table of sub-keys")
        self.n_heads, self.k, d_half = n_heads, k, d_query // 2
        self.w_query = nn.Linear(d_model, n_heads * d_query)
        self.query_norm = nn.LayerNorm(d_half)
        self.sub_keys = nn.Parameter(torch.empty(n_heads, 2, n_keys, d_half).uniform_(-1, 1) / math.sqrt(d_half))
        self.values = nn.Parameter(torch.randn(n_keys**2, d_model) / math.sqrt(d_model))

    def forward(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens d_model"]:
        """Read the memory once for each token."""
        scores, indices = self.search(x)
        indices = rearrange(indices, "batch tokens heads k -> (batch tokens) (heads k)")
        weights = rearrange(scores.softmax(-1), "batch tokens heads k -> (batch tokens) (heads k)")
        values = F.embedding_bag(indices, self.values, per_sample_weights=weights.to(self.values.dtype), mode="sum")
        return values.view_as(x)

    def search(
        self, x: Float[Tensor, "batch tokens d_model"]
    ) -> tuple[Float[Tensor, "batch tokens heads k"], Int[Tensor, "batch tokens heads k"]]:
        """Find the best keys of each head: their scores, best first, and the indices of their values."""
        query = rearrange(self.w_query(x), "batch tokens (h half d) -> batch tokens h half d", h=self.n_heads, half=2)
        scores = torch.einsum("b t h s d, h s n d -> b t h s n", self.query_norm(query), self.sub_keys)
        return product_key_top_k(scores, self.k)
