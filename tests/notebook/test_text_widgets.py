"""Texts in widgets: what the control takes, what a page can follow, and what it refuses."""

import pytest
import traitlets

from llm_anatomy.notebook import MergeStepper, TokenizerComparison
from llm_anatomy.notebook.widgets import Encoder, Text, Widget
from llm_anatomy.notebook.widgets.text import for_page, shown, to_javascript
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.tokenizers.normalization import Normalizer
from llm_anatomy.tokenizers.pretokenization import GPT4, PreTokenizer
from llm_anatomy.tokenizers.simple import ByteTokenizer
from llm_anatomy.tokenizers.unigram import Unigram

BYTES = [bytes([byte]) for byte in range(256)]


class Typed(Widget):
    text = Text("ab", longest=4)
    sentence = "{text}"


def test_a_text_is_a_trait():
    widget = Typed()
    widget.text = "\ud83d\ude42 \udc00"
    assert widget.text == "🙂 \ufffd" and repr(widget) == widget.text and widget.outputs() == {}
    for value in ("abcde", 3, None):
        with pytest.raises(traitlets.TraitError, match="it must be a text of at most 4 characters"):
            widget.text = value


def test_the_encoder_gives_the_last_ids():
    found = Encoder(ByteTokenizer(["<end>"]), 3)("a<end>")
    assert found["ids"].tolist() == [*b"nd>"] and found["n"] == 3 and found["vocabulary"][256] == "<end>"
    assert Encoder(ByteTokenizer(), 3)("a")["ids"].tolist() == [ord("a"), 0, 0]


@pytest.mark.parametrize(
    "token, seen",
    [(" a\n", "␣a↵"), ("\u200d", "U+200D"), ("\u0301a", "◌\u0301a"), ("\xa0", "U+00A0"), ("a{", "a{\u2060"), ("", "")],
)
def test_tokens_are_shown(token, seen):
    assert shown(token.encode()) == seen
    assert shown("€".encode()[1:]) == "<82 AC>"


@pytest.mark.parametrize(
    "pattern, part", [(r"\p{Han}+", r"\\p{Han}"), (r"a|\X", r"\\X"), (r"[[:alpha:]]+", "alpha"), (r"(?>a)", r"\(\?>a")]
)
def test_a_pattern_that_javascript_lacks_is_refused(pattern, part):
    PreTokenizer(pattern)  # the package knows it
    with pytest.raises(ValueError, match=part):
        to_javascript(pattern)


@pytest.mark.parametrize(
    "make, reason",
    [
        (lambda: BPE(BYTES, {}, normalizer=Normalizer()), "has a normalizer"),
        (lambda: BPE([*BYTES, b"ab"], {}), "no merge makes the token b'ab'"),
        (lambda: BPE([*BYTES, b"ab", b"cd"], {(97, 98): 0, (99, 100): 0}), "have the same rank"),
        (lambda: Unigram([b"a"], [-1.0]), "neither bytes nor an unknown token"),
    ],
)
def test_a_tokenizer_that_a_page_cannot_follow_is_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        for_page(make())


@pytest.mark.syllabus("UCL-07")
def test_the_stepper_makes_the_lectures_merges():
    stepper = MergeStepper("aaabdaaabac", 3)
    lengths, firsts = [], []
    for stepper.step in range(4):
        found = stepper.outputs()
        lengths.append(found["length"])
        firsts.append([n for n in found["counts"] if n == n])
    assert lengths == [11, 9, 7, 5]
    assert firsts[:3] == [[4, 2, 1, 1, 1, 1], [2, 2, 1, 1, 1, 1], [2, 1, 1, 1, 1]]
    assert found["text_vocabulary"][256:] == ["aa", "ab", "aaab"]
    stepper.text = "ab"
    assert repr(stepper) == "After 1 merge, the text has 1 tokens: ab. Merge 1 made ab. No pair is left."


def test_a_cut_text_keeps_its_borders():
    stepper = MergeStepper("ab ab ab", 9, pre_tokenizer=GPT4)
    stepper.step = 9
    assert stepper.outputs()["text_vocabulary"][256:] == ["ab", "␣ab"]


def test_the_widgets_refuse():
    with pytest.raises(ValueError, match="n_merges=0; it must be a whole number from 1 to 40"):
        MergeStepper("ab", 0)
    with pytest.raises(ValueError, match="must hold at least one tokenizer"):
        TokenizerComparison({}, "ab")
    with pytest.raises(traitlets.TraitError, match="a text of at most 100 characters"):
        TokenizerComparison({"bytes": ByteTokenizer()}, "a" * 101)
