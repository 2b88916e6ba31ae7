"""How certain a benchmark's score is: intervals of means and proportions, and two models on the same questions."""

import math
from statistics import NormalDist
from typing import NamedTuple

import torch

from llm_anatomy.evaluation._arrays import Array, Number, as_doubles, check_confidence
from llm_anatomy.shapes import Tensor


class Interval(NamedTuple):
    """An estimate and its interval.

    Args:
        estimate: the estimate.
        low, high: the ends of the interval.

    Source: Neyman (1937), "Outline of a theory of statistical estimation"; GT-09.

    >>> print(Interval(0.801, 0.783, 0.819))
    0.801 (0.783 to 0.819)
    """

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3f} ({self.low:.3f} to {self.high:.3f})"

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return bool(self.low > 0 or self.high < 0)


def standard_error(scores: Array, clusters: Array | None = None) -> float:
    r"""Standard error of the mean of scores, of questions that are independent or come in clusters.

    .. math:: \mathrm{SE} = \frac{1}{n} \sqrt{\frac{G}{G - 1} \sum_{g=1}^{G} \Big(\sum_{i \in g} (s_i - \bar s)\Big)^2}

    Questions on the same text are a cluster: a model that has misread the text fails at several. Without clusters, each
    question is one of its own, and the formula is the usual :math:`s / \sqrt n`.

    Args:
        scores: the score of each question, such as 0 or 1.
        clusters: the cluster of each question: numbers, where equal ones mean the same cluster.

    Raises:
        ValueError: if there are fewer than two scores or clusters, or their numbers differ.

    Source: Liang and Zeger (1986); Miller (2024), "Adding error bars to evals", section 2; GT-09.

    >>> [round(standard_error([1, 1, 0, 0, 1, 1], clusters), 3) for clusters in (None, [0, 0, 1, 1, 2, 2])]
    [0.211, 0.333]
    """
    values, _, sums = _cluster_sums(scores, clusters)
    if len(sums) < 2:
        raise ValueError(f"there is {len(sums)} score or cluster; there must be at least two")
    return math.sqrt(len(sums) / (len(sums) - 1) * sums.square().sum().item()) / len(values)


def _cluster_sums(scores: Array, clusters: Array | None) -> tuple[Tensor, Tensor, Tensor]:
    """The scores, the number of the cluster of each, and the sum of the deviations from the mean in each cluster."""
    values = as_doubles(scores, "scores")
    groups = torch.arange(len(values)) if clusters is None else torch.as_tensor(clusters).cpu()
    if groups.shape != values.shape:
        raise ValueError(f"scores has {len(values)} entries and clusters {len(groups)}; there must be as many")
    _, group = groups.unique(return_inverse=True)
    sums = torch.zeros(int(group.max()) + 1 if len(group) else 0, dtype=torch.float64)
    return values, group, sums.index_add_(0, group, values - values.mean())


def mean_interval(scores: Array, clusters: Array | None = None, confidence: Number = 0.95) -> Interval:
    r"""Interval of the mean score of a benchmark's questions, from the normal distribution.

    .. math:: \bar s \pm z\, \mathrm{SE}

    Args:
        scores: the score of each question.
        clusters: the cluster of each question, as in :func:`standard_error`.
        confidence: between 0 and 1.

    Raises:
        ValueError: as :func:`standard_error` does.

    Source: Miller (2024), "Adding error bars to evals", section 2; GT-09.

    >>> print(mean_interval([1] * 80 + [0] * 20))
    0.800 (0.721 to 0.879)
    """
    check_confidence(confidence)
    mean = as_doubles(scores, "scores").mean().item()
    half = _z(confidence) * standard_error(scores, clusters)
    return Interval(mean, mean - half, mean + half)


def difference_interval(
    first: Array, second: Array, clusters: Array | None = None, confidence: Number = 0.95
) -> Interval:
    """Interval of the difference of two models that answered the same questions, from differences question by question.

    Which questions are hard is the same for both and cancels, so the interval is shorter than those of the two models
    suggest.

    Args:
        first, second: the score of each question, in the same order.
        clusters: the cluster of each question, as in :func:`standard_error`.
        confidence: between 0 and 1.

    Raises:
        ValueError: if the numbers of scores differ, or as :func:`standard_error` does.

    Source: Miller (2024), "Adding error bars to evals", section 4; GT-09.

    >>> a, b = [1] * 85 + [0] * 15, [1] * 80 + [0] * 20
    >>> print(difference_interval(a, b), mean_interval(a))
    0.050 (0.007 to 0.093) 0.850 (0.780 to 0.920)
    """
    a, b = as_doubles(first, "first"), as_doubles(second, "second")
    if a.shape != b.shape:
        raise ValueError(f"first has {len(a)} scores and second has {len(b)}; there must be pairs")
    return mean_interval(a - b, clusters, confidence)


