"""The cross-attention explorer as an object: its words, where it opens, and what it refuses."""

import pytest
import torch

from llm_anatomy.notebook import CrossAttentionExplorer

SOURCE, TARGET = ["he", "sees", "the", "tree"], ["wodo", "lo", "vide"]
ALIGNMENT = [(0, 2), (1, 2), (2, 1), (3, 0)]


def weights():
    """The first head looks at the first word, the second one at a counterpart of two words of three."""
    first = torch.eye(4)[[0, 0, 0]]
    second = torch.tensor([[0.1, 0.1, 0.1, 0.7], [0.0, 0.6, 0.4, 0.0], [0.25, 0.5, 0.0, 0.25]])
    return torch.stack([first, second])


def sentence(**changes):
    return dict(source=SOURCE, target=TARGET, weights=weights(), alignment=ALIGNMENT) | changes


@pytest.mark.syllabus("UCL-31", "IITD-45")
def test_it_opens_with_the_head_that_agrees_with_the_alignment():
    widget = CrossAttentionExplorer([sentence()], heads=["1.1", "1.2"])
    assert list(widget.controls) == ["word", "head"] and widget.head == "1.2"
    assert repr(widget) == (
        '"wodo": 1.2 gives its largest weight, 0.70, to "tree", and the known counterpart is "tree". '
        "Its largest weight lies on a counterpart for 2 of the 3 words."
    )
    widget.word = 2
    assert '0.50, to "sees", and the known counterpart is "sees", the last word of 2.' in repr(widget)
    widget.head = "1.1"
    assert "a counterpart for 1 of the 3 words" in repr(widget)


def test_a_word_without_a_counterpart_is_said_to_have_none():
    widget = CrossAttentionExplorer([sentence(alignment=ALIGNMENT[1:3])])
    assert "the known counterpart is nothing" in repr(widget)


def test_the_map_and_the_heads_show_the_weights_and_the_alignment():
    widget = CrossAttentionExplorer([sentence()])
    widget.word = 1
    shown = {name: torch.tensor(values) for name, values in widget.outputs().items()}
    assert torch.equal(shown["of_head"], weights()[1])
    assert torch.equal(shown["of_word"][:, 0], torch.tensor([0.0, 0, 1, 0]))  # what is known
    assert torch.equal(shown["of_word"][:, 1:], weights()[:, 1].T)
    circles = {(int(x), int(y)) for x, y in zip(shown["across"], shown["down"], strict=True) if y == y}
    assert circles == set(ALIGNMENT)


def test_sentences_may_differ_in_length_and_the_last_word_stands_for_those_behind_it():
    short = sentence(source=SOURCE[:2], target=TARGET[2:], weights=weights()[:, 2:, :2], alignment=[(1, 0)])
    widget = CrossAttentionExplorer([sentence(), short])
    widget.word = 2
    whole = repr(widget)
    widget.shown = "2"
    assert repr(widget).startswith('"vide"') and repr(widget) != whole
    assert torch.tensor(widget.outputs()["of_head"]).shape == (1, 2)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"source": "he sees"}, "source='he sees'; it must be a non-empty list of non-empty strings"),
        ({"weights": weights()[:, :2]}, r"weights have shape \(2, 2, 4\); it must be \(heads, 3, 4\)"),
        ({"weights": 2 * weights()}, r"weights are from 0 to 2; they must stay within \[0, 1\]"),
        ({"alignment": [(4, 0)]}, r"alignment holds \(4, 0\); indices must be below 4 and 3"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        CrossAttentionExplorer([sentence(**changes)])


def test_no_sentences_and_other_numbers_of_names_are_refused():
    with pytest.raises(ValueError, match="it must be a list of at least one sentence"):
        CrossAttentionExplorer([])
    with pytest.raises(ValueError, match=r"heads=\['one'\]; there are weights of \[2\] heads"):
        CrossAttentionExplorer([sentence()], heads=["one"])
