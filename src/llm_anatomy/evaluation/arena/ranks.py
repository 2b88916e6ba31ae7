"""What ratings say: the probability of a win, and ranks that respect the intervals."""

import math

from llm_anatomy.evaluation._arrays import Array, Number, as_doubles
from llm_anatomy.shapes import Int, Tensor


def win_probability(rating: Number, other: Number, scale: Number = 400.0) -> float:
    r"""Compute the probability of a win from two ratings.

    .. math:: E_A = \frac{1}{1 + 10^{(R_B - R_A) / 400}}

    Args:
        rating, other: the two ratings.
        scale: the lead that means ten wins for each loss.

    Source: Elo (1978), "The rating of chessplayers", chapter 1, with the logistic curve; IITD-01.

    >>> [round(win_probability(1300, other), 3) for other in (1286, 1271, 1242)]
    [0.52, 0.542, 0.583]
    """
    return 1 / (1 + 10 ** ((other - rating) / scale))


def rating_lead(probability: Number, scale: Number = 400.0) -> float:
    r"""Compute the lead in rating that gives a probability of winning, the inverse of :func:`win_probability`.

    .. math:: R_A - R_B = 400 \log_{10} \frac{E_A}{1 - E_A}

    Args:
        probability: of a win, between 0 and 1.
        scale: the lead that means ten wins for each loss.

    Raises:
        ValueError: if ``probability`` is not between 0 and 1.

    Source: Elo (1978), "The rating of chessplayers", chapter 1, with the logistic curve; IITD-01.

    >>> round(rating_lead(0.75), 1)
    190.8
    """
    if not 0 < probability < 1:
        raise ValueError(f"{probability=} must be between 0 and 1")
    return scale * math.log10(probability / (1 - probability))


def rank_upper_bound(low: Array, high: Array) -> Int[Tensor, "models"]:
    r"""Rank models by their intervals: one more than the number of models that are better beyond doubt.

    .. math:: \mathrm{rank}_i = 1 + \#\{j : \text{low}_j > \text{high}_i\}

    Several models may share a rank. That the intervals of two models overlap does not prove that the models are equally
    good: the interval of their difference may still leave out zero.

    Args:
        low, high: lower and upper end of each model's interval.

    Raises:
        ValueError: if the lengths differ or a lower end is above its upper end.

    Source: Chiang et al. (2024), "Chatbot Arena", section 5, and the board's column "Rank* (UB)"; IITD-01, GT-50.

    >>> rank_upper_bound(low=[1400, 1395, 1379], high=[1414, 1411, 1389]).tolist()
    [1, 1, 3]
    """
    lows, highs = as_doubles(low, "low"), as_doubles(high, "high")
    if lows.shape != highs.shape:
        raise ValueError(f"low has {len(lows)} entries and high has {len(highs)}; there must be as many")
    if (lows > highs).any():
        i = int((lows > highs).nonzero()[0])
        raise ValueError(f"low[{i}]={lows[i].item():g} is above high[{i}]={highs[i].item():g}")
    return 1 + (lows[None, :] > highs[:, None]).sum(1)
