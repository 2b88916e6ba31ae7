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

    times = {"to a half": math.log(2) / -math.log(0.9), "to 1/e": 1 / -math.log(0.9)}
    near = [name for name, value in times.items() if abs(steps / value - 1) < 0.15]
    return {
        "spectral radius of the solid curve": radius(solid, 0.9),
        "spectral radius of the dashed curve": radius(dashed, 1.1),
        "number of steps": read(steps, math.log(10) / -math.log(0.9), 3.3, near),
    }


def hidden_cases(generator):
    return [{}]
