"""The data mixture: epochs and new tokens against the table and by hand, its words, and what is refused."""

import pytest
import traitlets

from llm_anatomy.data import table
from llm_anatomy.notebook import DataMixture
from llm_anatomy.notebook.widgets.data_mixture import CURVE, HIGH, MIXTURES, TOKENS

ROWS = table("llama_data_mixture")
SMALL = [
    {"dataset": "web", "sampling_pct": 75.0, "epochs": 0.5, "n_tokens_T": 2.0},
    {"dataset": "books", "sampling_pct": 25.0, "epochs": 2.5, "n_tokens_T": 2.0},
]


@pytest.fixture(scope="module")
def made():
    return DataMixture()


def shown(widget, tokens=1.4, mixture=MIXTURES[0]):
    widget.tokens, widget.mixture = tokens, mixture
    return widget.outputs()


@pytest.mark.syllabus("GT-08")
def test_the_papers_shares_and_epochs_come_back(made):
    found = shown(made)
    assert found["shares"] == pytest.approx([row["sampling_pct"] for row in ROWS])
    assert found["epochs"] == pytest.approx([row["epochs"] for row in ROWS])
    assert sum(found["shares"]) == pytest.approx(100)


@pytest.mark.syllabus("GT-08")
def test_unique_tokens_are_those_of_the_syllabus(made):
    unique = dict(zip(made.data["sources"], made.unique.tolist(), strict=True))
    assert unique["CommonCrawl"] == pytest.approx(852.7, abs=0.05)
    assert unique["Wikipedia"] == pytest.approx(25.7, abs=0.05)


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("tokens", TOKENS)
def test_each_number_follows_from_share_and_size(made, tokens, mixture):
    found = shown(made, tokens, mixture)
    unique = [10 * row["sampling_pct"] * row["n_tokens_T"] / row["epochs"] for row in ROWS]  # billions
    shares = {
        "LLaMA's": [row["sampling_pct"] / 100 for row in ROWS],
        "by size": [size / sum(unique) for size in unique],
        "equal": [1 / len(ROWS) for _ in ROWS],
    }[mixture]
    read = [1000 * tokens * share for share in shares]
    fresh = sum(min(pair) for pair in zip(read, unique, strict=True))
    assert found["epochs"] == pytest.approx([n / size for n, size in zip(read, unique, strict=True)], rel=1e-4)
    assert found["fresh"] == pytest.approx(fresh, rel=1e-4)
    assert found["repeated"] == pytest.approx(sum(read) - fresh, rel=1e-3, abs=0.1)
    assert found["again"] == pytest.approx(100 * (1 - fresh / sum(read)), abs=0.01)
    assert found["most"] == pytest.approx(max(found["epochs"])) and found["all"] == pytest.approx(sum(unique) / 1000)
    for once, more, epochs in zip(found["once"], found["more"], found["epochs"], strict=True):
        assert once + more == pytest.approx(epochs + 1) and once <= 1 <= more
    assert max(*found["epochs"], 1) < found["high"] and max(found["shares"]) < found["share_high"]


def test_shares_by_size_read_every_source_equally_often_and_repeat_least(made):
    by_size = shown(made, 2.0, "by size")
    assert by_size["epochs"] == pytest.approx([by_size["epochs"][0]] * len(ROWS), rel=1e-5)
    for mixture in MIXTURES:
        assert shown(made, 2.0, mixture)["repeated"] >= by_size["repeated"] * (1 - 1e-5)


def test_the_curve_is_what_each_length_gives_and_ends_at_all_there_is(made):
    found = shown(made, 15.0)
    assert found["curve"][-1] == pytest.approx(found["here"]) == pytest.approx(found["all"], rel=1e-5)
    assert found["curve"] == sorted(found["curve"]) and max(found["curve"]) < HIGH
    assert found["curve"][0] == pytest.approx(shown(made, 0.25)["here"])
    for length, drawn in zip(CURVE, found["diagonal"], strict=True):
        assert drawn == pytest.approx(length) if length <= HIGH else drawn != drawn


def test_words_are_complete():
    small = DataMixture(2.0, rows=SMALL)
    assert repr(small) == (
        "2.0 trillion tokens with LLaMA's shares: web is 75.0 % and read 0.50 times, books is 25.0 % and read 2.50 "
        "times. 1700 billion tokens are read for the first time, 300 billion again."
    )
    small.mixture = "by size"
    assert repr(small).startswith("2.0 trillion tokens with shares by size: web is 93.8 % and read 0.63 times")
    small.mixture = "equal"
    assert "with equal shares: web is 50.0 %" in repr(small)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        SMALL[:1],
        [SMALL[0], SMALL[1] | {"epochs": 0.0}],
        [SMALL[0] | {"sampling_pct": 100}, SMALL[1] | {"sampling_pct": 0}],
    ],
)
def test_shares_that_do_not_fit_are_refused(rows):
    with pytest.raises(ValueError, match="the shares in sampling_pct must sum to 100, and shares and epochs must be"):
        DataMixture(rows=rows)


def test_other_values_are_refused():
    with pytest.raises(traitlets.TraitError, match="tokens=1.5; it must be one of 0.25"):
        DataMixture(1.5)
    with pytest.raises(traitlets.TraitError, match="mixture='all'; it must be one of LLaMA's, by size, equal"):
        DataMixture(mixture="all")
