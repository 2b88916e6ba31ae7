"""The rotor explorer: its numbers are those of the package's scheme, and moving both keeps them."""

import pytest
import torch

from llm_anatomy.layers.positions.rotary import InterleavedRotary
from llm_anatomy.notebook import RotorExplorer


@pytest.mark.syllabus("IITD-26", "IITD-27", "CMU-29")
@pytest.mark.parametrize("d_head, base, kind", [(2, 10000.0, "alike"), (8, 10000.0, "unlike"), (16, 50.0, "unlike")])
def test_numbers_are_those_of_the_packages_scheme(d_head, base, kind):
    widget, rotary = RotorExplorer(d_head, base, 40, 3), InterleavedRotary(d_head, base)
    widget.vectors, turned = kind, {}
    shown = widget.outputs()
    for name, position in (("q", 40), ("k", 3)):
        start = torch.tensor([shown[f"{name}0_x"], shown[f"{name}0_y"]]).T.reshape(1, 1, 1, -1)
        turned[name] = rotary.rotate(start, torch.tensor([[position]])).view(-1, 2)
        assert [shown[f"{name}_x"], shown[f"{name}_y"]] == [pytest.approx(x.tolist(), abs=1e-5) for x in turned[name].T]
    assert shown["product"] == pytest.approx((turned["q"] * turned["k"]).sum().item(), abs=1e-5)
    lengths = turned["q"].norm(dim=-1) * turned["k"].norm(dim=-1)
    shares = lengths * torch.tensor(shown["apart"]).deg2rad().cos()
    assert shown["shares"] == pytest.approx(shares.tolist(), abs=1e-5)


@pytest.mark.syllabus("CMU-29", "GT-34")
def test_moving_both_turns_the_arrows_and_keeps_angles_and_product():
    widget = RotorExplorer()
    widget.vectors = "unlike"
    here, widget.both = widget.outputs(), 60
    there = widget.outputs()
    assert (there["query_at"], there["key_at"]) == (62, 65)
    for name in ("apart", "shares", "product"):
        assert there[name] == pytest.approx(here[name], abs=1e-3)
    assert there["q_x"] != pytest.approx(here["q_x"], abs=1e-2)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"d_head": 7}, "d_head=7; it must be an even number from 2 to 16"),
        ({"base": 1}, "base=1; it must be above 1"),
        ({"base": float("inf")}, "base=inf; it must be a finite number"),
        ({"query_position": 101}, "query_position=101; it must be a whole number from 0 to 100"),
        ({"key_position": 2.5}, "key_position=2.5; it must be a whole number from 0 to 100"),
    ],
)
def test_rotor_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        RotorExplorer(**changes)
