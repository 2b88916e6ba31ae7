"""BLEU by hand and through sacrebleu, ROUGE beside rouge-score, exact match and F1 as for SQuAD.

The numbers of rouge-score 0.1.2 are computed anew in tests/released/test_statistics.py.
"""

import random
import re

import pytest

from llm_anatomy.evaluation.text_metrics import (
    bleu,
    bleu_by_hand,
    bleu_with_signature,
    brevity_penalty,
    exact_match,
    longest_common_subsequence,
    ngram_precisions,
    normalize_answer,
    rouge_l,
    rouge_n,
    token_f1,
)

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog"]


def corpus(seed, n_sentences=12):
    rng = random.Random(seed)
    references = [rng.choices(WORDS, k=rng.randint(6, 14)) for _ in range(n_sentences)]
    found = [
        [w if rng.random() < 0.8 else rng.choice(WORDS) for w in words][: rng.randint(5, 14)] for words in references
    ]
    return [" ".join(words) for words in found], [" ".join(words) for words in references]


@pytest.mark.syllabus("CMU-27")
@pytest.mark.parametrize("seed", range(5))
def test_bleu_by_hand_equals_sacrebleus(seed):
    translations, references = corpus(seed)
    assert bleu_by_hand(translations, references) == pytest.approx(bleu(translations, references), abs=1e-9)
    assert bleu_by_hand(references, references) == pytest.approx(100)


@pytest.mark.syllabus("CMU-27")
def test_a_word_that_is_repeated_counts_as_often_as_the_reference_has_it():
    """The example of Papineni et al. (2002), section 2.1."""
    assert ngram_precisions(["the the the the the the the"], ["the cat is on the mat"], 1) == [(2, 7)]
    assert bleu_by_hand(["the the the the the the the"], ["the cat is on the mat"]) == 0
    assert [brevity_penalty(9, 9), brevity_penalty(18, 9), brevity_penalty(0, 9)] == [1, 1, 0]


@pytest.mark.syllabus("CMU-27")
def test_the_score_depends_on_the_tokenizer_and_the_signature_says_which():
    pair = (["Cats sat, dogs ran on the mat."], ["Cats sat, and dogs ran on the mat."])
    (split, signature), (unsplit, other) = (bleu_with_signature(*pair, tokenize=t) for t in ("13a", "none"))
    assert split > unsplit + 3 and "tok:13a" in signature and "tok:none" in other
    assert re.search(r"version:\d+\.\d+", signature)


@pytest.mark.syllabus("GT-46")
def test_rouge_equals_that_of_rouge_score():
    candidate = "The cat sat, on the mat; it didn't move 42 times."
    reference = "On the mat sat the cat. It did not move for 42 years!"
    assert rouge_n(candidate, reference, 1) == pytest.approx((0.75, 0.6923076923, 0.72))
    assert rouge_n(candidate, reference, 2) == pytest.approx((0.2727272727, 0.25, 0.2608695652))
    assert rouge_l(candidate, reference) == pytest.approx((0.5, 0.4615384615, 0.48))
    assert rouge_l("", "a b") == rouge_n("c", "a b") == (0, 0, 0)


@pytest.mark.syllabus("GT-46")
@pytest.mark.parametrize("seed", range(30))
def test_the_common_subsequence_is_common_and_the_longest(seed):
    rng = random.Random(seed)
    first, second = (rng.choices("abc", k=rng.randint(0, 8)) for _ in range(2))
    pairs = longest_common_subsequence(first, second)
    assert pairs == sorted(pairs) and len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert all(first[i] == second[j] for i, j in pairs)
    subsequences = [{""}, {""}]
    for found, words in zip(subsequences, (first, second), strict=True):
        for word in words:
            found |= {text + word for text in found}
    assert len(pairs) == max(map(len, subsequences[0] & subsequences[1]))


@pytest.mark.syllabus("GT-10")
def test_answers_are_compared_as_for_squad():
    assert normalize_answer("  A day,\n in the U.S.  an'the ") == "day in us anthe"
    assert exact_match("The  Moon.", "moon") and not exact_match("moons", ["moon", "the sun"])
    assert exact_match("theory", "the theory") and not exact_match("ory", "theory")
    assert token_f1("the cat sat cat", ["cat cat", "dog"]) == pytest.approx(2 * 2 / (3 + 2))
    assert token_f1("dog", []) == token_f1("dog", "cat") == 0 and token_f1("the", "a") == 1


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: bleu_by_hand([], []), "0 translations and 0 references"),
        (lambda: bleu(["a"], ["a", "b"]), "1 translations and 2 references"),
        (lambda: bleu_by_hand("a b", ["a b"]), "must be lists of sentences"),
        (lambda: rouge_n("a", "b", 0), "n=0 must be at least 1"),
    ],
)
def test_texts_that_do_not_pair_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
