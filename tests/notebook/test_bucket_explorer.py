"""The bucket explorer: its buckets, its words, and what it refuses."""

import math

import pytest
import torch

from llm_anatomy.layers.positions.buckets import T5Buckets, T5CausalBuckets
from llm_anatomy.notebook import BucketExplorer


@pytest.mark.syllabus("IITD-21")
@pytest.mark.parametrize("sizes", [(32, 128), (8, 10), (64, 33), (4, 256)])
@pytest.mark.parametrize("causal", [False, True])
def test_offsets_that_share_a_bucket_are_the_schemes(sizes, causal):
    widget, scheme = BucketExplorer(*sizes), (T5CausalBuckets if causal else T5Buckets)(*sizes)
    widget.direction, offsets = "Past only" if causal else "Both directions", torch.arange(-600, 601)
    for widget.offset in (-320, -129, -20, -4, -1, 0, 1, 7, 8, 63, 320):
        found = widget.outputs()
        same = offsets[scheme(offsets) == found["bucket"]].tolist()
        assert widget.offset in same and same == list(range(same[0], same[-1] + 1))
        assert same[0] == max(found["first"], -600) and same[-1] == min(found["last"], 600)
        assert {found["first"], found["last"]} <= {*same, math.inf, -math.inf}


@pytest.mark.syllabus("IITD-21")
def test_words_say_who_shares():
    widget = BucketExplorer()
    assert repr(widget) == (
        "Both directions, largest distance 128. Offset −20: bucket 10 of 32, shared by the offsets −22 to −16."
    )
    ends = {
        3: "Offset 3: bucket 19 of 32, which no other offset shares.",
        -300: "bucket 15 of 32, shared by all offsets up to −91.",
        300: "bucket 31 of 32, shared by all offsets from 91 on.",
    }
    for widget.offset, words in ends.items():
        assert repr(widget).endswith(words)
    widget.offset, widget.direction = 5, "Past only"
    words = "Past only, largest distance 128. Offset 5: bucket 0 of 32, shared by all offsets from 0 on."
    assert repr(widget) == words


@pytest.mark.syllabus("IITD-21")
def test_one_of_t5s_32_buckets_is_never_used():
    unused = [row for row in BucketExplorer().outputs()["unused"] if not math.isnan(row)]
    assert unused == [16]  # distance 0 of the future, which is no future


def test_the_farthest_distance_is_beyond_those_with_a_bucket_of_their_own():
    widget = BucketExplorer()
    widget.n_buckets, widget.max_distance, widget.direction = 64, 32, "Past only"
    assert repr(widget).startswith("Past only, largest distance 33.")


@pytest.mark.parametrize(
    "given, sentence",
    [
        ((7, 20), "n_buckets=7; it must be an even number from 4 to 64"),
        ((66, 128), "n_buckets=66; it must be an even number from 4 to 64"),
        ((32, 8), "max_distance=8; it must be a whole number from 9 to 256"),
        ((32, 12.5), "max_distance=12.5; it must be a whole number from 9 to 256"),
    ],
)
def test_bucket_explorer_refuses(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        BucketExplorer(*given)
