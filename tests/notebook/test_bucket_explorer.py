"""The bucket explorer as an object: its buckets, its words, and its form with a kernel."""

import gzip
import math

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.layers.positions.buckets import T5Buckets, T5CausalBuckets
from llm_anatomy.notebook import BucketExplorer


@pytest.mark.syllabus("IITD-21")
@pytest.mark.parametrize("sizes", [(32, 128), (8, 10), (64, 17), (4, 256)])
@pytest.mark.parametrize("causal", [False, True])
def test_offsets_that_share_a_bucket_are_the_schemes(sizes, causal):
    if causal and sizes[1] <= sizes[0] // 2:
        pytest.skip("too short a distance for the past only")
    widget, scheme = BucketExplorer(*sizes), (T5CausalBuckets if causal else T5Buckets)(*sizes)
    offsets = torch.arange(-600, 601)
    for offset in (-500, -129, -20, -4, -1, 0, 1, 7, 8, 63, 500):
        same = offsets[scheme(offsets) == widget.bucket(offset, causal)].tolist()
        first, last = widget.shared(offset, causal)
        assert same[0] == max(first, -600) and same[-1] == min(last, 600)
        assert same == list(range(same[0], same[-1] + 1))


@pytest.mark.syllabus("IITD-21")
def test_words_say_who_shares():
    widget = BucketExplorer()
    assert repr(widget) == (
        "Both directions, farthest 128. Offset −20: bucket 10 of 32, shared by the offsets −22 to −16."
    )
    assert widget._sentence(3, False).endswith("Offset 3: bucket 19 of 32, which it has to itself.")
    assert widget._sentence(-300, False).endswith("bucket 15 of 32, shared by all offsets up to −91.")
    assert widget._sentence(300, False).endswith("bucket 31 of 32, shared by all offsets from 91 on.")
    assert widget._sentence(5, True) == (
        "Past only, farthest 128. Offset 5: bucket 0 of 32, shared by all offsets from 0 on."
    )
    assert widget.shared(-300) == (-math.inf, -91)


@pytest.mark.syllabus("IITD-21")
def test_one_of_t5s_32_buckets_is_never_used():
    used = {BucketExplorer().bucket(offset) for offset in range(-300, 301)}
    assert set(range(32)) - used == {16}  # distance 0 of the future, which is no future


def test_markup_is_light():
    assert len(gzip.compress(BucketExplorer(caption="Look.").html().encode())) < 6_000


def test_live_control_takes_any_sizes():
    offset, causal, n_buckets, max_distance, image, words, caption = BucketExplorer(caption="Look.").live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG") and words.value == BucketExplorer().text()
    offset.value = 300
    assert words.value == BucketExplorer()._sentence(300, False)
    causal.value = True
    assert words.value == BucketExplorer()._sentence(300, True)
    n_buckets.value, max_distance.value = 8, 50
    assert words.value == BucketExplorer(8, 50)._sentence(300, True)
    assert bytes(image.value) != before
    max_distance.value = 3
    assert words.value == "max_distance=3; for the past only it must be above 4"
    causal.value, max_distance.value = False, 2
    assert words.value == "max_distance=2; it must be a whole number from 3 to 256"
    assert "Look." in caption.value
    assert not plt.get_fignums()


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
