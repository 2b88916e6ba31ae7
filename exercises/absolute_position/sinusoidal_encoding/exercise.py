import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def sinusoidal_encoding(
    positions: Int[Tensor, "batch n_tokens"], d_model: int
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Return the sinusoidal code of each position, with the sine and cosine of a pair side by side."""
    wavelengths = 10000 ** (torch.arange(0, d_model, 2) / d_model)  # over 2π, one for each pair
    angles = positions[..., None] / wavelengths  # (batch, n_tokens, pairs)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :d_model]


def accepted_every_second_coordinate(positions, d_model):
    """Writes the sines and the cosines into every second coordinate of an empty result."""
    angles = positions[..., None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    encoding = torch.empty(*positions.shape, d_model)
    encoding[..., 0::2] = angles.sin()
    encoding[..., 1::2] = angles[..., : d_model // 2].cos()
    return encoding


def accepted_phase(positions, d_model):
    """Takes the sine of everything, since a cosine is a sine a quarter turn ahead; in float64."""
    coordinates = torch.arange(d_model)
    is_cosine = coordinates % 2
    frequencies = 10000.0 ** (-(coordinates - is_cosine).double() / d_model)
    return torch.sin(positions[..., None] * frequencies + math.pi / 2 * is_cosine).float()


def accepted_complex_numbers(positions, d_model):
    """Reads cosine and sine off a complex number of length one, and exchanges the two."""
    exponents = torch.arange(0, d_model, 2) / d_model
    angles = positions[..., None] * torch.exp(-math.log(10000) * exponents)
    pairs = torch.view_as_real(torch.polar(torch.ones_like(angles), angles)).flip(-1)
    return pairs.flatten(-2)[..., :d_model]


def cases(generator):
    given = [([[1]], 4), ([[0, 6]], 6), ([[3, 4, 5], [21, 22, 23]], 4), ([[30, 31], [8, 9], [14, 15]], 7)]
    return [{"positions": torch.tensor(positions), "d_model": d_model} for positions, d_model in given]


def property_position_zero(answer, generator):
    found, right = answer(torch.zeros(1, 1, dtype=torch.long), 6).flatten().float(), torch.tensor([0.0, 1, 0, 1, 0, 1])
    assert torch.allclose(found, right, atol=1e-5), (
        "At position 0 all sines are 0 and all cosines are 1, so the code of width 6 should be 0, 1, 0, 1, 0, 1. "
        "Yours is not."
    )


def property_all_codes_equally_long(answer, generator):
    lengths = answer(torch.tensor([[0, 5, 17, 40]]), 12).float().norm(dim=-1)
    assert torch.allclose(lengths, torch.full((1, 4), 6**0.5), atol=1e-4), (
        "In each pair sin² + cos² is 1, so every code should have the length √(d_model / 2). At least one of yours "
        "does not."
    )


def property_neighbours_on_the_slowest_pair(answer, generator):
    first, second = answer(torch.tensor([[20, 21]]), 512)[0, :, -2:]
    gap = (first - second).abs().max().item()
    assert 0 < gap < 1.04e-4, (
        f"At width 512, neighbours differ by less than 0.000104 on the slowest pair. Yours differ by {gap:.2g}."
    )


def property_a_position_has_one_code(answer, generator):
    codes = answer(torch.tensor([[3, 9, 3], [9, 3, 4]]), 8)
    again, other_row = codes[0, 2], codes[1, :2].flip(0)
    assert torch.allclose(codes[0, 0], again, atol=1e-5) and torch.allclose(codes[0, :2], other_row, atol=1e-5), (
        "The same position should have the same code anywhere in the batch. Yours does not."
    )


def hidden_cases(generator):
    def drawn(batch, n_tokens, d_model):
        return {"positions": torch.randint(0, 60, (batch, n_tokens), generator=generator), "d_model": d_model}

    return [drawn(3, 5, 16), drawn(2, 9, 12), drawn(5, 4, 33), drawn(1, 6, 2), drawn(4, 7, 64), drawn(6, 2, 5)]


def probe_products_of_moved_positions(answer, positions, d_model):
    """At an even width, the product of two codes depends only on their distance, wherever the text begins."""
    codes = answer(positions + 11, d_model + d_model % 2)
    return codes @ codes.mT
