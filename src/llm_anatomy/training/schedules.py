r"""Learning-rate schedules: the fraction of the maximum learning rate at each step."""

import math
from collections.abc import Callable


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
    warmup = _warmup(step, n_steps, warmup_steps, min_lr_rate)
    progress = _progress(step, warmup_steps, n_steps)
    return warmup * (min_lr_rate + (1 - min_lr_rate) * (0.5 + 0.5 * math.cos(math.pi * progress)))


def warmup_then_linear(step: int, n_steps: int, warmup_steps: int = 0, min_lr_rate: float = 0.0) -> float:
    r"""Linear warm-up from 0 to 1, then linear decay to a floor, which is kept after the last step.

    .. math:: r + (1 - r)\, \frac{n_\mathrm{steps} - s}{n_\mathrm{steps} - n_\mathrm{warmup}} \quad
        \text{for } n_\mathrm{warmup} \le s \le n_\mathrm{steps}

    Args:
        step, n_steps, warmup_steps, min_lr_rate: as in :func:`warmup_then_cosine`.

    Returns:
        The factor of the maximum learning rate, from 0 to 1.

    Raises:
        ValueError: as :func:`warmup_then_cosine` does.

    Source: Devlin et al. (2019), appendix A.2; Zhang et al. (2022), section 2.2, with a floor; GT-03, GT-39.

    >>> [round(warmup_then_linear(step, n_steps=10, warmup_steps=2), 3) for step in (0, 1, 2, 6, 10, 11)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    """
    warmup = _warmup(step, n_steps, warmup_steps, min_lr_rate)
    return warmup * (min_lr_rate + (1 - min_lr_rate) * (1 - _progress(step, warmup_steps, n_steps)))


def warmup_then_constant(step: int, n_steps: int, warmup_steps: int = 0, min_lr_rate: float = 0.0) -> float:
    """Linear warm-up from 0 to 1, and 1 from then on.

    Args:
        step, n_steps, warmup_steps, min_lr_rate: as in :func:`warmup_then_cosine`. The factor never reaches the floor.

    Returns:
        The factor of the maximum learning rate, from 0 to 1.

    Raises:
        ValueError: as :func:`warmup_then_cosine` does.

    Source: Loshchilov and Hutter (2019), algorithm 2, whose multiplier may be fixed; GT-39.

    >>> [warmup_then_constant(step, n_steps=10, warmup_steps=4) for step in (0, 1, 4, 10)]
    [0.0, 0.25, 1.0, 1.0]
    """
    return _warmup(step, n_steps, warmup_steps, min_lr_rate)


def warmup_then_inverse_sqrt(step: int, n_steps: int, warmup_steps: int = 0, min_lr_rate: float = 0.0) -> float:
    r"""Linear warm-up from 0 to 1, then decay with the inverse square root of the step, never below a floor.

    .. math:: \max\!\left(r, \sqrt{n_\mathrm{warmup} / s}\right) \quad \text{for } s \ge n_\mathrm{warmup}

    The rate does not depend on the length of the run, which may go on after ``n_steps``. Without warm-up, 10,000 steps
    are counted as done before the first, so the factor is :math:`\sqrt{10^4 / (10^4 + s)}`; this is Hugging Face's
    default.

    Args:
        step, n_steps, warmup_steps, min_lr_rate: as in :func:`warmup_then_cosine`.

    Returns:
        The factor of the maximum learning rate, from 0 to 1.

    Raises:
        ValueError: as :func:`warmup_then_cosine` does.

    Source: Vaswani et al. (2017), equation 3, whose maximum rate is
    :math:`(d_\mathrm{model}\, n_\mathrm{warmup})^{-1/2}`; GT-39.

    >>> [warmup_then_inverse_sqrt(step, n_steps=100, warmup_steps=4) for step in (0, 2, 4, 16, 64, 256)]
    [0.0, 0.5, 1.0, 0.5, 0.25, 0.125]
    """
    warmup = _warmup(step, n_steps, warmup_steps, min_lr_rate)
    timescale = warmup_steps or 10_000
    return warmup * max(min_lr_rate, math.sqrt(timescale / (timescale + max(0, step - warmup_steps))))


def warmup_stable_decay(
    step: int, n_steps: int, warmup_steps: int = 0, min_lr_rate: float = 0.0, *, decay_steps: int | None = None
) -> float:
    r"""Linear warm-up from 0 to 1, a constant rate for most of the run, and a short decay along a cosine to a floor.

    Up to the decay, the rate does not depend on the length of the run. So a run may go on for as long as its loss
    falls, and be ended from any checkpoint by a decay.

    Args:
        step, n_steps, warmup_steps, min_lr_rate: as in :func:`warmup_then_cosine`. Only the decay stays above the
            floor, not the warm-up, which in Hugging Face's function begins at the floor.
        decay_steps: number of steps of the decay, which ends with step ``n_steps``; by default a tenth of the run.
            Warm-up and decay must fit into it.

    Returns:
        The factor of the maximum learning rate, from 0 to 1.

    Raises:
        ValueError: if ``decay_steps`` is below 1, or warm-up and decay are longer than the run; and as
            :func:`warmup_then_cosine` does.

    Source: Hu et al. (2024), section 4.2, whose decay is exponential; the cosine is Hugging Face's default. GT-39.

    >>> [round(warmup_stable_decay(s, n_steps=20, warmup_steps=2, decay_steps=4), 3) for s in (1, 2, 16, 18, 20)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    warmup = _warmup(step, n_steps, warmup_steps, min_lr_rate)
    if decay_steps is None:
        decay_steps = min(max(1, n_steps // 10), n_steps - warmup_steps)
    if not 1 <= decay_steps <= n_steps - warmup_steps:
        raise ValueError(f"{decay_steps=} must be from 1 to {n_steps - warmup_steps}, the steps after the warm-up")
    decayed = max(0, step - (n_steps - decay_steps))
    return warmup * warmup_then_cosine(decayed, decay_steps, min_lr_rate=min_lr_rate)


SCHEDULES: dict[str, Callable[..., float]] = {
    "cosine": warmup_then_cosine,
    "linear": warmup_then_linear,
    "constant_with_warmup": warmup_then_constant,
    "inverse_sqrt": warmup_then_inverse_sqrt,
    "warmup_stable_decay": warmup_stable_decay,
}
"""The schedules by the names that Hugging Face's ``get_scheduler`` knows them by."""


def _warmup(step: int, n_steps: int, warmup_steps: int, min_lr_rate: float) -> float:
    """Check the arguments of a schedule and return its first factor, which rises to 1. The second is 1 until then."""
    if not 0 <= warmup_steps < n_steps:
        raise ValueError(f"{warmup_steps=} must be at least 0 and below n_steps={n_steps}")
    if step < 0:
        raise ValueError(f"{step=} must be at least 0")
    if not 0 <= min_lr_rate <= 1:
        raise ValueError(f"{min_lr_rate=} must be from 0 to 1; it is a fraction of the maximum learning rate")
    return step / warmup_steps if step < warmup_steps else 1.0


def _progress(step: int, first: int, last: int) -> float:
    """The part of the way from the first step to the last that is done, from 0 to 1."""
    return min(1.0, max(0, step - first) / (last - first))
