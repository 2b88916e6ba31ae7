"""The decay explorer as an object: its numbers, its words, and its form with a kernel."""

import gzip
import json

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.layers.positions.rotary import Frequencies, InterleavedRotary, decay_bound
from llm_anatomy.notebook import DecayExplorer
from llm_anatomy.notebook.widgets.decay_explorer import AIM, FARTHEST, KINDS

ALL_KINDS = range(len(KINDS))


@pytest.mark.syllabus("IITD-29")
@pytest.mark.parametrize("width, base", [(4, 10000.0), (22, 100.0), (128, 500000.0)])
def test_numbers_are_those_of_the_packages_scheme(width, base):
    widget, distances = DecayExplorer(), torch.arange(FARTHEST + 1)
    for kind in ALL_KINDS:
        curve, _, products = widget.measure(width, base, kind)
        expected = decay_bound(Frequencies()(width, base).double(), distances)  # frequencies in float32
        assert curve == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-3)
        query, key = (x.view(1, 1, 1, -1) for x in widget.vectors(width, base, kind))
        turned = InterleavedRotary(width, base).rotate(query.expand(1, 1, len(distances), -1), distances[None])
        assert products == pytest.approx((turned @ key.mT).flatten().tolist(), abs=2e-3)


@pytest.mark.syllabus("IITD-29")
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_bound_bounds(kind):
    for width in (4, 64, 256):
        _, bound, products = DecayExplorer().measure(width, 10000.0, kind)
        assert all(abs(product) <= most + 1e-9 for product, most in zip(products, bound, strict=True))


@pytest.mark.syllabus("IITD-29", "GT-36")
def test_the_numbers_of_the_lectures():
    curve, bound, products = DecayExplorer().measure(128, 10000.0, 0)
    assert [round(curve[r], 2) for r in (0, 1, 2, 5, 10, 20, 50, 100, 200, 250)] == [
        32.50, 31.54, 28.96, 20.85, 17.95, 15.24, 12.63, 10.23, 7.24, 6.55
    ]  # fmt: skip
    assert [round(products[r], 2) for r in (0, 200, 250)] == [128, 39.13, 39.30]
    assert round(bound[200]) == 927


@pytest.mark.syllabus("CMU-28")
def test_a_query_turned_back_meets_its_key_far_away():
    products = DecayExplorer().measure(64, 10000.0, KINDS.index("aimed 40 back"))[2]
    assert max(products) == products[AIM] == pytest.approx(64)


def test_words_are_rounded_and_complete():
    assert repr(DecayExplorer()) == (
        "A head 128 wide, base 10000, q = k = 1, distance 100: the paper's curve is 10.23, its bound 1309.10, the "
        "product 61.09. The curve first rises at distance 19, the product first rises at distance 12."
    )


def test_markup_and_data_are_light_and_the_same_everywhere():
    widget = DecayExplorer(caption="Look.")
    assert len(gzip.compress(widget.html().encode())) < 10_000
    data = json.dumps(widget.data())
    assert len(data) < 20_000
    for pair in widget.data()["drawn"]:
        for part in pair:
            assert all(number == round(number, 4) for number in part)  # exact: products of two decimals each


def test_live_control_takes_any_width_and_base():
    distance, kind, width, base, image, words, caption = DecayExplorer(caption="Look.").live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG")
    distance.value, kind.value, width.value, base.value = 12, 3, 30, 77.5
    assert words.value.startswith("A head 30 wide, base 77.5, random B, distance 12: ")
    assert bytes(image.value) != before
    width.value = 31
    assert words.value == "d_head=31; it must be an even number from 4 to 256"
    assert "Look." in caption.value
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"d_head": 2}, "d_head=2; it must be an even number from 4 to 256"),
        ({"d_head": 9}, "d_head=9; it must be an even number from 4 to 256"),
        ({"base": 0.5}, "base=0.5; it must be above 1"),
        ({"base": "much"}, "base='much'; it must be a finite number"),
    ],
)
def test_decay_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        DecayExplorer(**changes)
