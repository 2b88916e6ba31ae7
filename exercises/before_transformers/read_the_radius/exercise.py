import math

import torch


def read_the_radius() -> tuple[float, float, float]:
    """Return the spectral radius of the solid curve, that of the dashed one, and the steps to a tenth."""
    solid = (0.0100 / 0.67) ** (1 / 40)
    dashed = (790 / 37) ** (1 / 32)
    return solid, dashed, math.log(10) / -math.log(solid)


def accepted_rounded():
    """Rounds to what the eye can tell."""
    return 0.9, 1.1, 22


def accepted_as_a_tensor():
    """Reads a little differently, and returns a tensor."""
    return torch.tensor([0.905, 1.095, 23.1])


def accepted_read_high():
    """Reads the solid curve a little high, and lets the number of steps follow from that."""
    return 0.914, 1.1, math.log(0.1, 0.914)


def cases(generator):
    return [{}]


def observe(returned):
    """whether each of your three numbers is right, with a margin"""
    assert isinstance(returned, tuple | list | torch.Tensor) and len(returned) == 3, "return three numbers"
    assert not any(isinstance(each, str) for each in returned), "return numbers, without quotes"
    solid, dashed, steps = map(float, returned)
    assert all(map(math.isfinite, (solid, dashed, steps))), "all three numbers should be finite"

    def read(value, right, margin, near):
        if abs(value - right) <= margin:
            return "right"
        return ": ".join(["too small" if value < right else "too large", *near[:1]])

    def radius(value, right):
        others = {"for ten steps": right**10, "inverted": 1 / right, "level": 1.0}
        return read(value, right, 0.0151, [name for name, other in others.items() if abs(value - other) <= 0.0151])

    first, wanted = radius(solid, 0.9), math.log(10) / -math.log(0.9)
    own = -1 / math.log(solid) if 0 < solid < 1 else -1 / math.log(0.9)  # steps to 1/e with the student's radius
    times = {"follows": math.log(10) * own, "to a half": math.log(2) * own, "to 1/e": own}
    near = [name for name, value in times.items() if abs(steps / value - 1) <= 0.15]
    follows = first == "right" and "follows" in near
    return {
        "spectral radius of the solid curve": first,
        "spectral radius of the dashed curve": radius(dashed, 1.1),
        "number of steps": "right" if follows else read(steps, wanted, 3.3, near),
    }


def hidden_cases(generator):
    return [{}]
