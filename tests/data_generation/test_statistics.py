"""How varied a pool is: verbs and objects, lengths, and the distance from the seeds."""

import pytest
from rouge_score import rouge_scorer

from llm_anatomy.data_generation.cost import Usage
from llm_anatomy.data_generation.pool import Instance, Pool, Round, Task
from llm_anatomy.data_generation.statistics import (
    describe,
    lengths,
    similarity_to_nearest,
    verb_and_noun,
    verb_noun_counts,
)

# Labelled by hand before the rule was written down, in the manner of the paper's figure 3.
LABELLED = {
    "Write a short story about a dog that finds a key.": ("write", "story"),
    "Give me three examples of prime numbers.": ("give", "examples"),
    "Classify the sentiment of the following sentence.": ("classify", "sentiment"),
    "Rewrite the following sentence so that it is polite.": ("rewrite", "sentence"),
    "Find the longest word in the list.": ("find", "word"),
    "Explain why the sky is blue.": ("explain", None),
    "Given two numbers, compute their greatest common divisor.": ("compute", "divisor"),
    "If the sentence has an error, correct the sentence.": ("correct", "sentence"),
    "Please translate this paragraph into French.": ("translate", "paragraph"),
    "Tell me whether the two words rhyme.": ("tell", None),
    "Create a to-do list for a move.": ("create", "list"),
    "Sort the names alphabetically.": ("sort", "alphabetically"),  # where the rule is wrong
    "What is the capital of Chad?": None,
    "The sentence has an error.": None,
    "2 + 2?": None,
    "": None,
}


@pytest.mark.syllabus("GT-46")
@pytest.mark.parametrize("instruction", LABELLED)
def test_verbs_and_objects_are_those_of_a_reader(instruction):
    found = verb_and_noun(instruction)
    assert (None if found is None else tuple(found)) == LABELLED[instruction]


def test_pairs_are_counted_where_there_is_an_object():
    counts = verb_noun_counts([*LABELLED, "Write one long story."])
    assert counts["write", "story"] == 2 and counts["explain", None] == 0 and counts.total() == 11


@pytest.mark.syllabus("GT-46")
def test_the_nearest_seed_is_that_of_the_library():
    texts = list(LABELLED)[:13]
    scorer = rouge_scorer.RougeScorer(["rougeL"])
    seeds = texts[::3]
    for text, similarity in zip(texts, similarity_to_nearest(texts, seeds), strict=True):
        assert similarity == pytest.approx(max(scorer.score(seed, text)["rougeL"].fmeasure for seed in seeds))
    assert similarity_to_nearest(texts, seeds)[0] == 1 and similarity_to_nearest(["a"], []) == [0]


def test_lengths_leave_out_empty_texts():
    assert lengths(["a b c", "", " ", "a", "a b c d e"]) == {"mean": 3, "median": 3, "least": 1, "most": 5}
    assert lengths([]) == {"mean": 0, "median": 0, "least": 0, "most": 0}


def test_a_pool_is_described_by_its_generated_tasks():
    pool = Pool([Task("Name a bird of Africa.")])
    label = Task("Say whether it is big.", (Instance("mouse", "no"), Instance("whale", "yes")), True)
    story = Task("Write a story.", (Instance("", "Once upon a time."),), False)
    pool.append(Round((label, story), {"length": 1, "near-duplicate": 4}, Usage(5, 6, 7)))
    found = describe(pool)
    assert (found["tasks"], found["classification tasks"], found["instances"]) == (2, 1, 3)
    assert found["instances with empty input"] == 1 and found["words of an output"]["most"] == 4
    assert found["words of an instruction"]["mean"] == 4 and found["pairs of verb and noun"] == 1
    assert list(found["refused"]) == ["near-duplicate", "length"] and found["refused in all"] == 5
    assert found["ROUGE-L with the nearest seed task"] == pytest.approx((0 + 2 / 8) / 2)
