"""The term mixer as an object: its sums, its words, and its form with a kernel."""

import gzip

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.notebook import TermMixer

WORDS = ["the", "dog", "ran"]
TERMS = {
    "content": torch.tensor([[1.0, 0.5, -3.0], [0.25, 2.0, 0.0], [0.5, -1.5, 1.5]]),
    "position": torch.tensor([[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]]),
}


def mixer(**changes):
    return TermMixer(**{"terms": TERMS, "words": WORDS} | changes)


@pytest.mark.syllabus("IITD-20", "IITD-23")
def test_the_sum_is_that_of_the_terms_that_are_ticked():
    widget = mixer()
    for chosen in ([], ["content"], ["position"], ["content", "position"]):
        wanted = sum((TERMS[name].double() for name in chosen), torch.zeros(3, 3, dtype=torch.float64))
        assert torch.equal(torch.tensor(widget.mix(chosen), dtype=torch.float64), wanted)
    assert widget._ends() == (-3, 2)  # what all negative terms of a pair add up to, and all positive ones


def test_terms_are_the_same_on_every_machine():
    last_digits = {name: term + 3e-7 for name, term in TERMS.items()}
    assert mixer(terms=last_digits).html() == mixer().html()


def test_words_are_rounded_and_complete():
    widget = mixer()
    assert repr(widget) == (
        "content + position, query 3, ran, without the mask, scores: −1.50 on the, −2.50 on dog, 1.50 on ran."
    )
    assert widget._sentence([], 1, True, True) == (
        "no term, query 2, dog, with the mask, weights: 0.50 on the, 0.50 on dog, 0.00 on ran."
    )
    assert (
        mixer(causal=True)
        ._sentence(["position"], 0, True, False)
        .endswith("scores: 0.00 on the, −∞ on dog, −∞ on ran.")
    )


def test_markup_is_light():
    n = 12
    terms = {f"term {t}": torch.randn(n, n, generator=torch.Generator().manual_seed(t)) for t in range(4)}
    page = TermMixer(terms, ["word"] * n, caption="Look.").html()
    assert len(gzip.compress(page.encode())) < 8_000


def test_live_control_ticks_terms():
    widget = mixer(caption="Look.")
    content, position, query, masked, soft, image, words, caption = widget.live().children
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG") and words.value == widget.text()
    content.value = False
    assert words.value == widget._sentence(["position"], 2, False, False)
    position.value, query.value = False, 1
    assert words.value == widget._sentence([], 0, False, False)
    masked.value, soft.value, content.value = True, True, True
    assert words.value == widget._sentence(["content"], 0, True, True)
    assert bytes(image.value) != before and "Look." in caption.value
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"words": ["dog"]}, r"words=\['dog'\]; it must be a list of 2 to 16 words"),
        ({"words": "the dog"}, "words='the dog'; it must be a list of words, at least one"),
        ({"words": ["the", " ", "dog"]}, r"words=\['the', ' ', 'dog'\]; it must be a list of words, at least one"),
        ({"terms": {}}, r"terms=\{\}; it must hold 1 to 6 matrices by name"),
        ({"terms": 3}, "terms=3; it must hold 1 to 6 matrices by name"),
        ({"terms": {"a": torch.zeros(3, 2)}}, r"terms\['a'\] has shape \(3, 2\); for 3 words it must be \(3, 3\)"),
        ({"terms": {"a": "high"}}, r"terms\['a'\]='high'; it must be a matrix of numbers"),
        (
            {"terms": {"a": torch.full((3, 3), float("nan"))}},
            r"terms\['a'\] holds nan; its scores must be finite numbers",
        ),
    ],
)
def test_term_mixer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        mixer(**changes)
