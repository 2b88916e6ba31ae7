"""Filters of instructions and instances; near-duplicates are those of a loop with the library's ROUGE-L."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score import rouge_scorer
from rouge_score.tokenizers import DefaultTokenizer

from llm_anatomy.data_generation.filters import (
    FILTERS,
    Keywords,
    Length,
    NearDuplicates,
    filter_instances,
    lcs_length,
    refused_by,
    rouge_l,
    words_of,
)
from llm_anatomy.data_generation.pool import Instance

SCORER = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=False)


@pytest.mark.syllabus("GT-46")
@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("Name three birds.", "length"),
        ("word " * 151, "length"),
        ("Name three birds of Africa.", None),
        ("word " * 150, None),
        ("Describe the Picture in one sentence.", "keyword"),
        ("Say what you see, then go to the next.", "keyword"),
        ("Explain what a paragraph and a profile are.", None),  # graph and file are parts of words
        ("- the second of them again", "punctuation"),
        ("  (in your own words) the story", "punctuation"),
        ("Élargis la phrase par un adjectif.", "not English"),
        ("3 rivers of Africa in a list", None),
    ],
)
def test_an_instruction_is_refused_for_a_reason(instruction, reason):
    assert refused_by(instruction) == reason
    assert [one.name for one in FILTERS] == ["length", "keyword", "punctuation", "not English"]


def test_limits_and_words_can_be_changed():
    assert not Length(least=2).refuses("Reverse it.") and Length(most=3).refuses("Name a red bird.")
    assert not Keywords(("lake",)).refuses("Draw a map.") and Keywords(("lake",)).refuses("Name a Lake.")


@pytest.mark.syllabus("GT-46")
def test_instances_are_left_out_for_reasons_that_are_counted():
    good = [Instance("4, 2", "4"), Instance("", "one"), Instance("", "two")]  # without an input, several outputs
    bad = [Instance("a", ""), Instance("b", " b "), Instance("7", "7 1"), Instance("7", "1"), Instance(" 4, 2", "4")]
    bad += [Instance("x " * 401, "y")]
    kept, refused = filter_instances(good + bad)
    assert kept == good and refused == {
        "empty output": 1,
        "output repeats input": 1,
        "contradiction": 2,
        "repeated instance": 1,
        "long instance": 1,
    }


# --- ROUGE-L ---

TEXTS = st.text(st.sampled_from("ab c'ZÄ7-"), max_size=30)
WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


@given(TEXTS)
def test_words_are_those_of_the_library(text):
    assert words_of(text) == DefaultTokenizer(use_stemmer=False).tokenize(text)


def lcs_by_table(first, second):
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if a == b else max(lengths[i][j + 1], lengths[i + 1][j])
    return lengths[-1][-1]


@given(WORDS, WORDS)
def test_the_subsequence_of_bits_is_that_of_the_table(first, second):
    assert lcs_length(first, second) == lcs_by_table(first, second) == lcs_length(second, first)


def test_texts_may_be_longer_than_a_machine_word():
    draw = random.Random(0)
    first, second = (draw.choices("abcdef", k=n) for n in (150, 201))
    assert lcs_length(first, second) == lcs_by_table(first, second) > 64


@given(TEXTS, TEXTS)
def test_rouge_l_is_that_of_the_library(first, second):
    expected = SCORER.score(first, second)["rougeL"].fmeasure
    assert rouge_l(words_of(first), words_of(second)) == pytest.approx(expected)


# --- Near-duplicates ---


def instructions(n, seed=0):
    """Instructions with words as frequent as in texts, every third one made from an earlier one by a few edits."""
    draw = random.Random(seed)
    vocabulary = [f"w{i}" for i in range(400)]
    weights = [1 / (i + 1) for i in range(400)]
    texts = []
    for i in range(n):
        words = draw.choices(vocabulary, weights, k=draw.randint(1, 25))
        if i % 3 == 2:
            words = draw.choice(texts).split()
            for _ in range(draw.randint(0, 6)):
                at = draw.randrange(len(words) + 1)
                words[at : at + draw.randint(0, 1)] = draw.choices(vocabulary, weights, k=draw.randint(0, 2))
            draw.random() < 0.2 and draw.shuffle(words)
        texts.append(" ".join(words) or "w0")
    return texts


def loop_over_the_pool(texts, threshold, lcs=lcs_by_table):
    """The index of the oldest near-duplicate of each text among those that were let through before; the library's F
    may miss the threshold by rounding."""
    pool, found = [], []
    for text in texts:
        words = words_of(text)
        ratios = (2 * lcs(words, other) / (len(words) + len(other)) for other in pool)
        found.append(next((i for i, ratio in enumerate(ratios) if ratio >= threshold - 1e-9), None))
        if found[-1] is None:
            pool.append(words)
    return found


def decisions(texts, threshold):
    near, found = NearDuplicates(threshold=threshold), []
    for text in texts:
        found.append(near.find(text))
        if found[-1] is None:
            near.add(text)
    return found


@pytest.mark.syllabus("GT-46")
@pytest.mark.parametrize("threshold", [0.7, 0.35, 1])
def test_decisions_are_those_of_the_loop_over_the_pool(threshold):
    texts = instructions(250)
    expected = loop_over_the_pool(texts, threshold)
    assert decisions(texts, threshold) == expected
    assert 5 < sum(i is not None for i in expected) < 245


@pytest.mark.syllabus("GT-46")
def test_decisions_are_those_of_the_library():
    texts, near, pool, n_refused = instructions(150, seed=1), NearDuplicates(), [], 0
    for text in texts:
        expected = any(SCORER.score(other, text)["rougeL"].fmeasure >= 0.7 - 1e-9 for other in pool)
        assert near.refuses(text) is expected
        n_refused += expected
        if not expected:
            pool.append(text)
            near.add(text)
    assert len(near) == len(pool) and n_refused > 20


@pytest.mark.syllabus("GT-46")
def test_decisions_on_2000_tasks_are_those_of_the_loop_over_the_pool():
    texts = instructions(2000, seed=2)
    assert decisions(texts, 0.7) == loop_over_the_pool(texts, 0.7, lcs_length)


@given(st.lists(WORDS.filter(bool), max_size=8), st.sampled_from([0.5, 0.6, 0.7, 0.8, 1]))
def test_decisions_hold_for_short_and_repetitive_texts(texts, threshold):
    texts = [" ".join(words) for words in texts]
    assert decisions(texts, threshold) == loop_over_the_pool(texts, threshold)


@pytest.mark.parametrize(("threshold", "m", "n", "n_shared"), [(0.7, 37, 23, 21), (0.55, 100, 100, 55)])
def test_the_threshold_itself_is_refused_exactly(threshold, m, n, n_shared):
    """2 · 21 / (37 + 23) is 0.7, but less in the library's floats; and 0.55 / 2 · 200 is more than 55 in floats."""
    shared = [f"s{i}" for i in range(n_shared)]
    long, short = (" ".join(shared + [f"{x}{i}" for i in range(k - n_shared)]) for x, k in (("a", m), ("b", n)))
    assert SCORER.score(long, short)["rougeL"].fmeasure < 0.7 or threshold < 0.7
    for pool, text in ((long, short), (short, long)):
        near = NearDuplicates([pool], threshold)
        assert near.refuses(text) and not near.refuses(text + " z")


def test_texts_without_words_are_no_duplicates():
    near = NearDuplicates(["", "…", "a"])
    assert not near.refuses("") and not near.refuses("?") and near.find("a") == 2


@pytest.mark.parametrize("threshold", [0, -1, 1.1, float("nan")])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(ValueError, match="must be above 0 and at most 1"):
        NearDuplicates(threshold=threshold)
