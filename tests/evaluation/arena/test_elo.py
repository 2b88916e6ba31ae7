"""Elo online: the update by hand, and ratings that depend on the order."""

import pytest
import torch

from llm_anatomy.evaluation.arena.battles import Battles
from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry
from llm_anatomy.evaluation.arena.elo import elo_history, elo_over_orders, elo_ratings
from llm_anatomy.evaluation.arena.simulation import SimulatedArena

pytestmark = pytest.mark.syllabus("IITD-01")


def test_one_battle_moves_both_ratings_by_the_surprise():
    battles = Battles("xyz", [0, 2], [1, 0], [1, 0.5])
    x = 1000 + 32 * 0.5
    expected = 1 / (1 + 10 ** ((x - 1000) / 400))
    change = 32 * (0.5 - expected)
    assert elo_ratings(battles, 32).tolist() == pytest.approx([x - change, 984, 1000 + change])
    history = elo_history(battles, 32)
    assert history.shape == (3, 3) and history[1].tolist() == [1016, 984, 1000]
    assert elo_history(battles, 32, every=2).tolist() == [[1000] * 3, history[2].tolist()]


def test_start_and_scale_hold_in_any_order():
    battles = Battles("xy", [0], [1], [1])
    first = elo_ratings(battles, 32, start=1500, scale=200)
    assert first.tolist() == [1516, 1484]
    twice = elo_ratings(battles.take([0, 0]), 32, start=1500, scale=200)
    assert twice[0].item() == pytest.approx(1516 + 32 * (1 - 1 / (1 + 10 ** (-32 / 200))))
    assert elo_over_orders(battles, 32, n_orders=2, start=1500, scale=200).tolist() == [first.tolist()] * 2
    assert elo_over_orders(battles.take([0, 0]), 32, n_orders=1, start=1500, scale=200)[0].tolist() == twice.tolist()


def test_ratings_are_exchanged_and_never_made():
    battles, _ = SimulatedArena({"x": 900, "y": 1000, "z": 1200}, tie_parameter=0.5).draw(500)
    assert elo_history(battles, 20).sum(1).tolist() == pytest.approx([3000] * 501)


def test_the_order_moves_elo_and_not_bradley_terry():
    battles, _ = SimulatedArena({"x": 900, "y": 1000, "z": 1200}).draw(2000)
    backwards = battles.take(torch.arange(1999, -1, -1))
    torch.testing.assert_close(bradley_terry(backwards).ratings, bradley_terry(battles).ratings)
    small, large = (elo_over_orders(battles, k, n_orders=30).std(0) for k in (4, 32))
    assert small.min() > 5 and (large > 2 * small).all()
    assert (
        elo_over_orders(battles, n_orders=2, seed=3).tolist()
        == elo_over_orders(battles, n_orders=2, seed=3).tolist()
        != elo_over_orders(battles, n_orders=2, seed=4).tolist()
    )


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="every=0 must be positive"):
        elo_history(Battles("xy", [0], [1], [1]), every=0)
