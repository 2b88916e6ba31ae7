from fractions import Fraction

import torch


def compensated_width(d_model: int, n_heads: int, n_kv_heads: int, d_ff: int, new_d_ff: int) -> tuple[float, int]:
    """Return the factor by which the width may grow, and how many more parameters the new block has."""
    saved = 2 * d_model * (d_model - n_kv_heads * d_model // n_heads)
    return 1 + saved / (3 * d_model * d_ff), 3 * d_model * (new_d_ff - d_ff) - saved


def accepted_whole_blocks(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Counts both blocks, and returns a list of floats."""

    def block(kv, width):
        attention = d_model * d_model * 2 + d_model * (d_model // n_heads) * kv * 2
        return attention + width * d_model * 3

    allowed = (block(n_heads, d_ff) - block(n_kv_heads, 0)) / (3 * d_model)
    return [allowed / d_ff, float(block(n_kv_heads, new_d_ff) - block(n_heads, d_ff))]


def accepted_fractions(d_model, n_heads, n_kv_heads, d_ff, new_d_ff):
    """Divides everything by the width of the model first, and computes with fractions."""
    saved = 2 * d_model * (1 - Fraction(n_kv_heads, n_heads))
    growth = new_d_ff - d_ff
    return (d_ff + saved / 3) / d_ff, d_model * (3 * growth - saved)


NAMES = ("d_model", "n_heads", "n_kv_heads", "d_ff", "new_d_ff")


def cases(generator):
    sizes = [
        (4096, 32, 8, 11008, 14336),  # LLaMA-7B and Llama 3 8B
        (8192, 64, 8, 22016, 28672),  # LLaMA-65B and Llama 2 70B
        (8, 4, 1, 20, 23),
        (12, 3, 3, 30, 30),  # nothing is shared
        (24, 6, 2, 40, 41),  # less than what is saved
    ]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def property_what_is_allowed_costs_nothing(answer, generator):
    for d, h, kv, d_ff in ((48, 4, 1, 96), (30, 5, 2, 70), (96, 8, 4, 256)):
        factor = float(answer(d, h, kv, d_ff, d_ff)[0])
        more = float(answer(d, h, kv, d_ff, round(factor * d_ff))[1])
        assert abs(more) <= 1.51 * d, (
            "With a width that has grown by your factor, up to rounding, the new block should have as many parameters "
            "as the old one. By your second number it does not."
        )


def hidden_cases(generator):
    drawn = torch.randint(2, 9, (5, 4), generator=generator).tolist()
    sizes = [(12 * a, 6, (1, 2, 3, 1, 2)[i], 10 * b + 40, 10 * b + 43 + c) for i, (a, b, c, _) in enumerate(drawn)]
    sizes.append((20, 5, 1, 50, 60))  # the largest width is no whole number
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]
