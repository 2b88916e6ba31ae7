"""Bradley–Terry: the maximum of the likelihood, intervals that cover the truth, ties, covariates, and odd boards."""

import math

import numpy as np
import pytest
import torch

from llm_anatomy.evaluation.arena.battles import Battles
from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry

pytestmark = pytest.mark.syllabus("IITD-01", "GT-50")
POINTS = 400 / math.log(10)
STATSMODELS = [[1130.632174, 816.407423, 1034.928757, 1018.031646], [0.01746, 1.110289], [0.004859, 0.330743]]


def drawn(seed=0, n=5, n_battles=600, n_voters=30, effects=(0.02, 1.0), tie_share=0.2, start=None):
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 0.7, n) if start is None else np.asarray(start)
    first = rng.integers(0, n, n_battles)
    second = (first + rng.integers(1, n, n_battles)) % n
    z = rng.normal(size=(n_battles, 2)) * [30, 0.4]
    p = 1 / (1 + np.exp(-(theta[first] - theta[second] + z @ effects)))
    score = np.where(rng.random(n_battles) < tie_share, 0.5, rng.random(n_battles) < p)
    names = [f"model {i}" for i in range(n)]
    return Battles(names, first, second, score, rng.integers(0, n_voters, n_battles)), z


def slow(battles, z=None, davidson=False, prior=0.0):
    """The likelihood battle by battle, its maximum by automatic differentiation, and the two parts of a sandwich."""
    n = len(battles.models)
    z = torch.zeros(len(battles), 0).double() if z is None else torch.as_tensor(z)

    def terms(x):
        d = x[battles.first] - x[battles.second] + z @ x[n : n + z.shape[1]]
        if davidson:
            log_p = torch.stack([d / 2, x[-1].expand_as(d), -d / 2]).log_softmax(0)
            return log_p[(2 - 2 * battles.score).long(), torch.arange(len(d))]
        return battles.score * torch.sigmoid(d).log() + (1 - battles.score) * torch.sigmoid(-d).log()

    def height(x):
        return terms(x).sum() - prior / 2 * (x[:n] ** 2).sum() - x[:n].sum() ** 2

    x = torch.zeros(n + z.shape[1] + davidson, dtype=torch.float64)
    for _ in range(30):
        hessian = torch.autograd.functional.hessian(height, x)
        x = x - torch.linalg.solve(hessian, torch.autograd.functional.jacobian(height, x))
    return x, terms(x).sum().item(), -hessian, torch.autograd.functional.jacobian(terms, x)


