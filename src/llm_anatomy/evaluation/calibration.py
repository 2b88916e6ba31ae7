"""Calibration: whether a model is right as often as its confidence says."""

import torch

from llm_anatomy.evaluation._arrays import Array, as_doubles
from llm_anatomy.shapes import Float, Tensor


def _checked(confidences: Array, correct: Array) -> tuple[Tensor, Tensor]:
    p, y = as_doubles(confidences, "confidences"), as_doubles(correct, "correct")
    if p.shape != y.shape or not len(p):
        raise ValueError(f"confidences has {len(p)} entries and correct has {len(y)}; there must be as many, and some")
    if not ((p >= 0) & (p <= 1)).all() or not ((y == 0) | (y == 1)).all():
        raise ValueError("confidences must be from 0 to 1, and correct must be 0 or 1")
    return p, y


def reliability_table(confidences: Array, correct: Array, n_bins: int = 10) -> list[dict[str, float]]:
    """Sort answers into bins of equal width by their confidence, and compare confidence with accuracy in each.

    A confidence on a border belongs to the bin below it; bins without answers are left out.

    Args:
        confidences: the probability that the model gives to its answer, from 0 to 1, for each question.
        correct: whether each answer is right.
        n_bins: number of bins.

    Returns:
        One row for each bin: its ends ``low`` and ``high``, the number of answers ``n``, and the means ``confidence``
        and ``accuracy``.

    Raises:
        ValueError: if the numbers differ, are not in their ranges, or there are no bins or answers.

    Source: DeGroot and Fienberg (1983); Niculescu-Mizil and Caruana (2005), section 4; Guo et al. (2017); GT-09.

    >>> for row in reliability_table([0.9, 0.95, 0.7, 0.8], [1, 1, 1, 0], n_bins=2):
    ...     print(row["n"], round(row["confidence"], 4), row["accuracy"])
    4 0.8375 0.75
    """
    p, y = _checked(confidences, correct)
    if n_bins < 1:
        raise ValueError(f"{n_bins=} must be positive")
    borders = torch.linspace(0, 1, n_bins + 1, dtype=torch.float64)
    bins = torch.bucketize(p, borders[1:-1])
    rows = []
    for i in bins.unique().tolist():
        inside = bins == i
        means = {"confidence": p[inside].mean().item(), "accuracy": y[inside].mean().item()}
        rows.append({"low": borders[i].item(), "high": borders[i + 1].item(), "n": int(inside.sum())} | means)
    return rows


def expected_calibration_error(confidences: Array, correct: Array, n_bins: int = 10) -> float:
    r"""Mean distance between confidence and accuracy over the bins, each counted by its number of answers.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left| \mathrm{acc}(b) - \mathrm{conf}(b) \right|

    It depends on the number of bins, and is above 0 for few answers even if the model is calibrated.

    Args:
        confidences: the probability that the model gives to its answer, from 0 to 1, for each question.
        correct: whether each answer is right.
        n_bins: number of bins.

    Raises:
        ValueError: as :func:`reliability_table` does.

    Source: Naeini et al. (2015); Guo et al. (2017), "On calibration of modern neural networks", section 2; GT-09.

    >>> round(expected_calibration_error([0.9, 0.9, 0.6, 0.6], [1, 1, 0, 1]), 3)
    0.1
    """
    rows = reliability_table(confidences, correct, n_bins)
    n = sum(row["n"] for row in rows)
    return sum(row["n"] * abs(row["accuracy"] - row["confidence"]) for row in rows) / n


def brier_score(probabilities: Array, answers: Array) -> float:
    r"""Mean squared distance of the predicted probabilities from what came true: 0 at best.

    .. math:: \mathrm{BS} = \frac{1}{n} \sum_i \sum_c \left( p_{ic} - [c = y_i] \right)^2

    Args:
        probabilities: of each choice, (questions, choices), rows that sum to one.
        answers: index of the right choice of each question.

    Raises:
        ValueError: if a row does not sum to one, or there is not one answer for each question.

    Source: Brier (1950), "Verification of forecasts expressed in terms of probability"; GT-09.

    >>> round(brier_score([[0.8, 0.2], [0.4, 0.6]], [0, 0]), 2)
    0.4
    """
    p, y = as_doubles(probabilities, "probabilities", 2), torch.as_tensor(answers).cpu().long()
    if y.shape != p.shape[:1] or not len(y) or int(y.min()) < 0 or int(y.max()) >= p.shape[1]:
        raise ValueError(f"answers must have the index of a choice for each of the {len(p)} questions")
    if (p < 0).any() or not torch.allclose(p.sum(1), torch.ones(len(p), dtype=torch.float64), atol=1e-4):
        raise ValueError("each row of probabilities must sum to one, and none may be negative")
    return (p - torch.nn.functional.one_hot(y, p.shape[1])).square().sum(1).mean().item()


def softmax_confidences(scores: Array) -> Float[Tensor, "questions"]:
    r"""Confidence of each choice that is made: the largest probability of a softmax over the scores of the choices.

    .. math:: \max_c \frac{e^{s_c}}{\sum_{c'} e^{s_{c'}}}

    Args:
        scores: log-probabilities of the choices, (questions, choices); -inf where there is none.

    Source: Kadavath et al. (2022), "Language models (mostly) know what they know", section 2; GT-09.

    >>> softmax_confidences([[0.0, 1.0986123]]).tolist()
    [0.75]
    """
    return as_doubles(scores, "scores", 2).softmax(1).amax(1).float()
