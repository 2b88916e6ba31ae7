"""The encoding explorer: the lectures' numbers, what depends on the distance alone, and what is refused."""

import pytest

from llm_anatomy.notebook import EncodingExplorer


@pytest.mark.syllabus("GT-28", "IITD-14", "IITD-10")
def test_the_numbers_of_the_lectures():
    shown = EncodingExplorer(101, 512, 7, 8).outputs()
    products = [round(shown["products"][k], 1) for k in (0, 1, 2, 3, 10, 100)]
    assert products == [256, 249.1, 231.7, 211.7, 173.8, 112]
    assert shown["rise"] == 44
    assert shown["slowest"] <= 1.04e-4


@pytest.mark.syllabus("IITD-10", "IITD-14")
@pytest.mark.parametrize("width", [4, 32])
def test_a_position_moves_both_and_keeps_what_belongs_to_the_distance(width):
    widget = EncodingExplorer(50, width, 3, 12)
    before = widget.outputs()
    widget.position = 41
    after = widget.outputs()
    assert after["both"] == [32, 41]
    for name in ("product", "differences"):
        assert after[name] == pytest.approx(before[name], abs=1e-4)
    rows = [[row[i] for row in after["drawn"]] for i in range(width)]
    assert after["product"] == pytest.approx(sum(row[32] * row[41] for row in rows), abs=1e-4)
    squares = sum(apart**2 for apart in after["differences"])
    assert after["product"] == pytest.approx((width - squares) / 2, abs=1e-4)  # |a - b|² = |a|² + |b|² - 2 a·b


def test_a_wide_encoding_is_drawn_in_64_columns():
    shown = EncodingExplorer(20, 512).outputs()
    assert (shown["pairs"], len(shown["drawn"][0]), len(shown["differences"])) == (8, 64, 32)


def test_words_where_the_dot_product_never_rises():
    assert repr(EncodingExplorer(4, 4, 1, 1)).endswith("0.000000. The dot product falls at each step up to 3.")


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"n_positions": 50.0}, "n_positions=50.0; it must be a whole number from 2 to 200"),
        ({"d_model": 5}, "d_model=5; it must be an even number from 2 to 512"),
        ({"first": -1}, "first=-1; it must be a whole number from 0 to 49"),
        ({"second": 50}, "second=50; it must be a whole number from 0 to 49"),
    ],
)
def test_encoding_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        EncodingExplorer(**changes)
