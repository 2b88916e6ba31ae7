"""The slopes explorer: its slopes, its words, and what it refuses."""

import pytest

from llm_anatomy.layers.positions.relative import alibi_slopes
from llm_anatomy.notebook import SlopesExplorer


def slopes(widget, n_heads):
    widget.n_heads, found = n_heads, []
    for widget.head in range(1, n_heads + 1):
        found.append(widget.outputs()["slope"])
    return found


@pytest.mark.syllabus("GT-31")
def test_slopes_are_the_packages():
    widget = SlopesExplorer()
    for n_heads in (1, 2, 3, 6, 7, 8, 12, 65, 100, 127, 128):
        assert slopes(widget, n_heads) == pytest.approx(alibi_slopes(n_heads).tolist())


def test_the_papers_eight_heads_halve_each_time_and_twelve_take_every_second_of_sixteen():
    assert slopes(SlopesExplorer(), 8) == [2.0**-h for h in range(1, 9)]
    assert slopes(SlopesExplorer(), 12) == pytest.approx([2.0 ** (-h / 2) for h in (*range(2, 17, 2), 1, 3, 5, 7)])


def test_words_are_rounded_and_complete():
    widget = SlopesExplorer()
    assert repr(widget) == (
        "8 heads, head 4: slope 0.0625, bias −1 after 16.0 tokens, weight halved after 11.1. "
        "8 is a power of two: each slope is 0.5000 times the previous one."
    )
    widget.n_heads, widget.head = 12, 9
    assert repr(widget) == (
        "12 heads, head 9: slope 0.7071, bias −1 after 1.4 tokens, weight halved after 1.0. "
        "12 is not a power of two: first come the slopes of 8 heads, then every second slope of 16."
    )
    widget.n_heads = 1  # the ninth head is no more
    assert repr(widget) == (
        "1 head, head 1: slope 0.0039, bias −1 after 256.0 tokens, weight halved after 177.4. "
        "One head has the flattest slope, 1/256."
    )


@pytest.mark.parametrize("n_heads", [0, 129, 2.0, False])
def test_slopes_explorer_refuses(n_heads):
    with pytest.raises(ValueError, match=f"n_heads={n_heads}; it must be a whole number from 1 to 128"):
        SlopesExplorer(n_heads)
