r"""Metrics of position schemes: the three properties of the lecture, and the decay of proximity with distance.

A matrix :math:`\phi` holds the proximity of each pair of positions under a scheme: ``proximity[i, j]`` is that of
position i, as a query, to position j, as a key, over positions 0, 1, 2, … It may be the dot products of an absolute
scheme (``encoding @ encoding.T``), a bias, the mean weights of a head, or the :func:`score_matrix` of any scheme.

Shapes: ``positions``, ``heads``, ``width`` (of a query or key). Monotonicity and decay are measured for keys
after the query; for keys before it, use ``proximity.flip(0, 1)``. Use float64 to test whether a property holds exactly.
"""

import torch

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.shapes import Float, Tensor


def score_matrix(
    scheme: PositionScheme, query: Float[Tensor, "heads width"], key: Float[Tensor, "heads width"], n_positions: int
) -> Float[Tensor, "heads positions positions"]:
    r"""Compute the scores of the same query and the same key at all positions.

    Differences between the entries are then due to the positions alone.

    .. math:: \phi_{ij} = \mathrm{rotate}(q + p_i, i)^\top\, \mathrm{rotate}(k + p_j, j) \cdot \mathrm{scale} +
        \mathrm{bias}(i, j)

    The vectors of absolute schemes are added to query and key without projections, so that ``width`` is their
    ``d_model``. If query and key are zero, the scores are the dot products of these vectors.

    Args:
        scheme: any scheme that does not use attention's projections.
        query, key: one vector for each head.
        n_positions: number of positions, at least 1.

    Raises:
        ValueError: for fewer than one position, or a query and a key of different shapes.

    Source: IITD-14, IITD-16.

    >>> zeros = torch.zeros(1, 4)
    >>> from llm_anatomy.layers.positions.absolute import IntegerIndex
    >>> score_matrix(IntegerIndex(4), zeros, zeros, 3)[0].tolist()  # 4 i j, over the square root of 4
    [[0.0, 0.0, 0.0], [0.0, 2.0, 4.0], [0.0, 4.0, 8.0]]
    """
    _check_at_least_one(n_positions=n_positions)
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
    r"""Compute the fraction of pairs of keys, from the query on, in which the farther key has strictly lower proximity.

    .. math:: \frac{\#\{(x, m, n) : m > n,\; \phi_{x,x+m} < \phi_{x,x+n}\}}{\#\{(x, m, n) : m > n\}},
        \quad 0 \leq n < m

    Args:
        proximity: finite, at least 2 positions.

    Returns:
        1 if proximity falls at each step, 0 if it never falls, and about one half for noise.

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
    r"""Compute the largest difference between pairs with the same offset, relative to the range of all pairs.

    .. math:: \frac{\max_r \left(\max_x \phi_{x,x+r} - \min_x \phi_{x,x+r}\right)}{\max \phi - \min \phi}

    Args:
        proximity: finite, at least 2 positions.

    Returns:
        0 if proximity depends on the offset alone (translation invariance), and at most 1.

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
    return _relative_to_range(max((d.max() - d.min()).item() for d in diagonals), proximity)


def asymmetry(proximity: Float[Tensor, "positions positions"]) -> float:
    r"""Compute the largest difference between the two directions of a pair, relative to the range of all pairs.

    .. math:: \frac{\max_{x,y} |\phi_{x,y} - \phi_{y,x}|}{\max \phi - \min \phi}

    Args:
        proximity: finite, at least 2 positions.

    Returns:
        0 if proximity is symmetric, and at most 1.

    Raises:
        ValueError: if it is not square, not finite, or smaller than 2 positions.

    Source: Wang et al. (2021), who name the property; IITD-14.

    >>> asymmetry(torch.eye(2)), asymmetry(torch.tensor([[2.0, 1.0], [4.0, 2.0]]))
    (0.0, 1.0)
    """
    _check_matrix(proximity)
    return _relative_to_range((proximity - proximity.T).abs().max().item(), proximity)


def mean_by_distance(proximity: Float[Tensor, "positions positions"]) -> Float[Tensor, "distances"]:
    r"""Compute the mean proximity of the key r positions after the query, for each r.

    .. math:: f(r) = \frac{1}{T - R} \sum_{x=0}^{T-R-1} \phi_{x,x+r}, \quad
        r = 0, \dots, R, \quad R = \lfloor T / 2 \rfloor

    Distances go up to half the number of positions, so that all means are over the same queries.

    Args:
        proximity: finite, at least 2 positions.

    Raises:
        ValueError: if it is not square, not finite, or smaller than 2 positions.

    Source: IITD-14.

    >>> mean_by_distance(torch.tensor([[4.0, 3.0, 1.0], [0.0, 4.0, 2.0], [0.0, 0.0, 4.0]])).tolist()
    [4.0, 2.5]
    """
    _check_matrix(proximity)
    max_distance = len(proximity) // 2
    diagonals = [proximity.diagonal(r)[: len(proximity) - max_distance] for r in range(max_distance + 1)]
    return torch.stack(diagonals).mean(-1)


def half_distance(proximity: Float[Tensor, "positions positions"]) -> int | None:
    r"""Compute the distance from which mean proximity stays in the lower half of its range.

    .. math:: \min\left\{r : f(r') \leq \tfrac12\left(f(0) + \min f\right) \text{ for all } r' \geq r\right\}

    A positive factor and a constant added to all scores do not change the result. The range is that of
    :func:`mean_by_distance`, so schemes should be compared over the same number of positions.

    Args:
        proximity: finite, at least 2 positions.

    Returns:
        The distance, or None if there is none because proximity is high again at the end or never below f(0).

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
    upper_half = (curve > (curve[0] + curve.min()) / 2).nonzero()  # never empty, since it holds distance 0
    distance = int(upper_half.max()) + 1
    return distance if distance < len(curve) else None


def _relative_to_range(difference: float, proximity: Tensor) -> float:
    full_range = (proximity.max() - proximity.min()).item()
    return difference / full_range if full_range else 0.0


def _check_matrix(proximity: Tensor) -> None:
    if proximity.ndim != 2 or proximity.shape[0] != proximity.shape[1] or len(proximity) < 2:
        raise ValueError(f"proximity has shape {tuple(proximity.shape)}; it must be square, with at least 2 positions")
    if not proximity.isfinite().all():
        raise ValueError("proximity has entries that are not finite; use scores without a mask")
