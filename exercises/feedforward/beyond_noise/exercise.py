import math

import numpy as np
import torch


def beyond_noise(gap: float, std_a: float, std_b: float, n_comparisons: int) -> tuple[float, str]:
    """Return how probable such a gap is between two equally good variants, and whether it is beyond noise."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 200_000, generator=generator)
    probability = (std_a * a - std_b * b).abs().ge(gap).double().mean().item()
    return probability, "beyond noise" if probability < 0.05 / n_comparisons else "within noise"


def accepted_formula(gap, std_a, std_b, n_comparisons):
    """Uses the normal distribution of the difference, and returns a list."""
    probability = math.erfc(gap / math.sqrt(2 * (std_a**2 + std_b**2)))
    return [probability, ("within noise", "beyond noise")[probability * n_comparisons < 0.05]]


def accepted_two_tails(gap, std_a, std_b, n_comparisons):
    """Adds the probabilities of the two tails."""
    normal = torch.distributions.Normal(0.0, math.hypot(std_a, std_b))
    probability = normal.cdf(torch.tensor(-gap)) + 1 - normal.cdf(torch.tensor(gap))
    return probability, "beyond noise" if probability < 0.05 / n_comparisons else "within noise"


def accepted_numpy(gap, std_a, std_b, n_comparisons):
    """Draws the smallest number of pairs with NumPy, around a common mean."""
    rng = np.random.default_rng()
    a, b = rng.normal(1.95, std_a, 50_000), rng.normal(1.95, std_b, 50_000)
    probability = np.mean(abs(a - b) >= gap)
    return probability, "beyond noise" if probability < 0.05 / n_comparisons else "within noise"


NAMES = ("gap", "std_a", "std_b", "n_comparisons")


def cases(generator):
    pairs = [
        (0.002, 0.004, 0.010, 1),  # GEGLU and SwiGLU
        (0.011, 0.004, 0.003, 1),  # GEGLU and ReGLU
        (0.011, 0.004, 0.003, 7),
        (0.018, 0.004, 0.005, 7),  # GEGLU and bilinear
        (0.055, 0.004, 0.005, 7),  # GEGLU and ReLU
        (0.007, 0.005, 0.003, 1),  # bilinear and ReGLU
        (0.007, 0.005, 0.003, 7),
        (0.014, 0.005, 0.005, 2),  # ReLU and GELU
        (0.016, 0.010, 0.005, 1),  # SwiGLU and bilinear
    ]
    return [dict(zip(NAMES, pair, strict=True)) for pair in pairs]


def observe(returned, gap, std_a, std_b, n_comparisons):
    """whether your probability is right, up to 0.01, and your decision"""
    assert isinstance(returned, tuple | list) and len(returned) == 2, (
        "you should return two things, the probability and the decision"
    )
    probability, decision = returned
    assert not isinstance(probability, str), "the probability should come first, then the decision"
    probability, words = float(probability), ("beyond noise", "within noise")
    spelt = str(decision).strip().lower()
    assert spelt in words, f"the decision is {decision!r}, which is neither {words[0]!r} nor {words[1]!r}"
    assert 0 <= probability <= 1, f"a probability is a number from 0 to 1, and yours is {probability:.4g}"
    spread = torch.tensor([std_a, std_b, gap], dtype=torch.float64)
    both = spread[:2].norm()
    scales = {
        "the right probability": both,
        "a probability with the sum of the standard deviations": spread[:2].sum(),
        "a probability with the sum of the variances, without a root": both**2,
        "a probability with the first spread alone": spread[0],
        "a probability with the second spread alone": spread[1],
        "a probability with the mean of the standard deviations": spread[:2].mean(),
        "a probability with the mean of the variances": both / 2**0.5,
        "a probability with the difference of the standard deviations": spread[:2].diff().abs()[0],
    }
    named = {name: 2 * torch.special.ndtr(-spread[2] / scale).item() for name, scale in scales.items()}
    right = named["the right probability"]
    named |= {"the probability of one direction": right / 2, "the probability of less than the gap": 1 - right}
    named["the probability times the number of comparisons"] = min(1.0, right * n_comparisons)
    near = [name for name, value in named.items() if abs(probability - value) <= 0.01]
    return near[0] if near else f"a probability that is too {'small' if probability < right else 'large'}", spelt


def hidden_cases(generator):
    pairs = [
        (0.009, 0.003, 0.010, 1),
        (0.022, 0.006, 0.005, 5),
        (0.008, 0.004, 0.003, 6),
        (0.021, 0.003, 0.009, 1),
        (0.012, 0.003, 0.005, 4),
    ]
    return [dict(zip(NAMES, pair, strict=True)) for pair in pairs]
