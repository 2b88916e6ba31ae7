"""The growth of a pool: decisions against the package's filters at each threshold, its counts, and its words."""

from itertools import pairwise

import pytest
from widget_examples import grown, rouge

from llm_anatomy.data_generation.filters import NearDuplicates, refused_by
from llm_anatomy.notebook import PoolGrowth
from llm_anatomy.notebook.widgets.pool_growth import THRESHOLDS


@pytest.fixture(scope="module")
def run():
    pool, rounds = grown(15)
    return [task.instruction for task in pool.seeds], rounds


@pytest.mark.syllabus("GT-46")
def test_each_threshold_decides_as_the_packages_filter(run):
    seeds, rounds = run
    made = PoolGrowth(seeds, rounds, refused_by, rouge)
    for threshold in THRESHOLDS:
        near, accepted, duplicates = NearDuplicates(seeds, threshold), [], []
        for texts in rounds:
            taken = [None if refused_by(text) else not near.refuses(text) and not near.add(text) for text in texts]
            accepted.append(taken.count(True))
            duplicates.append(taken.count(False))
        made.threshold = threshold
        found = made.outputs()
        assert found["accepted"] == accepted and found["counts"][:2] == [sum(accepted), sum(duplicates)]
        assert [n - a for n, a in zip(found["near"], found["accepted"], strict=True)] == duplicates
        assert found["others"] == [len(texts) for texts in rounds] and sum(found["counts"]) == made.data["n"]
        assert [b - a for a, b in pairwise(found["growth"])] == accepted and found["size"] == len(seeds) + sum(accepted)


def test_an_instruction_is_shown_with_the_closest_of_the_pool():
    made = PoolGrowth(["Name a {bird}."], [["Name a fish."], ["Name a fish.", "Sing."]], lambda text: None, rouge)
    made.candidate = 2
    assert repr(made).endswith("of round 2: “Name a fish.”: near-duplicate; its ROUGE-L with “Name a fish.” is 1.00.")
    made.candidate = 1
    assert "“Name a {\u2060bird}.” is 0.67." in repr(made)


def test_what_is_empty_is_refused():
    with pytest.raises(ValueError, match="rounds=.*; it must be a non-empty list of non-empty strings"):
        PoolGrowth(["Name a bird."], [[]], refused_by, rouge)
