"""Simulated battles, whose truth is known: style, ties, rigged votes, and variants that are tried in private."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from llm_anatomy.evaluation._arrays import Array, Number
from llm_anatomy.evaluation.arena.battles import Battles, pair_indices
from llm_anatomy.evaluation.arena.bradley_terry import Ratings, bradley_terry
from llm_anatomy.shapes import Float, Tensor


@dataclass(frozen=True)
class SimulatedArena:
    r"""An arena whose truth is known: the votes follow the strengths of the models, and perhaps the style of answers.

    .. math:: P(i \text{ wins}) : P(\text{tie}) : P(j \text{ wins}) = e^{d/2} : \nu : e^{-d/2}, \quad
        d = \frac{\ln 10}{400} \left( R_i - R_j + \beta\, (x_i - x_j) \right)

    Args:
        strengths: the true rating of each model.
        styles: the mean style of each model's answers, such as their length in hundreds of words. Each answer has the
            model's mean plus normal noise with standard deviation 1.
        style_effect: points of rating that one unit of style is worth to the voters.
        tie_parameter: Davidson's parameter; 0 for no ties.

    Raises:
        ValueError: if ``styles`` does not have the models of ``strengths``, or ``tie_parameter`` is negative.

    Source: Davidson (1970), "On extending the Bradley–Terry model to accommodate ties"; Li et al. (2024), "Does style
    matter? Disentangling style and substance in Chatbot Arena"; GT-50.

    >>> arena = SimulatedArena({"plain": 1100, "wordy": 1000}, styles={"plain": 0, "wordy": 3}, style_effect=60)
    >>> battles, style = arena.draw(20_000)
    >>> [bradley_terry(battles).rows()[0]["model"], bradley_terry(battles, covariates=style).rows()[0]["model"]]
    ['wordy', 'plain']
    """

    strengths: Mapping[str, Number]
    styles: Mapping[str, Number] | None = None
    style_effect: Number = 0
    tie_parameter: Number = 0

    def __post_init__(self) -> None:
        if self.styles is not None and set(self.styles) != set(self.strengths):
            raise ValueError("styles must have the same models as strengths")
        if self.tie_parameter < 0:
            raise ValueError(f"tie_parameter={self.tie_parameter} must not be negative")

    def draw(
        self, n_battles: int, *, pair_weights: Array | None = None, seed: int = 0
    ) -> tuple[Battles, Float[Tensor, "battles 1"]]:
        """Draw battles, with the differences in style of their two answers.

        Args:
            n_battles: number of battles.
            pair_weights: how often each pair of models meets, in the order of
                :func:`~llm_anatomy.evaluation.arena.battles.pair_indices`; by default equally.
            seed: seed of the battles.

        Returns:
            The battles, and the style of each first answer minus that of the second.
        """
        rng = np.random.default_rng(seed)
        names = list(self.strengths)
        pairs = pair_indices(len(names)).numpy()
        weights = np.ones(pairs.shape[1]) if pair_weights is None else np.asarray(pair_weights, dtype=np.float64)
        chosen = pairs[:, rng.choice(pairs.shape[1], n_battles, p=weights / weights.sum())]
        left = rng.random(n_battles) < 0.5
        first, second = np.where(left, chosen, chosen[::-1])
        strengths = np.array([float(self.strengths[name]) for name in names])
        styles = np.array([float((self.styles or {}).get(name, 0)) for name in names])
        style = styles[first] - styles[second] + rng.normal(0, math.sqrt(2), n_battles)
        lead = strengths[first] - strengths[second] + float(self.style_effect) * style
        half = 10 ** (lead / 800)
        total = half + 1 / half + self.tie_parameter
        u = rng.random(n_battles) * total
        score = np.where(u < half, 1.0, np.where(u < half + self.tie_parameter, 0.5, 0.0))
        return Battles(names, first, second, score), torch.from_numpy(style[:, None])


def add_rigged_votes(battles: Battles, favourite: str, n_votes: int, seed: int = 0) -> Battles:
    """Add votes in which a favourite wins, against opponents drawn at random, by somebody who recognizes its answers.

    Args:
        battles: the honest battles.
        favourite: the model that always wins.
        n_votes: number of votes that are added.
        seed: seed of the opponents.

    Raises:
        ValueError: if ``favourite`` is none of the models.

    Source: Min et al. (2025), "Improving your model ranking on Chatbot Arena by vote rigging", section 3; GT-50.

    >>> add_rigged_votes(Battles(["alpha", "beta"], [0], [1], [1]), "beta", 2).winner_names()
    ['alpha', 'beta', 'beta']
    """
    if favourite not in battles.models:
        raise ValueError(f"{favourite=} must be one of {', '.join(battles.models)}")
    index = battles.models.index(favourite)
    others = [i for i in range(len(battles.models)) if i != index]
    drawn = torch.from_numpy(np.random.default_rng(seed).choice(others, n_votes))
    return Battles(
        battles.models,
        torch.cat([battles.first, torch.full((n_votes,), index)]),
        torch.cat([battles.second, drawn]),
        torch.cat([battles.score, torch.ones(n_votes, dtype=torch.float64)]),
    )


def votes_to_reach_rank(
    battles: Battles,
    favourite: str,
    rank: int,
    *,
    fit: Callable[[Battles], Ratings] = bradley_terry,
    most: int = 1_000_000,
    seed: int = 0,
) -> int:
    """Find how many rigged votes bring a model to a rank (UB), by bisection.

    Whoever rigs meets the favourite in a share of 2/n of the battles of n models, so that a vote costs n/2 battles.

    Args:
        battles: the honest battles.
        favourite: the model that always wins the added votes.
        rank: the rank to be reached, or a better one.
        fit: what rates the models.
        most: the number of votes beyond which the search ends.
        seed: seed of the opponents.

    Raises:
        ValueError: if ``most`` votes do not suffice.

    Source: Min et al. (2025), "Improving your model ranking on Chatbot Arena by vote rigging", section 4; GT-50.

    >>> battles, _ = SimulatedArena({"alpha": 1040, "beta": 1000, "gamma": 960}).draw(3000)
    >>> 100 < votes_to_reach_rank(battles, "gamma", 1) < 400
    True
    """

    def reached(n_votes: int) -> bool:
        ratings = fit(add_rigged_votes(battles, favourite, n_votes, seed))
        return int(ratings.ranks[battles.models.index(favourite)]) <= rank

    if reached(0):
        return 0
    low, high = 0, 1
    while not reached(high):
        low, high = high, 2 * high
        if low >= most:
            raise ValueError(f"{most} votes do not bring {favourite!r} to rank {rank}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def best_of_variants(
    arena: SimulatedArena, model: str, n_variants: Sequence[int], n_battles: int, *, n_repeats: int = 50, seed: int = 0
) -> Float[Tensor, "repeats counts"]:
    """Simulate a provider that tries several variants of a model in private, and publishes only the one rated highest.

    All variants are equally strong, so whatever the best of them gains over the truth is luck.

    Args:
        arena: the arena, with the model.
        model: the model of which there are variants.
        n_variants: numbers of variants to try.
        n_battles: number of battles of each variant, against opponents drawn at random.
        n_repeats: number of repetitions.
        seed: seed of the battles.

    Returns:
        By how many points the published variant is rated above the truth, for each repetition and number of variants.

    Raises:
        ValueError: if ``model`` is none of the arena's, or the arena has styles.

    Source: Singh et al. (2025), "The leaderboard illusion", section 3; GT-50.

    >>> arena = SimulatedArena({"alpha": 1000, "beta": 1000})
    >>> gains = best_of_variants(arena, "alpha", [1, 10], n_battles=300, n_repeats=20)
    >>> [bool(gain > 20) for gain in gains.mean(0)]
    [False, True]
    """
    if model not in arena.strengths:
        raise ValueError(f"{model=} must be one of {', '.join(arena.strengths)}")
    if arena.styles is not None:
        raise ValueError("arena has styles; variants are simulated without")
    rng = np.random.default_rng(seed)
    names = list(arena.strengths)
    index = names.index(model)
    weights = (pair_indices(len(names)) == index).any(0).double()
    found = []
    for _ in range(n_repeats):
        seeds = rng.integers(2**31, size=max(n_variants))
        ratings = [
            _rating_among(arena, arena.draw(n_battles, pair_weights=weights, seed=int(s))[0], index) for s in seeds
        ]
        found.append([max(ratings[:count]) - float(arena.strengths[model]) for count in n_variants])
    return torch.tensor(found, dtype=torch.float64)


def _rating_among(arena: SimulatedArena, battles: Battles, index: int) -> float:
    """The rating of one model at which its expected score against opponents of known ratings is what it was."""
    is_first = battles.first == index
    score = torch.where(is_first, battles.score, 1 - battles.score).sum()
    known = torch.tensor([float(arena.strengths[name]) for name in battles.models], dtype=torch.float64)
    ratings = known[torch.where(is_first, battles.second, battles.first)]
    low, high = ratings.min().item() - 2000, ratings.max().item() + 2000
    for _ in range(60):
        middle = (low + high) / 2
        half = 10 ** ((middle - ratings) / 800)
        expected = (half + arena.tie_parameter / 2) / (half + 1 / half + arena.tie_parameter)
        low, high = (middle, high) if expected.sum() < score else (low, middle)
    return (low + high) / 2
