"""The heads explorer as an object: positions, words, and its form with a kernel."""

import gzip

import matplotlib.pyplot as plt
import pytest
import torch
from einops import rearrange

from llm_anatomy.notebook import HeadsExplorer


@pytest.mark.syllabus("UCL-21", "CMU-09")
def test_positions_are_those_of_einops_and_torch():
    x = torch.randn(4, 6)
    split, plain = rearrange(x, "t (h d) -> h t d", h=2), torch.reshape(x, (2, 4, 3))
    widget = HeadsExplorer(4, 2, 3)
    for token in range(4):
        for column in range(6):
            assert split[widget.index(token, column)] == x[token, column]
            assert plain[widget.index(token, column, plain=True)] == x[token, column]
            assert widget.index(token, column) == (column // 3, token, column % 3)


def test_words_give_both_addresses():
    assert repr(HeadsExplorer()) == (
        "5 tokens, 3 heads of width 2: x[1, 1·2 + 1] ↔ heads[1, 1, 1]. "
        "The same number, in head 1, and still in the row of token 1."
    )


def test_smallest_sizes_have_words_too():
    assert "x[0, 0·1 + 0] ↔ heads[0, 0, 0]" in HeadsExplorer(1, 1, 1).text()


def test_markup_is_light():
    assert len(gzip.compress(HeadsExplorer(12, 4, 6, caption="Look.").html().encode())) < 5_400


def test_live_control_takes_other_sizes():
    n_tokens, n_heads, d_head, token, column, plain, image, words = HeadsExplorer().live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG")
    n_tokens.value, n_heads.value, d_head.value, column.value = 7, 4, 6, 13
    assert "x[1, 2·6 + 1] ↔ heads[2, 1, 1]" in words.value
    assert bytes(image.value) != before
    plain.value = True
    assert words.value.endswith("It belongs to head 2, row 1. Of 168 numbers, 144 stand elsewhere.")
    column.value = 23
    n_heads.value = 2
    assert words.value == "column=23; it must be below 12"
    n_heads.value = 5
    assert words.value == "n_heads=5 of d_head=6 are 30 columns; more than 24 cannot be shown"
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "sizes, sentence",
    [
        ((0, 3, 2), "n_tokens=0; it must be a whole number from 1 to 12"),
        ((5, 1.5, 2), "n_heads=1.5; it must be a whole number from 1 to 24"),
        ((5, 3, True), "d_head=True; it must be a whole number from 1 to 24"),
        ((13, 3, 2), "n_tokens=13; it must be a whole number from 1 to 12"),
        ((5, 5, 5), "n_heads=5 of d_head=5 are 25 columns; more than 24 cannot be shown"),
    ],
)
def test_heads_explorer_refuses(sizes, sentence):
    with pytest.raises(ValueError, match=sentence):
        HeadsExplorer(*sizes)
