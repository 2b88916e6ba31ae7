import torch

from llm_anatomy.shapes import Float, Int, Tensor


def turned_cosines(
    angles: Float[Tensor, "n_words"], positions: Int[Tensor, "n_words"], theta: float
) -> Float[Tensor, "n_words n_words"]:
    """The cosine of the angle between any two words, after each was rotated by its position times theta."""
    turned = angles + positions * theta
    return (turned[None, :] - turned[:, None]).cos()


def accepted_directions_subtracted(angles, positions, theta):
    """Adds the rotations to the angles and takes the cosine of all differences."""
    directions = angles + positions * theta
    return torch.cos(directions[None, :] - directions[:, None])


def accepted_scalar_products(angles, positions, theta):
    """Computes the arrows; the dot product of two arrows of length one is the cosine."""
    directions = angles + positions * theta
    arrows = torch.stack((directions.cos(), directions.sin()), dim=1)
    return arrows @ arrows.T


def accepted_complex_numbers(angles, positions, theta):
    """Multiplies complex numbers of length one by each other's conjugates and takes the real part."""
    directions = torch.add(angles, positions, alpha=theta)
    arrows = torch.polar(torch.ones_like(directions), directions)
    return torch.outer(arrows.conj(), arrows).real


def cases(generator):
    dog_chased_pig = torch.tensor([0.4, 2.0, 1.1])
    first = {"angles": dog_chased_pig, "positions": torch.tensor([1, 2, 4]), "theta": 0.25}
    second = {"angles": dog_chased_pig, "positions": torch.tensor([8, 6, 5]), "theta": 0.25}

    several = {
        "angles": torch.rand(4, generator=generator) * 6,
        "positions": torch.tensor([30, 7, 8, -2]),
        "theta": 0.1,
    }
    two_words = {"angles": torch.tensor([0.5, 1.0]), "positions": torch.tensor([3, 1]), "theta": 0.2}
    return [first, second, several, two_words]


WORDS, POSITIONS = torch.tensor([0.3, 1.5, 0.9, 4.0]), torch.tensor([2, 3, 5, 9])


def property_moved_together(answer, generator):
    assert torch.allclose(answer(WORDS, POSITIONS, 0.25), answer(WORDS, POSITIONS + 40, 0.25), atol=1e-3), (
        "When the whole sentence moves by 40 positions, your cosines change. Only the differences between positions "
        "should matter."
    )


def property_itself(answer, generator):
    assert torch.allclose(answer(WORDS, POSITIONS, 0.25).diagonal().float(), torch.ones(4), atol=1e-4), (
        "The cosine of a word with itself should be 1."
    )


def property_a_turn_can_bring_closer(answer, generator):
    ahead = answer(torch.tensor([0.0, 1.0]), torch.tensor([0, 1]), 0.5)[0, 1]
    behind = answer(torch.tensor([0.0, 1.0]), torch.tensor([1, 0]), 0.5)[0, 1]
    assert ahead < torch.tensor(1.0).cos() < behind, (
        "Two arrows differ by 1 radian. If the arrow that is ahead comes one position later, it should rotate further "
        "away from the other. If it comes one position earlier, the other should catch up."
    )


def hidden_cases(generator):
    def drawn(n_words, theta):
        positions = torch.randint(-20, 200, (n_words,), generator=generator)
        return {"angles": torch.randn(n_words, generator=generator) * 2, "positions": positions, "theta": theta}

    return [drawn(2, 0.3), drawn(7, 0.02), drawn(4, 1.0), drawn(6, 0.1)]
