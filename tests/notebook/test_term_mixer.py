"""The term mixer: its sums, its words, and what it refuses."""

import pytest
import torch

from llm_anatomy.notebook import TermMixer

WORDS = ["the", "dog", "ran"]
TERMS = {
    "content": torch.tensor([[1.0, 0.5, -3.0], [0.25, 2.0, 0.0], [0.5, -1.5, 1.5]]),
    "position": torch.tensor([[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]]),
}


def mixer(**changes):
    return TermMixer(**{"terms": TERMS, "tokens": WORDS} | changes)


@pytest.mark.syllabus("IITD-20", "IITD-23")
def test_the_sum_is_that_of_the_terms_that_are_ticked():
    widget = mixer()
    for widget.term_0 in (True, False):
        for widget.term_1 in (True, False):
            chosen = [term for term, on in zip(TERMS.values(), (widget.term_0, widget.term_1), strict=True) if on]
            assert torch.equal(torch.tensor(widget.outputs()["scores"]), sum(chosen, torch.zeros(3, 3)))
    assert widget.outputs()["reach"] == 3  # for all terms and sums: what the negative terms of a pair add up to


def test_terms_are_the_same_on_every_machine():
    last_digits = {name: term + 3e-7 for name, term in TERMS.items()}
    assert mixer(terms=last_digits).spec() == mixer().spec()


def test_words_are_rounded_and_complete():
    widget = mixer(query=1)
    assert repr(widget) == (
        "content + position, query 2, dog, without the mask, scores: −0.75 on the, 2.00 on dog, 1.00 on ran."
    )
    widget.query, widget.term_0, widget.masked = 0, False, True
    assert repr(widget) == "position, query 1, the, with the mask, scores: 0.00 on the, −∞ on dog, −∞ on ran."
    widget.query, widget.term_1, widget.soft = 1, False, True
    assert repr(widget) == "no term, query 2, dog, with the mask, weights: 0.50 on the, 0.50 on dog, 0.00 on ran."
    assert mixer(causal=True).masked and mixer().query == 2


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"tokens": ["dog"]}, r"tokens=\['dog'\]; it must be a list of 2 to 16 tokens"),
        ({"tokens": "the dog"}, "tokens='the dog'; it must be a non-empty list of non-empty strings"),
        ({"terms": {}}, r"terms=\{\}; it must hold 1 to 6 matrices by name"),
        ({"terms": 3}, "terms=3; it must hold 1 to 6 matrices by name"),
        ({"terms": {"a": torch.zeros(3, 2)}}, r"terms\['a'\] has shape \(3, 2\); for 3 tokens it must be \(3, 3\)"),
        ({"terms": {"a": "high"}}, r"terms\['a'\]='high'; it must be a matrix of numbers"),
        ({"terms": {"a": torch.full((3, 3), torch.nan)}}, r"terms\['a'\] holds nan; its scores must be finite numbers"),
        ({"query": 3}, "query=3; it must be a whole number from 0 to 2"),
    ],
)
def test_term_mixer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        mixer(**changes)
