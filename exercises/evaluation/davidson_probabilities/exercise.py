import numpy as np
import torch


def davidson_probabilities(rating_a: float, rating_b: float, nu: float) -> tuple[float, float, float, float]:
    """Return the probabilities that A wins, of a tie, and that B wins, and the expected score of A."""
    power = 10 ** ((rating_a - rating_b) / 800)
    total = power + nu + 1 / power
    return power / total, nu / total, 1 / power / total, (power + nu / 2) / total


def accepted_softmax(rating_a, rating_b, nu):
    """Takes a softmax of logarithms, in single precision, and returns a tensor."""
    half = (rating_a - rating_b) / 800 * torch.tensor(10.0).log()
    p = torch.stack([half, torch.tensor(float(nu)).log(), -half]).softmax(0)
    return torch.cat([p, (p[0] + p[1] / 2)[None]])


def accepted_strengths(rating_a, rating_b, nu):
    """Uses the strengths of both models, with NumPy, and returns a list."""
    a, b = (np.power(10.0, (rating - 1500) / 400) for rating in (rating_a, rating_b))
    tie = nu * np.sqrt(a * b)
    p = np.array([a, tie, b]) / (a + tie + b)
    return [*p, p @ [1, 0.5, 0]]


def observe(returned, rating_a, rating_b, nu):
    """the three probabilities and the expected score"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 4, "four numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return dict(zip(("A wins", "tie", "B wins", "expected score"), map(float, numbers), strict=True))


NAMES = ("rating_a", "rating_b", "nu")


def cases(generator):
    rows = [
        (1300.0, 1286.0, 0.8),
        (1400.0, 1000.0, 0.0),
        (1000.0, 1000.0, 2.0),
        (900.0, 1300.0, 1.5),
        (1500.0, 1260.0, 0.25),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def property_sum(answer, generator):
    ratings = (1000 + 500 * torch.rand(2, generator=generator)).tolist()
    found = [float(each) for each in answer(*ratings, 0.7)]
    assert abs(sum(found[:3]) - 1) < 1e-4, "The three probabilities should add up to 1. Yours do not."


def hidden_cases(generator):
    rows = torch.rand(5, 3, generator=generator).tolist()
    return [dict(zip(NAMES, (1000 + 400 * a, 950 + 400 * b, 0.1 + 2 * nu), strict=True)) for a, b, nu in rows]
