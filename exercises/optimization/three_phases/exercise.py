import numpy as np


def three_phases(step: int, n_steps: int, warmup_steps: int, decay_steps: int, floor: float) -> float:
    """Return the factor of the largest learning rate in this step."""
    if step < warmup_steps:
        return step / warmup_steps
    left = max(0, n_steps - step) / decay_steps
    return floor + (1 - floor) * min(1, left)


def accepted_phases(step, n_steps, warmup_steps, decay_steps, floor):
    """Treats one phase after the other."""
    if step < warmup_steps:
        return step / warmup_steps
    if step <= n_steps - decay_steps:
        return 1
    if step >= n_steps:
        return floor
    progress = (step - (n_steps - decay_steps)) / decay_steps
    return 1 - progress * (1 - floor)


def accepted_interpolation(step, n_steps, warmup_steps, decay_steps, floor):
    """Interpolates between the corners."""
    corners = [warmup_steps, n_steps - decay_steps, n_steps]
    factors = [1.0, 1.0, floor]
    if warmup_steps:
        corners, factors = [0, *corners], [0.0, *factors]
    return np.interp(step, corners, factors)


def accepted_smaller_of_two(step, n_steps, warmup_steps, decay_steps, floor):
    """Takes the smaller of two slopes, where the decay has begun only after the warm-up."""
    up = step / warmup_steps if warmup_steps else 1.0
    down = floor + (1 - floor) * (n_steps - step) / decay_steps
    return min(up, 1.0) if step <= n_steps - decay_steps else max(floor, down)


NAMES = ("step", "n_steps", "warmup_steps", "decay_steps", "floor")


def cases(generator):
    rows = [(step, 10, 2, 4, 0.2) for step in (0, 1, 2, 5, 6, 7, 9, 10, 13)]
    rows += [
        (0, 20, 0, 5, 0.1),
        (18, 20, 0, 5, 0.1),
        (3, 12, 4, 8, 0.0),
        (7, 12, 4, 8, 0.0),
        (4, 7, 3, 2, 0.5),
        (8, 10, 2, 4, 0.6),
    ]
    rows += [(500, 143_052, 2000, 14_000, 0.05), (139_552, 143_052, 2000, 14_000, 0.05)]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def property_same_beginning(answer, generator):
    for step in range(81):
        short, long = (float(answer(step, n_steps, 10, 20, 0.1)) for n_steps in (100, 300))
        assert abs(short - long) < 1e-4, (
            "Up to the decay, a run of 100 steps and one of 300 should have the same factors, if warm-up and decay are "
            "the same."
        )


def property_steady_decay(answer, generator):
    factors = [float(answer(step, 50, 5, 10, 0.3)) for step in range(40, 51)]
    falls = [a - b for a, b in zip(factors, factors[1:], strict=False)]
    assert max(falls) - min(falls) < 1e-4 and min(falls) > 0, (
        "In the decay, the factor should fall by the same amount in each step."
    )


def hidden_cases(generator):
    rows = [(step, 30, 6, 9, 0.25) for step in (0, 3, 5, 6, 20, 21, 22, 27, 30, 41)]
    rows += [
        (2, 15, 0, 15, 0.4),
        (5, 9, 4, 5, 0.1),
        (8, 9, 4, 5, 0.1),
        (90, 100, 10, 30, 0.0),
        (110, 100, 10, 30, 0.3),
        (0, 25, 0, 5, 0.2),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]