def bootstrap_interval(
    scores: Array, clusters: Array | None = None, confidence: Number = 0.95, *, n_samples: int = 2000, seed: int = 0
) -> Interval:
    """Interval of a mean by the bootstrap: questions, or whole clusters, are drawn again with replacement.

    Args:
        scores: the score of each question, or the difference of two models' scores.
        clusters: the cluster of each question, as in :func:`standard_error`.
        confidence: between 0 and 1.
        n_samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        ValueError: if there are no scores, or the numbers of scores and clusters differ.

    Source: Efron and Tibshirani (1993), "An introduction to the bootstrap", section 13.3; GT-09.

    >>> print(bootstrap_interval([1] * 80 + [0] * 20))
    0.800 (0.720 to 0.880)
    """
    check_confidence(confidence)
    values, group, sums = _cluster_sums(scores, clusters)
    if not len(values):
        raise ValueError("scores is empty; there must be at least one")
    totals = torch.zeros_like(sums).index_add_(0, group, values)
    sizes = group.bincount().double()
    generator = torch.Generator().manual_seed(seed)
    means = []
    for start in range(0, n_samples, 100):
        drawn = torch.randint(len(sums), (min(100, n_samples - start), len(sums)), generator=generator)
        means.append(totals[drawn].sum(1) / sizes[drawn].sum(1))
    ends = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=torch.float64)
    return Interval(values.mean().item(), *torch.cat(means).quantile(ends).tolist())


def wilson_interval(n_right: int, n_questions: int, confidence: Number = 0.95) -> Interval:
    r"""Interval of a proportion that never leaves 0 to 1, nor shrinks to a point where all answers are right.

    .. math:: \frac{1}{1 + z^2/n} \left( \hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n} +
        \frac{z^2}{4 n^2}} \right)

    Args:
        n_right: number of right answers.
        n_questions: number of questions.
        confidence: between 0 and 1.

    Raises:
        ValueError: if ``n_right`` is not from 0 to ``n_questions``, or there are no questions.

    Source: Wilson (1927), "Probable inference, the law of succession, and statistical inference"; GT-48.

    >>> print(wilson_interval(20, 20))
    1.000 (0.839 to 1.000)
    """
    _check_counts(n_right, n_questions, confidence)
    z, n, p = _z(confidence), n_questions, n_right / n_questions
    middle = p + z**2 / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    return Interval(p, max((middle - half) / scale, 0.0), min((middle + half) / scale, 1.0))


def exact_interval(n_right: int, n_questions: int, confidence: Number = 0.95) -> Interval:
    r"""Interval of a proportion that covers the truth at least as often as it says, whatever the truth is.

    Its ends are the proportions at which so many right answers or more, or so few or fewer, have half of the remaining
    probability:

    .. math:: P(X \ge k \mid p_\text{low}) = P(X \le k \mid p_\text{high}) = \frac{1 - c}{2}

    Args:
        n_right: number of right answers.
        n_questions: number of questions.
        confidence: between 0 and 1.

    Raises:
        ValueError: if ``n_right`` is not from 0 to ``n_questions``, or there are no questions.

    Source: Clopper and Pearson (1934), "The use of confidence or fiducial limits"; GT-48.

    >>> print(exact_interval(20, 20))
    1.000 (0.832 to 1.000)
    """
    _check_counts(n_right, n_questions, confidence)
    rest = (1 - confidence) / 2
    counts = torch.arange(n_questions + 1, dtype=torch.float64)
    ways = math.lgamma(n_questions + 1) - torch.lgamma(counts + 1) - torch.lgamma(n_questions - counts + 1)

    def probabilities(p: float) -> Tensor:
        return (ways + counts * math.log(p) + (n_questions - counts) * math.log1p(-p)).exp()

    def bisect(is_below) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if is_below(probabilities(middle)) else (low, middle)
        return (low + high) / 2

    low = bisect(lambda p: p[n_right:].sum() < rest) if n_right else 0.0
    high = bisect(lambda p: p[: n_right + 1].sum() > rest) if n_right < n_questions else 1.0
    return Interval(n_right / n_questions, low, high)


