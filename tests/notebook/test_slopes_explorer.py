"""The slopes explorer as an object: its numbers, its words, and its form with a kernel."""

import gzip

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.layers.positions.relative import ALiBi
from llm_anatomy.notebook import SlopesExplorer


@pytest.mark.parametrize("n_heads", [1, 6, 8, 12, 100, 128])
def test_slopes_are_those_of_the_schemes_bias(n_heads):
    x, positions = torch.zeros(1, n_heads, 2, 2, dtype=torch.float64), torch.tensor([[0, 1]])
    bias = ALiBi(n_heads).bias(x, x, PositionContext(positions))[0, :, 1, 0]
    assert SlopesExplorer(n_heads).slopes() == pytest.approx((-bias).tolist())


def test_the_paper_s_eight_heads_halve_each_time():
    assert SlopesExplorer().slopes() == [2.0**-h for h in range(1, 9)]


def test_heads_beyond_a_power_of_two_come_from_the_next():
    twelve, sixteen = SlopesExplorer(12).slopes(), SlopesExplorer(16).slopes()
    assert twelve[:8] == pytest.approx(SlopesExplorer(8).slopes())
    assert twelve[8:] == pytest.approx(sixteen[::2][:4])


def test_words_are_rounded_and_complete():
    assert repr(SlopesExplorer()) == (
        "8 heads, head 4: slope 0.0625, bias −1 after 16.0 tokens, weight halved after 11.1. "
        "8 is a power of two: each slope is the one before times 0.5000."
    )
    assert SlopesExplorer(12)._sentence(9) == (
        "12 heads, head 9: slope 0.7071, bias −1 after 1.4 tokens, weight halved after 1.0. "
        "12 is no power of two: the first 8 heads have the slopes of 8 heads, the other 4 every second one of 16."
    )
    assert SlopesExplorer(1).text().startswith("1 head, head 1: slope 0.0039, bias −1 after 256.0 tokens")


def test_markup_is_light():
    assert len(gzip.compress(SlopesExplorer(caption="Look.").html().encode())) < 5_500


def test_live_control_takes_any_number_of_heads():
    n_heads, head, image, words, caption = SlopesExplorer(caption="Look.").live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG") and words.value == SlopesExplorer().text()
    n_heads.value = 12
    head.value = 12
    assert words.value == SlopesExplorer(12)._sentence(12)
    assert bytes(image.value) != before
    n_heads.value = 5
    assert words.value == "head=12; it must be at most 5"
    assert "Look." in caption.value
    assert not plt.get_fignums()


@pytest.mark.parametrize("n_heads", [0, 129, 2.0, False])
def test_slopes_explorer_refuses(n_heads):
    with pytest.raises(ValueError, match=f"n_heads={n_heads}; it must be a whole number from 1 to 128"):
        SlopesExplorer(n_heads)
