"""The decay explorer: its numbers, its bound, and the claim of its caption at all settings."""

import itertools

import pytest
import torch

from llm_anatomy.layers.positions.rotary import Frequencies, decay_bound, rotate_complex
from llm_anatomy.notebook import DecayExplorer


@pytest.mark.syllabus("IITD-29", "GT-36", "CMU-28")
def test_at_all_settings_the_bound_bounds_and_only_equal_vectors_peak_at_once():
    widget = DecayExplorer()
    options = (widget.controls[name].options for name in ("d_head", "base", "vectors"))
    for widget.d_head, widget.base, widget.vectors in itertools.product(*options):
        shown = widget.outputs()
        curve = decay_bound(Frequencies()(widget.d_head, float(widget.base)).double(), torch.arange(257))
        assert shown["curves"] == pytest.approx(curve.tolist(), rel=1e-3)
        bounds = [value * shown["bound"] / shown["curve"] for value in shown["curves"]]
        assert all(abs(product) <= 1.0001 * bound for product, bound in zip(shown["products"], bounds, strict=True))
        if widget.vectors.startswith("random pair"):
            assert shown["peak"] not in (0, 40)
        else:
            assert shown["peak"] == (40 if widget.vectors.startswith("aimed") else 0)


@pytest.mark.parametrize("d_head", [4, 6, 22, 90, 256])
@pytest.mark.parametrize("base", [1.0001, 3.5, 10000.0, 1e9])
def test_the_hint_holds_at_all_widths_and_bases(d_head, base):
    """Equal vectors peak at distance 0, the aimed query at 40."""
    widget = DecayExplorer(d_head, base)
    for kind, peak in {"ones": 0, "random, equal": 0, "aimed 40 back": 40}.items():
        widget.vectors = kind
        assert widget.outputs()["peak"] == peak


@pytest.mark.syllabus("IITD-29", "GT-36")
def test_the_numbers_of_the_lectures():
    widget = DecayExplorer()
    widget.distance = 200
    shown = widget.outputs()
    assert [round(shown["curves"][r], 2) for r in (0, 1, 2, 5, 10, 20, 50, 100, 200, 250)] == [
        32.50, 31.54, 28.96, 20.85, 17.95, 15.24, 12.63, 10.23, 7.24, 6.55
    ]  # fmt: skip
    assert [round(shown["products"][r], 2) for r in (0, 200, 250)] == [128, 39.13, 39.30]
    assert round(shown["bound"]) == 927


def test_products_are_those_of_rotated_vectors():
    widget = DecayExplorer(22, 77.5)
    widget.vectors = "random pair B"
    query, key, theta = widget.drawn[2, :22], widget.drawn[5, :22], Frequencies()(22, 77.5)
    far = rotate_complex(torch.stack((query, key)), torch.tensor([[300.0], [50.0]]) * theta)
    assert widget.outputs()["products"][250] == pytest.approx((far[0] @ far[1]).item(), abs=1e-3)


def test_words_where_the_curve_never_rises():
    assert "The curve never rises, the product first rises at distance 4." in repr(DecayExplorer(4, 1.0001))


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"d_head": 9}, "d_head=9; it must be an even number from 4 to 256"),
        ({"base": 0.5}, "base=0.5; it must be above 1"),
        ({"base": "much"}, "base='much'; it must be a finite number"),
    ],
)
def test_decay_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        DecayExplorer(**changes)
