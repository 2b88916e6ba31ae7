"""The board's ratings are those of a logistic regression; a model without a finite rating has none."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.arena.board import board

MEAN, SCALE, Z = 1000, 400 / np.log(10), 1.959964

VOTES = {
    ("a", "b", "a"): 21,
    ("b", "a", "a"): 8,
    ("a", "b", "tie"): 3,
    ("b", "c", "a"): 17,
    ("b", "c", "b"): 11,
    ("c", "b", "both_bad"): 4,
    ("c", "d", "b"): 6,
    ("d", "c", "b"): 9,
    ("a", "d", "a"): 5,
    ("d", "a", "a"): 1,
}
POINTS = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5}


def by_gradient_descent(counts, names):
    """The same likelihood, one battle after the other, maximized by another method; and its sandwich."""
    battles = [(names.index(a), names.index(b), POINTS[w]) for (a, b, w), n in counts.items() for _ in range(n)]
    first, second, y = (torch.tensor(column) for column in zip(*battles, strict=True))
    x = (F.one_hot(first, len(names)) - F.one_hot(second, len(names))).double()
    beta = torch.zeros(len(names), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([beta], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16)

    def loss():
        optimizer.zero_grad()
        total = F.binary_cross_entropy_with_logits(x @ beta, y.double(), reduction="sum")
        total.backward()
        return total

    optimizer.step(loss)
    with torch.no_grad():
        p = (x @ beta).sigmoid()
        bread = torch.linalg.pinv(x.T @ ((p * (1 - p))[:, None] * x))
        scores = (y - p)[:, None] * x
        variance = (bread @ scores.T @ scores @ bread).diagonal()
        return MEAN + SCALE * (beta - beta.mean()).numpy(), SCALE * variance.sqrt().numpy()


@pytest.mark.syllabus("GT-50", "IITD-01")
def test_ratings_and_intervals_are_those_of_logistic_regression():
    names = ["a", "b", "c", "d"]
    rows = {row.model: row for row in board(VOTES, names)}
    ratings, errors = by_gradient_descent(VOTES, names)
    np.testing.assert_allclose([rows[name].rating for name in names], ratings, atol=1e-4)
    np.testing.assert_allclose([rows[name].high for name in names], ratings + Z * errors, atol=1e-3)
    np.testing.assert_allclose([rows[name].low for name in names], ratings - Z * errors, atol=1e-3)
    assert (rows["a"].wins, rows["a"].losses, rows["a"].ties, rows["a"].n_battles) == (26, 9, 3, 38)


def test_two_models_have_a_closed_form():
    (first, second) = board({("x", "y", "a"): 30, ("y", "x", "a"): 10}, [])
    assert first.model == "x" and first.rating - second.rating == pytest.approx(400 * np.log10(3))
    assert first.rating + second.rating == pytest.approx(2000)


def test_the_rank_counts_the_models_that_are_better_beyond_their_intervals():
    votes = {("a", "b", "a"): 500, ("a", "b", "b"): 100, ("b", "c", "a"): 55, ("b", "c", "b"): 45}
    votes |= {("a", "c", "a"): 500, ("a", "c", "b"): 100}
    assert [(row.model, row.rank) for row in board(votes, [])] == [("a", 1), ("b", 2), ("c", 2)]


def test_models_without_a_finite_rating_say_why():
    votes = {("a", "b", "a"): 3, ("a", "b", "b"): 1, ("win", "a", "a"): 4, ("b", "lose", "a"): 2}
    votes |= {("x", "y", "tie"): 1, ("x", "a", "a"): 1}
    rows = {row.model: row for row in board(votes, ["new"])}
    assert {name for name, row in rows.items() if row.rating is not None} == {"a", "b"}
    assert all(row.rank is None for row in rows.values() if row.rating is None)
    reasons = {"win": "has won every battle so far", "lose": "has lost every battle so far", "new": "no battles yet"}
    reasons |= dict.fromkeys("xy", "too few votes to compare it with the others")
    assert {name: row.reason for name, row in rows.items() if row.reason} == reasons
    assert [row.model for row in board(votes, ["new"])][:2] == ["a", "b"]


def test_models_that_only_tie_are_rated_and_the_first_name_need_not_be_among_the_rated():
    assert [row.rating for row in board({("a", "b", "tie"): 2}, [])] == pytest.approx([1000, 1000])
    votes = {("a", "b", "a"): 1, ("b", "c", "a"): 2, ("c", "b", "a"): 1}
    assert [(row.model, row.rating is None) for row in board(votes, [])] == [("b", False), ("c", False), ("a", True)]


def test_the_order_of_votes_and_sides_is_of_no_account():
    turned = {(b, a, {"a": "b", "b": "a"}.get(w, w)): n for (a, b, w), n in reversed(VOTES.items())}
    for row, other in zip(board(VOTES, []), board(turned, []), strict=True):
        assert row.model == other.model and row.rating == pytest.approx(other.rating, abs=1e-6)


@pytest.mark.parametrize("counts", [{}, {("a", "b", "a"): 1}])
def test_a_board_without_ratings_is_a_board(counts):
    assert all(row.rating is None and row.reason for row in board(counts, ["a", "b", "c"]))


def test_one_sided_votes_do_not_shake_the_computation():
    votes = {(f"m{i}", f"m{i + 1}", "a"): 10_000 for i in range(20)} | {
        (f"m{i + 1}", f"m{i}", "a"): 1 for i in range(20)
    }
    rows = board(votes, [])
    leads = -np.diff([row.rating for row in rows])
    np.testing.assert_allclose(leads, 400 * np.log10(10_000), rtol=1e-6)
