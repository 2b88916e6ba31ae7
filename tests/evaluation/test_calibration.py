"""Calibration: tables by hand, and a model that says what it knows."""

import numpy as np
import pytest
import torch

from llm_anatomy.evaluation.calibration import (
    brier_score,
    expected_calibration_error,
    reliability_table,
    softmax_confidences,
)

pytestmark = pytest.mark.syllabus("GT-09")
CONFIDENCES, CORRECT = [0.05, 0.2, 0.25, 0.55, 0.6, 0.9, 0.95, 1.0], [0, 0, 1, 1, 0, 1, 1, 1]


def test_bins_and_the_error_are_computed_as_on_paper():
    rows = reliability_table(CONFIDENCES, CORRECT, n_bins=5)
    assert [(round(row["low"], 1), round(row["high"], 1), row["n"]) for row in rows] == [
        (0, 0.2, 2),  # 0.2 lies on a border and belongs to the bin below it
        (0.2, 0.4, 1),
        (0.4, 0.6, 2),
        (0.8, 1, 3),
    ]
    assert [row["accuracy"] for row in rows] == [0, 1, 0.5, 1]
    assert [row["confidence"] for row in rows] == pytest.approx([0.125, 0.25, 0.575, 0.95])
    expected = (2 * 0.125 + 0.75 + 2 * 0.075 + 3 * 0.05) / 8
    assert expected_calibration_error(np.array(CONFIDENCES), torch.tensor(CORRECT), 5) == pytest.approx(expected)
    assert expected_calibration_error(CONFIDENCES, CORRECT, 1) == pytest.approx(abs(4.5 - 5) / 8)


def test_few_answers_look_uncalibrated_even_if_they_are_not():
    rng = np.random.default_rng(0)

    def error(n):
        p = rng.random(n)
        return expected_calibration_error(p, rng.random(n) < p)

    assert error(100_000) < 0.01 < 0.05 < np.mean([error(100) for _ in range(30)])


def test_the_brier_score_is_a_squared_distance():
    assert brier_score([[1, 0, 0], [0, 0, 1]], [0, 2]) == 0 and brier_score([[1, 0]], [1]) == 2
    assert brier_score([[0.5, 0.3, 0.2]], [1]) == pytest.approx(0.25 + 0.49 + 0.04)


def test_confidences_leave_out_choices_that_are_missing():
    scores = torch.tensor([[0.4, 0.1, 0.5], [0.25, 0.75, 0.0]]).log()
    torch.testing.assert_close(softmax_confidences(scores), torch.tensor([0.5, 0.75]))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: reliability_table([0.5], [1, 0]), "confidences has 1 entries and correct has 2"),
        (lambda: reliability_table([], []), "and some"),
        (lambda: reliability_table([50.0], [1]), "must be from 0 to 1"),
        (lambda: reliability_table([0.5], [2]), "correct must be 0 or 1"),
        (lambda: reliability_table([0.5], [1], n_bins=0), "n_bins=0 must be positive"),
        (lambda: brier_score([[0.5, 0.4]], [0]), "must sum to one"),
        (lambda: brier_score([[0.5, 0.5]], [2]), "index of a choice"),
    ],
)
def test_what_is_no_probability_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
