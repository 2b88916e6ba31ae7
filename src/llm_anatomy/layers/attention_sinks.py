r"""Attention sinks: one learned logit per head in the denominator of the softmax, so that a head may attend to nothing.

Shapes as in ``layers.functional``. The weights of a softmax sum to one, so a head that finds nothing must
still attend somewhere; trained models choose the first tokens for that, and lose their footing when a window or a cache
drops those. A sink takes this share in place of a token, and adds no value to the output.
"""

import torch
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.shapes import Bool, Float, Tensor


class AttentionSinks(nn.Module):
    r"""The logit of the sink of each head, which attention gets as ``sinks``.

    .. math:: w_{ij} = \frac{e^{s_{ij}}}{e^{b_h} + \sum_k e^{s_{ik}}}

    Here :math:`s_{ij}` are the scores of head h, scaled and biased, and :math:`b_h` is the logit of its sink. The
    weights of a query sum to less than one. With :math:`b_h = 0` this is the "softmax off by one", and with
    :math:`b_h \to -\infty` the usual softmax.

    Args:
        n_heads: number of query heads, at least 1.

    Raises:
        ValueError: for a number of heads below one.

    Source: Xiao et al. (2024), "Efficient Streaming Language Models with Attention Sinks", section 3.3 (SoftMax1);
    OpenAI (2025), "gpt-oss-120b & gpt-oss-20b Model Card", section 2.2 (a learned logit per head).

    >>> from llm_anatomy.layers.attention import SelfAttention
    >>> attention = SelfAttention(d_model=12, n_heads=3, sinks=AttentionSinks(3))
    >>> output, weights = attention(torch.randn(2, 5, 12), return_weights=True)
    >>> bool((weights.sum(-1) < 1).all())
    True
    """

    def __init__(self, n_heads: int):
        super().__init__()
        _check_at_least_one(n_heads=n_heads)
        self.logits = nn.Parameter(torch.zeros(n_heads))


def softmax_with_sinks(
    scores: Float[Tensor, "*leading heads queries keys"], sinks: Float[Tensor, "heads"]
) -> Float[Tensor, "*leading heads queries keys"]:
    r"""Compute the softmax of the scores beside the logit of a sink, and drop the share of the sink.

    Args:
        scores: of all keys; minus infinity for a key that is hidden.
        sinks: the logit of the sink of each head.

    Source: as :class:`AttentionSinks`.

    >>> softmax_with_sinks(torch.zeros(1, 1, 3), torch.zeros(1)).tolist()
    [[[0.25, 0.25, 0.25]]]
    """
    column = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.cat((scores, column), -1).softmax(-1)[..., :-1]


def with_sink_as_key(
    key: Float[Tensor, "batch kv_heads keys d_head"],
    value: Float[Tensor, "batch kv_heads keys d_value"],
    mask: Bool[Tensor, "*#mask"] | Float[Tensor, "*#mask"] | None,
    sinks: Float[Tensor, "heads"],
    n_queries: int,
) -> tuple[
    Float[Tensor, "batch kv_heads keys_and_sink d_head"],
    Float[Tensor, "batch kv_heads keys_and_sink d_value"],
    Float[Tensor, "batch_or_1 heads queries keys_and_sink"],
]:
    """Append the sink as a key of zeros with a value of zeros, so that a fused kernel computes the same numbers.

    Its score is zero, and the logit of the sink is added to it as a mask of floats does that for every kernel.

    Args:
        key, value: of all tokens.
        mask: of attention: boolean, True = may attend, or numbers to add to the scores; None for no mask.
        sinks: the logit of the sink of each head.
        n_queries: number of queries.

    Returns:
        Keys, values, and the numbers to add to the scores.

    Source: as :class:`AttentionSinks`.

    >>> key, value, added = with_sink_as_key(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), None, torch.ones(2), 1)
    >>> tuple(key.shape), added[0, 0].tolist()
    ((1, 2, 4, 4), [[0.0, 0.0, 0.0, 1.0]])
    """
    n_keys, n_heads = key.shape[2], len(sinks)
    added = key.new_zeros(1, 1, n_queries, n_keys)
    if mask is not None:
        added = added.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else added + mask
    added = added.expand(-1, n_heads, -1, -1)
    column = sinks.to(key.dtype)[:, None, None].expand(added.shape[0], -1, n_queries, 1)
    key, value = (torch.cat((x, x.new_zeros(*x.shape[:2], 1, x.shape[3])), 2) for x in (key, value))
    return key, value, torch.cat((added, column), -1)
