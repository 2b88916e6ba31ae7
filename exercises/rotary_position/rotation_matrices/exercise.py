import torch

from llm_anatomy.shapes import Float, Tensor


def rotation_matrices(angles: Float[Tensor, "n_tokens n_pairs"]) -> Float[Tensor, "n_tokens d_head d_head"]:
    """For each token, the block-diagonal matrix that rotates d_head = 2 n_pairs entries, with neighbours as pairs."""
    n_tokens, n_pairs = angles.shape
    first = torch.arange(0, 2 * n_pairs, 2)
    matrices = angles.new_zeros(n_tokens, 2 * n_pairs, 2 * n_pairs)
    matrices[:, first, first] = matrices[:, first + 1, first + 1] = angles.cos()
    matrices[:, first, first + 1], matrices[:, first + 1, first] = -angles.sin(), angles.sin()
    return matrices


def accepted_block_diagonal(angles):
    """Computes the blocks of each token and arranges them with block_diag."""
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack((cos, -sin, sin, cos), dim=-1).unflatten(-1, (2, 2))
    return torch.stack([torch.block_diag(*of_token) for of_token in blocks])


def accepted_three_diagonals(angles):
    """Adds the diagonal of cosines and the two next to it, where every second entry is a sine."""
    sines = angles.sin().repeat_interleave(2, dim=1)[:, :-1].clone()
    sines[:, 1::2] = 0
    cosines = angles.cos().repeat_interleave(2, dim=1)
    return torch.diag_embed(cosines) + torch.diag_embed(sines, -1) - torch.diag_embed(sines, 1)


def accepted_matrix_exponential(angles):
    """The exponential of a matrix with the angles beside its diagonal, in float64."""
    quarter_turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    generators = torch.einsum("tp, pq, ij -> tpiqj", angles.double(), torch.eye(angles.shape[1]).double(), quarter_turn)
    return torch.linalg.matrix_exp(generators.flatten(3, 4).flatten(1, 2)).to(angles.dtype)


def cases(generator):
    theta = torch.tensor([1.0, 0.1, 0.01, 0.001])
    return [
        {"angles": torch.stack((3 * theta, 4 * theta))},
        {"angles": torch.randn(4, 3, generator=generator) * 2},
        {"angles": torch.randn(3, 2, generator=generator).double() * 3},
        {"angles": torch.tensor([[0.5]])},
    ]


def property_angle_zero(answer, generator):
    assert torch.allclose(answer(torch.zeros(2, 3)), torch.eye(6).expand(2, 6, 6), atol=1e-5), (
        "If all angles are zero, your matrices should be the identity."
    )


def property_length_is_kept(answer, generator):
    matrices = answer(torch.randn(3, 4, generator=generator))
    assert torch.allclose(matrices.transpose(-2, -1) @ matrices, torch.eye(8).expand(3, 8, 8), atol=1e-5), (
        "The transpose of a rotation times the rotation should be the identity, because a rotation preserves lengths. "
        "For your matrices it is not."
    )


def property_only_the_difference_matters(answer, generator):
    theta = torch.tensor([1.0, 0.2, 0.04])
    query, key, offset = answer(torch.tensor([[5.0], [12.0], [7.0]]) * theta)
    assert torch.allclose(query.transpose(-2, -1) @ key, offset, atol=1e-5), (
        "The transpose of the matrix at position 5 times the matrix at position 12 should be the matrix of their "
        "offset, 7."
    )


def property_powers(answer, generator):
    once, seven = answer(torch.tensor([[1.0], [7.0]]) * torch.tensor([0.9, 0.3]))
    assert torch.allclose(torch.linalg.matrix_power(once, 7), seven, atol=1e-4), (
        "The matrix of position 7 should be the seventh power of the matrix of position 1."
    )


def property_planes_stay_apart(answer, generator):
    matrices = answer(torch.randn(2, 4, generator=generator))
    moved = (matrices @ torch.eye(8)[:, 4]).abs() > 1e-4
    assert moved.tolist() == [[False] * 4 + [True, True] + [False] * 2] * 2, (
        "Entry 4 (counted from 0) forms a plane with entry 5, so it should have no influence on the other entries."
    )


def property_counter_clockwise(answer, generator):
    turned = answer(torch.tensor([[0.0, torch.pi / 2]])) @ torch.tensor([0.0, 0.0, 1.0, 0.0])
    assert torch.allclose(turned, torch.tensor([[0.0, 0.0, 0.0, 1.0]]), atol=1e-5), (
        "A quarter turn of the second plane should move a 1 from the third entry to the fourth, with a positive sign."
    )


def hidden_cases(generator):
    def drawn(n_tokens, n_pairs, dtype=torch.float32):
        return {"angles": (torch.randn(n_tokens, n_pairs, generator=generator) * 3).to(dtype)}

    return [drawn(1, 1), drawn(3, 2), drawn(6, 4, torch.float64), drawn(2, 7), drawn(4, 16)]