@pytest.mark.parametrize("ties", ["half", "davidson"])
@pytest.mark.parametrize("with_covariates", [False, True])
def test_ratings_intervals_and_effects_equal_a_slow_reference(ties, with_covariates):
    battles, z = drawn()
    z = z if with_covariates else None
    n, k = 5, 2 * with_covariates
    x, log_likelihood, hessian, slopes = slow(battles, z, ties == "davidson")
    inverse = torch.linalg.inv(hessian)
    by_voter = torch.zeros(30, len(x)).double().index_add_(0, battles.voter, slopes)
    parts = {"fisher": hessian, "sandwich": slopes.T @ slopes, "clustered": by_voter.T @ by_voter * 30 / 29}
    for interval, middle in parts.items():
        found = bradley_terry(battles, ties=ties, covariates=z, interval=interval)
        torch.testing.assert_close(found.ratings, 1000 + POINTS * x[:n], rtol=0, atol=1e-8)
        assert found.log_likelihood == pytest.approx(log_likelihood, abs=1e-8)
        covariance = POINTS**2 * (inverse @ middle @ inverse)
        centre = torch.eye(n).double() - 1 / n
        torch.testing.assert_close(found.covariance, centre @ covariance[:n, :n] @ centre, rtol=1e-7, atol=1e-7)
        deviations = found.covariance.diagonal().sqrt()
        torch.testing.assert_close(found.high - found.ratings, 1.959964 * deviations, rtol=1e-6, atol=0)
        torch.testing.assert_close(found.ratings - found.low, 1.959964 * deviations, rtol=1e-6, atol=0)
        torch.testing.assert_close(found.effects, POINTS * x[n : n + k], rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(found.effect_errors, covariance.diagonal()[n : n + k].sqrt(), rtol=1e-7, atol=0)
        assert found.tie_parameter == pytest.approx(x[-1].exp().item() if ties == "davidson" else 0, abs=1e-9)


def test_ratings_equal_those_of_statsmodels():
    """GLM with a binomial family on the matrix of all battles, statsmodels 0.15; tests/released computes it anew."""
    battles, z = drawn(seed=3, n=4, n_battles=250)
    found = bradley_terry(battles, covariates=z)
    assert [round(x, 6) for x in found.ratings.tolist()] == STATSMODELS[0]
    assert [round(x, 6) for x in (found.effects / POINTS).tolist()] == STATSMODELS[1]
    assert [round(x, 6) for x in (found.effect_errors / POINTS).tolist()] == STATSMODELS[2]


@pytest.mark.parametrize(
    "interval, n_seeds, allowed", [("sandwich", 300, 0.03), ("bootstrap", 30, 0.08), ("fisher", 300, 0.03)]
)
def test_intervals_cover_the_truth_as_often_as_they_say(interval, n_seeds, allowed):
    truth = torch.tensor([-0.6, -0.1, 0.2, 0.5])
    covered = []
    for seed in range(n_seeds):
        battles, _ = drawn(seed, 4, 400, effects=(0, 0), tie_share=0.0, start=truth)
        found = bradley_terry(battles, interval=interval, confidence=0.9, n_samples=40, seed=seed)
        covered += ((found.low <= 1000 + POINTS * truth) & (1000 + POINTS * truth <= found.high)).tolist()
    assert np.mean(covered) == pytest.approx(0.9, abs=allowed)


def test_votes_that_depend_on_their_voter_need_clustered_intervals():
    rng = np.random.default_rng(0)
    outside = {"sandwich": 0, "clustered": 0}
    for _ in range(150):
        taste = rng.normal(0, 1.5, 25)  # each voter leans to one of the two models, in 20 votes
        voter = np.repeat(np.arange(25), 20)
        battles = Battles("xy", np.zeros(500), np.ones(500), rng.random(500) < 1 / (1 + np.exp(-taste[voter])), voter)
        for interval in outside:
            found = bradley_terry(battles, interval=interval)
            outside[interval] += not found.low[0] <= 1000 <= found.high[0]
    assert outside["sandwich"] > 60 and outside["clustered"] < 20


def test_a_column_of_ones_measures_the_advantage_of_the_left_side():
    rng = np.random.default_rng(1)
    first = rng.integers(0, 2, 20000)
    lead = np.where(first == 0, 0.3, -0.3) + 0.4
    battles = Battles("xy", first, 1 - first, rng.random(20000) < 1 / (1 + np.exp(-lead)))
    found = bradley_terry(battles, covariates=np.ones((20000, 1)))
    assert found.effects.item() / POINTS == pytest.approx(0.4, abs=0.04)
    assert (found.ratings[0] - found.ratings[1]).item() / POINTS == pytest.approx(0.3, abs=0.06)


def test_an_anchor_shifts_all_ratings_and_no_interval():
    battles, _ = drawn()
    plain, anchored = bradley_terry(battles), bradley_terry(battles, anchor=("model 2", 1114))
    assert anchored.ratings[2].item() == pytest.approx(1114)
    torch.testing.assert_close(anchored.ratings.diff(), plain.ratings.diff())
    torch.testing.assert_close(anchored.high - anchored.low, plain.high - plain.low)
    assert anchored.ranks.tolist() == plain.ranks.tolist()


def test_a_scale_and_a_confidence_stretch_what_they_say():
    battles, _ = drawn()
    plain, wide = bradley_terry(battles), bradley_terry(battles, scale=200, confidence=0.6827)
    torch.testing.assert_close(wide.ratings - 1000, (plain.ratings - 1000) / 2)
    for ties in ("half", "davidson"):
        same = [
            bradley_terry(battles, ties=ties, scale=scale).win_probability("model 0", "model 1") for scale in (400, 200)
        ]
        assert same[0] == pytest.approx(same[1])
    torch.testing.assert_close((wide.high - wide.low), (plain.high - plain.low) / 2 / 1.959964, rtol=1e-3, atol=0)


def test_a_bootstrap_has_a_seed():
    battles, _ = drawn()
    low = [bradley_terry(battles, interval="bootstrap", n_samples=5, seed=seed).low.tolist() for seed in (0, 0, 1)]
    assert low[0] == low[1] != low[2]


def test_the_probability_of_a_win_is_the_share_that_was_seen():
    battles = Battles("xy", [0] * 10, [1] * 10, [1, 1, 1, 1, 1, 1, 0.5, 0.5, 0, 0])
    for ties in ("half", "davidson"):
        assert bradley_terry(battles, ties=ties).win_probability("x", "y") == pytest.approx(0.7)
    assert bradley_terry(battles, ties="davidson").tie_parameter == pytest.approx(0.2 / math.sqrt(0.6 * 0.2))


def test_the_error_of_a_difference_is_smaller_where_two_models_have_met_often():
    rng = np.random.default_rng(2)
    first, second = np.repeat([0, 2, 2], [3000, 60, 60]), np.repeat([1, 0, 1], [3000, 60, 60])
    found = bradley_terry(Battles("xyz", first, second, rng.random(3120) < 0.5))
    d, low, high = found.difference("x", "y")
    alone = (found.high - found.low)[:2].sum().item() / 2
    assert d == pytest.approx((found.ratings[0] - found.ratings[1]).item()) and low < d < high
    assert (high - low) / 2 < alone / 2


def test_a_prior_keeps_a_board_of_few_votes_finite():
    battles = Battles("wxyz", [0, 0], [1, 2], [1, 1])
    found = bradley_terry(battles, prior_deviation=200, interval="fisher")
    w, x, y, z = found.ratings.tolist()
    assert w > 1000 > x == pytest.approx(y) and z == pytest.approx(1000) and found.ranks.tolist() == [1, 1, 1, 1]
    assert (found.high - found.low)[3] / 2 == pytest.approx(1.96 * 200 * math.sqrt(3 / 4), rel=0.05)
    nobody = bradley_terry(Battles("xy", [], [], []), prior_deviation=200, interval="fisher")
    assert nobody.ratings.tolist() == [1000, 1000]
    expected, _, _, _ = slow(battles, prior=(POINTS / 200) ** 2)
    torch.testing.assert_close(found.ratings, 1000 + POINTS * expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "battles, options, message",
    [
        (Battles("xyz", [0, 1], [1, 0], [1, 1]), {}, "x, y never won or tied against z"),
        (Battles("xyz", [0, 1, 0], [1, 0, 2], [1, 1, 1]), {}, "x, y never lost or tied against z"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"ties": "davidson"}, "needs battles that tie"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"ties": "third"}, "ties='third' must be one of half, davidson"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"interval": "wide"}, "interval='wide' must be one of sandwich"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"interval": "clustered"}, "needs battles with a voter"),
        (Battles("xy", [0, 1], [1, 0], [1, 1], [7, 7]), {"interval": "clustered"}, "at least two voters"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"confidence": 95}, "confidence=95 must be between 0 and 1"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"anchor": ("z", 1)}, "anchor='z' must be one of x, y"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"prior_deviation": 0}, "prior_deviation=0 must be positive"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"covariates": [[1.0]]}, "1 rows for 2 battles"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"covariates": [[0.0], [0.0]]}, "not zero throughout"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"covariates": [[1.0], [1.0]]}, "no maximum"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"covariates": [[1.0], [math.inf]]}, "must be finite"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"interval": "bootstrap", "n_samples": 1}, "must be at least 2"),
        (Battles("xy", [0, 1], [1, 0], [1, 1]), {"interval": "bootstrap"}, "bootstrap sample has no finite ratings"),
    ],
)
def test_what_has_no_ratings_is_refused_with_a_reason(battles, options, message):
    with pytest.raises(ValueError, match=message):
        bradley_terry(battles, **options)
