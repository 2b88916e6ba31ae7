"""Agreement of raters beyond chance: Cohen's kappa and Krippendorff's alpha, and simulated raters."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from llm_anatomy.evaluation._arrays import Array, Number, as_doubles, check_confidence
from llm_anatomy.evaluation.intervals import Interval
from llm_anatomy.shapes import Float, Tensor

LEVELS = ("nominal", "ordinal", "interval")
WEIGHTS = ("none", "linear", "quadratic")


def cohen_kappa(first: Sequence | Array, second: Sequence | Array, weights: str = "none") -> float:
    r"""Cohen's kappa of two raters: how much less they disagree than by chance; 1 is perfect, 0 is chance.

    .. math:: \kappa = 1 - \frac{\sum_{ab} w_{ab}\, O_{ab}}{\sum_{ab} w_{ab}\, E_{ab}}, \quad E_{ab} = \frac{n_a m_b}{n}

    Here O counts how often the raters chose a and b, E how often they would by chance if each kept to its own shares,
    and w is 1 for each disagreement, or grows with the distance of the levels or with its square.

    Args:
        first, second: the ratings of the same items in the same order, numbers or names.
        weights: ``"none"``, ``"linear"`` or ``"quadratic"``. The levels are those that occur, sorted, one apart.

    Returns:
        The coefficient, or NaN if both raters always chose the same level.

    Raises:
        ValueError: if the numbers of ratings differ, there are none, or ``weights`` is none of these.

    Source: Cohen (1960), "A coefficient of agreement for nominal scales"; Cohen (1968) for weights; GT-48.

    >>> a, b = ["yes"] * 25 + ["no"] * 25, ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    >>> round(cohen_kappa(a, b), 2)
    0.4
    """
    if weights not in WEIGHTS:
        raise ValueError(f"{weights=} must be one of {', '.join(WEIGHTS)}")
    if len(first) != len(second) or not len(first):
        raise ValueError(f"first has {len(first)} ratings and second has {len(second)}; there must be pairs")
    a, b = np.asarray(first), np.asarray(second)
    levels, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    k, n = len(levels), len(a)
    observed = np.bincount(codes[:n] * k + codes[n:], minlength=k * k).reshape(k, k)
    expected = np.outer(observed.sum(1), observed.sum(0)) / n
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    cost = {"none": distance > 0, "linear": distance, "quadratic": distance**2}[weights]
    by_chance = (cost * expected).sum()
    return float(1 - (cost * observed).sum() / by_chance) if by_chance else math.nan


def krippendorff_alpha(ratings: Array, level: str = "nominal") -> float:
    r"""Krippendorff's alpha of any number of raters, some of whom may have left items out.

    .. math:: \alpha = 1 - \frac{D_o}{D_e}, \quad
        D_o = \frac{1}{n} \sum_{u} \frac{1}{m_u - 1} \sum_{i \neq j \in u} \delta^2(v_i, v_j), \quad
        D_e = \frac{1}{n (n - 1)} \sum_{i \neq j} \delta^2(v_i, v_j)

    The first sum is over items u that at least two raters rated, with :math:`m_u` ratings each and n in all. The
    distance :math:`\delta^2` is 0 or 1 for nominal levels, and :math:`(a - b)^2` for intervals. For ordinal levels,
    :math:`\delta` is the number of ratings from a to b, where those equal to a or b count half.

    Args:
        ratings: numbers, (raters, items); NaN where a rater has not rated an item.
        level: ``"nominal"``, ``"ordinal"`` or ``"interval"``.

    Returns:
        The coefficient: 1 is perfect, 0 is chance. NaN if all ratings are the same.

    Raises:
        ValueError: if ``level`` is none of these, ``ratings`` has not two dimensions, or no item has two ratings.

    Source: Krippendorff (2011), "Computing Krippendorff's alpha-reliability"; Hayes and Krippendorff (2007); GT-48.

    >>> ratings = [[1, 2, 3, 3, 2], [1, 2, 3, 3, 2], [float("nan"), 3, 3, 3, 2]]
    >>> [round(krippendorff_alpha(ratings, level), 3) for level in LEVELS]
    [0.78, 0.823, 0.871]
    """
    if level not in LEVELS:
        raise ValueError(f"{level=} must be one of {', '.join(LEVELS)}")
    return _alpha(_counts(ratings), level)


def _counts(ratings: Array) -> tuple[np.ndarray, np.ndarray]:
    """The levels, and how often each item was given each of them; items with one rating are left out."""
    table = as_doubles(ratings, "ratings", 2).numpy()
    table = table[:, (~np.isnan(table)).sum(0) >= 2]
    if not table.size:
        raise ValueError("no item has two ratings")
    levels = np.unique(table[~np.isnan(table)])
    return levels, (table[:, :, None] == levels).sum(0).astype(np.float64)


def _alpha(levels_and_counts: tuple[np.ndarray, np.ndarray], level: str) -> float:
    levels, counts = levels_and_counts
    totals = counts.sum(0)
    n = totals.sum()
    if level == "nominal":
        distance = 1.0 - np.eye(len(levels))
    elif level == "interval":
        distance = np.subtract.outer(levels, levels) ** 2
    else:
        middles = totals.cumsum() - totals / 2
        distance = np.subtract.outer(middles, middles) ** 2
    sizes = counts.sum(1)
    observed = (np.einsum("ua,ub,ab->u", counts, counts, distance) / (sizes - 1)).sum() / n
    expected = totals @ distance @ totals / (n * (n - 1))
    return float(1 - observed / expected) if expected else math.nan


def alpha_interval(
    ratings: Array, level: str = "nominal", confidence: Number = 0.95, *, n_samples: int = 1000, seed: int = 0
) -> Interval:
    """Krippendorff's alpha with an interval by the bootstrap: the items are drawn again with replacement.

    Args:
        ratings: as in :func:`krippendorff_alpha`.
        level: as in :func:`krippendorff_alpha`.
        confidence: between 0 and 1.
        n_samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        ValueError: as :func:`krippendorff_alpha` does.

    Source: Zapf et al. (2016), "Measuring inter-rater reliability for nominal data", which compares this bootstrap with
    others; GT-48.

    >>> print(alpha_interval([[1, 2, 3, 1, 2, 3, 1, 2], [1, 2, 3, 1, 2, 3, 2, 2]]))
    0.819 (0.383 to 1.000)
    """
    estimate = krippendorff_alpha(ratings, level)
    check_confidence(confidence)
    levels, counts = _counts(ratings)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(counts), size=(n_samples, len(counts)))
    found = [_alpha((levels, counts[rows]), level) for rows in drawn]
    low, high = np.nanquantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(estimate, float(low), float(high))


def simulate_ratings(
    qualities: Array,
    n_raters: int,
    *,
    noise: Number = 0.5,
    leniency: Number = 0.3,
    thresholds: Sequence[Number] = (-1.0, 0.0, 1.0),
    missing: Number = 0.0,
    seed: int = 0,
) -> Float[Tensor, "raters items"]:
    r"""Simulate raters who sort answers of known quality into levels, as the experts of Self-Instruct did into four.

    .. math:: r_{ai} = 1 + \#\{k : q_i + b_a + \varepsilon_{ai} > t_k\}

    Args:
        qualities: the true quality of each item.
        n_raters: number of raters.
        noise: standard deviation of a rater's error :math:`\varepsilon` on an item.
        leniency: standard deviation of the raters' own biases b.
        thresholds: the borders t between two levels, ascending; three for four levels.
        missing: share of ratings that are missing, as NaN.
        seed: seed of the raters.

    Raises:
        ValueError: if the thresholds do not ascend, or there are no raters.

    Source: Wang et al. (2022), "Self-Instruct", section 5.4, for the four levels; McCullagh (1980), "Regression models
    for ordinal data", for the model; GT-48.

    >>> simulate_ratings([-2, -0.5, 0.5, 2], 2, noise=0, leniency=0).tolist()
    [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]]
    """
    if list(thresholds) != sorted(thresholds) or not len(thresholds):
        raise ValueError(f"thresholds={list(thresholds)} must ascend, and there must be one or more")
    if n_raters < 1:
        raise ValueError(f"{n_raters=} must be positive")
    quality = as_doubles(qualities, "qualities").numpy()
    rng = np.random.default_rng(seed)
    biases = leniency * rng.standard_normal((n_raters, 1))
    felt = quality + biases + noise * rng.standard_normal((n_raters, len(quality)))
    levels = 1.0 + (felt[:, :, None] > np.asarray(thresholds)).sum(2)
    levels[rng.random(levels.shape) < missing] = np.nan
    return torch.from_numpy(levels).float()
