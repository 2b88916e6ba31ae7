r"""How far a scheme has the three properties of the lecture, and how fast proximity falls with distance.

A matrix :math:`\phi` says how near the scheme puts each position to each other: ``proximity[i, j]`` is that of position
i, as a query, to position j, as a key, over positions 0, 1, 2, … It may be the dot products of an absolute scheme
(``encoding @ encoding.T``), a bias, a head's mean weights, or what :func:`score_matrix` gives for any scheme.

Legend of shapes: ``positions``, ``heads``, ``width`` (of a query or key). Monotonicity and decay look forward, to keys
after the query; ``proximity.flip(0, 1)`` looks back. Measure in float64 where a property is to hold exactly.
"""

import torch

from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.shapes import Float, Tensor


def score_matrix(
    scheme: PositionScheme, query: Float[Tensor, "heads width"], key: Float[Tensor, "heads width"], n_positions: int
) -> Float[Tensor, "heads positions positions"]:
    r"""The scores before the softmax if the same query stood at every position, and the same key: what differs between
    its entries comes from the positions.

    .. math:: \phi_{ij} = \mathrm{rotate}(q + p_i, i)^\top\, \mathrm{rotate}(k + p_j, j) \cdot \mathrm{scale} +
        \mathrm{bias}(i, j)

    Vectors of absolute schemes are added to query and key as they are, without projections, so that ``width`` is
    their ``d_model``; zeros for query and key leave their dot products alone.

    Args:
        scheme: any whose hooks need no projections of attention's.
        query, key: one per head.
        n_positions: how many positions, from 1.

    Raises:
        ValueError: for fewer than one position, or a query and a key of different shapes.

    Source: IITD-14, IITD-16.

    >>> zeros = torch.zeros(1, 4)
    >>> from llm_anatomy.layers.positions.absolute import IntegerIndex
    >>> score_matrix(IntegerIndex(4), zeros, zeros, 3)[0].tolist()  # 4 i j, over the square root of 4
    [[0.0, 0.0, 0.0], [0.0, 2.0, 4.0], [0.0, 4.0, 8.0]]
    """
    if n_positions < 1:
        raise ValueError(f"n_positions={n_positions} must be at least 1")
    if query.ndim != 2 or query.shape != key.shape:
        raise ValueError(f"query {tuple(query.shape)} and key {tuple(key.shape)} must both be (heads, width)")
    positions = torch.arange(n_positions, device=query.device)[None]
    query, key = (  # (1, heads, positions, width)
        scheme.rotate(scheme.embed(x[:, None].expand(-1, n_positions, -1), positions)[None], positions)
        for x in (query, key)
    )
    scores = query @ key.transpose(-2, -1) * scheme.scale(query.shape[-1])
    bias = scheme.bias(query, key, PositionContext(positions))
    return (scores if bias is None else scores + bias)[0]


def monotonicity(proximity: Float[Tensor, "positions positions"]) -> float:
    r"""For which share of the pairs of keys, from the query onwards, the further one is strictly less near.

    .. math:: \frac{\#\{(x, m, n) : m > n,\; \phi_{x,x+m} < \phi_{x,x+n}\}}{\#\{(x, m, n) : m > n\}},
        \quad 0 \leq n < m

    Args:
        proximity: finite, at least 2 positions.

    Returns:
        1 where proximity falls at each step, 0 where it never does, about one half for noise.

    Raises:
        ValueError: if it is not square, not finite, or smaller than 2 positions.

    Source: Wang et al. (2021), who name the property; IITD-14.

    >>> monotonicity(torch.tensor([[2.0, 1.0, 1.5], [0.0, 2.0, 1.0], [0.0, 0.0, 2.0]]))  # 3 of 4
    0.75
    """
    _check_matrix(proximity)
    n_positions, falls = len(proximity), 0
    for x, row in enumerate(proximity):
        ahead = row[x:]  # offsets 0, 1, 2, …
        falls += (ahead[:, None] > ahead[None, :]).triu(1).sum().item()
    return falls * 6 / ((n_positions - 1) * n_positions * (n_positions + 1))


