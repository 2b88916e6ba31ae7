"""The widget of ROUGE-L: scores and subsequences against the package, both bounds, its words, and its limits."""

import random

import pytest

from llm_anatomy.data_generation.filters import NearDuplicates
from llm_anatomy.evaluation.text_metrics import rouge_l, rouge_n, rouge_words
from llm_anatomy.notebook import RougeL
from llm_anatomy.notebook.widgets.rouge_l import WORDS

VOCABULARY = ["the", "The", "a", "cat", "sat", "on", "mat", "MAT,", "incomprehensibilities", "42", "don't", "déjà"]


@pytest.fixture(scope="module")
def made():
    return RougeL("", "")


def shown(widget, first, second):
    widget.first, widget.second = first, second
    return widget.outputs()


@pytest.mark.syllabus("GT-46")
def test_scores_and_subsequences_are_those_of_the_package(made):
    rng = random.Random(0)
    for _ in range(40):
        first, second = (" ".join(rng.choices(VOCABULARY, k=rng.randint(0, 7)))[:90] for _ in "ab")
        found, known = shown(made, first, second), rouge_l(first, second)
        a, b = rouge_words(first), rouge_words(second)
        assert len(a) <= WORDS and len(b) <= WORDS
        score = [found["precision"], found["recall"], found["found"][2]]
        assert score == pytest.approx([known.precision, known.recall, known.f1])
        assert found["found"][1] == pytest.approx(rouge_n(first, second).f1)
        assert found["found"][0] == pytest.approx(2 * min(len(a), len(b)) / max(len(a) + len(b), 1))
        assert bool(found["refused"]) == NearDuplicates([first]).refuses(second)
        rows = zip(found["y_first"], found["y_second"], strict=True)
        pairs = [tuple(round((1 - y) * WORDS - 0.5) for y in row) for row in rows if row[0] == row[0]]
        assert len(pairs) == found["lcs"] and all(a[i] == b[j] for i, j in pairs)
        assert all(i < k and j < n for (i, j), (k, n) in zip(pairs, pairs[1:], strict=False))


def test_what_is_too_long_is_cut_and_said(made):
    found = shown(made, "a " * 20, "a " * 3)
    assert (found["m"], found["n"], found["lcs"]) == (WORDS, 3, 3)
    assert repr(made).endswith(f"Only the first {WORDS} words of each text are compared.")
    shown(made, "Incomprehensibilities!", "incomprehensibility")
    assert repr(made).startswith("1 and 1 words, 0 of them in the same order. ROUGE-L is 0.00")
    shown(made, "Incomprehensibilities!", "incomprehensibilities")
    assert "1 of them in the same order: incomprehensib…. ROUGE-L is 1.00" in repr(made)
