"""Overlap of questions with a training text, against a search for each n-gram."""

import re
from random import Random

import pytest

from llm_anatomy.evaluation.contamination import overlaps


@pytest.mark.syllabus("GT-09")
@pytest.mark.parametrize("n", [1, 2, 5])
def test_overlaps_are_the_shares_of_ngrams_that_a_search_finds(n):
    rng = Random(n)

    def text(length):
        return " ".join(rng.choice("abcdefgh") for _ in range(length))

    questions, texts = [text(rng.randrange(1, 12)) for _ in range(40)], [text(30) for _ in range(3)]
    found = overlaps(questions, iter(texts), n=n)
    for question, share in zip(questions, found, strict=True):
        words = question.split()
        m = min(n, len(words))
        grams = {" ".join(words[i : i + m]) for i in range(len(words) - m + 1)}
        inside = [any(re.search(rf"\b{gram}\b", text) for text in texts) for gram in grams]
        assert share == pytest.approx(sum(inside) / len(grams))
    assert 0 < sum(found) < len(found) or n == 1


def test_planted_questions_are_found_and_renamed_ones_are_not():
    from llm_anatomy.training.experiments.benchmarks import halves, renamed
    from llm_anatomy.training.experiments.story_tasks import facts

    items = [facts().items[i] for i in halves(0)[0][:20]]
    full = [f"{item.context} {item.choices[item.answer]}" for item in items]
    assert overlaps(full, [f"Once more: {text.upper()}!" for text in full]) == [1.0] * 20
    other = [f"{item.context} {item.choices[item.answer]}" for item in map(renamed, items)]
    assert max(overlaps(other, full)) < 0.8


def test_words_are_compared_without_case_and_punctuation_in_any_script():
    assert overlaps(["Der See ist tief."], ["der SEE, ist tief"]) == [1.0] and overlaps(
        ["湖 很 深"], ["湖，很 深。"]
    ) == [1.0]
    with pytest.raises(ValueError, match="the question '...' has no words"):
        overlaps(["..."], [])
    with pytest.raises(ValueError, match="n=0 must be at least 1"):
        overlaps(["a"], [], n=0)
