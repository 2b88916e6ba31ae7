from itertools import combinations

import numpy as np
import torch


def rank_agreement(first: list[float], second: list[float]) -> float:
    """Return Kendall's tau-b of two lists of losses."""
    a, b = (torch.tensor(losses, dtype=torch.float64) for losses in (first, second))
    signs_a, signs_b = (torch.sign(x[:, None] - x) for x in (a, b))
    ties = (signs_a.square().sum() * signs_b.square().sum()).sqrt()
    return ((signs_a * signs_b).sum() / ties).item()


def accepted_pairs(first, second):
    """Goes through the pairs and counts."""
    agree, n_first, n_second = 0, 0, 0
    for i, j in combinations(range(len(first)), 2):
        a, b = first[i] - first[j], second[i] - second[j]
        n_first, n_second = n_first + (a != 0), n_second + (b != 0)
        agree += 1 if a * b > 0 else -1 if a * b < 0 else 0
    return agree / (n_first * n_second) ** 0.5


def accepted_groups_of_ties(first, second):
    """Subtracts the pairs in groups of equal losses, with NumPy."""
    n = len(first)
    upper = np.triu_indices(n, 1)
    a, b = (np.sign(np.subtract.outer(np.array(x), np.array(x)))[upper] for x in (first, second))

    def free(losses):
        sizes = np.unique(losses, return_counts=True)[1]
        return n * (n - 1) / 2 - sum(size * (size - 1) / 2 for size in sizes)

    return (np.sum(a == b) - np.sum((a == 0) & (b == 0)) - np.sum(a * b == -1)) / np.sqrt(free(first) * free(second))


NAMES = ("first", "second")


def cases(generator):
    narang = [1.792, 1.838, 1.838, 1.847, 1.821, 2.164, 1.932]  # GeGLU, ReLU, GeLU, Swish, RMSNorm, shared blocks, ELU
    lists = [
        ([2.63, 2.71, 2.66, 2.69, 2.74, 2.95, 2.70], narang),
        ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]),
        ([3.0, 1.0, 1.0, 2.0, 5.0], [4.0, 2.0, 3.0, 3.0, 9.0]),
        ([1.0, 5.0, 2.0, 8.0], [9.0, 2.0, 7.0, 3.0]),
        ([2.0, 2.0, 2.0, 1.0, 4.0, 7.0], [1.0, 1.0, 3.0, 2.0, 2.0, 0.5]),
    ]
    return [dict(zip(NAMES, each, strict=True)) for each in lists]


def property_reversed(answer, generator):
    losses = [1.5, 2.5, 1.0, 4.0, 3.0]
    found = float(answer(losses, [-x for x in losses]))
    assert abs(found + 1) < 1e-4, "If one order is the other one reversed, τ should be −1. Yours is not."


def hidden_cases(generator):
    def drawn(n, n_values):
        lists = [torch.randint(n_values, (n,), generator=generator).tolist() for _ in range(2)]
        # two further variants see to it that neither list consists of ties only
        return dict(zip(NAMES, ([*map(float, each), -1.0, 0.5 + i] for i, each in enumerate(lists)), strict=True))

    return [drawn(6, 4), drawn(9, 20), drawn(12, 5), drawn(5, 3)]
