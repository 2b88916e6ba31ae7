"""The trade-off in numbers: counted again by hand, and as the lecture states it."""

import pytest

from llm_anatomy.tokenizers.metrics import (
    attention_flops,
    bytes_per_token,
    compare_tokenizers,
    context_bytes,
    embedding_parameters,
    tokens_per_word,
)
from llm_anatomy.tokenizers.simple import ByteTokenizer
from llm_anatomy.tokenizers.unigram import Unigram
from llm_anatomy.training.data.stories import story_text

ENGLISH, FRENCH = "the small dog sees a bird", "le petit chien voit là-bas un château"
HELD_OUT = story_text(20_000, seed=2)


@pytest.fixture(scope="module")
def by_size():
    """Vocabularies of growing size, trained on the same text."""
    text = story_text(30_000, seed=1)
    return {f"{n}": Unigram.train([text], n, character_coverage=1.0) for n in (330, 600, 1200)}


@pytest.mark.syllabus("UCL-05", "UCL-09")
def test_bytes_per_token_is_a_ratio_of_sums(by_size):
    assert bytes_per_token(ByteTokenizer(), ["a", "é€🙂"]) == 1.0
    tokenizer = by_size["600"]
    texts = ["one", HELD_OUT, "", "é" * 7]
    n_tokens = sum(len(tokenizer.encode(text)) for text in texts)
    assert bytes_per_token(tokenizer, iter(texts)) == sum(len(text.encode()) for text in texts) / n_tokens


@pytest.mark.syllabus("UCL-06", "UCL-09")
def test_a_language_that_was_not_trained_on_gets_more_tokens_per_word(by_size):
    assert tokens_per_word(ByteTokenizer(), {"English": [ENGLISH], "French": [FRENCH]}) == {
        "English": (20 + 5) / 6,  # letters and spaces
        "French": (30 + 1 + 2 + 6) / 7,  # letters, a hyphen, accents and spaces
    }
    fertility = tokens_per_word(by_size["1200"], {"English": [HELD_OUT], "French": [FRENCH]})
    assert fertility["English"] < 1.5 and fertility["French"] > 2.5


@pytest.mark.syllabus("UCL-09", "GT-41")
def test_a_larger_vocabulary_makes_text_shorter_and_attention_cheaper(by_size):
    rows = compare_tokenizers({"bytes": ByteTokenizer()} | by_size, HELD_OUT, d_model=64)
    assert [row["name"] for row in rows] == ["bytes", "330", "600", "1200"]
    assert [row["n_vocab"] for row in rows] == [256, 330, 600, 1200]
    for small, large in zip(rows, rows[1:], strict=False):
        assert small["n_tokens"] > large["n_tokens"]
        assert small["bytes_per_token"] < large["bytes_per_token"]
        assert small["embedding_parameters"] < large["embedding_parameters"]
        saved = (small["n_tokens"] / large["n_tokens"]) ** 2
        assert small["attention_flops"] / large["attention_flops"] == pytest.approx(saved)
    for row in rows:
        assert row["n_tokens"] * row["bytes_per_token"] == pytest.approx(len(HELD_OUT.encode()))
        assert row["embedding_parameters"] == 64 * row["n_vocab"]


@pytest.mark.syllabus("UCL-06", "UCL-05", "UCL-09")
def test_numbers_of_the_slides():
    assert embedding_parameters(350_000, 4096) == 1_433_600_000
    assert embedding_parameters(50_257, 768) == 38_597_376  # GPT-2
    assert context_bytes(8192, 1.0) == 8192  # a context of bytes
    # scores: n x n products of vectors of width d, then n x n weights times n vectors; 2 operations each
    n, d = 7, 5
    scores = sum(2 * d for _ in range(n) for _ in range(n))
    sums = sum(2 * n for _ in range(n) for _ in range(d))
    assert attention_flops(n, d, n_layers=3) == 3 * (scores + sums)
    assert attention_flops(4 * n, d) == 16 * attention_flops(n, d)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: bytes_per_token(ByteTokenizer(), ["", ""]), "texts have no tokens"),
        (lambda: bytes_per_token(ByteTokenizer(), "text"), "texts is one string"),
        (lambda: tokens_per_word(ByteTokenizer(), {"Latin": [" "]}), r"texts\['Latin'\] contain no words"),
        (lambda: tokens_per_word(ByteTokenizer(), {"Latin": "text"}), "texts is one string"),
        (lambda: compare_tokenizers({"bytes": ByteTokenizer()}, "", 8), "no tokens"),
    ],
)
def test_bad_input_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
