"""The head sharing: its groups against the package's attention, the sizes of caches, its words, and what it refuses."""

import math

import pytest
import torch
import traitlets

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.head_sharing import share_heads
from llm_anatomy.notebook import HeadSharing

SIZES = [(n, g) for n in (2, 6, 8, 12, 16) for g in range(1, n + 1) if n % g == 0]


@pytest.mark.syllabus("CMU-11", "CMU-12")
@pytest.mark.parametrize("n_heads, n_kv_heads", SIZES)
def test_each_query_head_reads_the_head_of_the_formula(n_heads, n_kv_heads):
    widget = HeadSharing(n_heads, n_kv_heads)
    for widget.head in range(1, n_heads + 1):
        found = widget.outputs()
        read = math.ceil(widget.head * n_kv_heads / n_heads)
        members = [h for h in range(1, n_heads + 1) if math.ceil(h * n_kv_heads / n_heads) == read]
        assert found["shared"] == read and (found["first"], found["last"]) == (members[0], members[-1])
        assert found["group"] == len(members)
        assert [h + 1 for h, hue in enumerate(found["line_hue"]) if hue] == members
        for h, below in enumerate(found["below"], 1):
            group = math.ceil(h * n_kv_heads / n_heads)
            assert below == found["kv_x"][group - 1]
        middle = sum(members) / len(members)
        assert found["below"][widget.head - 1] == middle
        drawn = [g + 1 for g, x in enumerate(found["kv_x"]) if x == x]
        assert drawn == list(range(1, n_kv_heads + 1))


@pytest.mark.syllabus("CMU-11", "CMU-12")
@pytest.mark.parametrize("n_heads, n_kv_heads", [(4, 1), (6, 2), (6, 3), (6, 6)])
def test_the_groups_are_those_of_the_attention_of_the_package(n_heads, n_kv_heads):
    torch.manual_seed(0)
    attention, x = SelfAttention(5 * n_heads, n_heads, n_kv_heads=n_kv_heads), torch.randn(1, 7, 5 * n_heads)
    before = attention(x, return_weights=True)[1][0]
    widget = HeadSharing(n_heads, n_kv_heads)
    for changed in range(n_kv_heads):
        with torch.no_grad():
            attention.w_key.weight.view(n_kv_heads, 5, -1)[changed].mul_(-1)
        after = attention(x, return_weights=True)[1][0]
        with torch.no_grad():
            attention.w_key.weight.view(n_kv_heads, 5, -1)[changed].mul_(-1)
        for widget.head in range(1, n_heads + 1):
            moved = not torch.allclose(before[widget.head - 1], after[widget.head - 1])
            assert moved == (widget.outputs()["shared"] == changed + 1)


@pytest.mark.syllabus("CMU-11", "CMU-12", "CMU-15")
@pytest.mark.parametrize("n_heads, n_kv_heads", SIZES)
def test_cache_and_projections_shrink_as_those_of_the_package(n_heads, n_kv_heads):
    attention = SelfAttention(3 * n_heads, n_heads)
    shared = share_heads(attention, n_kv_heads)
    widget = HeadSharing(n_heads, n_kv_heads)
    found = widget.outputs()
    share = shared.new_cache(2, 9).n_bytes / attention.new_cache(2, 9).n_bytes
    assert found["percent"] == pytest.approx(100 * share)
    assert found["percent"] == pytest.approx(100 * shared.w_key.weight.numel() / attention.w_key.weight.numel())
    at = widget.data["names"].index(str(n_kv_heads))
    assert found["shares"][at] == pytest.approx(found["percent"]) and found["share_hue"].index(1) == at
    for row in found["cached"]:  # every token stays, with fewer columns
        assert [v > 0 for v in row] == [g < n_kv_heads for g in range(n_heads)]
    assert len(found["cached"]) == len(widget.data["tokens"])


@pytest.mark.syllabus("CMU-15")
def test_a_shared_head_starts_as_the_mean_of_the_heads_that_are_named():
    attention = SelfAttention(24, 8)
    shared, widget = share_heads(attention, 2), HeadSharing(8, 2)
    widget.head = 7
    found = widget.outputs()
    heads = attention.w_key.weight.view(8, 3, 24)[int(found["first"]) - 1 : int(found["last"])]
    torch.testing.assert_close(shared.w_key.weight.view(2, 3, 24)[int(found["shared"]) - 1], heads.mean(0))


def test_words_are_complete():
    widget = HeadSharing(6, 3)
    widget.head = 4
    assert repr(widget) == (
        "6 query heads and 3 key-value heads: grouped-query attention. Query head 4 reads key-value head 2, which "
        "serves query heads 3 to 4. The cache and the projections of keys and values take 50.0 % of what they take in "
        "multi-head attention."
    )
    widget.n_kv_heads = 6
    assert "6 key-value heads: multi-head attention." in repr(widget) and "serves query head 4." in repr(widget)
    widget.n_kv_heads = 1
    assert "1 key-value head: multi-query attention." in repr(widget) and "heads 1 to 6. The" in repr(widget)
    assert HeadSharing().n_kv_heads == 2 and HeadSharing(7).n_kv_heads == 1


@pytest.mark.parametrize(
    "sizes, sentence",
    [
        ((1,), "n_heads=1; it must be a whole number from 2 to 16"),
        ((32,), "n_heads=32; it must be a whole number from 2 to 16"),
        ((True,), "n_heads=True; it must be a whole number"),
        ((8, 3), "n_kv_heads=3; it must divide n_heads=8"),
        ((8, 0), "n_kv_heads=0; it must be a whole number from 1 to 8"),
        ((8, 16), "n_kv_heads=16; it must be a whole number from 1 to 8"),
    ],
)
def test_head_sharing_refuses(sizes, sentence):
    with pytest.raises(ValueError, match=sentence):
        HeadSharing(*sizes)


def test_a_number_of_heads_that_does_not_divide_is_refused():
    with pytest.raises(traitlets.TraitError, match="n_kv_heads=3; it must be one of 8, 4, 2, 1"):
        HeadSharing().n_kv_heads = 3
