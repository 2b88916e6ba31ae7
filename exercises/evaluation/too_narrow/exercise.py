import math

import numpy as np
import torch


def too_narrow(n_texts: int, n_questions: int, shared: float) -> tuple[float, float]:
    """Return how often the naive interval contains the truth, with all questions and with one for each text."""
    generator = torch.Generator().manual_seed(0)
    spread = math.sqrt((shared + (1 - shared) / n_questions) / n_texts)
    means = spread * torch.randn(200_000, generator=generator)
    alone = torch.randn(200_000, generator=generator) / math.sqrt(n_texts)
    return (
        (means.abs() <= 1.96 / math.sqrt(n_texts * n_questions)).double().mean().item(),
        (alone.abs() <= 1.96 / math.sqrt(n_texts)).double().mean().item(),
    )


def accepted_formula(n_texts, n_questions, shared):
    """Uses the normal distribution, and returns a list."""
    effect = 1 + (n_questions - 1) * shared
    return [math.erf(1.96 / math.sqrt(2 * effect)), math.erf(1.96 / math.sqrt(2))]


def accepted_every_text(n_texts, n_questions, shared):
    """Draws every text, and the questions of each as one mean, with NumPy."""
    rng = np.random.default_rng(1)
    texts = rng.normal(0, shared**0.5, (30_000, n_texts))
    questions = rng.normal(0, ((1 - shared) / n_questions) ** 0.5, (30_000, n_texts))
    first = rng.normal(0, (1 - shared) ** 0.5, (30_000, n_texts))
    inside = np.abs((texts + questions).mean(1)) <= 1.96 / np.sqrt(n_texts * n_questions)
    return np.array([inside.mean(), (np.abs((texts + first).mean(1)) <= 1.96 / np.sqrt(n_texts)).mean()])


NAMES = ("n_texts", "n_questions", "shared")


def cases(generator):
    return [dict(zip(NAMES, row, strict=True)) for row in [(40, 5, 0.3), (25, 10, 0.5), (100, 2, 0.8), (15, 4, 0.1)]]


def observe(returned, n_texts, n_questions, shared):
    """which of two intervals contain the truth how often, up to 0.012"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "you should return two probabilities"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    numbers = [float(number) for number in numbers]
    assert all(0 <= number <= 1 for number in numbers), "a probability is a number from 0 to 1"

    def within(ratio):
        return torch.erf(torch.tensor(ratio / 2**0.5, dtype=torch.float64)).item()

    effect = 1 + (n_questions - 1) * shared
    right, promised = within(1.96 / effect**0.5), within(1.96)
    first = {
        "the 95 % that were promised": promised,
        "the probability of a miss": 1 - right,
        "the probability if all questions of a text were answered alike": within(1.96 / n_questions**0.5),
        "the probability with the factor for a standard deviation": within(1.96 / effect),
        "the probability with the shared part as a standard deviation": within(
            1.96 / (n_questions * shared**2 + (1 - shared) ** 2) ** 0.5
        ),
        "the probability if all texts had their part in common": within(
            1.96 / (n_texts * n_questions * shared + 1 - shared) ** 0.5
        ),
    }
    second = {
        "the probability for all questions": right,
        "the probability of a miss": 1 - promised,
        "the probability with the interval of all questions": within(1.96 / n_questions**0.5),
    }

    def named(number, wanted, known):
        near = min(known, key=lambda name: abs(number - known[name]))
        if abs(number - wanted) <= 0.012:
            return "right"
        return near if abs(number - known[near]) <= 0.012 else "too small" if number < wanted else "too large"

    return named(numbers[0], right, first), named(numbers[1], promised, second)


def hidden_cases(generator):
    return [dict(zip(NAMES, row, strict=True)) for row in [(30, 6, 0.4), (60, 3, 0.25), (20, 12, 0.7)]]
