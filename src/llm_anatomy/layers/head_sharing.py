"""Conversion of trained multi-head attention to grouped-query or multi-query attention, with fewer key-value heads.

The cache shrinks in proportion to the number of key-value heads. A function merges the heads of a group into the shared
one: their mean, the first of them, or a random head. Unless the heads are equal, quality drops; a short training
recovers it.
"""

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from einops import rearrange
from torch import nn

from llm_anatomy.layers.attention import MultiHeadAttention
from llm_anatomy.shapes import Float, Tensor

AnyAttention = TypeVar("AnyAttention", bound=MultiHeadAttention)


def mean_head(heads: Float[Tensor, "kv_heads group *width"]) -> Float[Tensor, "kv_heads *width"]:
    r"""Mean of the heads of a group, which the authors found to be the best choice.

    .. math:: W_g^K = \frac{G}{H} \sum_{h \in g} W_h^K, \quad \text{the same for } V

    Args:
        heads: the rows of a projection, or its biases, grouped by head.

    Source: Ainslie et al. (2023), section 2.1; CMU-15.

    >>> mean_head(torch.tensor([[[1.0, 5.0], [3.0, 9.0]]])).tolist()
    [[2.0, 7.0]]
    """
    return heads.mean(1)


def first_head(heads: Float[Tensor, "kv_heads group *width"]) -> Float[Tensor, "kv_heads *width"]:
    """First head of a group; the others are dropped.

    Args:
        heads: as in :func:`mean_head`.

    Source: Ainslie et al. (2023), section 3.3; CMU-15.

    >>> first_head(torch.tensor([[[1.0, 5.0], [3.0, 9.0]]])).tolist()
    [[1.0, 5.0]]
    """
    return heads[:, 0]


class RandomHead:
    """Random head for each group, whose entries are as large as those of the heads, in root mean square.

    Args:
        generator: source of random numbers, on the CPU.

    Source: Ainslie et al. (2023), section 3.3; CMU-15.

    >>> new = RandomHead(torch.Generator().manual_seed(0))
    >>> tuple(new(torch.ones(2, 3, 5)).shape)
    (2, 5)
    """

    def __init__(self, generator: torch.Generator):
        self.generator = generator

    def __call__(self, heads: Float[Tensor, "kv_heads group *width"]) -> Float[Tensor, "kv_heads *width"]:
        draw = torch.randn(heads[:, 0].shape, generator=self.generator, device="cpu")
        return draw.to(heads) * heads.square().mean().sqrt()


def share_heads(attention: AnyAttention, n_kv_heads: int, pool: Callable[[Tensor], Tensor] = mean_head) -> AnyAttention:
    """Make a copy with fewer key-value heads, and the same queries, output, position scheme, dtype and device.

    Neighbouring heads form a group, as in :class:`~llm_anatomy.layers.attention.MultiHeadAttention`, where query head i
    reads key-value head ``i // (n_heads / n_kv_heads)``. The number of keys stays, and their width shrinks (erratum
    E-33): the cache shrinks by the factor ``attention.n_kv_heads / n_kv_heads``.

    Args:
        attention: multi-head or grouped-query attention, which stays unchanged and shares no memory with the copy.
        n_kv_heads: new number of key-value heads; must divide the present one. One gives multi-query attention.
        pool: computes one head from each group: :func:`mean_head`, :func:`first_head` or a :class:`RandomHead`.

    Returns:
        The copy. If the heads of each group are equal, mean and first head leave the outputs unchanged.

    Raises:
        ValueError: if ``n_kv_heads`` is below one or does not divide the present number.

    Source: Ainslie et al. (2023), section 2.1; Shazeer (2019); CMU-11, CMU-12, CMU-14, CMU-15.

    >>> from llm_anatomy.layers.attention import SelfAttention
    >>> shared = share_heads(SelfAttention(d_model=12, n_heads=6), n_kv_heads=2)
    >>> tuple(shared.w_key.weight.shape), tuple(shared(torch.randn(3, 5, 12)).shape)
    ((4, 12), (3, 5, 12))
    """
    if n_kv_heads < 1 or attention.n_kv_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads=} must be at least 1 and divide attention.n_kv_heads={attention.n_kv_heads}")
    group = attention.n_kv_heads // n_kv_heads
    shared = copy.deepcopy(attention)
    shared.n_kv_heads = n_kv_heads
    for projection in (shared.w_key, shared.w_value):
        for name, parameter in list(projection.named_parameters()):  # rows of the weight; the bias, if there is one
            heads = rearrange(
                parameter.detach(), "(kv_heads group d) ... -> kv_heads group d ...", kv_heads=n_kv_heads, group=group
            )
            pooled = rearrange(pool(heads), "kv_heads d ... -> (kv_heads d) ...").clone()
            setattr(projection, name, nn.Parameter(pooled, requires_grad=parameter.requires_grad))
        projection.out_features = len(projection.weight)
    return shared
