"""Significance: the t-test and Kendall's tau are SciPy's, Holm's correction is its procedure, intervals cover."""

import math
import random
from itertools import combinations

import pytest
import torch

from llm_anatomy.evaluation.significance import holm, kendall_tau, kendall_tau_interval, paired_t_test, two_sided_p

pytestmark = pytest.mark.syllabus("GT-19", "GT-51")

# Printed by SciPy 1.17.1: stats.ttest_rel (statistic, pvalue, confidence_interval), and stats.t.sf.
T_TESTS = [
    ([2.0126, 1.9868], [1.964, 1.9105], 4.509025271, 0.1389391061, -0.1135309356, 0.2384309356),
    ([1.9464, 2.0362, 2.1304], [1.9947, 1.8296, 1.7735], 1.452128768, 0.2836024728, -0.3371119645, 0.6805786312),
    (
        [1.9377, 2.0041, 1.7675, 1.9781, 1.8754],
        [1.8268, 1.8456, 1.8684, 1.9412, 2.0043],
        0.2696098239,
        0.8007974741,
        -0.1422595781,
        0.1728595781,
    ),
    (
        [1.9871, 2.1366, 1.9335, 2.0352, 2.0903, 2.0094],
        [1.8257, 1.8078, 1.8542, 1.922, 1.799, 1.8791],
        4.427149458,
        0.00684622439,
        0.07718313423,
        0.2909168658,
    ),
]
P_VALUES = [
    (0.3, 1, 0.8144528418), (-8.0, 1, 0.07916684832), (2.5, 2, 0.1296117202), (-8.0, 2, 0.01526807217),
    (0.3, 3, 0.783763292), (2.5, 3, 0.08770664701), (2.5, 4, 0.06676654481), (-8.0, 4, 0.001323896909),
    (0.3, 7, 0.7728900504), (-8.0, 7, 9.114921171e-05), (2.5, 9, 0.03386182768), (-8.0, 30, 6.265822476e-09),
]  # fmt: skip
TAUS = [  # stats.kendalltau
    ([97, 26, 42, 53, 65], [44, 14, 93, 69, 4], -0.2),
    ([3, 2, 0, 2, 2, 0, 3, 2, 1, 0, 0, 3], [0, 2, 3, 3, 1, 0, 1, 3, 2, 0, 2, 1], -0.1143323901),
    ([0, 1, 2, 2, 0, 1, 2, 0, 0, 0, 0, 2], [0, 0, 0, 0, 2, 0, 2, 1, 2, 1, 2, 2], -0.2247332875),
]


@pytest.mark.parametrize(("first", "second", "t", "p", "low", "high"), T_TESTS)
def test_the_paired_t_test_is_scipys(first, second, t, p, low, high):
    found = paired_t_test(first, second)
    assert [found.t, found.p, found.low, found.high] == pytest.approx([t, p, low, high], rel=1e-8)
    assert found.mean == pytest.approx((low + high) / 2)
    assert paired_t_test(*(torch.tensor(losses, dtype=torch.float64) for losses in (first, second))) == found


def test_a_narrower_interval_is_scipys_too():
    found = paired_t_test(*T_TESTS[2][:2], confidence=0.8)
    assert [found.low, found.high] == pytest.approx([-0.07170742301, 0.102307423], rel=1e-8)


@pytest.mark.parametrize(("t", "degrees_of_freedom", "p"), P_VALUES)
def test_probabilities_of_t_are_scipys(t, degrees_of_freedom, p):
    assert two_sided_p(t, degrees_of_freedom) == pytest.approx(p, rel=1e-6)
    assert two_sided_p(0.0, degrees_of_freedom) == 1.0


def test_differences_without_spread_are_certain_or_none():
    assert paired_t_test([2.0, 3.0], [1.5, 2.5]).p == 0.0 and paired_t_test([2.0, 3.0], [1.5, 2.5]).t == math.inf
    assert paired_t_test([2.0, 3.0], [2.0, 3.0]).p == 1.0


def test_the_interval_of_the_mean_covers_as_often_as_it_says():
    rng = random.Random(0)
    tests = [paired_t_test([rng.gauss(0.3, 1) for _ in range(5)], [0.0] * 5, confidence=0.8) for _ in range(2000)]
    assert sum(test.low < 0.3 < test.high for test in tests) / 2000 == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1.0, 2.0], [1.0]), "first has 2 results and second has 1; there must be pairs"),
        (([1.0], [1.0]), "there is 1 pair; there must be at least two"),
        (([1.0, 2.0], [1.0, 2.0], 1.0), "confidence=1.0 must be between 0 and 1"),
    ],
)
def test_what_cannot_be_tested_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        paired_t_test(*arguments)


@pytest.mark.parametrize("m", [1, 2, 7, 51])
def test_holms_correction_rejects_what_his_procedure_rejects(m):
    """The procedure at a level: reject the smallest while it is at most level / (number that are left)."""
    rng = random.Random(m)
    values = [round(rng.random() ** 3 / 20, 4) for _ in range(m)]
    corrected = holm(values)
    for level in [k / 500 for k in range(1, 500)]:
        rejected = set()
        for k, i in enumerate(sorted(range(m), key=lambda i: values[i])):
            if values[i] > level / (m - k):
                break
            rejected.add(i)
        assert {i for i in range(m) if corrected[i] <= level} == rejected
    assert all(p <= q <= 1 for p, q in zip(values, corrected, strict=True))


@pytest.mark.parametrize(("first", "second", "tau"), TAUS)
def test_kendalls_tau_is_scipys(first, second, tau):
    assert kendall_tau(first, second) == pytest.approx(tau, rel=1e-8)
    assert kendall_tau(torch.tensor(first), second) == pytest.approx(tau, rel=1e-8)
    with pytest.raises(ValueError, match="first has 2 entries and second has 3"):
        kendall_tau([1, 2], [1, 2, 3])


def test_kendalls_tau_counts_pairs_and_infinity_comes_last():
    first, second = [3.0, 1.0, math.inf, 2.0], [30, 20, 40, 10]
    pairs = list(combinations(range(4), 2))
    agree = sum((first[i] < first[j]) == (second[i] < second[j]) for i, j in pairs)
    assert kendall_tau(first, second) == pytest.approx((2 * agree - len(pairs)) / len(pairs))


def test_the_interval_of_tau_covers_and_is_repeated():
    """Two normal variables with a correlation of 0.7: tau is 2/pi arcsin 0.7."""
    truth, covered = 2 / math.pi * math.asin(0.7), 0
    for sample in range(60):
        x, noise = torch.randn(2, 50, generator=torch.Generator().manual_seed(sample))
        pair = x, 0.7 * x + math.sqrt(0.51) * noise
        low, high = kendall_tau_interval(*pair, confidence=0.9, n_samples=200)
        covered += low < truth < high
    assert 0.8 <= covered / 60 <= 0.98
    assert kendall_tau_interval(*pair) == kendall_tau_interval(*pair) != kendall_tau_interval(*pair, seed=1)
