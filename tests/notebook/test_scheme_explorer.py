"""The scheme explorer: its matrices, its words, and what it refuses."""

import math

import pytest
import torch

from llm_anatomy.data import table
from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.layers.positions.buckets import T5CausalBuckets
from llm_anatomy.layers.positions.metrics import translation_variance
from llm_anatomy.notebook import SchemeExplorer
from llm_anatomy.notebook.widgets.scheme_explorer import CLIPPED, SCHEMES


def scores(scheme, part=1, n=7):
    widget = SchemeExplorer(n, scheme=scheme)
    widget.part = str(part)
    return torch.tensor(widget.outputs()["scores"])


def offsets(n=7):
    positions = torch.arange(n)
    return positions - positions[:, None]  # key − query


@pytest.mark.syllabus("IITD-16")
def test_absolute_schemes_show_products_of_their_vectors():
    encoding = Sinusoidal(64).encoding(torch.arange(7))
    assert torch.allclose(scores("sinusoidal"), encoding @ encoding.T / 8, atol=1e-4)
    assert scores("learned").diag().eq(1).all() and scores("none").eq(0).all()
    assert scores("learned")[2, 5] == pytest.approx(table("learned_positions")[2]["5"])


@pytest.mark.syllabus("CMU-26", "GT-30")
@pytest.mark.parametrize("part", [1, 2, 3, 4])
def test_clipped_bias_is_toeplitz_and_constant_beyond_three(part):
    assert torch.equal(scores("clipped bias", part), torch.tensor(CLIPPED)[part - 1][offsets().clamp(-3, 3) + 3])


@pytest.mark.syllabus("IITD-21")
def test_t5_has_the_trained_numbers_one_for_a_bucket_and_the_future_that_of_offset_0():
    found = scores("T5", 4, 24)
    trained = {row["distance"]: row["bias"] for row in table("t5_biases") if row["head"] == 3}
    for query, key in ((20, 20), (20, 3), (5, 0), (3, 20)):
        assert found[query, key] == pytest.approx(trained[max(query - key, 0)])
    buckets = T5CausalBuckets(16, 32)(offsets(24))  # the small model's
    for bucket in buckets.unique():
        assert found[buckets == bucket].unique().numel() == 1


def test_alibi_and_rope_are_the_closed_forms():
    assert torch.allclose(scores("ALiBi", 2), -offsets().abs() / 16, atol=1e-4)
    planes = [torch.cos(offsets() * 10000 ** (-c / 4)) * 2 / math.sqrt(8) for c in range(4)]
    for plane, wanted in enumerate(planes, 1):
        assert torch.allclose(scores("RoPE by plane", plane), wanted, atol=1e-4)
    assert torch.allclose(scores("RoPE"), sum(planes), atol=1e-4)


@pytest.mark.syllabus("IITD-19", "IITD-20", "IITD-22", "IITD-23")
def test_schemes_that_are_relative_depend_on_the_offset_alone():
    moving = {name for name in SCHEMES if translation_variance(scores(name, 3)) > 1e-3}
    assert moving == {"learned", "TUPE"}
    assert scores("Shaw")[0, 3:].unique().numel() == 1 < scores("Shaw")[0].unique().numel()  # clipped at three
    for name in ("Shaw", "Transformer-XL", "TUPE", "DeBERTa"):
        assert not torch.equal(scores(name, 1), scores(name, 2))


def test_what_is_made_up_is_the_same_each_time_and_leaves_the_random_numbers_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    first = SchemeExplorer(5).matrices
    assert torch.equal(torch.rand(3), wanted)
    assert torch.equal(SchemeExplorer(5).matrices, first)  # from another state of the random numbers


def test_words_are_rounded_and_complete():
    assert repr(SchemeExplorer(4, scheme="clipped bias")) == (
        "clipped bias, head 1, query 2, without the mask, scores: "
        "0.50 at key 0, 2.00 at key 1, 1.00 at key 2, 0.00 at key 3."
    )
    widget = SchemeExplorer(4, scheme="none")
    widget.query, widget.masked = 1, True
    assert repr(widget).endswith("0.00 at key 0, 0.00 at key 1, −∞ at key 2, −∞ at key 3.")
    widget.soft = True
    assert repr(widget) == (
        "none, query 1, with the mask, weights: 0.50 at key 0, 0.50 at key 1, 0.00 at key 2, 0.00 at key 3."
    )


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"n_positions": 1}, "n_positions=1; it must be a whole number from 2 to 24"),
        ({"n_positions": 2.5}, "n_positions=2.5; it must be a whole number from 2 to 24"),
        ({"n_positions": True}, "n_positions=True; it must be a whole number from 2 to 24"),
        (
            {"scheme": "alibi"},
            "scheme='alibi'; it must be one of none, sinusoidal, learned, clipped bias, T5, ALiBi, Shaw",
        ),
    ],
)
def test_scheme_explorer_refuses(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        SchemeExplorer(**given)
