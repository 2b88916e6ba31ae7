"""Additive attention, the first form of attention: a small network scores how well a query and a key match.

Shapes as in ``layers.functional``, without heads: ``batch``, ``queries``, ``keys``, and ``d_hidden``, the
width of the small network. Masks are boolean, True = may attend.
"""

import math

import torch
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.functional import _check_broadcast
from llm_anatomy.shapes import Bool, Float, Tensor


class AdditiveAttention(nn.Module):
    r"""Attention whose scores add the projected query and key instead of multiplying them.

    .. math:: \mathrm{Attention}(Q, K, V) = \mathrm{softmax}(S)\, V, \quad
        S_{ij} = v^\top \tanh(W q_i + U k_j + b)

    Since each has a projection of its own, queries and keys need not be equally wide. Each pair of a query and a key
    costs ``d_hidden`` hyperbolic tangents, which no matrix product computes; the dot product saves this cost. Scores
    are not scaled, since tanh bounds each of them by the sum of :math:`|v|`.

    Args:
        d_query, d_key: widths of a query and a key.
        d_hidden: width of the network, ``d_query`` by default.
        bias: whether the network has the bias b.

    Raises:
        ValueError: for widths below one; in ``forward``, for shapes that do not fit.
        TypeError: in ``forward``, for a mask that is not boolean.

    Source: Bahdanau et al. (2015), appendix A.1.2; UCL-18, UCL-19 (whose softmax of dot products is not Bahdanau's:
    erratum E-79).

    >>> attention = AdditiveAttention(d_query=4, d_key=6, d_hidden=5)
    >>> output, weights = attention(torch.randn(2, 3, 4), torch.randn(2, 7, 6), return_weights=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 3, 6), (2, 3, 7))
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int | None = None, *, bias: bool = False):
        super().__init__()
        d_hidden = d_query if d_hidden is None else d_hidden
        _check_at_least_one(d_query=d_query, d_key=d_key, d_hidden=d_hidden)
        self.w_query = nn.Linear(d_query, d_hidden, bias=bias)
        self.w_key = nn.Linear(d_key, d_hidden, bias=False)
        self.v = nn.Linear(d_hidden, 1, bias=False)  # no bias, since the softmax would not depend on it

    def scores(
        self, query: Float[Tensor, "batch queries d_query"], key: Float[Tensor, "batch keys d_key"]
    ) -> Float[Tensor, "batch queries keys"]:
        """Compute how well each key matches each query, before the softmax."""
        # tanh(W q_i + U k_j + b): (batch, queries, 1, d_hidden) + (batch, 1, keys, d_hidden)
        hidden = torch.tanh(self.w_query(query)[:, :, None] + self.w_key(key)[:, None])
        return self.v(hidden)[..., 0]

    def forward(
        self,
        query: Float[Tensor, "batch queries d_query"],
        key: Float[Tensor, "batch keys d_key"],
        value: Float[Tensor, "batch keys d_value"] | None = None,
        mask: Bool[Tensor, "*#mask"] | None = None,
        *,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "batch queries d_value"]
        | tuple[Float[Tensor, "batch queries d_value"], Float[Tensor, "batch queries keys"]]
    ):
        """Average the values with the weights of their keys.

        Args:
            query, key: the vectors that are compared.
            value: the vectors that are averaged; the keys by default, as in the paper.
            mask: boolean, True = may attend, broadcast to (batch, queries, keys). A query that may attend to no key
                gets zeros for weights and output.
            return_weights: whether to return ``(output, weights)``.
        """
        value = key if value is None else value
        self._check_shapes(query, key, value, mask)
        scores = self.scores(query, key)
        if mask is None:
            weights = scores.softmax(-1)
        else:  # the second fill gives a query that may attend to no key zeros instead of 0/0
            weights = scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)
        output = weights @ value
        return (output, weights) if return_weights else output

    def _check_shapes(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
        for name, tensor, width in (("query", query, self.w_query.in_features), ("key", key, self.w_key.in_features)):
            if tensor.ndim != 3 or tensor.shape[-1] != width:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be (batch, tokens, {width})")
        if query.shape[0] != key.shape[0] or value.ndim != 3 or key.shape[:2] != value.shape[:2]:
            raise ValueError(
                f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} must agree in "
                "batch, and key and value in tokens"
            )
        _check_broadcast((*query.shape[:2], key.shape[1]), mask=mask)
