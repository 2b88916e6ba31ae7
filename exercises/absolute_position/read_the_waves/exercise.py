import math

import torch


def read_the_waves() -> tuple[float, int, int]:
    """Return the wavelength of column 8, the width of the encoding and the number of the dashed column."""
    wavelength = 2 * math.pi * 10  # as far as the eye can tell
    turns_slower = wavelength / (2 * math.pi)  # 10000^(8 / d_model)
    return wavelength, round(8 * math.log(10000) / math.log(turns_slower)), 8 + 1


def accepted_read_roughly():
    """Reads whole positions off the axis and works the width out from them."""
    wavelength = 63
    pair = 8 // 2
    d_model = 2 * pair * math.log(10000) / math.log(wavelength / (2 * math.pi))
    return wavelength, round(d_model / 2) * 2, 9


def accepted_from_crest_to_crest():
    """Measures between crests, not quite exactly, and does not round the width."""
    first, second = 16.5, 77.5
    factor = (second - first) / 6.28
    return [second - first, 8 * 4 / math.log10(factor), 9]


def cases(generator):
    return [{}]


def observe(returned):
    """whether the wavelength and the width are right, with a margin, and whether the number of the column is right"""
    assert isinstance(returned, tuple | list | torch.Tensor) and len(returned) == 3, "return three numbers"
    assert not any(isinstance(each, str) for each in returned), "return numbers, without quotes"
    wavelength, width, column = map(float, returned)
    assert wavelength > 0 and width > 0, "the wavelength and the width should be above 0"
    right = 20 * math.pi
    named = {"right": right, "too short: half": right / 2, "too short: a quarter": right / 4}
    named |= {"too short: 1/2π": 10, "too short: ω": 0.1}
    near = [name for name, value in named.items() if abs(wavelength / value - 1) <= 0.05]
    first = near[0] if near else "too short" if wavelength < right else "too long"

    def width_by(wave, coordinate):
        return coordinate * math.log(10000) / math.log(wave) if wave > 1.5 else math.inf

    widths = {"right": 32, "half": 16, "twice": 64, "without 2π": width_by(wavelength, 8)}
    widths["what your wavelength gives"] = width_by(wavelength / (2 * math.pi), 8)
    near = [name for name, value in widths.items() if abs(width - value) <= 1]
    second = ": ".join(["too small" if width < 32 else "too large", *near[:1]]) if near[:1] != ["right"] else "right"
    third = "right" if column == 9 else f"not right: {column:g}"
    return {"wavelength": first, "width": second, "number of the column": third}


def hidden_cases(generator):
    return [{}]
