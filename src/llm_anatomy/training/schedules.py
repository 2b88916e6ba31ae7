r"""Learning-rate schedules: the fraction of the maximum learning rate at each step."""

import math


def warmup_then_cosine(step: int, n_steps: int, warmup_steps: int = 0, min_lr_rate: float = 0.0) -> float:
    r"""Linear warm-up from 0 to 1, then cosine decay to a floor, which is kept after the last step.

    .. math:: \begin{cases}
        s / n_\mathrm{warmup} & s < n_\mathrm{warmup} \\
        r + (1 - r)\left(\tfrac12 + \tfrac12 \cos
        \frac{\pi\, (s - n_\mathrm{warmup})}{n_\mathrm{steps} - n_\mathrm{warmup}}\right) & s \le n_\mathrm{steps} \\
        r & s > n_\mathrm{steps} \end{cases}

    Args:
        step: number of the step, at least 0. With warm-up, the factor of step 0 is 0, so that a run begins with step 1.
        n_steps: number of the step at which the cosine reaches the floor, mostly the last step of the run.
        warmup_steps: number of warm-up steps, fewer than ``n_steps``.
        min_lr_rate: the floor :math:`r`, as a fraction of the maximum learning rate, from 0 to 1. Only the cosine stays
            above it, not the warm-up.

    Returns:
        The factor of the maximum learning rate, from 0 to 1.

    Raises:
        ValueError: if ``step`` is negative, ``min_lr_rate`` is not from 0 to 1, or the warm-up is negative, or as long
            as the run or longer.

    Source: Loshchilov and Hutter (2017), equation 5; Radford et al. (2018), section 4.1; GT-37. The floor is that of
    Touvron et al. (2023), section 2.3, who decay to a tenth.

    >>> [round(warmup_then_cosine(step, n_steps=10, warmup_steps=2), 2) for step in (0, 1, 2, 6, 10)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    >>> max_lr, min_lr = 3e-4, 3e-5
    >>> [round(max_lr * warmup_then_cosine(step, 10, min_lr_rate=min_lr / max_lr), 7) for step in (0, 5, 10, 11)]
    [0.0003, 0.000165, 3e-05, 3e-05]
    """
    if not 0 <= warmup_steps < n_steps:
        raise ValueError(f"{warmup_steps=} must be at least 0 and below n_steps={n_steps}")
    if step < 0:
        raise ValueError(f"{step=} must be at least 0")
    if not 0 <= min_lr_rate <= 1:
        raise ValueError(f"{min_lr_rate=} must be from 0 to 1; it is a fraction of the maximum learning rate")
    if step < warmup_steps:
        return step / warmup_steps
    progress = min(1.0, (step - warmup_steps) / (n_steps - warmup_steps))
    return min_lr_rate + (1 - min_lr_rate) * (0.5 + 0.5 * math.cos(math.pi * progress))
