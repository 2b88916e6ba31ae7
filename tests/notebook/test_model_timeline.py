"""The timeline of models: which are shown and counted, against the table; its words, and what is refused."""

import pytest

from llm_anatomy.data import table
from llm_anatomy.notebook import ModelTimeline
from llm_anatomy.notebook.widgets.model_timeline import KINDS, WEIGHTS

ROWS = table("model_timeline")
ALL = ("all", *WEIGHTS)


@pytest.fixture(scope="module")
def made():
    return ModelTimeline()


def shown(widget, **values):
    for name, value in ({"year": 2024, "weights": "all", "model": 1} | values).items():
        setattr(widget, name, value)
    return widget.outputs()


def kept_rows(year, weights):
    return [
        (n, row)
        for n, row in enumerate(ROWS, 1)
        if int(row["month"][:4]) <= year and weights in ("all", row["weights"])
    ]


@pytest.mark.syllabus("GT-01")
@pytest.mark.parametrize("weights", ALL)
@pytest.mark.parametrize("year", range(2017, 2025))
def test_the_models_shown_and_counted_are_those_of_the_table(made, year, weights):
    found, kept = shown(made, year=year, weights=weights), kept_rows(year, weights)
    assert [n for n in found["shown"] if n == n] == [n for n, _ in kept] and found["n_shown"] == len(kept)
    kinds = [KINDS.index(row["kind"] or "not public") for _, row in kept]
    assert found["columns"][: len(kept)] == kinds and not any(x == x for x in found["columns"][len(kept) :])
    assert found["kind_hue"][: len(kept)] == kinds
    assert found["hollow"][: len(kept)] == [row["weights"] != "yes" for _, row in kept]
    assert found["counts"] == [kinds.count(i) for i in range(len(KINDS))]
    grown = [[line[y - 2017] for line in found["grown"]] for y in range(2017, 2025)]
    for y, counts in zip(range(2017, 2025), grown, strict=True):
        assert counts == [
            sum((row["kind"] or "not public") == kind for _, row in kept_rows(y, weights)) for kind in KINDS
        ]


@pytest.mark.syllabus("GT-01")
def test_from_2021_on_most_models_whose_kind_is_known_are_decoders(made):
    for year in range(2020, 2025):
        encoder, both, decoder, _ = shown(made, year=year)["counts"]
        assert (decoder > encoder + both) == (year >= 2021)


@pytest.mark.parametrize("weights", ALL)
@pytest.mark.parametrize("model", [1, 2, 20, len(ROWS)])
def test_the_models_of_the_family_are_large(made, weights, model):
    found = shown(made, model=model, weights=weights)
    kept = [row for _, row in kept_rows(2024, weights)]
    large = [size > 5 for size in found["sizes"]][: len(kept)]
    assert large == [row["family"] == ROWS[model - 1]["family"] for row in kept]


def test_words_are_complete(made):
    shown(made, year=2019, model=2)
    assert repr(made) == (
        "Until 2019: 1 encoder, 2 encoder-decoder, 3 decoder, 0 not public. 6 models of all kinds are shown: "
        "Transformer, GPT, BERT, Transformer-XL, GPT-2, T5. Marked is the family GPT."
    )
    for weights, words in zip(
        ALL[1:], ("with open weights", "with weights on request", "without weights"), strict=True
    ):
        shown(made, weights=weights)
        assert f"models {words} are shown" in repr(made)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "Grok"}, "model='Grok'; it must be one of Transformer, GPT"),
        ({"rows": []}, "and there must be one at least"),
        ({"rows": ROWS[::-1]}, "rows must be in the order of their months"),
        ({"rows": [row | {"kind": "RNN"} for row in ROWS]}, "kind='RNN'; it must be one of encoder"),
        ({"rows": [row | {"weights": "maybe"} for row in ROWS]}, "weights='maybe'; it must be one of yes"),
    ],
)
def test_what_does_not_fit_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        ModelTimeline(**given)
