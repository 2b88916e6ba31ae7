import math

import torch

from llm_anatomy.shapes import Float, Tensor


def exact_gelu(
    z: Float[Tensor, "n_points"],
) -> tuple[Float[Tensor, "n_points"], Float[Tensor, "n_points"], Float[Tensor, ""]]:
    """Return GELU by the normal distribution, GELU by the hyperbolic tangent, and their largest distance."""
    exact = z * (1 + torch.erf(z / math.sqrt(2))) / 2
    approximate = z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) / 2
    return exact, approximate, (exact - approximate).abs().max()


def accepted_distribution(z):
    """Asks PyTorch for the normal distribution, in float64, and returns a list with a number."""
    z = z.double()
    exact = z * torch.distributions.Normal(0.0, 1.0).cdf(z)
    u = (2 / torch.pi) ** 0.5 * z * (1 + 0.044715 * z.square())
    approximate = z * torch.sigmoid(2 * u)
    return [exact, approximate, float(torch.linalg.vector_norm(exact - approximate, ord=math.inf))]


def accepted_number_by_number(z):
    """Uses the standard library in a loop."""
    exact, approximate, largest = [], [], 0.0
    for number in z.tolist():
        exact.append(number * math.erfc(-number / 2**0.5) / 2)
        approximate.append(0.5 * number * (1 + math.tanh((2 / math.pi) ** 0.5 * (number + 0.044715 * number**3))))
        largest = max(largest, abs(exact[-1] - approximate[-1]))
    return torch.tensor(exact), torch.tensor(approximate), largest


def accepted_integral(z):
    """Integrates the density by Simpson's rule."""
    t = torch.linspace(0, 1, 401, dtype=torch.float64)[:, None] * z.double()
    density = torch.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
    area = (density[0] + 4 * density[1::2].sum(0) + 2 * density[2:-1:2].sum(0) + density[-1]) * t[1] / 3
    exact, approximate = z * (0.5 + area), z * (1 + torch.tanh(0.7978845608 * (z + 0.044715 * z**3))) / 2
    return exact, approximate, torch.amax(torch.abs(approximate - exact))


def cases(generator):
    def drawn(n_points, scale):
        return {"z": (10 * scale * torch.randn(n_points, generator=generator)).round() / 10}

    return [
        {"z": torch.tensor([-3.0, -1.0, 0.0, 1.0, 3.0])},
        {"z": torch.tensor([1.0])},
        {"z": torch.tensor([-2.5, 0.5])},
        drawn(6, 1),
        drawn(9, 2),
    ]


def property_both_sides(answer, generator):
    z = 2 * torch.randn(6, generator=generator)
    here, there = answer(z)[:2], answer(-z)[:2]
    for name, above, below in zip(("exact", "approximate"), here, there, strict=True):
        assert torch.allclose((above - below).float(), z, atol=1e-4), (
            f"GELU of z minus GELU of −z should be z, because Φ(z) and Φ(−z) add up to 1. Your {name} values say "
            "otherwise."
        )


def property_largest_distance(answer, generator):
    grid = torch.linspace(-5, 5, 1001)
    found = float(answer(grid)[2])
    assert 4e-4 < found < 5e-4, (
        "Between −5 and 5, the approximation is nowhere off by more than 0.0005, and somewhere by more than 0.0004. "
        f"Your third result there is {found:.2g}."
    )


def hidden_cases(generator):
    return [
        {"z": scale * torch.randn(n_points, generator=generator)} for n_points, scale in ((8, 1), (5, 2), (11, 1.5))
    ]
