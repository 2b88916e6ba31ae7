"""Which pair should meet next? Uniform choice, and two rules that ask where a battle teaches most."""

import math
from collections.abc import Sequence

import torch

from llm_anatomy.evaluation.arena.battles import Battles, count_battles, pair_indices
from llm_anatomy.evaluation.arena.bradley_terry import Ratings, bradley_terry
from llm_anatomy.evaluation.arena.simulation import SimulatedArena
from llm_anatomy.shapes import Float, Tensor

RULES = ("uniform", "pairs", "ratings")


def pair_weights(battles: Battles, rule: str = "ratings") -> Float[Tensor, "pairs"]:
    r"""Compute how often each pair of models should meet next.

    The rule ``"pairs"`` asks by how much one more battle shortens the interval of a pair's share of wins,

    .. math:: w_{ij} \propto \sqrt{\frac{p_{ij} (1 - p_{ij})}{n_{ij}}} - \sqrt{\frac{p_{ij} (1 - p_{ij})}{n_{ij} + 1}}

    and the rule ``"ratings"`` by how much it lowers the sum of the variances of all ratings,

    .. math:: w_{ij} \propto \frac{v\, \lVert \Sigma x \rVert^2}{1 + v\, x^\top \Sigma x}, \quad x = e_i - e_j, \quad
        v = p_{ij} (1 - p_{ij})

    Args:
        battles: the battles so far.
        rule: ``"uniform"``, ``"pairs"`` or ``"ratings"``.

    Returns:
        One weight for each pair, in the order of :func:`~llm_anatomy.evaluation.arena.battles.pair_indices`; they sum
        to one.

    Raises:
        ValueError: if the rule is none of these.

    Source: Chiang et al. (2024), "Chatbot Arena", section 5, for the first rule; Fedorov (1972), "Theory of optimal
    experiments", chapter 2, for the second; IITD-01.

    >>> battles = Battles("xyz", [0] * 40 + [1] * 4, [1] * 40 + [2] * 4, [1, 0] * 20 + [1, 0] * 2)
    >>> (100 * pair_weights(battles, "ratings")).round().int().tolist()  # x-y, x-z, y-z
    [1, 52, 48]
    """
    if rule not in RULES:
        raise ValueError(f"{rule=} must be one of {', '.join(RULES)}")
    first, second = pair_indices(len(battles.models))
    if rule == "uniform":
        return torch.full((len(first),), 1 / len(first), dtype=torch.float64)
    ratings = bradley_terry(battles, interval="fisher", prior_deviation=400)
    points = 400 / math.log(10)
    p = torch.sigmoid((ratings.ratings[first] - ratings.ratings[second]) / points)
    variance = p * (1 - p)
    if rule == "pairs":
        wins, ties = count_battles(battles)
        n = (wins + wins.T + ties)[first, second]
        gains = variance.sqrt() * (n.clamp(min=0.5).rsqrt() - (n + 1).rsqrt())
    else:
        covariance = ratings.covariance / points**2
        steps = covariance[:, first] - covariance[:, second]
        gains = variance * steps.square().sum(0)
        gains = gains / (1 + variance * (steps[first, range(len(first))] - steps[second, range(len(first))]))
    return gains / gains.sum()


def run_arena(
    arena: SimulatedArena, sizes: Sequence[int], rule: str = "uniform", *, n_uniform: int = 200, seed: int = 0
) -> list[Ratings]:
    """Run a simulated arena in rounds, whose pairs are drawn by a rule from the battles so far.

    Args:
        arena: the arena.
        sizes: numbers of battles, ascending, after which the models are rated.
        rule: as in :func:`pair_weights`.
        n_uniform: number of battles at the start, whose pairs are drawn uniformly.
        seed: seed of the battles.

    Returns:
        The ratings after each of ``sizes`` battles.

    Raises:
        ValueError: if ``sizes`` does not ascend from ``n_uniform`` on.

    Source: Chiang et al. (2024), "Chatbot Arena", section 5; IITD-01.

    >>> arena = SimulatedArena({"alpha": 1100, "beta": 1000, "gamma": 900})
    >>> wide, narrow = run_arena(arena, [300, 3000])
    >>> bool((narrow.high - narrow.low < wide.high - wide.low).all())
    True
    """
    if list(sizes) != sorted(set(sizes)) or not sizes or sizes[0] < n_uniform:
        raise ValueError(f"sizes={list(sizes)} must ascend, from {n_uniform=} on")
    battles, _ = arena.draw(n_uniform, seed=seed)
    found, number = [], 0
    for size in sizes:
        while len(battles) < size:
            number += 1
            n_new = min(size - len(battles), max(100, len(battles) // 4))
            new, _ = arena.draw(n_new, pair_weights=pair_weights(battles, rule), seed=seed + 1_000_003 * number)
            parts = [torch.cat([getattr(b, name) for b in (battles, new)]) for name in ("first", "second", "score")]
            battles = Battles(battles.models, *parts)
        found.append(bradley_terry(battles, prior_deviation=400))
    return found
