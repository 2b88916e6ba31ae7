r"""Schedules: which part of the peak learning rate a step takes."""

import math


def warmup_then_cosine(step: int, n_steps: int, warmup_steps: int = 0) -> float:
    r"""Up in a straight line, then down to zero along half a cosine.

    .. math:: \min\left(\frac{s}{n_\mathrm{warmup}},\; \tfrac12 + \tfrac12 \cos
        \frac{\pi\, \max(s - n_\mathrm{warmup}, 0)}{n_\mathrm{steps} - n_\mathrm{warmup}}\right)

    Args:
        step: 1 to ``n_steps``.
        n_steps: of the whole run.
        warmup_steps: steps on the way up, fewer than ``n_steps``.

    Raises:
        ValueError: for a step outside the run, or a warm-up that never ends.

    Source: Loshchilov and Hutter (2017), equation 5; Radford et al. (2018), section 4.1; GT-37.

    >>> [round(warmup_then_cosine(step, n_steps=10, warmup_steps=2), 2) for step in (1, 2, 6, 10)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if not 0 <= warmup_steps < n_steps:
        raise ValueError(f"{warmup_steps=} must be from 0 to below n_steps={n_steps}")
    if not 1 <= step <= n_steps:
        raise ValueError(f"{step=} must be from 1 to n_steps={n_steps}")
    if step < warmup_steps:
        return step / warmup_steps
    return 0.5 + 0.5 * math.cos(math.pi * (step - warmup_steps) / (n_steps - warmup_steps))
