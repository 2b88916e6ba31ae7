"""What the text of chapter 16 states about its benchmark, its rigged votes and its intervals, drawn again."""

import re
import statistics
from functools import cache

import numpy as np
import pytest

from bookbinder import ROOT, notebooks
from llm_anatomy.data import table
from llm_anatomy.evaluation.arena.battles import Battles
from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry
from llm_anatomy.evaluation.arena.simulation import SimulatedArena, add_rigged_votes, votes_to_reach_rank
from llm_anatomy.training.experiments import benchmarks, story_tasks


@cache
def text():
    """The words and the code of the chapter, on one line."""
    [page] = [page for page in notebooks.pages(ROOT) if page.docname == "book/evaluation/evaluation"]
    return " ".join(" ".join(cell.source.split()) for cell in page.cells)


# --- Multiple choice ---


@pytest.mark.syllabus("GT-09")
def test_a_rule_without_a_model_is_right_far_more_often_than_any_model():
    items, right = story_tasks.facts().items, 0
    for item in items:
        words = rf"\b(?:{'|'.join(map(re.escape, item.choices))})\b"
        right += re.findall(words, item.context)[-1] == item.choices[item.answer]
    best = max(row["accuracy"] for row in table("benchmarks_scores"))
    by_text = sum(max(item.choices, key=item.context.rfind) == item.choices[item.answer] for item in items)
    assert min(right, by_text) / len(items) > 0.95 > 0.7 > best  # by whole words, and as the chapter has it
    said = "right in more than 95 %"
    assert f"the rule from above is {said}, far more often than any model" in text()
    assert said in story_tasks.facts.__doc__ and said in benchmarks.__doc__


# --- Attacks ---


TRUTH = {row["model"]: row["arena_score"] for row in table("arena_2025_03")}
FAVOURITE = list(TRUTH).index("DeepSeek-R1")


def rigged(seed):
    """A draw of honest votes, and how many rigged ones bring the favourite to rank 1."""
    honest, _ = SimulatedArena(TRUTH).draw(30_000, seed=seed)
    return honest, votes_to_reach_rank(honest, "DeepSeek-R1", 1)


@pytest.mark.syllabus("GT-50")
@pytest.mark.parametrize("seed", [0, 2, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, *range(3, 12)))])
def test_one_to_two_rigged_votes_for_a_hundred_bring_the_favourite_to_rank_1(seed):
    honest, n = rigged(seed)
    assert 300 <= n <= 620  # "one to two rigged votes for a hundred honest ones"
    assert 3 <= int(bradley_terry(honest).ranks[FAVOURITE]) <= 6
    ratings = bradley_terry(add_rigged_votes(honest, "DeepSeek-R1", n)).ratings
    assert (ratings > ratings[FAVOURITE]).sum() in (2, 3)
    twice = bradley_terry(add_rigged_votes(honest, "DeepSeek-R1", 2 * n + 30)).ratings
    assert int(twice.argmax()) == FAVOURITE


@pytest.mark.syllabus("GT-50")
def test_the_rigged_votes_are_a_distribution_and_not_one_draw():
    assert "for seed in range(12)" in text() and "median(needed)" in text() and "draw(30_000, seed=2)" not in text()


@pytest.mark.slow
@pytest.mark.syllabus("GT-50")
def test_other_draws_and_other_opponents_need_hardly_other_numbers_of_rigged_votes():
    needed = [rigged(seed)[1] for seed in range(12, 24)]
    assert min(needed) > 200 and max(needed) < 750 and 400 < statistics.median(needed) < 550
    honest, n = rigged(2)
    assert all(abs(votes_to_reach_rank(honest, "DeepSeek-R1", 1, seed=seed) - n) < 30 for seed in (1, 2))


# --- Intervals of a class ---


def class_votes(n_voters, seed):
    """Votes of a simulated class as in the table `arena_class_votes`: ten battles each, and tastes of their own."""
    rng, strengths = np.random.default_rng(seed), np.array([1200, 1160, 1110, 1000, 840, 690.0])
    voter = np.repeat(np.arange(n_voters), 10)
    own = strengths + rng.normal(0, 150, (n_voters, 6))
    first = rng.integers(6, size=len(voter))
    second = (first + rng.integers(1, 6, size=len(voter))) % 6
    half = 10 ** ((own[voter, first] - own[voter, second]) / 800)
    u = rng.random(len(voter)) * (half + 1 / half + 0.6)
    score = np.where(u < half, 1.0, np.where(u < half + 0.6, 0.5, 0.0))
    return Battles([f"model {i}" for i in range(6)], first, second, score, voter)


@pytest.mark.slow
@pytest.mark.syllabus("GT-50")
def test_clustered_intervals_are_right_with_a_hundred_voters_and_too_short_with_few():
    target = bradley_terry(class_votes(20_000, seed=10**6)).ratings
    covered = {}
    for n_voters, n_draws in ((4, 250), (20, 250), (100, 150)):
        for interval in ("sandwich", "clustered"):
            inside = []
            for seed in range(n_draws):
                try:
                    found = bradley_terry(class_votes(n_voters, seed), interval=interval)
                except ValueError:  # a model has won or lost all battles, or does not meet the others
                    continue
                inside.append(((found.low <= target) & (target <= found.high)).double().mean().item())
            assert len(inside) > 0.9 * n_draws
            covered[n_voters, interval] = statistics.mean(inside)
    assert covered[4, "clustered"] < 0.88 and covered[4, "clustered"] < covered[4, "sandwich"] - 0.03 < 0.9
    assert 0.91 < covered[20, "clustered"] < 0.952
    assert 0.94 < covered[100, "clustered"] < 0.97 and covered[100, "sandwich"] < covered[100, "clustered"] - 0.02


@pytest.mark.syllabus("GT-50")
def test_the_clustered_intervals_are_not_called_honest_but_said_to_need_voters():
    assert "the clustered intervals allow for, but they need many voters" in text() and "the honest ones" not in text()
    assert len({row["voter"] for row in table("arena_class_votes")}) == 20
