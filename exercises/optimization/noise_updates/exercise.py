import numpy as np
import torch


def noise_updates(seed: int, size: float) -> tuple[list[float], str]:
    """Return the root mean squares of the updates in steps 1, 2, 10 and 100, and when they are largest."""
    torch.manual_seed(seed)
    m = v = torch.zeros(10_000)
    found = {}
    for t in range(1, 101):
        gradient = size * torch.randn(10_000)
        m, v = 0.9 * m + 0.1 * gradient, 0.95 * v + 0.05 * gradient**2
        update = m / (1 - 0.9**t) / ((v / (1 - 0.95**t)).sqrt() + 1e-8)
        found[t] = update.square().mean().sqrt().item()
    return [found[t] for t in (1, 2, 10, 100)], "largest at first"


def accepted_library(seed, size):
    """Reads the updates off the weights that PyTorch's Adam changes, and decides by the numbers."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.zeros(10_000, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=1.0, betas=(0.9, 0.95))
    norms = []
    for _ in range(100):
        before = weights.detach().clone()
        weights.grad = size * torch.randn(10_000, generator=generator, dtype=torch.float64)
        optimizer.step()
        norms.append((weights.detach() - before).norm() / 100)
    chosen = torch.stack(norms)[[0, 1, 9, 99]]
    spread = chosen.max() > 2 * chosen.min()
    return chosen, "always the same" if not spread else "largest at first" if chosen[0] > chosen[
        -1
    ] else "largest at the end"


def accepted_all_at_once(seed, size):
    """Draws all gradients with NumPy, and averages them with weights."""
    gradients = np.random.default_rng(seed).normal(0, size, (100, 10_000))

    def average(values, beta, t):
        weights = beta ** np.arange(t)[::-1]
        return weights @ values[:t] / weights.sum()

    chosen = []
    for t in (1, 2, 10, 100):
        update = average(gradients, 0.9, t) / np.sqrt(average(gradients**2, 0.95, t))
        chosen.append(np.sqrt(np.mean(update**2)))
    return tuple(chosen), "Largest at first"


def cases(generator):
    return [{"seed": 0, "size": 1.0}, {"seed": 1, "size": 0.001}]


# Over 200 seeds: 1; 0.700 to 0.715; 0.323 to 0.333; 0.222 to 0.230
LIMITS = [(0.99, 1.01), (0.685, 0.73), (0.31, 0.345), (0.215, 0.24)]


def judged(numbers):
    pairs = zip(numbers.tolist(), LIMITS, strict=True)
    return ["right" if low <= x <= high else "too small" if x < low else "too large" for x, (low, high) in pairs]


def observe(returned, seed, size):
    """your four numbers with those of the experiment, and your conclusion"""
    assert isinstance(returned, tuple | list) and len(returned) == 2, (
        "you should return two things, the four numbers and the conclusion"
    )
    numbers, conclusion = returned
    assert not isinstance(numbers, str), "the numbers should come first, then the conclusion"
    numbers = torch.as_tensor([float(number) for number in numbers], dtype=torch.float64)
    assert len(numbers) == 4, f"four numbers are needed, and yours are {len(numbers)}"
    spelt = str(conclusion).strip().lower()
    words = ("largest at first", "largest at the end", "always the same")
    assert spelt in words, f"the conclusion is {conclusion!r}, which is not one of the three strings"
    assert not numbers.isnan().any(), "some of your numbers are NaN, which does not happen in this experiment"
    forms = {
        "all four numbers are right": numbers,
        "the squares of the right numbers": numbers.clamp(min=0).sqrt(),
        "the right numbers times 100": numbers / 100,
        "the right numbers divided by 1,000": numbers * 1000,
        "the right numbers in the reversed order": numbers.flip(0),
        "the numbers of the steps 2, 3, 11 and 101": numbers / torch.tensor([0.7095, 0.816, 0.965, 1]),
        "the means of the absolute values": numbers / torch.tensor([1, 0.901, 0.823, 0.810]),
    }
    named = [name for name, form in forms.items() if judged(form) == ["right"] * 4]
    words = ", ".join(f"step {step} {word}" for step, word in zip((1, 2, 10, 100), judged(numbers), strict=True))
    return named[0] if named else words, spelt


def hidden_cases(generator):
    return [{"seed": 2, "size": 3.0}, {"seed": 3, "size": 0.01}, {"seed": 40, "size": 1.0}]
