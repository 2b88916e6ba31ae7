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

    def read(value, right, margin, **others):
        named = {name: other for name, other in others.items() if abs(value - other) <= margin}
        if abs(value - right) <= margin:
            return "right"
        return next(iter(named), "too small" if value < right else "too large")

    slopes = {"per_ten_steps": 0.9**10, "inverted": 1 / 0.9, "decades": 1 - 1 / 21.85, "level": 1.0}
    rises = {"per_ten_steps": 1.1**10, "inverted": 1 / 1.1, "level": 1.0}
    times = {"half": math.log(2) / -math.log(0.9), "e": 1 / -math.log(0.9)}
    first, second = read(solid, 0.9, 0.0151, **slopes), read(dashed, 1.1, 0.0151, **rises)
    third = read(steps, math.log(10) / -math.log(0.9), 3.3)
    if third != "right":
        third = next((name for name, value in times.items() if abs(steps / value - 1) < 0.15), third)
    return f"solid {first}; dashed {second}; steps {third}"


def hidden_cases(generator):
    return [{}]
