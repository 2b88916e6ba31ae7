r"""Learning-rate schedules: the fraction of the maximum learning rate at each step."""

import math


def warmup_then_cosine(step: int, n_steps: int, warmup_steps: int = 0) -> float:
    r"""Linear warm-up to 1, then cosine decay to 0.

    .. math:: \min\left(\frac{s}{n_\mathrm{warmup}},\; \tfrac12 + \tfrac12 \cos
        \frac{\pi\, \max(s - n_\mathrm{warmup}, 0)}{n_\mathrm{steps} - n_\mathrm{warmup}}\right)

    Args:
        step: number of the step, from 1 to ``n_steps``.
        n_steps: number of steps in the whole run.
        warmup_steps: number of warm-up steps, fewer than ``n_steps``.

    Returns:
        The factor of the maximum learning rate, from 0 to 1.

    Raises:
        ValueError: if ``step`` is not in the run, or the warm-up is as long as the run or longer.

    Source: Loshchilov and Hutter (2017), equation 5; Radford et al. (2018), section 4.1; GT-37.

    >>> [round(warmup_then_cosine(step, n_steps=10, warmup_steps=2), 2) for step in (1, 2, 6, 10)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if not 0 <= warmup_steps < n_steps:
        raise ValueError(f"{warmup_steps=} must be at least 0 and below n_steps={n_steps}")
    if not 1 <= step <= n_steps:
        raise ValueError(f"{step=} must be from 1 to n_steps={n_steps}")
    if step < warmup_steps:
        return step / warmup_steps
    return 0.5 + 0.5 * math.cos(math.pi * (step - warmup_steps) / (n_steps - warmup_steps))
