"""Numbers that the text of chapter 3 states, made again with the chapter's own functions."""

import pytest
import torch
from chapter_imports import imported

from bookbinder import ROOT, notebooks
from llm_anatomy.layers.masks import CausalMask


@pytest.fixture(scope="module")
def train_and_encode():
    """The chapter's functions that train heads to name words one and two positions back, and that encode sentences."""
    [page] = [page for page in notebooks.pages(ROOT) if page.docname == "book/attention/attention"]
    names = imported("attention/attention") | {"words": "abcde"}
    for function in ("def encode(", "def train("):
        exec(next(cell.source for cell in page.code if function in cell.source), names)
    return names["train"], names["encode"]


def lean(layer, encode):
    """The mean weights on the nearer and the farther word, from the third word on, and how much the former varies."""
    tokens = torch.randint(5, (1000, 5), generator=torch.Generator().manual_seed(9))
    with torch.no_grad():
        _, weights = layer(encode(tokens), mask=CausalMask(), return_weights=True)
    nearer, farther = (weights[:, 0, 2:].diagonal(offset, 1, 2) for offset in (1, 0))
    return nearer.mean().item(), farther.mean().item(), nearer.std().item()


@pytest.mark.syllabus("UCL-21")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_one_narrow_head_leans_and_names_the_heavier_word_only(train_and_encode, seed):
    train, encode = train_and_encode
    layer, shares = train(n_heads=1, offsets=(1, 2), seed=seed)
    nearer, farther, varies = lean(layer, encode)
    heavier, lighter = shares[::-1] if farther > nearer else shares
    assert heavier > 0.95 and 0.35 < lighter < 0.65
    assert 0.35 < nearer < 0.6 and 0.35 < farther < 0.6 and nearer + farther > 0.9 and varies < 0.08


@pytest.mark.slow
@pytest.mark.syllabus("UCL-21")
def test_one_wide_head_leans_differently_for_different_words_and_names_both(train_and_encode):
    train, encode = train_and_encode
    narrow, shares_of_narrow = train(n_heads=1, offsets=(1, 2), steps=1500)
    wide, shares_of_wide = train(n_heads=1, offsets=(1, 2), d_value=40, steps=1000)
    assert min(shares_of_wide) > 0.95 > 0.7 > min(shares_of_narrow)
    assert lean(wide, encode)[2] > 0.1 > lean(narrow, encode)[2]
