import torch


def cases(generator):
    theta = torch.tensor([1.0, 0.1, 0.01, 0.001])
    return [
        {"angles": torch.stack((3 * theta, 4 * theta))},
        {"angles": torch.randn(4, 3, generator=generator) * 2},
        {"angles": torch.randn(3, 2, generator=generator).double() * 3},
        {"angles": torch.randn(5, 1, generator=generator)},
    ]


def property_angle_zero(answer, generator):
    assert torch.equal(answer(torch.zeros(2, 3)), torch.eye(6).expand(2, 6, 6)), (
        "Angles of zero turn nothing, so your matrices should be the identity."
    )


def property_length_is_kept(answer, generator):
    matrices = answer(torch.randn(3, 4, generator=generator))
    assert torch.allclose(matrices.transpose(-2, -1) @ matrices, torch.eye(8).expand(3, 8, 8), atol=1e-5), (
        "A rotation times its transpose should be the identity, so that all lengths are kept. Yours is not."
    )


def property_only_the_difference_matters(answer, generator):
    theta = torch.tensor([1.0, 0.2, 0.04])
    query, key, offset = answer(torch.tensor([[5.0], [12.0], [7.0]]) * theta)
    assert torch.allclose(query.transpose(-2, -1) @ key, offset, atol=1e-5), (
        "The transpose of the matrix at position 5 times that at position 12 should be the matrix of the offset, 7."
    )


def property_powers(answer, generator):
    once, seven = answer(torch.tensor([[1.0], [7.0]]) * torch.tensor([0.9, 0.3]))
    assert torch.allclose(torch.linalg.matrix_power(once, 7), seven, atol=1e-4), (
        "The matrix of position 7 should be the seventh power of that of position 1."
    )


def property_planes_stay_apart(answer, generator):
    matrices = answer(torch.randn(2, 4, generator=generator))
    moved = (matrices @ torch.eye(8)[:, 4]).abs() > 1e-6
    assert moved.tolist() == [[False] * 4 + [True, True] + [False] * 2] * 2, (
        "Entry 4 lies in the plane of entries 4 and 5 and should go nowhere else."
    )


def property_counter_clockwise(answer, generator):
    turned = answer(torch.tensor([[0.0, torch.pi / 2]])) @ torch.tensor([0.0, 0.0, 1.0, 0.0])
    assert torch.allclose(turned, torch.tensor([[0.0, 0.0, 0.0, 1.0]]), atol=1e-5), (
        "A quarter turn of the second plane should take the third entry to the fourth, with a plus."
    )
