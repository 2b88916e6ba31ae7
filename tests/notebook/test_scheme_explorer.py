"""The scheme explorer as an object: its numbers, its words, and its form with a kernel."""

import gzip
import math

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.data import table
from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.layers.positions.buckets import T5CausalBuckets
from llm_anatomy.layers.positions.rotary import HalfSplitRotary
from llm_anatomy.notebook import SchemeExplorer
from llm_anatomy.notebook.widgets.scheme_explorer import CLIPPED, SCHEMES


def scores(scheme, part=0, n=7):
    return torch.tensor(SchemeExplorer(n).scores(scheme, part), dtype=torch.float64)


def offsets(n=7):
    positions = torch.arange(n)
    return positions - positions[:, None]  # key − query


def test_without_a_scheme_nothing_is_added():
    assert scores("none").eq(0).all()


@pytest.mark.syllabus("IITD-16")
def test_sinusoids_are_compared_by_scaled_dot_products():
    encoding = Sinusoidal(64).encoding(torch.arange(7), torch.float64)
    assert torch.allclose(scores("sinusoidal"), encoding @ encoding.T / 8)
    assert scores("sinusoidal")[3, 3] == pytest.approx(4)  # 32 pairs, each of length one, over the root of 64


@pytest.mark.syllabus("CMU-26", "GT-30")
@pytest.mark.parametrize("part", [0, 1])
def test_clipped_bias_is_toeplitz_and_constant_beyond_three(part):
    wanted = torch.tensor(CLIPPED[part], dtype=torch.float64)[offsets().clamp(-3, 3) + 3]
    assert torch.equal(scores("clipped bias", part), wanted)


@pytest.mark.syllabus("IITD-21")
def test_t5_has_the_trained_numbers_one_for_a_bucket_and_the_future_that_of_offset_0():
    rows, found = table("t5_biases"), scores("T5", 3, 24)
    trained = {row["distance"]: row["bias"] for row in rows if row["head"] == 3}
    buckets = T5CausalBuckets(16, 32)(offsets(24))
    for query, key in ((20, 20), (20, 3), (5, 0), (3, 20)):
        assert found[query, key] == pytest.approx(trained[max(query - key, 0)], abs=0.0051)
    for bucket in buckets.unique():  # the small model's
        assert found[buckets == bucket].unique().numel() == 1


def test_alibi_and_rope_are_the_closed_forms():
    assert torch.equal(scores("ALiBi", 1), -offsets().abs().double() / 16)
    planes = [torch.cos(offsets().double() * 10000 ** (-c / 4)) * 2 / math.sqrt(8) for c in range(4)]
    for plane, wanted in enumerate(planes, 1):
        assert torch.allclose(scores("RoPE", plane), wanted, atol=1e-6)
    assert torch.allclose(scores("RoPE"), sum(planes), atol=1e-6)
    ones = torch.ones(1, 1, 7, 8, dtype=torch.float64)
    turned = HalfSplitRotary(8).rotate(ones, torch.arange(7)[None])[0, 0]  # the other pairing gives the same
    assert torch.allclose(scores("RoPE"), turned @ turned.T / math.sqrt(8), atol=1e-6)


def test_learned_positions_are_the_tables_cosines():
    assert scores("learned").diag().eq(1).all()
    assert scores("learned")[2, 5] == pytest.approx(table("learned_positions")[2]["5"], abs=0.0051)


def test_words_are_rounded_and_complete():
    assert repr(SchemeExplorer(4, scheme="clipped bias")) == (
        "clipped bias, head 1, query 2, without the mask, scores: "
        "0.50 at key 0, 2.00 at key 1, 1.00 at key 2, 0.00 at key 3."
    )
    widget = SchemeExplorer(4, scheme="none")
    assert widget._sentence("none", 0, 1, True, False).endswith(
        "0.00 at key 0, 0.00 at key 1, −∞ at key 2, −∞ at key 3."
    )
    assert widget._sentence("none", 0, 1, True, True) == (
        "none, query 1, with the mask, weights: 0.50 at key 0, 0.50 at key 1, 0.00 at key 2, 0.00 at key 3."
    )


def test_markup_is_light_and_stays_the_same():
    page = SchemeExplorer(24, caption="Look.").html()
    assert len(gzip.compress(page.encode())) < 8_000
    assert page == SchemeExplorer(24, caption="Look.").html()


def test_live_control_goes_through_schemes_and_heads():
    widget = SchemeExplorer(6, caption="Look.")
    scheme, part, query, masked, soft, image, words, caption = widget.live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG") and words.value == widget.text()
    part.value = 3
    assert words.value == widget._sentence("ALiBi", 3, 4, False, False)
    scheme.value = "clipped bias"  # has only two heads
    assert [name for name, _ in part.options] == ["1", "2"]
    assert words.value == widget._sentence("clipped bias", 0, 4, False, False)
    masked.value, soft.value, query.value = True, True, 0
    assert words.value == widget._sentence("clipped bias", 0, 0, True, True)
    assert bytes(image.value) != before
    for name in SCHEMES:
        scheme.value = name
        assert words.value == widget._sentence(name, 0, 0, True, True)
    assert "Look." in caption.value
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"n_positions": 1}, "n_positions=1; it must be a whole number from 2 to 24"),
        ({"n_positions": 2.5}, "n_positions=2.5; it must be a whole number from 2 to 24"),
        ({"n_positions": True}, "n_positions=True; it must be a whole number from 2 to 24"),
        (
            {"scheme": "alibi"},
            "scheme='alibi'; it must be one of none, sinusoidal, learned, clipped bias, T5, ALiBi, RoPE",
        ),
    ],
)
def test_scheme_explorer_refuses(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        SchemeExplorer(**given)
