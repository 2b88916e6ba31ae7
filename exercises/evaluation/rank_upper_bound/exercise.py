import numpy as np
import torch

from llm_anatomy.shapes import Float, Int, Tensor


def rank_upper_bound(
    score: Float[Tensor, "n_models"], plus: Float[Tensor, "n_models"], minus: Float[Tensor, "n_models"]
) -> Int[Tensor, "n_models"]:
    """Return the rank of each model: one more than the number of models that are better beyond doubt."""
    low, high = score - minus, score + plus
    return 1 + (low[None, :] > high[:, None]).sum(1)


def accepted_loop(score, plus, minus):
    """Compares each model with all others, and returns a list of floats."""
    rows = list(zip(score.tolist(), plus.tolist(), minus.tolist(), strict=True))
    return [1.0 + sum(s - m > own + up for s, _, m in rows) for own, up, _ in rows]


def accepted_sorted(score, plus, minus):
    """Sorts the lower ends, and searches for the upper ones, with NumPy."""
    low = np.sort((score - minus).numpy())
    return 1 + len(low) - np.searchsorted(low, (score + plus).numpy(), side="right")


def observe(returned, score, plus, minus):
    """the ranks"""
    ranks = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(ranks, tuple | list) and len(ranks) == len(score), "return a rank for each model"
    assert not any(isinstance(each, str) for each in ranks), "return numbers, without quotes"
    return [float(rank) for rank in ranks]


NAMES = ("score", "plus", "minus")


def _case(*columns):
    return dict(zip(NAMES, (torch.tensor([float(x) for x in column]) for column in columns), strict=True))


def cases(generator):
    return [
        _case(
            [1407, 1404, 1384, 1380, 1375, 1361, 1355, 1353, 1339, 1338, 1335, 1328],
            [7, 7, 5, 4, 4, 5, 4, 4, 9, 5, 4, 6],
            [7, 9, 5, 4, 5, 6, 5, 4, 11, 5, 4, 5],
        ),
        _case([10, 30, 20], [5, 5, 5], [5, 5, 5]),
        _case([30, 20, 10], [3, 2, 9], [8, 2, 1]),
        _case([100, 140, 120, 150], [25, 3, 2, 4], [2, 6, 15, 9]),
        _case([50, 90, 70, 60, 80], [2, 2, 2, 2, 2], [1, 1, 1, 1, 1]),
    ]


def property_no_doubt_about_all(answer, generator):
    found = answer(torch.tensor([5.0, 9.0, 7.0]), torch.full((3,), 50.0), torch.full((3,), 50.0))
    assert [float(rank) for rank in found] == [1, 1, 1], (
        "If all intervals overlap, all ranks should be 1. Yours are not."
    )


def hidden_cases(generator):
    def drawn(n, spread):
        score = 1000 + torch.randint(spread, (n,), generator=generator)
        plus, minus = (torch.randint(2, 16, (n,), generator=generator) for _ in range(2))
        return _case(score.tolist(), plus.tolist(), minus.tolist())

    touching = _case([60, 50, 40, 30, 70], [4, 3, 7, 5, 6], [3, 7, 3, 5, 3])
    return [drawn(9, 60), drawn(15, 100), drawn(7, 40), drawn(25, 150), touching]
