import math
import statistics

import numpy as np
import torch


def paired_t(baseline: list[float], variant: list[float]) -> tuple[float, float, float]:
    """Return the mean difference, the paired t, and the t of two lists that are not paired."""
    n = len(baseline)
    differences = [b - a for a, b in zip(baseline, variant, strict=True)]
    mean = statistics.fmean(differences)
    apart = math.sqrt((statistics.variance(baseline) + statistics.variance(variant)) / n)
    return mean, mean / (statistics.stdev(differences) / math.sqrt(n)), mean / apart


def accepted_numpy(baseline, variant):
    """Uses NumPy, and returns an array."""
    a, b = np.array(baseline), np.array(variant)
    d, n = b - a, len(a)
    apart = np.sqrt(a.var(ddof=1) / n + b.var(ddof=1) / n)
    return np.array([d.mean(), d.mean() / d.std(ddof=1) * np.sqrt(n), d.mean() / apart])


def accepted_torch(baseline, variant):
    """Uses tensors in single precision, and returns a list."""
    a, b = torch.tensor(baseline), torch.tensor(variant)
    d, n = b - a, len(a)
    return [d.mean(), d.mean() * n**0.5 / d.std(), (b.mean() - a.mean()) / ((a.var() + b.var()) / n).sqrt()]


def accepted_by_hand(baseline, variant):
    """Adds everything up in loops."""
    n = len(baseline)

    def mean_and_variance(numbers):
        mean = sum(numbers) / n
        return mean, sum((x - mean) ** 2 for x in numbers) / (n - 1)

    mean, variance = mean_and_variance([variant[i] - baseline[i] for i in range(n)])
    of_both = mean_and_variance(baseline)[1] + mean_and_variance(variant)[1]
    return mean, mean / (variance / n) ** 0.5, mean / (of_both / n) ** 0.5


def observe(returned, baseline, variant):
    """the three numbers"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 3, "three numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return dict(zip(("mean difference", "paired t", "other t"), map(float, numbers), strict=True))


NAMES = ("baseline", "variant")


def cases(generator):
    return [
        {"baseline": [2.31, 2.18, 2.44, 2.25, 2.37], "variant": [2.27, 2.16, 2.38, 2.22, 2.32]},
        {"baseline": [4.0, 6.0], "variant": [5.0, 9.0]},
        {"baseline": [1.5, 1.1, 1.5, 1.2], "variant": [1.9, 1.3, 1.9, 1.4]},  # two seeds have equal losses
        {"baseline": [2.1, 2.5, 2.9], "variant": [2.8, 1.9, 2.2]},
    ]


def property_hard_seeds(answer, generator):
    hard = [0.0, 2.0, -1.0, 0.5]
    one, other = [2.1, 2.5, 2.2, 2.4], [2.0, 2.6, 1.9, 2.1]
    plain = answer(one, other)
    shifted = answer(*([x + h for x, h in zip(each, hard, strict=True)] for each in (one, other)))
    assert abs(float(plain[1]) - float(shifted[1])) < 1e-3, (
        "If a seed is harder for both models alike, the paired t should stay. Yours changes."
    )


def hidden_cases(generator):
    def drawn(n, shift, shared):
        hard = shared * torch.randn(n, generator=generator, dtype=torch.float64)
        both = 2.5 + hard + 0.1 * torch.randn(2, n, generator=generator, dtype=torch.float64)
        return {"baseline": both[0].tolist(), "variant": (both[1] + shift).tolist()}

    return [drawn(5, -0.2, 0.5), drawn(3, 0.3, 0.4), drawn(8, -0.1, 0.0), drawn(2, 0.2, 0.3)]
