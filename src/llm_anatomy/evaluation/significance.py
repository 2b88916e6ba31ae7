"""Tests of paired runs, a correction for many of them, and the correlation of two rankings with its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from llm_anatomy.shapes import Float, Int, Tensor

Numbers = Sequence[float] | Sequence[int] | Float[Tensor, "numbers"] | Int[Tensor, "numbers"]


@dataclass(frozen=True)
class TTest:
    """A paired t-test: the mean of the differences, its interval, and how likely so large a mean is by chance.

    Args:
        mean: mean difference, first minus second.
        low, high: the interval of the mean, if the differences are normally distributed.
        t: the mean divided by its standard error.
        p: probability of so large a ``t``, of either sign, if the true mean is 0.

    Source: Student (1908), "The probable error of a mean"; GT-19, GT-51.

    >>> print(TTest(mean=-0.0251, low=-0.031, high=-0.019, t=-8.0, p=0.001))
    -0.025 (-0.031 to -0.019), p = 0.001
    """

    mean: float
    low: float
    high: float
    t: float
    p: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f}), p = {self.p:.2g}"


def paired_t_test(first: Numbers, second: Numbers, confidence: float = 0.95) -> TTest:
    r"""Compare two methods by the differences of their runs, seed by seed.

    .. math:: t = \frac{\bar d}{s_d / \sqrt n}, \quad d_i = a_i - b_i

    Args:
        first: results of the first method, such as losses, one for each seed.
        second: results of the second method for the same seeds in the same order.
        confidence: of the interval, between 0 and 1.

    Raises:
        ValueError: if the numbers of results differ or are below two, or ``confidence`` is not between 0 and 1.

    Source: Student (1908), "The probable error of a mean"; GT-19, GT-51.

    >>> print(paired_t_test([0.91, 0.95, 0.93], [0.90, 0.93, 0.92]))
    +0.013 (-0.001 to +0.028), p = 0.057
    """
    if len(first) != len(second):
        raise ValueError(f"first has {len(first)} results and second has {len(second)}; there must be pairs")
    if len(first) < 2:
        raise ValueError(f"there is {len(first)} pair; there must be at least two")
    if not 0 < confidence < 1:
        raise ValueError(f"{confidence=} must be between 0 and 1")
    differences = [float(a) - float(b) for a, b in zip(first, second, strict=True)]
    n = len(differences)
    mean = math.fsum(differences) / n
    error = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (n - 1) / n)
    half = _quantile(confidence, n - 1) * error
    t = mean / error if error else math.copysign(math.inf, mean) if mean else math.nan
    return TTest(mean, mean - half, mean + half, t, two_sided_p(t, n - 1))


def two_sided_p(t: float, degrees_of_freedom: int) -> float:
    """Compute how likely Student's t is at least so far from 0.

    Args:
        t: the statistic.
        degrees_of_freedom: at least 1.

    Source: Abramowitz and Stegun (1964), equations 26.7.3 and 26.7.4, finite sums; GT-19.

    >>> round(two_sided_p(2.776445, degrees_of_freedom=4), 6)
    0.05
    """
    if math.isnan(t):
        return 1.0
    angle = math.atan(abs(t) / math.sqrt(degrees_of_freedom))
    is_odd = degrees_of_freedom % 2
    cosine, term, total = math.cos(angle), 1.0, 0.0
    if is_odd:
        term = cosine
    for k in range(1 + is_odd, degrees_of_freedom, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    inside = (angle + math.sin(angle) * total) * 2 / math.pi if is_odd else math.sin(angle) * total
    return max(0.0, 1.0 - inside)


def _quantile(confidence: float, degrees_of_freedom: int) -> float:
    """The t beyond which ``1 - confidence`` lies, on both sides together."""
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees_of_freedom) > 1 - confidence:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, degrees_of_freedom) > 1 - confidence else (low, middle)
    return (low + high) / 2


def holm(p_values: Sequence[float]) -> list[float]:
    r"""Correct p-values for their number: at a level, the chance of one false discovery or more is at most this level.

    The smallest of m values is multiplied by m, the next by m - 1, and so on; none becomes smaller than one before it.

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1)\, p_{(j)})

    Args:
        p_values: one for each comparison.

    Returns:
        The corrected values, in the order of ``p_values``.

    Source: Holm (1979), "A simple sequentially rejective multiple test procedure"; GT-19, GT-51.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def kendall_tau(first: Numbers, second: Numbers) -> float:
    r"""Measure how well two rankings agree: 1 if they are the same, -1 if one is the other reversed.

    .. math:: \tau_b = \frac{n_\text{concordant} - n_\text{discordant}}{\sqrt{(n_0 - n_1)(n_0 - n_2)}}

    Here :math:`n_0` counts all pairs, and :math:`n_1` and :math:`n_2` those that tie in the first and the second.

    Args:
        first, second: what is ranked, such as the losses of the same methods in two experiments.

    Returns:
        The correlation, or NaN if all entries of one of them tie.

    Raises:
        ValueError: if the lengths differ.

    Source: Kendall (1945), "The treatment of ties in ranking problems"; GT-19.

    >>> round(kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.6667
    """
    if len(first) != len(second):
        raise ValueError(f"first has {len(first)} entries and second has {len(second)}; there must be pairs")
    both = torch.stack([torch.as_tensor(numbers, dtype=torch.float64) for numbers in (first, second)])
    return _tau_b(both[None]).item()


def _tau_b(both: Float[Tensor, "samples two n"]) -> Float[Tensor, "samples"]:
    columns, rows = both[..., :, None], both[..., None, :]
    signs = (columns > rows).double() - (columns < rows).double()
    agreement = (signs[:, 0] * signs[:, 1]).sum((1, 2))
    return agreement / signs.square().sum((2, 3)).prod(1).sqrt()


def kendall_tau_interval(
    first: Numbers, second: Numbers, *, confidence: float = 0.95, n_samples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Estimate the interval of Kendall's tau by the bootstrap: rows are drawn again and again, with replacement.

    Args:
        first, second: as in :func:`kendall_tau`.
        confidence: of the interval, between 0 and 1.
        n_samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        ValueError: as :func:`kendall_tau` does.

    Source: Efron and Tibshirani (1993), section 13.3, the percentile interval; GT-19.

    >>> low, high = kendall_tau_interval(range(20), [*range(1, 20), 0])
    >>> low < kendall_tau(range(20), [*range(1, 20), 0]) < high
    True
    """
    kendall_tau(first, second)
    both = torch.stack([torch.as_tensor(numbers, dtype=torch.float64) for numbers in (first, second)])
    drawn = torch.randint(len(first), (n_samples, len(first)), generator=torch.Generator().manual_seed(seed))
    found = torch.cat([_tau_b(both[:, rows].transpose(0, 1)) for rows in drawn.split(200)])
    ends = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=torch.float64)
    low, high = found.nanquantile(ends).tolist()
    return low, high
