"""Comparison of two methods that were run under the same conditions, such as the same seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_anatomy.shapes import Float, Tensor


@dataclass(frozen=True)
class PairedDifference:
    """The differences of paired runs: their mean, and an interval for their median.

    Args:
        mean: mean difference, first minus second.
        low, high: smallest and largest difference. The median of the distribution lies between them with
            probability ``confidence``, whatever the distribution is.
        confidence: :math:`1 - 2^{1-n}` for n pairs: the median is missed only if all pairs fall on one side of it.

    Source: Dixon and Mood (1946), whose sign test gives the interval; CMU-33.

    >>> print(PairedDifference(mean=-0.0251, low=-0.031, high=-0.019, confidence=0.9375))
    -0.025 (-0.031 to -0.019)
    """

    mean: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f})"

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero: every pair differs in the same direction."""
        return self.low > 0 or self.high < 0


def paired_difference(
    first: Sequence[float] | Float[Tensor, "runs"], second: Sequence[float] | Float[Tensor, "runs"]
) -> PairedDifference:
    """Compare two methods by the differences of their runs, seed by seed.

    What the runs of a pair share, such as the order of the batches, cancels in the difference. So a difference may be
    clear although each method varies more from run to run.

    Args:
        first: results of the first method, such as losses, one for each seed.
        second: results of the second method for the same seeds in the same order.

    Raises:
        ValueError: if the numbers of results differ, or there are fewer than two.

    Source: Dixon and Mood (1946); CMU-33.

    >>> difference = paired_difference([0.91, 0.95, 0.93], [0.90, 0.93, 0.92])
    >>> print(difference, difference.is_clear)
    +0.013 (+0.010 to +0.020) True
    """
    if len(first) != len(second):
        raise ValueError(f"first has {len(first)} results and second has {len(second)}; there must be pairs")
    if len(first) < 2:
        raise ValueError(f"there is {len(first)} pair; there must be at least two")
    differences = [float(a) - float(b) for a, b in zip(first, second, strict=True)]
    mean = sum(differences) / len(differences)
    return PairedDifference(mean, min(differences), max(differences), 1 - 2.0 ** (1 - len(differences)))
