"""Active choice of pairs: the rules' formulas, and shorter intervals for as many battles."""

import numpy as np
import pytest
import torch

from llm_anatomy.evaluation.arena.battles import Battles, pair_indices
from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry
from llm_anatomy.evaluation.arena.sampling import pair_weights, run_arena
from llm_anatomy.evaluation.arena.simulation import SimulatedArena

pytestmark = pytest.mark.syllabus("IITD-01")


def test_the_rule_for_ratings_is_what_one_more_battle_takes_from_the_variances():
    battles, _ = SimulatedArena({"w": 1200, "x": 1000, "y": 1000, "z": 800}).draw(300)
    found = pair_weights(battles, "ratings")
    before = bradley_terry(battles, interval="fisher", prior_deviation=400)
    precision = torch.linalg.pinv(before.covariance)
    gains = []
    for a, b in pair_indices(4).T.tolist():
        x = torch.zeros(4).double()
        x[a], x[b] = 1, -1
        p = before.win_probability("wxyz"[a], "wxyz"[b])
        information = precision + torch.outer(x, x) * p * (1 - p) * (np.log(10) / 400) ** 2
        gains.append((before.covariance.trace() - torch.linalg.pinv(information).trace()).item())
    assert found.tolist() == pytest.approx([gain / sum(gains) for gain in gains], rel=1e-6)


def test_the_rule_for_pairs_prefers_pairs_that_met_rarely():
    battles = Battles("xyz", [0] * 40 + [1] * 4, [1] * 40 + [2] * 4, [1, 0] * 22)
    often, never, rarely = pair_weights(battles, "pairs").tolist()
    assert often < rarely < never
    tied = Battles("xyz", battles.first, battles.second, [0.5] * 44)
    assert pair_weights(tied, "pairs").tolist() == pytest.approx([often, never, rarely])
    assert rarely / often == pytest.approx((4**-0.5 - 5**-0.5) / (40**-0.5 - 41**-0.5), rel=0.02)


def test_uniform_weights_are_equal():
    assert pair_weights(Battles("xyz", [0], [1], [1]), "uniform").tolist() == pytest.approx([1 / 3] * 3)


def test_a_rule_that_looks_at_variances_leaves_smaller_ones():
    arena = SimulatedArena({f"model {i}": 100 * i for i in range(12)})
    widths = {
        rule: np.mean([run_arena(arena, [3000], rule, seed=s)[0].covariance.trace() for s in range(3)])
        for rule in ("uniform", "ratings")
    }
    assert widths["ratings"] < 0.9 * widths["uniform"]


def test_an_arena_has_as_many_battles_as_asked_for_and_a_seed():
    arena = SimulatedArena({"x": 0, "y": 0, "z": 0})
    drawn = []

    class Counted(SimulatedArena):
        def draw(self, n_battles, **settings):
            drawn.append((n_battles, settings["seed"]))
            return super().draw(n_battles, **settings)

    first, second = run_arena(Counted(arena.strengths), [250, 900], seed=5)
    assert sum(n for n, _ in drawn) == 900 and len({seed for _, seed in drawn}) == len(drawn) > 3
    again = run_arena(arena, [250, 900], seed=5)
    assert again[1].ratings.tolist() == second.ratings.tolist() and again[0].ratings.tolist() == first.ratings.tolist()
    assert run_arena(arena, [200], seed=6)[0].ratings.tolist() != run_arena(arena, [200], seed=5)[0].ratings.tolist()


def test_what_cannot_be_run_is_refused():
    with pytest.raises(ValueError, match="rule='best' must be one of uniform, pairs, ratings"):
        pair_weights(Battles("xy", [0], [1], [1]), "best")
    with pytest.raises(ValueError, match="must ascend"):
        run_arena(SimulatedArena({"x": 0, "y": 0}), [100])
