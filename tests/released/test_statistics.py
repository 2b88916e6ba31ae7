"""Metrics, intervals, agreement and ratings beside the libraries that statisticians use, on random data.

The tests in tests/evaluation compare with numbers that these libraries gave, which needs none of them.
"""

import importlib
import math
import sys

import numpy as np
import pytest
from released.installed import RELEASED, released

from llm_anatomy.evaluation.agreement import LEVELS, WEIGHTS, cohen_kappa, krippendorff_alpha
from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry
from llm_anatomy.evaluation.arena.simulation import SimulatedArena
from llm_anatomy.evaluation.calibration import brier_score
from llm_anatomy.evaluation.intervals import exact_interval, mcnemar, standard_error, wilson_interval
from llm_anatomy.evaluation.text_metrics import rouge_l, rouge_n

pytestmark = pytest.mark.released
POINTS = 400 / math.log(10)


@pytest.fixture
def library(monkeypatch):
    """A function that imports a module of the libraries, which are found after those of the environment."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(RELEASED)])

    def load(name):
        released(name.partition(".")[0])
        return importlib.import_module(name)

    return load


@pytest.fixture(params=range(20))
def rng(request):
    return np.random.default_rng(request.param)


def design(battles):
    """The full matrix of battles and models, as the boards' published code makes it."""
    rows = np.zeros((len(battles), len(battles.models)))
    rows[np.arange(len(battles)), battles.first] = 1
    rows[np.arange(len(battles)), battles.second] = -1
    return rows


@pytest.mark.syllabus("IITD-01", "GT-50")
@pytest.mark.parametrize("seed", range(5))
def test_ratings_and_sandwich_intervals_equal_those_of_statsmodels(library, seed):
    sm = library("statsmodels.api")
    arena = SimulatedArena(dict(zip("abcdef", range(800, 1400, 100), strict=True)), tie_parameter=0.4, style_effect=40)
    battles, style = arena.draw(900, seed=seed)
    x = np.hstack([design(battles)[:, 1:], style])  # the first model's rating is 0, until all are centred
    glm = sm.GLM(battles.score.numpy(), x, family=sm.families.Binomial())
    fitted = glm.fit(tol=1e-13, tol_criterion="params", maxiter=100, cov_type="HC0")
    centre = np.eye(7)
    centre[:6, :6] -= 1 / 6
    covariance = np.zeros((7, 7))
    covariance[1:, 1:] = fitted.cov_params()
    covariance = POINTS**2 * centre @ covariance @ centre
    found = bradley_terry(battles, covariates=style)
    ratings = 1000 + POINTS * (centre @ [0, *fitted.params])[:6]
    assert found.ratings.tolist() == pytest.approx(ratings, abs=1e-6)
    assert found.effects.item() == pytest.approx(POINTS * fitted.params[-1], abs=1e-6)
    assert (found.high - found.ratings).tolist() == pytest.approx(
        1.959963985 * np.sqrt(np.diag(covariance)[:6]), abs=1e-6
    )
    assert found.effect_errors.item() == pytest.approx(math.sqrt(covariance[6, 6]), abs=1e-6)


