"""The attention explorer as an object: its words, where it opens, and what it refuses."""

import math

import pytest
import torch

from llm_anatomy.notebook import AttentionExplorer

WORDS = ["the", "pig", "chased", "a", "dog"]


def attend(tokens, masked):
    """All weight is one and two positions back, or on the first; without the mask *chased* sees *dog*."""
    weights = torch.stack([torch.eye(5)[(torch.arange(5) - back).clamp(min=0)] for back in (1, 2)])
    if not masked:
        weights[:, 2] = torch.eye(5)[4]
    return weights


def explorer(**changes):
    return AttentionExplorer(**{"tokens": WORDS, "attend": attend, "heads": ["one back", "two back"]} | changes)


@pytest.mark.syllabus("UCL-20")
def test_it_opens_on_the_word_that_the_mask_changes():
    widget = explorer()
    assert repr(widget) == (
        "Query 3, chased, in one back with the mask: "
        "weight 0.00 on the, weight 1.00 on pig, weight 0.00 on chased, weight 0.00 on a, weight 0.00 on dog."
    )
    widget.head, widget.masked = "two back", False
    assert repr(widget).startswith("Query 3, chased, in two back without the mask: weight 0.00 on the")
    assert repr(widget).endswith("weight 1.00 on dog.")


def test_what_the_mask_forbids_is_hatched_and_only_that():
    widget = explorer()
    for masked in (True, False):
        widget.masked = masked
        shown, future = torch.tensor(widget.outputs()["whole"]), torch.ones(5, 5, dtype=torch.bool).triu(1)
        assert torch.equal(shown == -math.inf, future & masked)
        assert torch.equal(shown.clamp(min=0), attend(WORDS, masked)[0])


def test_one_head_leaves_no_choice_of_heads_and_one_token_no_word_to_prefer():
    widget = AttentionExplorer(["a"], lambda tokens, masked: torch.ones(1, 1, 1))
    assert list(widget.controls) == ["query", "masked"]
    assert repr(widget) == "Query 1, a, in head 1 with the mask: weight 1.00 on a."


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"tokens": "the pig"}, "tokens='the pig'; it must be a non-empty list of non-empty strings"),
        ({"attend": 3}, r"attend=3; it must be a function of \(tokens, masked\)"),
        ({"attend": lambda *_: torch.ones(5, 5)}, r"weights of shape \(5, 5\); it must be \(heads, 5, 5\)"),
        ({"attend": lambda *_: 2 * torch.ones(2, 5, 5)}, r"from 2 to 2; they must stay within \[0, 1\]"),
        ({"attend": lambda *_: torch.full((2, 5, 5), math.nan)}, r"from nan to nan; they must stay within \[0, 1\]"),
        ({"heads": ["one back"]}, r"heads=\['one back'\]; attend returned weights of 2 heads"),
    ],
)
def test_attention_explorer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        explorer(**changes)
