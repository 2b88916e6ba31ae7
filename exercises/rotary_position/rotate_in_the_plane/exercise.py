import torch

from llm_anatomy.shapes import Float, Int, Tensor


def rotate_in_the_plane(
    x: Float[Tensor, "n_tokens 2"], positions: Int[Tensor, "n_tokens"], theta: float
) -> Float[Tensor, "n_tokens 2"]:
    """Each vector, rotated counter-clockwise by its position times theta."""
    angles = positions * theta
    first, second = x.unbind(-1)
    turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
    return torch.stack(turned, -1)


def accepted_complex_numbers(x, positions, theta):
    """Reads each vector as a complex number and multiplies by one of length one."""
    angles = positions * theta
    turned = torch.complex(x[:, 0], x[:, 1]) * torch.complex(angles.cos(), angles.sin())
    return torch.view_as_real(turned)


def accepted_stack_of_matrices(x, positions, theta):
    """Computes the matrix of each position and multiplies all at once."""
    cos, sin = torch.cos(positions * theta), torch.sin(positions * theta)
    matrices = torch.stack((cos, -sin, sin, cos), dim=-1).view(-1, 2, 2)
    return torch.einsum("tij, tj -> ti", matrices, x)


def accepted_length_and_direction(x, positions, theta):
    """Keeps the length of each vector and adds to its direction."""
    lengths = torch.hypot(x[:, 0], x[:, 1])
    directions = torch.atan2(x[:, 1], x[:, 0]) + positions * theta
    return lengths[:, None] * torch.stack((torch.cos(directions), torch.sin(directions)), dim=1)


def cases(generator):
    we, know = [1.0, 0.5], [0.25, 2.0]
    lecture = {"x": torch.tensor([we, know, we, know]), "positions": torch.tensor([2, 3, 0, 1]), "theta": 0.3}

    def drawn(positions, theta):
        x = torch.randn(len(positions), 2, generator=generator)
        return {"x": x, "positions": torch.tensor(positions), "theta": theta}

    one_token = {"x": torch.tensor([[1.0, 2.0]]), "positions": torch.tensor([3]), "theta": 0.2}
    return [lecture, drawn([7, 8, 9], 0.5), drawn([5, -3, 0, 60, 12], 0.01), one_token]


def property_quarter_turn(answer, generator):
    x, positions = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 1])
    assert torch.allclose(
        answer(x, positions, torch.pi / 2).float(), torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), atol=1e-5
    ), "A quarter turn should take (1, 0) to (0, 1), and (0, 1) to (-1, 0)."


def property_position_zero(answer, generator):
    x = torch.randn(3, 2, generator=generator)
    turned = answer(x, torch.tensor([4, 0, 9]), 0.7).float()
    assert torch.allclose(turned[1], x[1], atol=1e-5), "A token at position 0 should not be rotated."


def property_length_is_kept(answer, generator):
    x, positions = torch.randn(5, 2, generator=generator), torch.arange(5) + 3
    assert torch.allclose(answer(x, positions, 0.7).float().norm(dim=-1), x.norm(dim=-1), atol=1e-4), (
        "A rotation preserves the length of every vector. Yours does not."
    )


def property_only_the_difference_matters(answer, generator):
    x = torch.randn(2, 2, generator=generator)
    scores = [answer(x, torch.tensor([m, m + 4]), 0.7).prod(0).sum() for m in (0, 3, 11)]
    assert torch.allclose(torch.stack(scores), scores[0], atol=1e-4), (
        "When query and key move by the same number of positions, their dot product changes. It should depend only on "
        "the offset."
    )


def hidden_cases(generator):
    def drawn(n_tokens, theta):
        x = torch.randn(n_tokens, 2, generator=generator)
        return {"x": x, "positions": torch.randint(-9, 90, (n_tokens,), generator=generator), "theta": theta}

    return [drawn(1, 0.4), drawn(6, 0.05), drawn(11, 1.0), drawn(4, 0.2)]
