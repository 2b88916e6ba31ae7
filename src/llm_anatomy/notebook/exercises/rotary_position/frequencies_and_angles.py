import torch


def cases(generator):
    return [
        {"positions": torch.arange(8), "d_head": 8, "base": 10000},
        {"positions": torch.tensor([30, 31, 32]), "d_head": 10, "base": 100},
        {"positions": torch.tensor([4000, 17, -5, 90], dtype=torch.int32), "d_head": 6, "base": 500000},
        {"positions": torch.tensor([9]), "d_head": 2, "base": 10000},
    ]


def property_number_of_planes(answer, generator):
    shape = tuple(answer(torch.arange(5), 14, 10000).shape)
    assert shape == (5, 7), f"Five positions and a head of width 14 should give a table of (5, 7); yours is {shape}."


def property_the_lectures_ends(answer, generator):
    angles = answer(torch.tensor([1]), 128, 10000)[0]
    assert angles[0] == 1, "At position 1 the first plane should have turned by one radian."
    assert torch.isclose(angles[-1], torch.tensor(1.155e-4), rtol=1e-3), (
        "In a head of width 128 the slowest plane should turn by 0.0001155 per position; yours turns by "
        f"{angles[-1]:.7f}."
    )


def property_equal_steps(answer, generator):
    angles = answer(torch.tensor([0, 1, 2, 3]), 8, 10000)
    assert torch.allclose(angles.diff(dim=0), angles[1:2].expand(3, -1), atol=1e-5), (
        "From each position to the next a plane should turn by the same angle: 0, θ, 2θ, 3θ, …"
    )


def property_same_factor_between_planes(answer, generator):
    angles = answer(torch.tensor([1]), 12, 777)[0]
    factors = angles[1:] / angles[:-1]
    assert torch.allclose(factors, factors[0], rtol=1e-4), (
        "Each plane should be slower than the last by the same factor."
    )
