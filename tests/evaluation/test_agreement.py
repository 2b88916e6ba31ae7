"""Agreement of raters: equal to scikit-learn's kappa and the package krippendorff; what noisy raters do to it.

The numbers of scikit-learn 1.9 and krippendorff 0.9 are computed anew in tests/released/test_statistics.py.
"""

import math

import numpy as np
import pytest
import torch

from llm_anatomy.evaluation.agreement import alpha_interval, cohen_kappa, krippendorff_alpha, simulate_ratings

pytestmark = pytest.mark.syllabus("GT-48")
N = math.nan
FIRST, SECOND = [1, 1, 2, 3, 4, 4, 2, 3, 1, 2, 4, 3], [1, 2, 2, 3, 4, 3, 2, 1, 1, 3, 4, 4]
RATINGS = [  # Krippendorff's own example, with a missing rating for some items
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]


@pytest.mark.parametrize("weights, kappa", [("none", 4 / 9), ("linear", 0.6), ("quadratic", 11 / 15)])
def test_kappa_equals_scikit_learns(weights, kappa):
    for kind in (list, np.array, torch.tensor):
        assert cohen_kappa(kind(FIRST), kind(SECOND), weights) == pytest.approx(kappa)
    names = dict(enumerate(["bad", "fair", "good", "great"], 1))
    assert cohen_kappa([names[i] for i in FIRST], [names[i] for i in SECOND], weights) == pytest.approx(kappa)


@pytest.mark.parametrize(
    "level, alpha", [("nominal", 0.7434210526), ("ordinal", 0.8153875038), ("interval", 0.8491071429)]
)
def test_alpha_equals_that_of_the_package_krippendorff(level, alpha):
    for kind in (list, np.array, torch.tensor):
        assert krippendorff_alpha(kind(RATINGS), level) == pytest.approx(alpha, abs=1e-9)
    stretched = np.where(np.isnan(RATINGS), N, np.array(RATINGS) ** 2)
    same = krippendorff_alpha(stretched, level) == pytest.approx(alpha, abs=1e-9)
    assert same == (level != "interval")  # only the order or the identity of the levels counts


def test_raters_who_guess_agree_no_better_than_by_chance():
    rng = np.random.default_rng(0)
    first, second = rng.choice(4, (2, 5000), p=[0.1, 0.1, 0.1, 0.7])
    assert (first == second).mean() > 0.5 and abs(cohen_kappa(first, second)) < 0.03
    assert abs(krippendorff_alpha([first, second])) < 0.03
    assert math.isnan(cohen_kappa([1, 1], [1, 1])) and math.isnan(krippendorff_alpha([[1, 1], [1, 1]]))


def test_an_interval_covers_the_alpha_of_many_items():
    qualities = np.random.default_rng(1).normal(0, 1, 20_000)
    many = simulate_ratings(qualities, 2, noise=0.7, leniency=0)
    truth = krippendorff_alpha(many, "ordinal")
    found = [alpha_interval(part, "ordinal", n_samples=100) for part in many[:, :20_000].split(100, dim=1)]
    assert np.mean([i.low <= truth <= i.high for i in found]) == pytest.approx(0.94, abs=0.04)


def test_an_interval_has_a_seed_and_a_confidence_and_leaves_out_samples_without_alpha():
    found, half = alpha_interval(RATINGS, "ordinal"), alpha_interval(RATINGS, "ordinal", confidence=0.5)
    assert found == alpha_interval(RATINGS, "ordinal", seed=0) != alpha_interval(RATINGS, "ordinal", seed=1)
    assert found.low < half.low < half.high < found.high
    few = alpha_interval([[1, 1, 2], [1, 1, 2]])  # many a sample has only ones
    assert few == (1, 1, 1)


def test_noise_and_biases_of_raters_lower_their_agreement():
    qualities = np.random.default_rng(2).normal(0, 1, 252)
    clean, noisy, biased = (
        krippendorff_alpha(simulate_ratings(qualities, 3, noise=noise, leniency=leniency, seed=4), "ordinal")
        for noise, leniency in ((0, 0), (1, 0), (0.0, 1))
    )
    assert simulate_ratings([-1, 0, 1], 1, noise=0, leniency=0).tolist() == [[1, 2, 3]]  # at a border, the level below
    assert clean == 1 and noisy < 0.8 and biased < 0.9
    some = simulate_ratings(qualities, 3, missing=0.25)
    assert some.isnan().double().mean().item() == pytest.approx(0.25, abs=0.04) and set(
        some[~some.isnan()].tolist()
    ) == {1, 2, 3, 4}
    assert krippendorff_alpha(some, "ordinal") == pytest.approx(
        krippendorff_alpha(simulate_ratings(qualities, 3), "ordinal"), abs=0.08
    )


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: cohen_kappa([1], [1, 2]), "first has 1 ratings and second has 2"),
        (lambda: cohen_kappa([], []), "first has 0 ratings"),
        (lambda: cohen_kappa([1], [1], "cubic"), "weights='cubic' must be one of none, linear, quadratic"),
        (lambda: krippendorff_alpha([[1, 2]]), "no item has two ratings"),
        (lambda: krippendorff_alpha([1, 2]), "ratings has 1 dimensions"),
        (lambda: krippendorff_alpha([[1], [1]], "ratio"), "level='ratio' must be one of nominal, ordinal, interval"),
        (lambda: simulate_ratings([1.0], 0), "n_raters=0 must be positive"),
        (lambda: simulate_ratings([1.0], 1, thresholds=[1, 0]), "must ascend"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
