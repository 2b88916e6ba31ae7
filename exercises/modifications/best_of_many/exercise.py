import math

import numpy as np
import torch


def best_of_many(n_variants: int, n_runs: int, std: float, gap: float) -> tuple[float, float]:
    """Return the mean lead of the best of equally good variants, and the probability of a lead of at least gap."""
    generator = torch.Generator().manual_seed(0)
    means = std / math.sqrt(n_runs) * torch.randn(60_000, n_variants, generator=generator)
    lead = -means.min(dim=1).values
    return lead.mean().item(), lead.ge(gap).double().mean().item()


def accepted_formulas(n_variants, n_runs, std, gap):
    """Integrates the distribution of the best, and returns a list."""
    scale = std / n_runs**0.5
    z = np.linspace(-9, 9, 5000)
    cdf = np.array([0.5 * math.erfc(-x / 2**0.5) for x in z]) ** n_variants
    mean = float(np.sum((z[1:] + z[:-1]) / 2 * np.diff(cdf)))
    return [scale * mean, 1 - (0.5 * math.erfc(-gap / scale / 2**0.5)) ** n_variants]


def accepted_every_run(n_variants, n_runs, std, gap):
    """Draws every single run around a loss of 1.8, with NumPy."""
    rng = np.random.default_rng(1)
    best = np.full(50_000, np.inf)
    for _ in range(n_variants):
        best = np.minimum(best, rng.normal(1.8, std, (50_000, n_runs)).mean(1))
    return np.array([1.8 - best.mean(), (1.8 - best >= gap).mean()])


NAMES = ("n_variants", "n_runs", "std", "gap")


def cases(generator):
    rows = [
        (51, 1, 0.006, 0.015),
        (51, 5, 0.006, 0.0055),
        (8, 3, 0.03, 0.02),
        (2, 4, 0.5, 0.2),
        (15, 2, 1.0, 1.3),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def observe(returned, n_variants, n_runs, std, gap):
    """whether your mean lead is right, up to 2 %, and your probability, up to 0.01"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, (
        "you should return two numbers, the mean lead and the probability"
    )
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    lead, probability = map(float, numbers)
    assert 0 <= probability <= 1, f"a probability is a number from 0 to 1, and yours is {probability:.4g}"
    z = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    chances = torch.special.ndtr(z) ** n_variants
    of_best = ((z[1:] + z[:-1]) / 2 * chances.diff()).sum().item()
    of_best_run = ((z[1:] + z[:-1]) / 2 * (chances**n_runs).diff()).sum().item()
    chances_of_both = (2 * torch.special.ndtr(z.abs()) - 1) ** n_variants * (z > 0)
    furthest = ((z[1:] + z[:-1]) / 2 * chances_of_both.diff()).sum().item()
    right_lead = of_best * std / n_runs**0.5
    leads = {
        "the right lead": right_lead,
        "the lead of single runs": of_best * std,
        "a lead whose spread is divided by the number of runs": of_best * std / n_runs,
        "the lead of the best of all single runs": of_best_run * std,
        "the spread of a mean": std / n_runs**0.5,
        "the spread of a run": std,
        "how far the furthest row is away": furthest * std / n_runs**0.5,
        "the right lead with the wrong sign": -right_lead,
    }
    known = [name for name, value in leads.items() if abs(lead - value) <= 0.02 * abs(value)]
    known += ["no lead at all"] if abs(lead) <= 0.02 * right_lead else []
    size = "below zero" if lead < 0 else "that is too small" if lead < right_lead else "that is too large"
    named = known[0] if known else f"a lead {size}"

    def at_least(scale, n):
        return 1 - torch.special.ndtr(torch.tensor(gap / scale, dtype=torch.float64)).item() ** n

    scale = std / n_runs**0.5
    right = at_least(scale, n_variants)
    both = 2 * torch.special.ndtr(torch.tensor(gap / scale, dtype=torch.float64)).item() - 1
    probabilities = {
        "the right probability": right,
        "the probability of a smaller lead": 1 - right,
        "the probability for one variant": at_least(scale, 1),
        "the probability for single runs": at_least(std, n_variants),
        "the probability for the best of all single runs": at_least(std, n_variants * n_runs),
        "the probability of a gap in either direction": 1 - both**n_variants,
        "the probability that every row leads by so much": at_least(scale, 1) ** n_variants,
        "the expected number of such leads": min(1.0, n_variants * at_least(scale, 1)),
    }
    away = {name: abs(probability - value) for name, value in probabilities.items()}
    first, nearest = "the right probability", min(away, key=away.__getitem__)
    near = first if away[first] <= 0.01 else nearest if away[nearest] <= 0.01 else ""
    return named, near or f"a probability that is too {'small' if probability < right else 'large'}"


def hidden_cases(generator):
    rows = [(20, 2, 0.01, 0.011), (5, 6, 0.2, 0.09), (30, 3, 0.05, 0.07), (3, 2, 2.0, 1.0)]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]
