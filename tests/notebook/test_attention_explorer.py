"""The attention explorer as an object: its words, its data, and its form with a kernel."""

import gzip

import matplotlib.pyplot as plt
import pytest
import torch

from llm_anatomy.notebook import AttentionExplorer

WORDS = ["the", "pig", "chased", "a", "dog"]
HEADS = ["one back", "two back"]


def attend(tokens, masked):
    """Two heads: all weight one and two positions back; without the mask, as far ahead; at the edge, on itself."""
    step = -1 if masked else 1
    weights = torch.zeros(2, len(tokens), len(tokens))
    for head in range(2):
        for query in range(len(tokens)):
            key = query + step * (head + 1)
            weights[head, query, key if 0 <= key < len(tokens) else query] = 1
    return weights


def explorer(**changes):
    return AttentionExplorer(**{"tokens": WORDS, "attend": attend, "heads": HEADS, "vocabulary": WORDS} | changes)


def test_attend_is_asked_once_with_and_once_without_the_mask():
    asked = []
    widget = explorer(attend=lambda tokens, masked: asked.append((tokens, masked)) or attend(tokens, masked))
    widget.html(), widget.text()
    assert sorted(asked, key=str) == [(WORDS, False), (WORDS, True)]
    assert widget.data()["weights"] == [attend(WORDS, masked).tolist() for masked in (False, True)]


def test_words_say_where_the_last_one_looks():
    assert repr(explorer()) == (
        "Query 5, dog, in one back with the mask: "
        "weight 0.00 on the, weight 0.00 on pig, weight 0.00 on chased, weight 1.00 on a, weight 0.00 on dog."
    )
    assert "in head 1 with" in explorer(heads=None).text()


def test_markup_is_light_and_stays_the_same():
    page = explorer(caption="Look.").html()
    assert len(gzip.compress(page.encode())) < 4_600
    assert page == explorer(caption="Look.").html()


def test_live_control_asks_python_for_another_sentence():
    sentence, query, head, masked, image, words = explorer().live().children
    assert words.value == explorer().text()
    before = bytes(image.value)
    assert before.startswith(b"\x89PNG")
    sentence.value = "dog a chased dog pig"
    query.value, head.value = 3, 1
    assert words.value.startswith("Query 3, chased, in two back with the mask: weight 1.00 on dog, weight 0.00 on a")
    masked.value = False
    assert words.value.startswith("Query 3, chased, in two back without the mask")
    assert words.value.endswith("weight 1.00 on pig.")
    assert bytes(image.value) != before
    sentence.value = "the pig chased a cat"
    assert words.value == "&#x27;cat&#x27; is not in the vocabulary; its words are the, pig, chased, a, dog"
    sentence.value = "the pig"
    assert words.value == "sentence=&#x27;the pig&#x27; has 2 words; it must have 5"
    assert not plt.get_fignums()


def test_without_a_vocabulary_there_is_no_other_sentence():
    assert len(explorer(vocabulary=None).live().children) == 5


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"tokens": "the pig"}, "tokens='the pig'; it must be a list of words, at least one"),
        ({"tokens": ["the", ""]}, r"tokens=\['the', ''\]; it must be a list of words, at least one"),
        ({"tokens": ["the", "cat"]}, "'cat' is not in the vocabulary; its words are the, pig, chased, a, dog"),
        ({"attend": 3}, r"attend=3; it must be a function of \(tokens, masked\)"),
        (
            {"attend": lambda *_: torch.ones(5, 5)},
            r"attend returned weights of shape \(5, 5\); it must be \(heads, 5, 5\)",
        ),
        (
            {"attend": lambda *_: 2 * torch.ones(2, 5, 5)},
            r"attend returned weights from 2 to 2; they must stay within \[0, 1\]",
        ),
        (
            {"attend": lambda *_: torch.full((2, 5, 5), float("nan"))},
            r"attend returned weights from nan to nan; they must stay within \[0, 1\]",
        ),
        ({"heads": ["one back"]}, r"heads=\['one back'\]; attend returned weights of 2 heads"),
        ({"vocabulary": []}, r"vocabulary=\[\]; it must be a list of words, at least one"),
    ],
)
def test_attention_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        explorer(**changes)
