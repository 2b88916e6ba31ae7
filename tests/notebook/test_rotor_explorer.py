"""The rotor explorer as an object: its numbers, its words, and its form with a kernel."""

import gzip
import math

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.layers.positions.rotary import InterleavedRotary
from llm_anatomy.notebook import RotorExplorer


@pytest.mark.syllabus("IITD-26", "IITD-27", "CMU-29")
@pytest.mark.parametrize("d_head, base", [(2, 10000.0), (8, 10000.0), (16, 50.0)])
@pytest.mark.parametrize("alike", [False, True])
def test_numbers_are_those_of_the_packages_scheme(d_head, base, alike):
    widget = RotorExplorer(d_head, base)
    query, key = (torch.tensor(x, dtype=torch.float64).view(1, 1, 1, -1) for x in widget.vectors(alike))
    rotary = InterleavedRotary(d_head, base)
    for m, n in ((0, 0), (2, 5), (100, 3)):
        turned = [rotary.rotate(x, torch.tensor([[p]])).view(-1, 2) for x, p in ((query, m), (key, n))]
        planes, product = widget.rotate(m, n, alike)
        shares = (turned[0] * turned[1]).sum(-1)
        assert [share for *_, share in planes] == pytest.approx(shares.tolist(), abs=1e-5)  # its angles are float32
        assert product == pytest.approx(shares.sum().item(), abs=1e-5)
        for (q, k, angle, share), a, b in zip(planes, *turned, strict=True):
            assert q == pytest.approx(a.tolist(), abs=1e-5) and k == pytest.approx(b.tolist(), abs=1e-5)
            assert math.hypot(*q) * math.hypot(*k) * math.cos(angle) == pytest.approx(share, abs=1e-9)


@pytest.mark.syllabus("CMU-29", "GT-34")
def test_moving_both_turns_the_arrows_and_keeps_angles_and_product():
    widget = RotorExplorer()
    (here, product), (there, moved) = widget.rotate(2, 5, False), widget.rotate(62, 65, False)
    assert moved == pytest.approx(product)
    for (q, _, angle, share), (other, _, same_angle, same_share) in zip(here, there, strict=True):
        assert (same_angle, same_share) == pytest.approx((angle, share))
        assert other != pytest.approx(q, abs=1e-3)


def test_words_are_rounded_and_complete():
    assert repr(RotorExplorer()) == (
        "Query at position 2, key at 5, offset 3, q and k alike. The planes are 171.9°, 17.2°, 1.7°, 0.2° apart and "
        "give −0.99, 0.96, 1.00, 1.00: the product is 1.96, the score 0.69."
    )


def test_markup_is_light():
    assert len(gzip.compress(RotorExplorer(caption="Look.").html().encode())) < 6_000


def test_live_control_takes_any_base():
    m, n, alike, d_head, base, image, words, caption = RotorExplorer(caption="Look.").live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG")
    m.value, n.value, alike.value, d_head.value, base.value = 9, 1, False, 10, 500.0
    assert words.value == RotorExplorer(10, 500)._sentence(9, 1, False)
    assert bytes(image.value) != before
    d_head.value = 2  # one dial
    assert "The planes are" in words.value
    base.value = 1.0
    assert words.value == "base=1.0; it must be above 1, so that the planes differ in frequency"
    assert "Look." in caption.value
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"d_head": 7}, "d_head=7; it must be an even number from 2 to 16"),
        ({"d_head": 18}, "d_head=18; it must be an even number from 2 to 16"),
        ({"base": 1}, "base=1; it must be above 1"),
        ({"base": float("inf")}, "base=inf; it must be a finite number"),
        ({"query_position": 101}, "query_position=101; it must be a whole number from 0 to 100"),
        ({"key_position": -1}, "key_position=-1; it must be a whole number from 0 to 100"),
        ({"key_position": 2.5}, "key_position=2.5; it must be a whole number from 0 to 100"),
    ],
)
def test_rotor_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        RotorExplorer(**changes)
