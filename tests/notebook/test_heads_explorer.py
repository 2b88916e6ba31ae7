"""The heads explorer as an object: positions, words, and what it refuses."""

import pytest
import torch
from einops import rearrange

from llm_anatomy.notebook import HeadsExplorer


@pytest.mark.syllabus("UCL-21", "CMU-09")
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 6])
def test_positions_and_sources_are_those_of_einops_and_torch(plain, heads):
    widget, x = HeadsExplorer(4, 2, 3), torch.arange(24).view(4, 6)
    split = torch.reshape(x, (heads, 4, -1)) if plain else rearrange(x, "t (h d) -> h t d", h=heads)
    widget.heads, widget.plain, widget.step = heads, plain, "3 attend"
    for widget.token in range(4):
        for widget.column in range(6):
            found = widget.outputs()
            head, row, i = (int(found[name]) for name in ("head", "row", "i"))
            assert split[head, row, i] == x[widget.token, widget.column]
            sources = [6 * t + c for t, c in zip(found["from_token"], found["from_column"], strict=True)]
            assert sources == split[head, :, i].tolist()


@pytest.mark.syllabus("UCL-21")
def test_words_follow_a_number_through_the_steps():
    widget, said = HeadsExplorer(7, 4, 6), []
    widget.column = 13
    for widget.plain in (False, True):
        for widget.step in ("2 split", "3 attend", "4 join"):
            said.append(repr(widget).removeprefix("7 tokens, 4 heads of width 6: "))
    assert said == [
        "x[1, 2·6 + 1] ↔ heads[2, 1, 1]. The same number, in head 2, and still in the row of token 1.",
        "attended[2, 1, 1] = Σₛ α[2, 1, s] · heads[2, s, 1]. "
        "It mixes column 13 of the tokens: a head mixes rows, and stays within its columns.",
        "attended[2, 1, 1] ↔ joined[1, 2·6 + 1]. Row 1 is token 1 again, its heads laid end to end.",
        "x[1, 2·6 + 1] ↔ heads[0, 6, 1]. The reshape puts it into head 0, row 6. It belongs to head 2, row 1. "
        "Of 168 numbers, 144 are elsewhere.",
        "attended[0, 6, 1] = Σₛ α[0, 6, s] · heads[0, s, 1]. It should mix column 13 of every token. "
        "The reshape gives it x[0, 1], x[0, 7], x[0, 13], x[0, 19], x[1, 1], x[1, 7], x[1, 13].",
        "attended[0, 6, 1] ↔ joined[1, 2·6 + 1]. A reshape puts it back and the shapes betray nothing, "
        "but its head mixed the wrong numbers.",
    ]
    widget.token, widget.column, widget.step = 0, 0, "2 split"
    assert "row 0. This one is where it belongs. Of" in repr(widget)


def test_smallest_sizes_have_words_too():
    assert "x[0, 0·1 + 0] ↔ heads[0, 0, 0]" in repr(HeadsExplorer(1, 1, 1))


@pytest.mark.parametrize(
    "sizes, sentence",
    [
        ((0, 3, 2), "n_tokens=0; it must be a whole number from 1 to 12"),
        ((5, 1.5, 2), "n_heads=1.5; it must be a whole number from 1 to 24"),
        ((5, 3, True), "d_head=True; it must be a whole number from 1 to 24"),
        ((5, 5, 5), "n_heads=5 of d_head=5 are 25 columns; more than 24 cannot be shown"),
    ],
)
def test_heads_explorer_refuses(sizes, sentence):
    with pytest.raises(ValueError, match=sentence):
        HeadsExplorer(*sizes)
