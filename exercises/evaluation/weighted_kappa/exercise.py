from collections import Counter

import numpy as np
import torch


def weighted_kappa(first: list[int], second: list[int], n_levels: int) -> tuple[float, float]:
    """Return Cohen's kappa of two raters, plain and with quadratic weights."""
    observed = torch.zeros(n_levels, n_levels)
    for a, b in zip(first, second, strict=True):
        observed[a - 1, b - 1] += 1
    expected = torch.outer(observed.sum(1), observed.sum(0)) / len(first)
    levels = torch.arange(n_levels)
    distance = (levels[:, None] - levels).float()
    plain, quadratic = (1 - (w * observed).sum() / (w * expected).sum() for w in (distance != 0, distance**2))
    return plain.item(), quadratic.item()


def accepted_pairs(first, second, n_levels):
    """Adds up over answers and over all pairs of ratings, and returns a list."""
    n = len(first)
    found = []
    for weight in (lambda a, b: a != b, lambda a, b: (a - b) ** 2):
        own = sum(weight(a, b) for a, b in zip(first, second, strict=True))
        by_chance = sum(weight(a, b) for a in first for b in second) / n
        found.append(1 - own / by_chance)
    return found


def accepted_shares(first, second, n_levels):
    """Works with shares, the plain one as (agreement − chance) / (1 − chance), and returns an array."""
    n, a, b = len(first), np.array(first), np.array(second)
    p, q = Counter(first), Counter(second)
    chance = sum(p[level] * q[level] for level in p) / n**2
    plain = (np.mean(a == b) - chance) / (1 - chance)
    by_chance = a.var() + b.var() + (a.mean() - b.mean()) ** 2
    return np.array([plain, 1 - np.mean((a - b) ** 2) / by_chance])


def observe(returned, first, second, n_levels):
    """the two values of κ, the plain one first"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "two numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return dict(zip(("plain", "quadratic"), map(float, numbers), strict=True))


NAMES = ("first", "second", "n_levels")


def cases(generator):
    rows = [
        ([1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4], [1, 2, 2, 2, 1, 3, 4, 2, 4, 4, 4, 3], 4),
        ([1, 2, 2], [1, 2, 1], 2),
        ([1, 3, 3, 1], [3, 1, 3, 1], 3),
        ([2, 2, 5, 4, 5, 2], [2, 4, 5, 4, 4, 5], 5),
        ([1, 4, 2, 2, 3], [4, 1, 3, 2, 3], 4),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def property_perfect(answer, generator):
    levels = [1, 3, 2, 3, 4, 1]
    found = tuple(map(float, answer(levels, list(levels), 4)))
    assert all(abs(kappa - 1) < 1e-4 for kappa in found), (
        "If the experts agree about every answer, both values should be 1. Yours are not."
    )


def hidden_cases(generator):
    def drawn(n, n_levels, noise):
        first = torch.randint(1, n_levels + 1, (n,), generator=generator)
        shift = (noise * torch.randn(n, generator=generator)).round().long()
        second = (first + shift).clamp(1, n_levels)
        ends = [1, n_levels]  # so that neither expert gives the same level to all answers
        return dict(zip(NAMES, (first.tolist() + ends, second.tolist() + ends[::-1], n_levels), strict=True))

    return [drawn(13, 4, 1.0), drawn(9, 3, 0.7), drawn(20, 6, 1.5), drawn(6, 5, 2.0)]
