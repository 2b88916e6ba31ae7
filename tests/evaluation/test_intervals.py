"""Intervals of benchmark scores: equal to the libraries' numbers, and covering the truth as often as they say.

The numbers of scipy 1.17 and statsmodels 0.15 are computed anew in tests/released/test_statistics.py.
"""

import math

import numpy as np
import pytest
import torch

from llm_anatomy.data import table
from llm_anatomy.evaluation.intervals import (
    Interval,
    bootstrap_interval,
    difference_interval,
    exact_interval,
    mcnemar,
    mean_interval,
    proportion_difference,
    questions_needed,
    standard_error,
    wilson_interval,
)

pytestmark = pytest.mark.syllabus("GT-09", "GT-10", "GT-48")
X = [1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1]
Y = [1, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    "n_right, n, confidence, exact, wilson",
    [
        (0, 20, 0.95, (0, 0.168433471), (0, 0.1611251581)),
        (7, 20, 0.95, (0.1539092048, 0.5921885345), (0.1811918241, 0.5671457233)),
        (20, 20, 0.9, (0.8608916593, 1), (0.8808421626, 1)),
        (801, 1000, 0.99, (0.7665674845, 0.8325155619), (0.7665420526, 0.8314900661)),
    ],
)
def test_intervals_of_proportions_equal_scipys(n_right, n, confidence, exact, wilson):
    for found, expected in ((exact_interval, exact), (wilson_interval, wilson)):
        interval = found(n_right, n, confidence)
        assert interval[1:] == pytest.approx(expected, abs=1e-9) and interval.estimate == n_right / n


def test_errors_of_clusters_equal_statsmodels_and_without_clusters_the_usual_formula():
    scores, clusters = [0.5, 1, 0, 0.25, 1, 1, 0, 0, 0.75, 1], [0, 0, 0, 1, 1, 2, 2, 2, 2, 3]
    assert standard_error(scores, clusters) == pytest.approx(0.0774596669, abs=1e-9)
    assert standard_error(scores) == pytest.approx(np.std(scores, ddof=1) / math.sqrt(10))
    assert standard_error(scores, [7, 3, 1, 0, 9, 8, 2, 4, 5, 6]) == pytest.approx(standard_error(scores))
    found = mean_interval(torch.tensor(scores), clusters, confidence=0.9)
    assert found.high - found.estimate == pytest.approx(1.644854 * 0.0774596669, rel=1e-6)


def test_a_bootstrap_of_clusters_divides_by_their_sizes_and_depends_on_its_seed():
    sizes = [0] * 9 + [1] + [2] * 5
    assert bootstrap_interval([1] * 15, sizes) == (1, 1, 1)
    scores = np.sqrt(range(15))
    found = bootstrap_interval(scores)
    assert found == bootstrap_interval(scores, seed=0) != bootstrap_interval(scores, seed=1)
    half = bootstrap_interval(scores, confidence=0.5)
    assert half.high - half.low < 0.6 * (found.high - found.low)


def test_intervals_of_proportions_stay_from_zero_to_one():
    for n in range(1, 200):
        assert 0 <= wilson_interval(0, n).low < 1e-12 and 1 - 1e-12 < wilson_interval(n, n).high <= 1


def clustered(rng, n_clusters=40, size=5):
    hard = rng.beta(1, 1, n_clusters)  # one text, five questions
    clusters = np.repeat(np.arange(n_clusters), size)
    return (rng.random(n_clusters * size) < hard[clusters]).astype(float), clusters


@pytest.mark.parametrize("interval", [mean_interval, bootstrap_interval])
def test_only_intervals_that_know_of_clusters_cover_the_truth(interval):
    rng = np.random.default_rng(0)
    covered = {"clusters": 0, "none": 0}
    for _ in range(400):
        scores, clusters = clustered(rng)
        for name, groups in (("clusters", clusters), ("none", None)):
            options = {} if interval is mean_interval else {"n_samples": 300}
            found = interval(scores, groups, **options)
            covered[name] += found.low <= 0.5 <= found.high
    assert covered["clusters"] / 400 == pytest.approx(0.94, abs=0.03) and covered["none"] / 400 < 0.85


@pytest.mark.parametrize("interval", [wilson_interval, exact_interval])
def test_intervals_of_proportions_cover_a_truth_near_one(interval):
    rng = np.random.default_rng(1)
    found = [interval(int(k), 30) for k in rng.binomial(30, 0.95, 300)]
    covered = np.mean([i.low <= 0.95 <= i.high for i in found])
    assert covered > (0.91 if interval is wilson_interval else 0.95)


def test_an_interval_is_clear_on_either_side_of_zero():
    ends = ((0.1, 0.3), (-0.3, -0.1), (-0.1, 0.1), (0, 0.2), (-0.2, 0))
    assert [Interval(sum(e) / 2, *e).is_clear for e in ends] == [True, True, False, False, False]


