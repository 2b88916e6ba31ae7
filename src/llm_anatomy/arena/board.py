"""The board: ratings of the models with their intervals and ranks, computed from the counts of votes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from llm_anatomy.evaluation.arena.battles import OUTCOMES, Battles, count_battles
from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry
from llm_anatomy.shapes import Float, Tensor


@dataclass(frozen=True)
class Row:
    """One model on the board.

    Args:
        model: its name.
        wins, losses, ties: numbers of its battles; a tie is also a battle in which both outputs were called bad.
        rating: on the scale of Elo, None if it cannot be estimated yet.
        low, high: the ends of its 95% interval.
        rank: one more than the number of models whose interval lies above that of this one, the rank (UB).
        reason: why there is no rating.

    Source: Chiang et al. (2024), "Chatbot Arena", section 4; GT-50.

    >>> Row("small", wins=1, losses=2, ties=3).n_battles
    6
    """

    model: str
    wins: int = 0
    losses: int = 0
    ties: int = 0
    rating: float | None = None
    low: float | None = None
    high: float | None = None
    rank: int | None = None
    reason: str = ""

    @property
    def n_battles(self) -> int:
        """Number of battles."""
        return self.wins + self.losses + self.ties


def board(counts: Mapping[tuple[str, str, str], int], models: list[str]) -> list[Row]:
    """The board that follows from votes, best model first.

    The ratings are those of :func:`~llm_anatomy.evaluation.arena.bradley_terry.bradley_terry`, where a tie is half a
    win for each, with sandwich intervals. They are finite only for models that are connected by wins in both
    directions; a model that has won or lost all its battles has no rating yet.

    Args:
        counts: number of votes for each ``(model_a, model_b, winner)``.
        models: those that are on the board even without a vote.

    Source: Chiang et al. (2024), "Chatbot Arena", section 4; GT-50.

    >>> votes = {("large", "small", "a"): 3, ("large", "small", "b"): 1}
    >>> [(row.model, row.rank, round(row.rating)) for row in board(votes, ["small", "large"])]
    [('large', 1, 1095), ('small', 1, 905)]
    """
    names = sorted({name for a, b, _ in counts for name in (a, b)} | set(models))
    outcomes = [(names.index(a), names.index(b), OUTCOMES[winner]) for a, b, winner in counts]
    first, second, score = torch.tensor(outcomes, dtype=torch.float64).reshape(-1, 3).T
    battles = Battles(names, first.long(), second.long(), score).take(
        torch.repeat_interleave(torch.tensor(list(counts.values()), dtype=torch.int64))
    )
    wins, ties = count_battles(battles)
    rated = _largest_connected(wins + ties)
    ratings = _rate(battles, rated)
    rows = []
    for i, name in enumerate(names):
        row = Row(name, wins=int(wins[i].sum()), losses=int(wins[:, i].sum()), ties=int(ties[i].sum()))
        rows.append(replace(row, **ratings[name]) if i in rated else replace(row, reason=_reason(row)))
    return sorted(rows, key=lambda row: (row.rating is None, -(row.rating or 0), row.model))


def _rate(battles: Battles, rated: list[int]) -> dict[str, dict[str, Any]]:
    """Rating, interval and rank of these models, from the battles between them."""
    if not rated:
        return {}
    index = torch.full((len(battles.models),), -1)
    index[rated] = torch.arange(len(rated))
    first, second, score = (torch.as_tensor(column) for column in (battles.first, battles.second, battles.score))
    among = (index[first] >= 0) & (index[second] >= 0)
    names = [battles.models[i] for i in rated]
    found = bradley_terry(Battles(names, index[first][among], index[second][among], score[among])).rows()
    return {str(row["model"]): {name: value for name, value in row.items() if name != "model"} for row in found}


def _reason(row: Row) -> str:
    if not row.n_battles:
        return "no battles yet"
    if row.wins == row.n_battles:
        return "has won every battle so far"
    if row.losses == row.n_battles:
        return "has lost every battle so far"
    return "too few votes to compare it with the others"


def _largest_connected(points: Float[Tensor, "models models"]) -> list[int]:
    """The most models of which each has, directly or through others, points against each other one."""
    reaches = ((points > 0) | torch.eye(len(points), dtype=torch.bool)).double()
    for _ in range(len(points).bit_length()):
        reaches = (reaches @ reaches).clamp(max=1)
    mutual = (reaches > 0) & (reaches.T > 0)
    found = mutual[mutual.sum(1).argmax()].nonzero().flatten().tolist() if len(points) else []
    return found if len(found) > 1 else []
