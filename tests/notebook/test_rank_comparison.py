"""The rank comparison: ranks and tau against a loop over pairs, both sides, its words, and what it refuses."""

import math
from itertools import combinations

import pytest
import traitlets
from widget_examples import ablated

from llm_anatomy.data import table
from llm_anatomy.notebook import RankComparison
from llm_anatomy.notebook.widgets.ablation_explorer import MATCHED, VERDICTS
from llm_anatomy.notebook.widgets.rank_comparison import PAPER

RESULTS = ablated()[0]
THEIRS = {row["row"]: row for row in table("narang2021")}


@pytest.fixture(scope="module")
def made():
    return RankComparison(RESULTS)


def shown(widget, **values):
    start = dict(group="all", paper="final loss", matched="steps", row=52)
    for name, value in (start | values).items():
        setattr(widget, name, value)
    return widget.outputs()


def sign(x):
    return (x > 0) - (x < 0)


def numbers(group, paper, matched):
    """The rows of a group with the paper's number and ours."""
    column = "loss" if matched == "steps" else f"{MATCHED[matched]}difference"
    kept = [row for row in RESULTS if row["row"] == 1 or group in ("all", THEIRS[row["row"]]["group"])]
    ours = [row[column] if math.isfinite(row[column]) else 1e6 for row in kept]
    return [row["row"] for row in kept], [THEIRS[row["row"]][PAPER[paper]] for row in kept], ours


@pytest.mark.syllabus("GT-51")
@pytest.mark.parametrize("paper", PAPER)
@pytest.mark.parametrize("matched", MATCHED)
@pytest.mark.parametrize("group", ["all", "activation", "sharing"])
def test_ranks_and_tau_are_those_of_the_pairs(made, group, paper, matched):
    found = shown(made, group=group, paper=paper, matched=matched)
    rows, theirs, ours = numbers(group, paper, matched)
    pairs = [(sign(a - c), sign(b - d)) for (a, b), (c, d) in combinations(zip(theirs, ours, strict=True), 2)]
    untied = [sum(pair[i] != 0 for pair in pairs) for i in (0, 1)]
    tau = sum(a * b for a, b in pairs) / math.sqrt(untied[0] * untied[1])
    assert found["tau"] == pytest.approx(tau, abs=1e-5)
    assert found["n_shown"] == len(rows) and found["defined"]
    for at in (0, len(rows) // 2, len(rows) - 1):
        own = shown(made, group=group, paper=paper, matched=matched, row=rows[at])
        assert own["own_paper"] == 1 + sum(x < theirs[at] for x in theirs) and own["member"]
        assert own["own_ours"] == 1 + sum(x < ours[at] for x in ours)


@pytest.mark.syllabus("GT-19")
def test_each_line_joins_a_rows_names_on_both_sides(made):
    found = shown(made, group="softmax", matched="time")
    rows, theirs, ours = numbers("softmax", "final loss", "time")
    for side, values in (("left", theirs), ("right", ours)):
        listed = [number for number in found[side] if number == number]
        assert listed == [number for _, number in sorted(zip(values, rows, strict=True))]
        positions = found["y_paper" if side == "left" else "y_ours"]
        for number, y in zip(range(1, 53), positions, strict=True):
            assert (y == listed.index(number)) if number in rows else y != y
    by_row = {row["row"]: row["time_verdict"] for row in RESULTS}
    assert [VERDICTS[int(hue)] for hue in found["hue"]] == [by_row[number] for number in range(1, 53)]
    right = [number for number in found["right"] if number == number]
    assert [VERDICTS[int(hue)] for hue in found["right_hue"]][: len(right)] == [by_row[number] for number in right]
    assert [number for number, width in enumerate(found["widths"], 1) if width > 2] == [52]


def test_a_row_without_a_loss_comes_last(made):
    found = shown(made, row=14)
    assert found["own_ours"] == 52 and found["y_ours"][13] == 51 and VERDICTS[int(found["own_verdict"])] == "unstable"


def test_words_are_complete(made):
    shown(made, group="depth", row=9, paper="early loss", matched="FLOPs")
    tau = f"{made.outputs()['tau']:.2f}".replace("-", "−")
    assert repr(made) == (
        f"5 rows of the group depth, by the paper's early loss and ours at equal FLOPs: Kendall's tau is {tau}. SwiGLU "
        f"is not among them: {RESULTS[8]['flops_verdict']}."
    )
    shown(made, row=9)
    assert " SwiGLU has rank 3 in the paper and rank " in repr(made)
    tied = RankComparison([RESULTS[0], RESULTS[1]])  # 1.838 nats both
    assert "Kendall's tau is unknown." in repr(tied) and "GeLU has rank 1 in the paper" in repr(tied)


def test_what_does_not_fit_is_refused(made):
    with pytest.raises(ValueError, match="row='gpt'; it must be one of baseline, gelu"):
        RankComparison(RESULTS, "gpt")
    with pytest.raises(ValueError, match="results must have the row 'baseline' and another one"):
        RankComparison(RESULTS[3:])
    with pytest.raises(traitlets.TraitError, match="row=0; it must be a whole number from 1 to 52"):
        made.row = 0