def mcnemar(first_right: Array, second_right: Array) -> float:
    r"""Test whether two models differ on the same questions, from those that only one of them answers right.

    If the models are equally good, each such question is a toss of a coin. With b and c of them,

    .. math:: p = \min\Big(1,\ 2 \sum_{k=0}^{\min(b, c)} \binom{b + c}{k} 2^{-(b + c)}\Big)

    Args:
        first_right, second_right: whether each question was answered right, in the same order.

    Returns:
        The probability of a division at least so uneven.

    Raises:
        ValueError: if the numbers of questions differ, or a value is neither 0 nor 1.

    Source: McNemar (1947), "Note on the sampling error of the difference between correlated proportions"; GT-09.

    >>> round(mcnemar([1] * 8 + [0] * 1 + [1] * 50, [0] * 8 + [1] * 1 + [1] * 50), 4)
    0.0391
    """
    a, b = as_doubles(first_right, "first_right"), as_doubles(second_right, "second_right")
    if a.shape != b.shape:
        raise ValueError(f"first_right has {len(a)} questions and second_right has {len(b)}; there must be pairs")
    if not ((a == 0) | (a == 1)).all() or not ((b == 0) | (b == 1)).all():
        raise ValueError("each answer must be 0 or 1, or False or True")
    only_first, only_second = int((a > b).sum()), int((b > a).sum())
    n = only_first + only_second
    fewer = sum(math.comb(n, k) for k in range(min(only_first, only_second) + 1))
    return float(min(1.0, 2 * fewer / 2**n))


def proportion_difference(
    first: Number, second: Number, n_questions: int, *, correlation: Number = 0.0, confidence: Number = 0.95
) -> Interval:
    r"""Interval of the difference of two models' accuracies, of which only the accuracies are published.

    .. math:: \mathrm{SE}^2 = \frac{p_1 q_1 + p_2 q_2 - 2 \rho \sqrt{p_1 q_1 p_2 q_2}}{n}, \quad q = 1 - p

    Args:
        first, second: the accuracies, from 0 to 1.
        n_questions: number of questions, the same for both models.
        correlation: of the two models' answers to a question being right. It is not published either; 0 is right only
            for models that find different questions hard, so the interval is then too long.
        confidence: between 0 and 1.

    Raises:
        ValueError: if an accuracy is not from 0 to 1, there are no questions, or the correlation is not from -1 to 1.

    Source: Miller (2024), "Adding error bars to evals", section 4; GT-09.

    >>> difference = proportion_difference(0.801, 0.810, 1838)  # PIQA: LLaMA-13B, GPT-3
    >>> print(difference, difference.is_clear)
    -0.009 (-0.035 to 0.017) False
    """
    for name, share in (("first", first), ("second", second)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name}={share} must be from 0 to 1")
    if n_questions < 1:
        raise ValueError(f"{n_questions=} must be positive")
    error = math.sqrt(_variance_of_difference(first, second, correlation) / n_questions)
    check_confidence(confidence)
    half = _z(confidence) * error
    difference = float(first - second)
    return Interval(difference, difference - half, difference + half)


def questions_needed(
    first: Number, second: Number, *, correlation: Number = 0.0, power: Number = 0.8, level: Number = 0.05
) -> int:
    r"""Number of questions at which a true difference of two accuracies is found with some probability.

    .. math:: n = \left( \frac{z_{1 - \alpha/2} + z_{1 - \beta}}{p_1 - p_2} \right)^2
        \left( p_1 q_1 + p_2 q_2 - 2 \rho \sqrt{p_1 q_1 p_2 q_2} \right)

    Args:
        first, second: the true accuracies, from 0 to 1.
        correlation: of the two models' answers to a question being right.
        power: probability of finding the difference, between 0 and 1.
        level: probability of finding one where there is none, between 0 and 1.

    Raises:
        ValueError: if the accuracies are equal or not from 0 to 1, or another argument is out of its range.

    Source: Miller (2024), "Adding error bars to evals", section 5; GT-48.

    >>> [questions_needed(0.80, 0.82, correlation=rho) for rho in (0, 0.5)]
    [6036, 3021]
    """
    if first == second or not (0 <= first <= 1 and 0 <= second <= 1):
        raise ValueError(f"{first=} and {second=} must differ and be from 0 to 1")
    if not (0 < power < 1 and 0 < level < 1):
        raise ValueError(f"{power=} and {level=} must be between 0 and 1")
    z = _z(1 - level) + NormalDist().inv_cdf(power)
    return math.ceil((z / (first - second)) ** 2 * _variance_of_difference(first, second, correlation))


def _variance_of_difference(first: Number, second: Number, correlation: Number) -> float:
    if not -1 <= correlation <= 1:
        raise ValueError(f"{correlation=} must be from -1 to 1")
    one, other = first * (1 - first), second * (1 - second)
    return max(one + other - 2 * correlation * math.sqrt(one * other), 0.0)


def _check_counts(n_right: int, n_questions: int, confidence: Number) -> None:
    check_confidence(confidence)
    if n_questions < 1 or not 0 <= n_right <= n_questions:
        raise ValueError(f"{n_right=} must be from 0 to {n_questions=}, which must be positive")


def _z(confidence: Number) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
