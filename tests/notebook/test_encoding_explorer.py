"""The encoding explorer as an object: its numbers, its words, and its form with a kernel."""

import gzip

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.notebook import EncodingExplorer


@pytest.mark.syllabus("IITD-10", "IITD-14")
@pytest.mark.parametrize("width", [2, 6, 128, 512])
def test_numbers_are_those_of_two_rows_wherever_they_stand(width):
    widget, rows = EncodingExplorer(50, width), Sinusoidal(width).encoding(torch.arange(50), torch.float64)
    assert widget.dot_products(width) == pytest.approx((rows[0] @ rows.T).tolist(), abs=1e-9)
    for first, second in ((0, 0), (3, 12), (40, 31), (49, 0)):
        product = widget.dot_products(width)[abs(first - second)]
        assert product == pytest.approx((rows[first] @ rows[second]).item(), abs=1e-9)
        squares = sum(apart**2 for apart in widget.differences(first, second, width))
        assert product == pytest.approx((width - squares) / 2, abs=1e-9)  # |a - b|² = |a|² + |b|² - 2 a·b


@pytest.mark.syllabus("GT-28", "IITD-14", "IITD-10")
def test_the_numbers_of_the_lectures():
    widget = EncodingExplorer(101, 512)
    assert [round(widget.dot_products(512)[k], 1) for k in (0, 1, 2, 3, 10, 100)] == [
        256,
        249.1,
        231.7,
        211.7,
        173.8,
        112,
    ]
    assert "first rises again at distance 44" in widget.text()
    assert widget.differences(7, 8, 512)[-1] <= 1.04e-4


def test_words_are_rounded_and_complete():
    assert repr(EncodingExplorer()) == (
        "Positions 4 and 9, 128 wide: distance 5, dot product 47.19 of at most 64. The fastest pair differs by 1.1969, "
        "the slowest by 0.000577. The dot product first rises again at distance 12."
    )
    assert repr(EncodingExplorer(4, 4, 1, 1)).endswith("0.000000. The dot product falls at each step up to 3.")


def test_markup_is_light():
    assert len(gzip.compress(EncodingExplorer(caption="Look.").html().encode())) < 7_000


def test_live_control_takes_any_width():
    first, second, width, image, words, caption = EncodingExplorer(caption="Look.").live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG")
    first.value, second.value, width.value = 30, 2, 20
    assert words.value == EncodingExplorer(50, 20, 30, 2).text()
    assert bytes(image.value) != before
    width.value = 21
    assert words.value == "d_model=21; it must be an even number from 2 to 512"
    assert "Look." in caption.value
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"n_positions": 1}, "n_positions=1; it must be a whole number from 2 to 200"),
        ({"n_positions": 50.0}, "n_positions=50.0; it must be a whole number from 2 to 200"),
        ({"d_model": 5}, "d_model=5; it must be an even number from 2 to 512"),
        ({"d_model": 514}, "d_model=514; it must be an even number from 2 to 512"),
        ({"first": -1}, "first=-1; it must be a whole number from 0 to 49"),
        ({"second": 50}, "second=50; it must be a whole number from 0 to 49"),
        ({"second": True}, "second=True; it must be a whole number from 0 to 49"),
    ],
)
def test_encoding_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        EncodingExplorer(**changes)
