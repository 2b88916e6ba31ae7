"""Ranks and probabilities of winning, on the lectures' two boards."""

import numpy as np
import pytest

from llm_anatomy.data import table
from llm_anatomy.evaluation.arena.ranks import rank_upper_bound, rating_lead, win_probability


def ends(rows):
    scores, minus, plus = (np.array([row[name] for row in rows]) for name in ("arena_score", "ci_minus", "ci_plus"))
    return scores - minus, scores + plus


@pytest.mark.syllabus("IITD-01")
def test_twelve_of_thirteen_ranks_of_the_first_board_follow_and_rounding_explains_the_other():
    rows = table("arena_2024_08")
    low, high = ends(rows)
    printed = [row["rank_ub"] for row in rows]
    found = rank_upper_bound(low, high).tolist()
    (other,) = [i for i, (a, b) in enumerate(zip(found, printed, strict=True)) if a != b]
    assert rows[other]["model"] == "GPT-4-1106-preview" and (found[other], printed[other]) == (9, 10)
    # one model's lower end equals its upper end; half a point of rounding in it is enough for the printed rank
    assert [rows[i]["model"] for i in range(13) if low[i] == high[other]] == ["Gemini-1.5-Pro-API-0409-Preview"]
    exact = high.astype(float)
    exact[other] -= 0.4
    assert rank_upper_bound(low, exact).tolist() == printed


@pytest.mark.syllabus("GT-50")
def test_all_ranks_of_the_second_board_follow_and_ten_of_twelve_change_with_style_control():
    rows = table("arena_2025_03")
    printed, styled = ([row[name] for row in rows] for name in ("rank_ub", "rank_style_control"))
    assert rank_upper_bound(*ends(rows)).tolist() == printed
    same = [row["model"] for row, a, b in zip(rows, printed, styled, strict=True) if a == b]
    assert same == ["GPT-4.5-Preview", "Gemini-2.0-Pro-Exp-02-05"] and len(rows) == 12
    moves = {row["model"]: b - a for row, a, b in zip(rows, printed, styled, strict=True)}
    assert moves["Gemini-2.0-Flash-001"] == 4 and moves["o1-2024-12-17"] == -3
    assert moves["Gemini-2.0-Flash-Thinking-Exp-01-21"] == 3


@pytest.mark.syllabus("IITD-01")
def test_the_model_between_the_leader_and_the_second_named_is_on_the_board():
    scores = {row["model"]: row["arena_score"] for row in table("arena_2024_08")}
    assert scores["GPT-4o-2024-05-13"] > scores["GPT-4o-mini-2024-07-18"] > scores["Claude 3.5 Sonnet"]  # erratum E-14


@pytest.mark.syllabus("IITD-01")
def test_a_lead_and_a_probability_say_the_same():
    assert [round(win_probability(1300, other), 3) for other in (1286, 1271, 1242)] == [0.52, 0.542, 0.583]
    assert win_probability(400, 0) == pytest.approx(10 / 11) and win_probability(5, 5) == 0.5
    assert rating_lead(10 / 11, 250) == pytest.approx(250)
    for p in (0.1, 0.5, 0.9):
        assert win_probability(rating_lead(p, 250), 0, 250) == pytest.approx(p)


def test_a_rank_counts_those_who_are_better_beyond_doubt():
    assert rank_upper_bound([5, 1, 1, 0], [6, 5, 4, 0.5]).tolist() == [1, 1, 2, 4]  # ends that touch do not count


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: rank_upper_bound([1, 2], [2]), "low has 2 entries and high has 1"),
        (lambda: rank_upper_bound([1, 3], [2, 2]), r"low\[1\]=3 is above high\[1\]=2"),
        (lambda: rating_lead(0), "must be between 0 and 1"),
        (lambda: rating_lead(1), "must be between 0 and 1"),
    ],
)
def test_what_has_no_rank_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
