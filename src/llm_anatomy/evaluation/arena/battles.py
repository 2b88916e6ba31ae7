"""Battles: two models answer the same prompt, and a voter says which answer is better."""

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from llm_anatomy.evaluation._arrays import Array
from llm_anatomy.shapes import Float, Int, Tensor

OUTCOMES = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5}
"""The score of the first model for what a voter can say. That both answers are bad counts as a tie, as on the board."""


@dataclass(frozen=True, init=False, eq=False)
class Battles:
    """Battles as arrays: who met whom, and with which score.

    Args:
        models: the names of the models, each once.
        first, second: index of the model on the left and of the one on the right, one for each battle.
        score: 1 if the first model won, 0 if the second did, 0.5 for a tie.
        voter: index of the voter of each battle, if the voters are known.

    Raises:
        ValueError: if the lengths differ, an index is not one of a model, a model meets itself, a score is none of the
            three, or a name occurs twice.

    Source: Chiang et al. (2024), "Chatbot Arena", section 4; IITD-01.

    >>> battles = Battles(["alpha", "beta"], [0, 0, 1], [1, 1, 0], [1, 0.5, 0])
    >>> len(battles), battles.winner_names()
    (3, ['alpha', None, 'alpha'])
    """

    models: tuple[str, ...]
    first: Int[Tensor, "battles"]
    second: Int[Tensor, "battles"]
    score: Float[Tensor, "battles"]
    voter: Int[Tensor, "battles"] | None

    def __init__(
        self, models: Sequence[str], first: Array, second: Array, score: Array, voter: Array | None = None
    ) -> None:
        fields: dict[str, Any] = {"models": tuple(models), "voter": None}
        fields["first"], fields["second"] = (
            torch.as_tensor(ids, dtype=torch.int64).flatten() for ids in (first, second)
        )
        fields["score"] = torch.as_tensor(score, dtype=torch.float64).flatten()
        if voter is not None:
            fields["voter"] = torch.as_tensor(voter, dtype=torch.int64).flatten()
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        lengths = {len(x) for x in (self.first, self.second, self.score, self.voter) if x is not None}
        if len(lengths) > 1:
            raise ValueError(f"first, second, score and voter have the lengths {sorted(lengths)}; they must be equal")
        if len(set(self.models)) < len(self.models):
            raise ValueError(f"models={list(self.models)} must be different names")
        n_models = len(self.models)
        ids = torch.cat([self.first, self.second])
        if len(ids) and (ids.min() < 0 or ids.max() >= n_models):
            raise ValueError(f"first and second must be from 0 to {n_models - 1}, the indices of the models")
        if (self.first == self.second).any():
            i = int((self.first == self.second).nonzero()[0])
            raise ValueError(f"battle {i} has {self.models[int(self.first[i])]!r} twice; two models must meet")
        if not torch.isin(self.score, torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)).all():
            raise ValueError("a score must be 1, 0 or 0.5: the first model won, the second won, or they tied")

    def __len__(self) -> int:
        return len(self.first)

    def winner_names(self) -> list[str | None]:
        """The name of the winner of each battle, None for a tie."""
        pairs = zip(self.first.tolist(), self.second.tolist(), self.score.tolist(), strict=True)
        return [None if score == 0.5 else self.models[a if score else b] for a, b, score in pairs]

    def take(self, rows: Array) -> "Battles":
        """The battles of the given rows: indices, which may repeat, or a boolean for each battle.

        Args:
            rows: indices or booleans.
        """
        rows = torch.as_tensor(rows)
        voter = None if self.voter is None else self.voter[rows]
        return replace(self, first=self.first[rows], second=self.second[rows], score=self.score[rows], voter=voter)