@pytest.mark.syllabus("IITD-01", "GT-50")
@pytest.mark.parametrize("deviation", [None, 150])
def test_ratings_equal_those_of_scikit_learns_logistic_regression(library, deviation):
    linear_model = library("sklearn.linear_model")
    battles, _ = SimulatedArena(dict(zip("abcdef", range(800, 1400, 100), strict=True)), tie_parameter=0.4).draw(900)
    x, score = design(battles), battles.score.numpy()
    twice, won = np.vstack([x, x]), np.repeat([1, 0], 900)  # each battle as a win and as a loss, with its weights
    inverse = np.inf if deviation is None else (deviation / POINTS) ** 2
    regression = linear_model.LogisticRegression(C=inverse, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    free = slice(1 if deviation is None else 0, None)  # without a prior, one rating must be fixed
    regression.fit(twice[:, free], won, np.concatenate([score, 1 - score]))
    theta = np.zeros(6)
    theta[free] = regression.coef_[0]
    found = bradley_terry(battles, prior_deviation=deviation)
    assert found.ratings.tolist() == pytest.approx(1000 + POINTS * (theta - theta.mean()), abs=1e-6)


@pytest.mark.syllabus("IITD-01")
def test_davidsons_model_equals_a_poisson_regression(library):
    sm = library("statsmodels.api")
    battles, _ = SimulatedArena({"a": 900, "b": 1000, "c": 1100, "d": 1150}, tie_parameter=0.7).draw(2000)
    found = bradley_terry(battles, ties="davidson")
    counts, rows = [], []
    pairs = [(i, j) for i in range(4) for j in range(i)]
    for number, (i, j) in enumerate(pairs):
        forwards, backwards = ((battles.first == a) & (battles.second == b) for a, b in ((i, j), (j, i)))
        for score, lead, tie in ((1, 0.5, 0), (0.5, 0, 1), (0, -0.5, 0)):
            n = (forwards & (battles.score == score)).sum() + (backwards & (battles.score == 1 - score)).sum()
            row = np.zeros(4 + 1 + len(pairs))
            row[i], row[j], row[4], row[5 + number] = lead, -lead, tie, 1
            counts.append(int(n))
            rows.append(row[1:])
    poisson = sm.GLM(counts, np.array(rows), family=sm.families.Poisson())
    fitted = poisson.fit(tol=1e-13, tol_criterion="params", maxiter=100)
    theta = np.array([0, *fitted.params[:3]])
    assert found.ratings.tolist() == pytest.approx(1000 + POINTS * (theta - theta.mean()), abs=1e-6)
    assert found.tie_parameter == pytest.approx(math.exp(fitted.params[3]), abs=1e-6)


@pytest.mark.syllabus("GT-48")
def test_agreement_equals_krippendorffs_and_scikit_learns(library, rng):
    krippendorff, metrics = library("krippendorff"), library("sklearn.metrics")
    ratings = np.where(rng.random((4, 30)) < 0.2, np.nan, rng.choice([1.0, 2, 4, 7], (4, 30)))
    ratings[1] = np.where(rng.random(30) < 0.7, ratings[0], ratings[1])
    for level in LEVELS:
        expected = krippendorff.alpha(ratings, level_of_measurement=level)
        assert krippendorff_alpha(ratings, level) == pytest.approx(expected, abs=1e-12)
    first = rng.integers(0, 4, 40)
    second = np.where(rng.random(40) < 0.5, first, rng.integers(0, 4, 40))
    for weights in WEIGHTS:
        expected = metrics.cohen_kappa_score(first, second, weights=None if weights == "none" else weights)
        assert cohen_kappa(first, second, weights) == pytest.approx(expected, abs=1e-12)


@pytest.mark.syllabus("GT-09", "GT-48")
def test_intervals_and_tests_equal_scipys_and_statsmodels(library, rng):
    stats, sm = library("scipy.stats"), library("statsmodels.api")
    tables = library("statsmodels.stats.contingency_tables")
    n_right = int(rng.integers(0, 51))
    for method, interval in (("exact", exact_interval), ("wilson", wilson_interval)):
        expected = stats.binomtest(n_right, 50).proportion_ci(0.9, method)
        assert interval(n_right, 50, 0.9)[1:] == pytest.approx(tuple(expected), abs=1e-9)
    first = rng.random(60) < 0.5
    second = np.where(rng.random(60) < 0.7, first, rng.random(60) < 0.6)
    counts = [[(first & second).sum(), (first & ~second).sum()], [(~first & second).sum(), (~first & ~second).sum()]]
    assert mcnemar(first, second) == pytest.approx(tables.mcnemar(np.array(counts), exact=True).pvalue)
    clusters = rng.integers(0, 12, 60)
    scores = rng.random(60) + 0.5 * rng.random(12)[clusters]
    n = len(np.unique(clusters))
    options = {"groups": clusters, "use_correction": False}
    fitted = sm.OLS(scores, np.ones(60)).fit(cov_type="cluster", cov_kwds=options)
    assert standard_error(scores, clusters) == pytest.approx(fitted.bse[0] * math.sqrt(n / (n - 1)))


@pytest.mark.syllabus("GT-09")
def test_the_brier_score_equals_scikit_learns(library, rng):
    p, right = rng.random(50), rng.integers(0, 2, 50)
    expected = library("sklearn.metrics").brier_score_loss(right, p)  # of one of the two choices
    assert brier_score(np.stack([1 - p, p], 1), right) == pytest.approx(2 * expected)


@pytest.mark.syllabus("GT-46")
def test_rouge_equals_that_of_rouge_score(library, rng):
    scorer = library("rouge_score.rouge_scorer").RougeScorer(["rouge1", "rouge2", "rougeL"])
    words = ["the", "Cat,", "sat", "don't", "it's", "42", "mat-like", "Straße", "a"]
    candidate, reference = (" ".join(rng.choice(words, n)) for n in (12, 9))
    expected = scorer.score(reference, candidate)
    for name, found in (
        ("rouge1", rouge_n(candidate, reference, 1)),
        ("rouge2", rouge_n(candidate, reference, 2)),
        ("rougeL", rouge_l(candidate, reference)),
    ):
        assert found == pytest.approx(tuple(expected[name]))
