"""Elo ratings: updated after each battle, so that they depend on the order of the battles."""

import torch

from llm_anatomy.evaluation._arrays import Number
from llm_anatomy.evaluation.arena.battles import Battles
from llm_anatomy.shapes import Float, Tensor


def elo_ratings(
    battles: Battles, k: Number = 4, *, start: Number = 1000, scale: Number = 400
) -> Float[Tensor, "models"]:
    r"""Rate models by Elo's rule, battle by battle in the given order.

    .. math:: R_A \leftarrow R_A + K (S_A - E_A), \quad R_B \leftarrow R_B - K (S_A - E_A), \quad
        E_A = \frac{1}{1 + 10^{(R_B - R_A) / 400}}

    Args:
        battles: the battles, in order of time.
        k: the most that a battle can move a rating. The board used 4, chess uses 10 to 40.
        start: rating of a model before its first battle.
        scale: the lead that means ten wins for each loss.

    Returns:
        The ratings after the last battle.

    Source: Elo (1978), "The rating of chessplayers", section 1.7, with the logistic curve; IITD-01.

    >>> elo_ratings(Battles(["alpha", "beta"], [0, 0], [1, 1], [1, 0]), k=32).round(decimals=2).tolist()
    [998.53, 1001.47]
    """
    return elo_history(battles, k, start=start, scale=scale, every=max(len(battles), 1))[-1]


def elo_history(
    battles: Battles, k: Number = 4, *, start: Number = 1000, scale: Number = 400, every: int = 1
) -> Float[Tensor, "times models"]:
    """Ratings by Elo's rule before the first battle and after each ``every`` battles, as in :func:`elo_ratings`.

    Args:
        battles: the battles, in order of time.
        k: the most that a battle can move a rating.
        start: rating of a model before its first battle.
        scale: the lead that means ten wins for each loss.
        every: number of battles between two rows.

    Raises:
        ValueError: if ``every`` is not positive.

    Source: Elo (1978), "The rating of chessplayers", section 1.7, with the logistic curve; IITD-01.

    >>> elo_history(Battles(["alpha", "beta"], [0, 0], [1, 1], [1, 0.5]), k=32).round(decimals=2).tolist()
    [[1000.0, 1000.0], [1016.0, 984.0], [1014.53, 985.47]]
    """
    if every < 1:
        raise ValueError(f"{every=} must be positive")
    ratings = [float(start)] * len(battles.models)
    rows = [ratings[:]]
    meetings = zip(battles.first.tolist(), battles.second.tolist(), battles.score.tolist(), strict=True)
    for number, (a, b, score) in enumerate(meetings, 1):
        change = k * (score - 1 / (1 + 10 ** ((ratings[b] - ratings[a]) / scale)))
        ratings[a] += change
        ratings[b] -= change
        if number % every == 0:
            rows.append(ratings[:])
    return torch.tensor(rows, dtype=torch.float64)


def elo_over_orders(
    battles: Battles, k: Number = 4, *, n_orders: int = 100, seed: int = 0, start: Number = 1000, scale: Number = 400
) -> Float[Tensor, "orders models"]:
    """Elo ratings of the same battles in many random orders, whose spread is no property of the models.

    Args:
        battles: the battles.
        k: the most that a battle can move a rating.
        n_orders: number of orders.
        seed: seed of the orders.
        start: rating of a model before its first battle.
        scale: the lead that means ten wins for each loss.

    Source: Boubdir et al. (2023), "Elo uncovered: robustness and best practices in language model evaluation"; IITD-01.

    >>> battles = Battles(["alpha", "beta"], [0] * 100, [1] * 100, [1] * 70 + [0] * 30)
    >>> bool(elo_over_orders(battles, k=32).std(0).min() > 10)
    True
    """
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(battles), generator=generator) for _ in range(n_orders)]
    return torch.stack([elo_ratings(battles.take(order), k, start=start, scale=scale) for order in orders])
