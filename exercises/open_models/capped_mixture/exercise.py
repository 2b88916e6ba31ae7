import numpy as np
import torch

from llm_anatomy.shapes import Float, Tensor


def capped_mixture(
    unique: Float[Tensor, "n_sources"], shares: Float[Tensor, "n_sources"], n_tokens: float, most: float
) -> Float[Tensor, "n_sources"]:
    """Return how many billion tokens are read from each source."""
    limits, full = most * unique, torch.zeros_like(unique, dtype=torch.bool)
    while True:
        left = n_tokens - limits[full].sum()
        read = torch.where(full, limits, left * shares / shares[~full].sum())
        if not (read > limits).any():
            return read
        full |= read > limits


def accepted_in_the_order_of_the_limits(unique, shares, n_tokens, most):
    """Fills the sources in the order in which they reach their limits, with Python's numbers."""
    limits = [most * each for each in unique.tolist()]
    order = sorted(range(len(limits)), key=lambda i: limits[i] / shares[i].item())
    read, left, parts = [0.0] * len(limits), n_tokens, 1.0
    for i in order:
        share = shares[i].item()
        read[i] = min(limits[i], left * share / parts)
        left, parts = left - read[i], parts - share
    return torch.tensor(read)


def accepted_bisection(unique, shares, n_tokens, most):
    """Looks for the level at which min(limit, level times share) adds up to the run, with NumPy."""
    limits, shares = most * unique.numpy().astype(float), shares.numpy().astype(float)
    low, high = 0.0, 1e9
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if np.minimum(limits, level * shares).sum() < n_tokens else (low, level)
    return np.minimum(limits, high * shares)


NAMES = ("unique", "shares", "n_tokens", "most")


def cases(generator):
    llama = (
        torch.tensor([852.7, 198.1, 98.4, 25.7, 28.3, 33.0, 27.2]),
        torch.tensor([0.67, 0.15, 0.045, 0.045, 0.045, 0.025, 0.02]),
        4000.0,
        4.0,
    )
    chain = (torch.tensor([5.0, 22.0, 100.0]), torch.tensor([0.25, 0.25, 0.5]), 80.0, 1.0)
    free = (torch.tensor([50.0, 30.0]), torch.tensor([0.6, 0.4]), 40.0, 1.0)
    three = (torch.tensor([2.0, 40.0, 6.0, 30.0]), torch.tensor([0.3, 0.2, 0.3, 0.2]), 60.0, 2.0)
    longer = (torch.tensor([10.0, 33.0, 30.0, 100.0]), torch.tensor([0.4, 0.3, 0.2, 0.1]), 100.0, 1.0)
    return [dict(zip(NAMES, each, strict=True)) for each in (llama, chain, free, three, longer)]


def property_the_whole_run(answer, generator):
    unique, shares = torch.tensor([3.0, 30.0, 12.0, 50.0]), torch.tensor([0.4, 0.1, 0.3, 0.2])
    read = torch.as_tensor(answer(unique, shares, 100.0, 2.0)).double()
    assert abs(float(read.sum()) - 100) < 0.01, "Together, the sources should give all tokens of the run. Yours do not."
    assert (read <= 2 * unique + 1e-3).all(), "A source is read more often than `most` times."


def hidden_cases(generator):
    def drawn(n, most, full):
        unique = 1 + 40 * torch.rand(n, generator=generator)
        shares = 0.05 + torch.rand(n, generator=generator)
        return dict(zip(NAMES, (unique, shares / shares.sum(), full * most * unique.sum().item(), most), strict=True))

    chain = (torch.tensor([4.0, 17.5, 90.0, 60.0]), torch.tensor([0.2, 0.2, 0.35, 0.25]), 90.0, 1.0)
    longer = (torch.tensor([5.0, 17.0, 16.0, 60.0]), torch.tensor([0.4, 0.3, 0.2, 0.1]), 52.0, 1.0)
    chains = [dict(zip(NAMES, each, strict=True)) for each in (chain, longer)]
    return [drawn(5, 3.0, 0.8), drawn(3, 4.0, 0.9), drawn(7, 1.5, 0.7), *chains]
