"""MiniLM as released for sentence-transformers: a BERT without a head, its tokenizer, and vectors of sentences."""

import zipfile

import pytest
import torch
import transformers
from nasty import texts
from released.installed import released

from llm_anatomy.models.checkpoints import load

pytestmark = pytest.mark.released

SENTENCES = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
LONG = "lake " * 400  # longer than the 256 tokens that it reads


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(released("all_minilm_l6_v2", "model.zip")) as file:
        file.extractall(path)
    return path


@pytest.fixture(scope="module")
def ours(folder):
    return load(folder)


@pytest.fixture(scope="module")
def tokenizer(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def test_ids_are_theirs(ours, tokenizer):
    assert ours.tokenizer_note == ""
    for text in texts(1000, ("[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]")):
        assert ours.texts.encode(text, allowed_special="all") == tokenizer.encode(text), text


@torch.no_grad()
def test_vectors_of_sentences_are_theirs(ours, folder, tokenizer):
    """The mean of the hidden states of all tokens, divided by its length, as its card computes it."""
    sentences = [*SENTENCES, LONG, *(text for text in texts(60) if text)]
    given = tokenizer(sentences, padding=True, truncation=True, max_length=256, return_tensors="pt")
    x = transformers.AutoModel.from_pretrained(folder).eval()(**given).last_hidden_state
    mask = given["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((x * mask).sum(1) / mask.sum(1))
    found = ours.embed(sentences)
    assert found.shape == (len(sentences), 384)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_sentences_of_like_meaning_have_like_vectors(ours):
    similarities = (vectors := ours.embed(SENTENCES)) @ vectors.T
    assert similarities[0, 1] > 0.7 > 0.2 > similarities[0, 2]
