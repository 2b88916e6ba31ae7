import torch

from llm_anatomy.shapes import Float, Int, Tensor


def rotary_angles(positions: Int[Tensor, "n_tokens"], d_head: int, base: int) -> Float[Tensor, "n_tokens n_pairs"]:
    """The angle of each of the d_head / 2 planes at each position, in radians."""
    frequencies = base ** (-torch.arange(0, d_head, 2) / d_head)  # (n_pairs,)
    return positions[:, None] * frequencies


def accepted_outer_product(positions, d_head, base):
    """Uses the power of the formula and an outer product."""
    frequencies = base ** (-torch.arange(0, d_head, 2) / d_head)
    return torch.outer(positions.float(), frequencies)


def accepted_common_factor(positions, d_head, base):
    """Multiplies by the same factor from plane to plane, in float64."""
    factors = torch.full((d_head // 2,), base ** (-2 / d_head), dtype=torch.float64)
    factors[0] = 1
    return (positions[:, None] * factors.cumprod(0)).float()


def accepted_logarithmic_scale(positions, d_head, base):
    """Takes evenly spaced exponents from logspace; one column for each plane, then a transpose."""
    frequencies = torch.logspace(0, 2 / d_head - 1, d_head // 2, base=base)
    return torch.stack([frequency * positions for frequency in frequencies]).T


def cases(generator):
    return [
        {"positions": torch.arange(8), "d_head": 8, "base": 10000},
        {"positions": torch.tensor([30, 31, 32]), "d_head": 10, "base": 100},
        {"positions": torch.tensor([4000, 17, -5, 90]), "d_head": 6, "base": 500000},
        {"positions": torch.tensor([2]), "d_head": 4, "base": 100},
    ]


def property_number_of_planes(answer, generator):
    shape = tuple(answer(torch.arange(5), 14, 10000).shape)
    assert shape == (5, 7), f"For five positions and a head of width 14, the shape should be (5, 7). Yours is {shape}."


def property_the_lectures_ends(answer, generator):
    angles = answer(torch.tensor([1]), 128, 10000)[0].float()
    assert torch.isclose(angles[0], torch.tensor(1.0), rtol=1e-4), (
        "At position 1, the angle of the first plane should be one radian."
    )
    assert torch.isclose(angles[-1], torch.tensor(1.155e-4), rtol=1e-3), (
        "In a head of width 128, the slowest plane should rotate by 0.0001155 radians per position. Yours rotates by "
        f"{angles[-1]:.7f}."
    )


def property_equal_steps(answer, generator):
    angles = answer(torch.tensor([0, 1, 2, 3]), 8, 10000)
    assert torch.allclose(angles.diff(dim=0), angles[1:2].expand(3, -1), atol=1e-5), (
        "From each position to the next, a plane should rotate by the same angle: 0, θ, 2θ, 3θ, …"
    )


def property_same_factor_between_planes(answer, generator):
    angles = answer(torch.tensor([1]), 12, 777)[0]
    factors = angles[1:] / angles[:-1]
    assert torch.allclose(factors, factors[0], rtol=1e-4), (
        "Each plane should be slower than the one before by the same factor."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_head, base):
        positions = torch.randint(-50, 900, (n_tokens,), generator=generator)
        return {"positions": positions, "d_head": d_head, "base": base}

    return [drawn(5, 4, 10000), drawn(2, 16, 1000), drawn(7, 6, 50), drawn(1, 64, 500000)]
