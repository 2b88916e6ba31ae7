"""The widgets of the chapter on evaluation, against the package's functions of evaluation."""

import math

import pytest
import torch
import traitlets
from widget_examples import replayed

from llm_anatomy.evaluation.arena.battles import Battles
from llm_anatomy.evaluation.arena.bradley_terry import bradley_terry
from llm_anatomy.evaluation.arena.ranks import rank_upper_bound
from llm_anatomy.evaluation.text_metrics import bleu_by_hand, brevity_penalty, ngram_precisions, ngrams
from llm_anatomy.notebook import ArenaReplay, BleuMatches, TieModel


def kept(numbers):
    return [number for number in numbers if number == number]


# --- Ties ---


@pytest.mark.syllabus("GT-50")
@pytest.mark.parametrize("counts", [(50, 30, 20), (12, 0, 12), (7, 41, 3)])
def test_the_ties_are_those_that_davidsons_model_fits(counts):
    wins, ties, losses = counts
    n = sum(counts)
    battles = Battles(["a", "b"], [0] * n, [1] * n, [1.0] * wins + [0.5] * ties + [0.0] * losses)
    widget, lead = TieModel(), 400 * math.log10(wins / losses)
    found = widget.compute(torch.tensor(lead), torch.tensor(ties / math.sqrt(wins * losses)))
    for name, count in zip(("win", "tie", "loss"), counts, strict=True):
        assert found[name].item() == pytest.approx(count / n, abs=1e-5)
    if ties:
        fit = bradley_terry(battles, ties="davidson")
        assert fit.difference("a", "b")[0] == pytest.approx(lead, abs=1e-3)
        assert found["score"].item() == pytest.approx(fit.win_probability("a", "b"), abs=1e-5)
    assert found["seeming"].item() == pytest.approx(bradley_terry(battles).difference("a", "b")[0], abs=1e-2)


def test_without_ties_nothing_is_lost_and_curves_pass_through_the_point():
    widget = TieModel(lead=-320, ties=0.0)
    found = widget.outputs()
    assert found["tie"] == 0 and found["seeming"] == pytest.approx(-320, abs=1e-2)
    widget.ties = 2.5
    found, at = widget.outputs(), widget.data["leads"].index(-320)
    for name in ("win", "tie", "loss", "score", "seeming"):
        assert found[f"{name}_curve"][at] == pytest.approx(found[name])
    assert abs(found["seeming"]) < 320


# --- BLEU ---

PAIRS = [
    ("the the the cat", "the cat sat"),
    ("the cat sat on the mat and the cat slept", "the cat sat on the mat and slept"),
    ("a b c d e", "a b c d e"),
    ("a b", "a b c d"),
    ("", "a b"),
    ("on the mat", ""),
    ("a a a a a a a a", "a a a b a a a a a"),
    ("déjà vu | {2} 🙂 🙂", "un déjà vu | {2} 🙂 !"),
]


@pytest.mark.syllabus("CMU-27")
@pytest.mark.parametrize("candidate, reference", PAIRS)
def test_matches_precisions_and_bleu_are_the_packages(candidate, reference):
    found = BleuMatches(candidate, reference).outputs()
    counts = ngram_precisions([candidate], [reference])
    assert found["matches"] == [matches for matches, _ in counts]
    assert found["totals"] == [total for _, total in counts]
    for n in (1, 2, 3, 4):
        own, others = (ngrams(text.split(), n) for text in (candidate, reference))
        assert found["clipped"][n - 1] == sum(own[gram] - (own & others)[gram] for gram in own & others)
    sizes = len(candidate.split()), len(reference.split())
    assert (found["n_words"], found["n_reference"]) == sizes
    assert found["penalty"] == pytest.approx(brevity_penalty(*sizes))
    assert found["bleu"] == pytest.approx(bleu_by_hand([candidate], [reference]), rel=1e-5)


def test_each_n_gram_is_shown_with_its_words_and_its_state():
    found = BleuMatches("the the cat", "the cat sat").outputs()
    words = [[found["text_vocabulary"][int(i)] for i in kept(found[f"word_{k}"])] for k in (0, 1)]
    assert words == [["the", "the", "cat"], ["the", "cat"]]
    assert kept(found["state_1"]) == [2, 1, 2] and kept(found["seen_1"])[:3] == [1, 2, 1]
    assert kept(found["state_2"]) == [0, 2]
    assert [found["text_vocabulary"][int(i)] for i in kept(found["reference"])] == ["the", "cat", "sat"]
    assert kept(found["state_in_reference"]) == [2, 2, 0]


def test_further_lines_and_spaces_separate_words_of_the_reference():
    widget = BleuMatches("a", "b")
    widget.text = " x  y\nx\n\ty "
    found = widget.outputs()
    assert (found["n_words"], found["n_reference"], found["matches"][0]) == (2, 2, 2)
    with pytest.raises(traitlets.TraitError, match="at most 100 characters"):
        BleuMatches("a" * 60, "b" * 60)


# --- The replay ---


@pytest.fixture(scope="module")
def given():
    return replayed(n_orders=3, every=200)


@pytest.mark.syllabus("GT-50")
def test_the_replay_shows_what_it_was_given(given):
    widget = ArenaReplay(**given)
    widget.order, widget.battles, widget.k = 2, 400, 16
    found = widget.outputs()
    assert found["elo"] == given["elo"][16][2, 2].round().tolist()
    assert [curve[:3] for curve in found["curves"]] == given["elo"][16][2, :3].T.round().tolist()
    assert all(math.isnan(curve[3]) for curve in found["curves"])
    low, high = given["low"][2, 2].round(), given["high"][2, 2].round()
    assert (found["low"], found["high"]) == (low.tolist(), high.tolist())
    assert found["rating"] == given["ratings"][2, 2].round().tolist()
    assert found["rank"] == rank_upper_bound(low, high).tolist()
    ends = given["elo"][16][:, -1].round()
    assert found["widest"] == (ends.amax(0) - ends.amin(0)).max().item()
    assert found["widest_fit"] == 0  # the order is nothing to Bradley and Terry


@pytest.mark.syllabus("IITD-01")
def test_a_larger_k_makes_elo_depend_more_on_the_order(given):
    widget, widest = ArenaReplay(**given), []
    for widget.k in (4, 16, 64):
        widest.append(widget.outputs()["widest"])
    assert widest == sorted(widest) and widest[2] > 3 * widest[0]


def test_a_model_without_a_rating_is_said_to_have_none(given):
    unknown = {name: given[name].clone() for name in ("ratings", "low", "high")}
    for table in unknown.values():
        table[:, 0] = torch.nan
    widget = ArenaReplay(**given | unknown | {"truth": None})
    widget.battles = 0
    assert "amber: Elo 1000, no rating of Bradley and Terry. birch" in repr(widget)
    assert all(math.isnan(x) for x in widget.outputs()["dot"]) and "rings" not in str(widget.marks())
    assert widget.html(alone=False)  # JSON has no NaN


@pytest.mark.parametrize(
    "change, message",
    [
        ({"models": ["amber"]}, "there must be 2 to 8 models"),
        ({"n_battles": [0, 200, 200, 600]}, "in increasing order"),
        ({"models": list("abcde")}, "by 4 numbers of battles by 5 models"),
        ({"elo": {4: torch.zeros(3, 2, 6)}}, r"elo has the shape \(3, 2, 6\) for each K"),
        ({"truth": [1000.0]}, "truth has 1 ratings for 6 models"),
    ],
)
def test_what_does_not_fit_is_refused(given, change, message):
    with pytest.raises(ValueError, match=message):
        ArenaReplay(**given | change)