def battles_from_rows(rows: Iterable[Mapping[str, object]], models: Sequence[str] | None = None) -> Battles:
    """Turn rows with the columns ``model_a``, ``model_b``, ``winner`` and, if there is one, ``voter`` into battles.

    Args:
        rows: one mapping for each battle; ``winner`` is ``a``, ``b``, ``tie`` or ``both_bad``. The board's own data
            have ``model_a``, ``model_b`` and ``tie (bothbad)``, which are read too.
        models: the names in the order of their indices; by default those that occur, sorted.

    Raises:
        ValueError: if a column is missing or a winner is none of these; the message has the number of the row.

    Source: Chiang et al. (2024), "Chatbot Arena", section 3; IITD-01.

    >>> battles = battles_from_rows([{"model_a": "beta", "model_b": "alpha", "winner": "both_bad"}])
    >>> battles.models, battles.first.tolist(), battles.score.tolist()
    (('alpha', 'beta'), [1], [0.5])
    """
    spelled = OUTCOMES | {"model_a": 1.0, "model_b": 0.0, "tie (bothbad)": 0.5}
    pairs, scores, voters = [], [], []
    for number, row in enumerate(rows, 1):
        try:
            pairs.append((str(row["model_a"]), str(row["model_b"])))
            winner = str(row["winner"])
        except KeyError as error:
            raise ValueError(f"row {number} has no column {error}") from None
        if winner not in spelled:
            raise ValueError(f"row {number}: winner={winner!r} must be one of {', '.join(OUTCOMES)}")
        scores.append(spelled[winner])
        voters.append(row.get("voter"))
    names = sorted({name for pair in pairs for name in pair}) if models is None else list(models)
    index = {name: i for i, name in enumerate(names)}
    if unknown := {name for pair in pairs for name in pair} - index.keys():
        raise ValueError(f"models has not {', '.join(sorted(unknown))}, which the rows name")
    first, second = ([index[pair[side]] for pair in pairs] for side in (0, 1))
    known = bool(voters) and None not in voters
    number_of = {voter: i for i, voter in enumerate(dict.fromkeys(voters))}
    return Battles(names, first, second, scores, [number_of[voter] for voter in voters] if known else None)


def read_battles(path: str | os.PathLike[str], models: Sequence[str] | None = None) -> Battles:
    """Read battles from a CSV file with the columns of :func:`battles_from_rows`; other columns are left alone.

    Args:
        path: the file, in UTF-8.
        models: the names in the order of their indices; by default those that occur, sorted.

    Raises:
        ValueError: if a column is missing or a winner is unknown.

    Source: Chiang et al. (2024), "Chatbot Arena", section 3; IITD-01.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "battles.csv")
    ...     _ = path.write_text("model_a,model_b,winner\\nalpha,beta,a\\n")
    ...     read_battles(path).winner_names()
    ['alpha']
    """
    with Path(path).open(newline="", encoding="utf-8") as lines:
        return battles_from_rows(csv.DictReader(lines), models)


def count_battles(battles: Battles) -> tuple[Float[Tensor, "models models"], Float[Tensor, "models models"]]:
    r"""Count wins and ties of each pair of models.

    .. math:: W_{ij} = \#\{i \text{ beats } j\}, \quad T_{ij} = T_{ji} = \#\{i \text{ and } j \text{ tie}\}

    Args:
        battles: the battles.

    Returns:
        The wins of the row's model over the column's, and the ties.

    Source: Hunter (2004), "MM algorithms for generalized Bradley–Terry models", section 1; IITD-01.

    >>> wins, ties = count_battles(Battles(["alpha", "beta"], [0, 0, 1], [1, 1, 0], [1, 0.5, 0]))
    >>> wins.tolist(), ties.tolist()
    ([[0.0, 2.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]])
    """
    n = len(battles.models)
    forwards, backwards = battles.first * n + battles.second, battles.second * n + battles.first
    won, lost = battles.score == 1, battles.score == 0
    wins = torch.bincount(torch.where(won, forwards, backwards)[won | lost], minlength=n * n)
    ties = torch.bincount(forwards[~(won | lost)], minlength=n * n).reshape(n, n).double()
    return wins.reshape(n, n).double(), ties + ties.T


def pair_indices(n_models: int) -> Int[Tensor, "two pairs"]:
    """The pairs of models, each once, the smaller index first.

    Args:
        n_models: number of models.

    Source: Chiang et al. (2024), "Chatbot Arena", section 4; IITD-01.

    >>> pair_indices(3).tolist()
    [[0, 0, 1], [1, 2, 2]]
    """
    return torch.triu_indices(n_models, n_models, 1)