def translation_variance(proximity: Float[Tensor, "positions positions"]) -> float:
    r"""How much pairs at one offset differ at most, as a share of all the differences there are.

    .. math:: \frac{\max_r \left(\max_x \phi_{x,x+r} - \min_x \phi_{x,x+r}\right)}{\max \phi - \min \phi}

    Args:
        proximity: finite, at least 2 positions.

    Returns:
        0 where proximity depends on the offset alone (translation invariance), at most 1.

    Raises:
        ValueError: if it is not square, not finite, or smaller than 2 positions.

    Source: Wang et al. (2021), who name the property; IITD-14.

    >>> translation_variance(torch.tensor([[2.0, 1.0], [4.0, 2.0]]))
    0.0
    >>> translation_variance(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))  # dot products of the integers 0 and 1
    1.0
    """
    _check_matrix(proximity)
    n_positions = len(proximity)
    diagonals = (proximity.diagonal(offset) for offset in range(1 - n_positions, n_positions))
    return _share(max((d.max() - d.min()).item() for d in diagonals), proximity)


def asymmetry(proximity: Float[Tensor, "positions positions"]) -> float:
    r"""How much the two directions of a pair differ at most, as a share of all the differences there are.

    .. math:: \frac{\max_{x,y} |\phi_{x,y} - \phi_{y,x}|}{\max \phi - \min \phi}

    Args:
        proximity: finite, at least 2 positions.

    Returns:
        0 where it is symmetric, at most 1.

    Raises:
        ValueError: if it is not square, not finite, or smaller than 2 positions.

    Source: Wang et al. (2021), who name the property; IITD-14.

    >>> asymmetry(torch.eye(2)), asymmetry(torch.tensor([[2.0, 1.0], [4.0, 2.0]]))
    (0.0, 1.0)
    """
    _check_matrix(proximity)
    return _share((proximity - proximity.T).abs().max().item(), proximity)


def mean_by_distance(proximity: Float[Tensor, "positions positions"]) -> Float[Tensor, "distances"]:
    r"""The curve of decay: proximity to the key r positions after the query, averaged over queries.

    .. math:: f(r) = \frac{1}{T - R} \sum_{x=0}^{T-R-1} \phi_{x,x+r}, \quad
        r = 0, \dots, R, \quad R = \lfloor T / 2 \rfloor

    Distances end at half the positions, so that all are averaged over the same queries.

    Args:
        proximity: finite, at least 2 positions.

    Raises:
        ValueError: if it is not square, not finite, or smaller than 2 positions.

    Source: IITD-14.

    >>> mean_by_distance(torch.tensor([[4.0, 3.0, 1.0], [0.0, 4.0, 2.0], [0.0, 0.0, 4.0]])).tolist()
    [4.0, 2.5]
    """
    _check_matrix(proximity)
    furthest = len(proximity) // 2
    diagonals = [proximity.diagonal(r)[: len(proximity) - furthest] for r in range(furthest + 1)]
    return torch.stack(diagonals).mean(-1)


def half_distance(proximity: Float[Tensor, "positions positions"]) -> int | None:
    r"""From which distance on mean proximity stays in the lower half of its range, ripples included.

    .. math:: \min\left\{r : f(r') \leq \tfrac12\left(f(0) + \min f\right) \text{ for all } r' \geq r\right\}

    A factor and a constant added to all scores change nothing, as the softmax does not see the constant. The range is
    that of :func:`mean_by_distance` over the positions given: compare schemes over equally many.

    Args:
        proximity: finite, at least 2 positions.

    Returns:
        The distance, or None where there is none: proximity is high again at the end, or never below f(0).

    Raises:
        ValueError: if it is not square, not finite, or smaller than 2 positions.

    Source: IITD-14.

    >>> positions = torch.arange(9.0)
    >>> half_distance(-(positions[:, None] - positions).abs()), half_distance(torch.outer(positions, positions))
    (2, None)
    """
    _check_matrix(proximity)
    curve = mean_by_distance(proximity)
    if curve.min() == curve[0]:
        return None
    high = (curve > (curve[0] + curve.min()) / 2).nonzero()  # holds distance 0 at least
    after = high.max().item() + 1
    return after if after < len(curve) else None


def _share(difference: float, proximity: Tensor) -> float:
    everything = (proximity.max() - proximity.min()).item()
    return difference / everything if everything else 0.0


def _check_matrix(proximity: Tensor) -> None:
    if proximity.ndim != 2 or proximity.shape[0] != proximity.shape[1] or len(proximity) < 2:
        raise ValueError(f"proximity has shape {tuple(proximity.shape)}; it must be square, of at least 2 positions")
    if not proximity.isfinite().all():
        raise ValueError("proximity must be finite: measure scores before they are masked")
