import math

import torch


def context_vector() -> tuple[float, float, int]:
    """Return the two lengths at which half of the words are right, and the number of entries of the dashed curve."""
    solid, dashed = 10.0, 40.0
    return solid, dashed, round(64 * dashed / solid)


def accepted_read_roughly():
    """Reads between the marks of the axis, and does not round."""
    solid, dashed = 9.5, 41
    return [solid, dashed, dashed / solid * 64]


def accepted_power_of_two():
    """Takes the number that a designer would have chosen."""
    return torch.tensor([10, 38, 256])


def accepted_not_rounded():
    """Reads one length a little low and the other a little high, so that their ratio is further off."""
    return 9, 44, 64 * 44 / 9


def cases(generator):
    return [{}]


def observe(returned):
    """whether each of the three numbers is right, with a margin"""
    numbers = returned.tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 3, "three numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    solid, dashed, entries = map(float, numbers)
    assert all(map(math.isfinite, (solid, dashed, entries))), "all three numbers should be finite"
    assert not (0 <= solid <= 1 and 0 <= dashed <= 1), "the first two numbers should be lengths, in words, not shares"
    assert solid > 0 and dashed > 0, "the first two numbers should be lengths, in words"

    def near(value, other, margin=0.2001):  # 8 and 12 are near 10, however they are rounded
        return abs(value / other - 1) <= margin

    def said(value, right, others):
        if near(value, right):
            return "right"
        named = [name for name, other in others.items() if near(value, other, 0.1)]
        return ": ".join(["too small" if value < right else "too large", *named[:1]])

    lengths = {
        "length for the solid curve": said(solid, 10, {"the other curve": 40, "at three quarters": 6}),
        "length for the dashed curve": said(dashed, 40, {"the other curve": 10, "at three quarters": 24}),
    }
    factor = dashed / solid  # the student's own: misread lengths do not show how the number was computed from them
    widths = {"follows": 64 * factor, "the same": 64, "the factor": max(factor, 1 / factor), "divided": 64 / factor}
    widths |= {"the root": 64 * math.sqrt(factor), "the square": 64 * factor**2}
    follows = set(lengths.values()) == {"right"} and near(entries, 64 * factor)
    return lengths | {"number of entries": "right" if follows else said(entries, 256, widths)}


def hidden_cases(generator):
    return [{}]
