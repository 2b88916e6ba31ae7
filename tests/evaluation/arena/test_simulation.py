"""Simulated arenas: the votes follow the truth, style control finds it again, and attacks move what they should."""

import math

import numpy as np
import pytest

from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry
from llm_anatomy.evaluation.arena.simulation import (
    SimulatedArena,
    add_rigged_votes,
    best_of_variants,
    votes_to_reach_rank,
)

pytestmark = pytest.mark.syllabus("GT-50", "IITD-01")


def test_votes_follow_davidsons_model():
    arena = SimulatedArena({"x": 1100, "y": 1000}, tie_parameter=0.6)
    battles, _ = arena.draw(60_000)
    half = 10 ** (100 / 800)
    total = half + 1 / half + 0.6
    names = battles.winner_names()
    assert names.count("x") / 60_000 == pytest.approx(half / total, abs=0.008)
    assert names.count(None) / 60_000 == pytest.approx(0.6 / total, abs=0.008)
    assert battles.first.double().mean().item() == pytest.approx(0.5, abs=0.01)  # sides are drawn as well
    found = bradley_terry(battles, ties="davidson")
    assert found.tie_parameter == pytest.approx(0.6, abs=0.02)
    assert found.difference("x", "y")[0] == pytest.approx(100, abs=6)


def test_each_answer_has_noise_of_its_own_and_each_seed_other_votes():
    arena = SimulatedArena({"x": 0, "y": 0}, {"x": 3, "y": 1})
    battles, style = arena.draw(20_000)
    noise = style[:, 0] - 2 * (1 - 2 * battles.first)  # the difference of two answers
    assert noise.mean().item() == pytest.approx(0, abs=0.04) and noise.std().item() == pytest.approx(2**0.5, abs=0.03)
    found = [arena.draw(50, seed=seed)[1].tolist() for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


def test_pairs_are_drawn_by_their_weights():
    battles, _ = SimulatedArena({"x": 0, "y": 0, "z": 0}).draw(9000, pair_weights=[0, 1, 2])
    pairs = [tuple(sorted(pair)) for pair in zip(battles.first.tolist(), battles.second.tolist(), strict=True)]
    assert pairs.count((0, 1)) == 0 and pairs.count((0, 2)) / 9000 == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_style_control_removes_what_style_adds_and_nothing_else(seed):
    strengths = {"a": 1120, "b": 1060, "c": 1000, "d": 940, "e": 880}
    styles = {"a": -1.5, "b": 0.5, "c": 2.0, "d": 0.0, "e": -1.0}
    truth = np.array(list(strengths.values()))
    battles, style = SimulatedArena(strengths, styles, style_effect=50).draw(60_000, seed=seed)
    plain, controlled = bradley_terry(battles), bradley_terry(battles, covariates=style)
    assert np.abs(controlled.ratings.numpy() - truth).max() < 15
    assert np.abs(plain.ratings.numpy() - truth).max() > 60
    assert plain.rows()[0]["model"] == "c" and controlled.rows()[0]["model"] == "a"
    assert abs(controlled.effects.item() - 50) < 3 * controlled.effect_errors.item()
    without, style = SimulatedArena(strengths, styles).draw(60_000, seed=seed)  # voters who do not look at style
    assert abs(bradley_terry(without, covariates=style).effects.item()) < 6


def test_rigged_votes_only_add_wins_of_the_favourite():
    battles, _ = SimulatedArena({"x": 1000, "y": 1000, "z": 1000}).draw(50)
    rigged = add_rigged_votes(battles, "y", 30, seed=1)
    assert rigged.winner_names()[:50] == battles.winner_names() and rigged.winner_names()[50:] == ["y"] * 30
    assert set(rigged.second[50:].tolist()) == {0, 2}
    assert rigged.second.tolist() != add_rigged_votes(battles, "y", 30, seed=2).second.tolist()


def test_the_fewest_votes_that_reach_a_rank_are_found():
    battles, _ = SimulatedArena({"x": 1100, "y": 1000, "z": 950}).draw(2000)
    n_votes = votes_to_reach_rank(battles, "z", 2)
    rank = {n: bradley_terry(add_rigged_votes(battles, "z", n)).ranks[2].item() for n in (n_votes - 1, n_votes)}
    assert rank[n_votes] == 2 < rank[n_votes - 1] and n_votes > 10
    assert votes_to_reach_rank(battles, "x", 1) == votes_to_reach_rank(battles, "x", 2) == 0
    with pytest.raises(ValueError, match="4 votes do not bring 'z' to rank 1"):
        votes_to_reach_rank(battles, "z", 1, most=4)


def test_the_best_of_several_equal_variants_is_overrated():
    arena = SimulatedArena({"x": 1050, "y": 1000, "z": 1100}, tie_parameter=0.5)
    one, three, ten = best_of_variants(arena, "x", [1, 3, 10], 400, n_repeats=60).T
    error = one.std().item()
    assert abs(one.mean().item()) < 3 * error / math.sqrt(60)
    # expected largest of 3 and 10 standard normal numbers: 0.846 and 1.539
    assert three.mean().item() == pytest.approx(0.846 * error, abs=0.4 * error)
    assert ten.mean().item() == pytest.approx(1.539 * error, abs=0.4 * error)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: SimulatedArena({"x": 1}, styles={"y": 1}), "the same models"),
        (lambda: SimulatedArena({"x": 1}, tie_parameter=-1), "tie_parameter=-1 must not be negative"),
        (lambda: add_rigged_votes(SimulatedArena({"x": 1, "y": 1}).draw(2)[0], "z", 1), "favourite='z' must be one of"),
        (lambda: best_of_variants(SimulatedArena({"x": 1, "y": 1}), "z", [1], 5), "model='z' must be one of"),
        (
            lambda: best_of_variants(SimulatedArena({"x": 1, "y": 1}, {"x": 0, "y": 1}), "x", [1], 5),
            "arena has styles",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
