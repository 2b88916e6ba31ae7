import math


def _factor(step, n_steps, warmup_steps, decay_steps, floor, up=None, down=None, after=None):
    if step < warmup_steps:
        return step / warmup_steps if up is None else up
    if step > n_steps and after is not None:
        return after
    progress = min(1, max(0, (step - (n_steps - decay_steps)) / decay_steps))
    return 1 - (1 - floor) * progress if down is None else down(progress)


def decay_to_zero(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor falls to 0. It should end at the floor."""
    return _factor(step, n_steps, warmup_steps, decay_steps, 0)


def cut_at_the_floor(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor falls towards 0, and is cut off where it meets the floor, before the last step. It should fall more
    slowly and meet the floor in step `n_steps`."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, down=lambda p: max(floor, 1 - p))


def floor_added(step, n_steps, warmup_steps, decay_steps, floor):
    """You add the floor to a line from 1 to 0, so that your factor exceeds 1."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, down=lambda p: floor + 1 - p)


def floor_lost(step, n_steps, warmup_steps, decay_steps, floor):
    """Your line ends at 1 minus the floor. It should end at the floor."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, down=lambda p: 1 - floor * p)


def cosine(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor falls along a cosine. In this exercise, it falls linearly."""
    curve = lambda p: floor + (1 - floor) * (1 + math.cos(math.pi * p)) / 2  # noqa: E731
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, down=curve)


def root(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor falls along a root, fast at first. In this exercise, it falls linearly."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, down=lambda p: 1 - (1 - floor) * math.sqrt(p))


def no_stable_phase(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor begins to fall at the end of the warm-up. It should stay at 1 until `decay_steps` before the end."""
    return _factor(step, n_steps, warmup_steps, n_steps - warmup_steps, floor)


def decay_from_step(step, n_steps, warmup_steps, decay_steps, floor):
    """Your decay begins in step `decay_steps`. This is the number of its steps, counted from the end."""
    if step < warmup_steps:
        return step / warmup_steps
    if step <= decay_steps or n_steps == decay_steps:
        return 1
    return 1 - (1 - floor) * min(1, (step - decay_steps) / (n_steps - decay_steps))


def decay_from_the_beginning(step, n_steps, warmup_steps, decay_steps, floor):
    """Your decay begins at the end of the warm-up and takes `decay_steps`. It should be the end of the run."""
    return _factor(step, warmup_steps + decay_steps, warmup_steps, decay_steps, floor)


def warm_up_one_ahead(step, n_steps, warmup_steps, decay_steps, floor):
    """Your warm-up is one step ahead: the factor of step 0 is 0."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, up=(step + 1) / max(1, warmup_steps))


def warm_up_from_the_floor(step, n_steps, warmup_steps, decay_steps, floor):
    """Your warm-up begins at the floor. It should begin at 0; the floor belongs to the decay."""
    up = floor + (1 - floor) * step / max(1, warmup_steps)
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, up=up)


def no_warm_up(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor is 1 in the warm-up, too."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, up=1)


def zero_in_the_warm_up(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor is 0 during the whole warm-up. It should rise step by step."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, up=0)


def falls_on(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor is right up to step `n_steps`, but falls further after it. It should stay at the floor."""
    after = 1 - (1 - floor) * (step - n_steps + decay_steps) / decay_steps
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, after=after)


def zero_after_the_end(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor is right up to step `n_steps`, but 0 after it. It should stay at the floor."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, after=0)


def decay_one_step_late(step, n_steps, warmup_steps, decay_steps, floor):
    """Your decay is one step late: the factor should reach the floor in step `n_steps`, and not after it."""
    return _factor(step, n_steps + 1, warmup_steps, decay_steps, floor)


def decay_one_step_early(step, n_steps, warmup_steps, decay_steps, floor):
    """Your decay is one step early: the factor should reach the floor in step `n_steps`, and not before it."""
    return _factor(step, n_steps - 1, warmup_steps, decay_steps, floor)


def whole_steps_only(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor takes only the values at the ends of the phases. A division of whole numbers by `//` leaves out the
    fraction."""
    return _factor(
        step, n_steps, warmup_steps, decay_steps, floor, up=0, down=lambda p: 1 - (1 - floor) * math.floor(p)
    )


def floor_only_at_the_end(step, n_steps, warmup_steps, decay_steps, floor):
    """Your factor falls towards 0 in the decay, and the floor replaces it from step `n_steps` on. It should fall more
    slowly, so that it meets the floor there."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor, down=lambda p: floor if p == 1 else 1 - p)


def zero_without_warm_up(step, n_steps, warmup_steps, decay_steps, floor):
    """Where `warmup_steps` is 0, your factor is 0 in step 0. It should be 1 from step 0 on."""
    return _factor(step, n_steps, warmup_steps, decay_steps, floor) if step or warmup_steps else 0