def test_a_pair_of_models_is_compared_question_by_question():
    rng = np.random.default_rng(2)
    hard = rng.random(500)
    a, b = (hard < 0.7).astype(float), (hard < 0.66).astype(float)
    found = difference_interval(a, b)
    assert found.estimate == pytest.approx(a.mean() - b.mean()) and found.is_clear
    assert not proportion_difference(a.mean(), b.mean(), 500).is_clear  # from the published accuracies alone
    correlation = np.corrcoef(a, b)[0, 1]
    known = proportion_difference(a.mean(), b.mean(), 500, correlation=correlation)
    assert known[1:] == pytest.approx(found[1:], rel=2e-3)


def test_mcnemar_equals_statsmodels():
    assert mcnemar(X, Y) == pytest.approx(0.125, abs=1e-9)
    assert mcnemar(Y, np.array(X, dtype=bool)) == pytest.approx(0.125)
    assert mcnemar(X, X) == 1


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_as_many_questions_as_needed_find_the_difference_as_often_as_wanted(correlation):
    n = questions_needed(0.7, 0.6, correlation=correlation, power=0.8)
    assert n == questions_needed(0.6, 0.7, correlation=correlation)
    exact = (2.8015852 / 0.1) ** 2 * (0.21 + 0.24 - 2 * correlation * math.sqrt(0.21 * 0.24))
    assert n - 1 < exact <= n
    rng = np.random.default_rng(3)
    both = 0.42 + correlation * math.sqrt(0.7 * 0.3 * 0.6 * 0.4)
    shares = [both, 0.7 - both, 0.6 - both, 1 - 0.7 - 0.6 + both]
    found = 0
    for _ in range(800):
        cell = rng.choice(4, n, p=shares)
        found += difference_interval(np.isin(cell, [0, 1]).astype(float), np.isin(cell, [0, 2]).astype(float)).is_clear
    assert found / 800 == pytest.approx(0.8, abs=0.04)


def accuracies():
    return {f"{row['model']} {row['size']}": row for row in table("llama_zero_shot")}


def test_llama_13b_is_better_than_gpt3_on_five_tasks_and_worse_on_two_and_noise_decides_three():
    small, large = accuracies()["LLaMA 13B"], accuracies()["GPT-3 175B"]
    sizes = {row["benchmark"]: row["n_questions"] for row in table("benchmark_sizes")}
    tasks = [task for task in small if task not in ("model", "size", "source") and large[task] is not None]
    differences = {t: proportion_difference(small[t] / 100, large[t] / 100, sizes[t]) for t in tasks}
    assert {t for t in tasks if differences[t].estimate > 0} == {"BoolQ", "HellaSwag", "WinoGrande", "ARC_e", "ARC_c"}
    assert {t for t in tasks if differences[t].estimate < 0} == {"PIQA", "OBQA"}  # erratum E-64
    # answers to the same questions are correlated, so with no correlation the intervals are too long
    assert {t for t in tasks if differences[t].is_clear} == {"BoolQ", "ARC_e"}


def test_llama_13b_is_ahead_of_gpt3_on_naturalquestions_at_each_shot_and_33b_of_65b_without_examples():
    rows = {f"{row['model']} {row['size']}": row for row in table("llama_naturalquestions")}
    for shots in ("shot_0", "shot_1", "shot_64_full"):
        assert rows["LLaMA 13B"][shots] > rows["GPT-3 175B"][shots]
    assert rows["LLaMA 33B"]["shot_0"] > rows["LLaMA 65B"]["shot_0"]
    (n,) = [row["n_questions"] for row in table("benchmark_sizes") if row["benchmark"] == "NaturalQuestions"]
    assert n == 3610 and not proportion_difference(0.249, 0.238, n).is_clear
    assert all(row["shot_64_as_cropped"] == int(row["shot_64_full"]) for row in rows.values())  # erratum E-65


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: standard_error([1]), "there is 1 score or cluster"),
        (lambda: standard_error([1, 0], [3, 3]), "there is 1 score or cluster"),
        (lambda: standard_error([1, 0], [3]), "scores has 2 entries and clusters 1"),
        (lambda: mean_interval([1, 0], confidence=1), "confidence=1 must be between 0 and 1"),
        (lambda: bootstrap_interval([]), "scores is empty"),
        (lambda: difference_interval([1, 0], [1]), "first has 2 scores and second has 1"),
        (lambda: wilson_interval(5, 4), "n_right=5 must be from 0 to n_questions=4"),
        (lambda: exact_interval(0, 0), "must be positive"),
        (lambda: mcnemar([1], [1, 0]), "first_right has 1 questions"),
        (lambda: mcnemar([1, 0.5], [1, 0]), "must be 0 or 1"),
        (lambda: mcnemar([1, 0], [1, 2]), "must be 0 or 1"),
        (lambda: proportion_difference(80.1, 0.8, 10), "first=80.1 must be from 0 to 1"),
        (lambda: proportion_difference(0.1, 0.8, 10, correlation=2), "correlation=2 must be from -1 to 1"),
        (lambda: questions_needed(0.5, 0.5), "must differ"),
        (lambda: questions_needed(0.5, 0.6, power=1), "power=1 and level=0.05"),
    ],
)
def test_what_has_no_interval_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
