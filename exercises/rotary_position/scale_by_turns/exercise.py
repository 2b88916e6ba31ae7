import math

import torch

from llm_anatomy.layers.positions.rotary import Llama3Scaling
from llm_anatomy.shapes import Float, Tensor


def scale_by_turns(d_head: int, base: int, factor: int, n_trained: int) -> Float[Tensor, "n_pairs"]:
    """Frequencies for longer texts: kept from 4 turns in n_trained positions on, divided by factor below 1 turn."""
    frequencies = base ** (-torch.arange(0, d_head, 2) / d_head)
    turns = n_trained * frequencies / (2 * math.pi)
    kept = ((turns - 1) / 3).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)


def accepted_interpolation(d_head, base, factor, n_trained):
    """Interpolates between the slowed and the original frequencies with lerp."""
    frequencies = base ** (-torch.arange(0, d_head, 2) / d_head)
    turns = n_trained * frequencies / (2 * math.pi)
    return torch.lerp(frequencies / factor, frequencies, ((turns - 1) / 3).clamp(0, 1))


def accepted_case_by_case(d_head, base, factor, n_trained):
    """Decides for each plane with if, using Python numbers."""
    scaled = []
    for i in range(d_head // 2):
        frequency = base ** (-2 * i / d_head)
        turns = n_trained * frequency / math.tau
        if turns < 1:
            frequency /= factor
        elif turns < 4:
            kept = (turns - 1) / 3
            frequency *= kept + (1 - kept) / factor
        scaled.append(frequency)
    return torch.tensor(scaled)


def accepted_scaling_of_the_package(d_head, base, factor, n_trained):
    """Calls the package's own scaling of Llama 3, whose bounds are the same."""
    return Llama3Scaling(float(factor), n_trained)(d_head, float(base))


def cases(generator):
    return [
        {"d_head": 16, "base": 10000, "factor": 4, "n_trained": 64},
        {"d_head": 128, "base": 500000, "factor": 8, "n_trained": 8192},
        {"d_head": 10, "base": 50, "factor": 3, "n_trained": 100},
        {"d_head": 4, "base": 10, "factor": 2, "n_trained": 30},
    ]


def property_factor_one(answer, generator):
    frequencies = answer(12, 10000, 1, 64).float()
    assert torch.allclose(frequencies[1:] / frequencies[:-1], torch.tensor(10000 ** (-1 / 6)), rtol=1e-4), (
        "With a factor of 1, the frequencies should not change: the first is 1, and each of the others is smaller "
        "than the one before by the same ratio."
    )


def property_both_ends(answer, generator):
    before, after = answer(64, 10000, 1, 500), answer(64, 10000, 6, 500)
    slower = (before / after).float()
    assert torch.isclose(slower[0], torch.tensor(1.0), rtol=1e-3), (
        "The fastest plane should keep its frequency. Yours does not."
    )
    assert torch.isclose(slower[-1], torch.tensor(6.0), rtol=1e-3), (
        f"With a factor of 6, the slowest plane should be 6 times slower. Yours is {slower[-1]:.2f} times slower."
    )


def property_slower_and_slower(answer, generator):
    slower = answer(64, 10000, 1, 500) / answer(64, 10000, 6, 500)
    assert (slower.diff() > -1e-4).all(), (
        "From the fastest plane to the slowest, each plane should be slowed down at least as much as the one before."
    )


def property_middle_of_the_ramp(answer, generator):
    n_trained = round(2.5 * 2 * torch.pi * 1000)  # 2.5 turns at a frequency of 0.001, which is the last of these four
    slower = 0.001 / answer(8, 10000, 3, n_trained)[-1].float()
    assert torch.isclose(slower, torch.tensor(1.5), rtol=1e-3), (
        "A plane with 2.5 turns is in the middle of the ramp, so its frequency should be the mean of the old "
        f"frequency and the fully slowed one. With a factor of 3 it should be 1.5 times slower. Yours is {slower:.2f} "
        "times slower."
    )


def hidden_cases(generator):
    names = "d_head", "base", "factor", "n_trained"
    sizes = (6, 100, 2, 40), (32, 10000, 5, 300), (14, 1000, 16, 50), (64, 500000, 8, 4096)
    return [dict(zip(names, values, strict=True)) for values in sizes]
