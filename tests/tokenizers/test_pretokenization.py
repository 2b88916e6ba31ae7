"""Pre-tokenizers against Hugging Face's, the two engines against each other, and the pieces that are stable."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from llm_anatomy.tokenizers import pretokenization
from llm_anatomy.tokenizers.pretokenization import (
    CODE,
    GPT2,
    GPT4,
    LLAMA,
    LLAMA3,
    QWEN2,
    WHITESPACE,
    AnySplit,
    NoSplit,
    PreTokenizer,
)

NAMED = {"gpt2": GPT2, "gpt4": GPT4, "llama3": LLAMA3, "qwen2": QWEN2}
NAMED |= {"whitespace": WHITESPACE, "llama": LLAMA, "code": CODE}
ALL = NAMED | {"whole": NoSplit(), "anywhere": AnySplit(), "letters": PreTokenizer(r"\p{L}+")}
OFTEN = settings(deadline=None, derandomize=True, database=None, max_examples=150)
# Few characters, so that contractions, runs and their ends meet often.
SHORT = st.sampled_from(["a", "1", "'", "'ll", ".", " ", "    ", "\n", "\r\n", "\u3000"])
TRICKY = st.one_of(
    st.text(alphabet=" \n\r\t'lLvesSa1é٣,.\u00a0\u3000你\x1c", max_size=24),
    st.lists(SHORT, max_size=8).map("".join),
)


@pytest.mark.parametrize("pre_tokenizer", ALL.values(), ids=ALL)
@OFTEN
@given(text=st.one_of(st.text(), TRICKY))
def test_pieces_are_the_whole_text(pre_tokenizer, text):
    assert "".join(pre_tokenizer(text)) == text


def hugging_face(pattern):
    """The pieces that Hugging Face cuts by a pattern; its engine has other words for two things."""
    pattern = pattern.replace("{1,3}+", "{1,3}").replace("$", r"\z")
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return lambda text: [piece for piece, _ in split.pre_tokenize_str(text)]


@pytest.mark.syllabus("GT-42")
@pytest.mark.parametrize("pre_tokenizer", NAMED.values(), ids=NAMED)
def test_pieces_equal_those_of_another_engine(pre_tokenizer, samples):
    for text in samples.values():
        assert pre_tokenizer(text) == hugging_face(pre_tokenizer.pattern)(text)


@OFTEN
@given(text=TRICKY)
def test_gpt2_equals_hugging_faces_own_pattern(text):
    spans = [span for _, span in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)]
    assert GPT2(text) == [text[start:end] for start, end in spans]


ASCII = st.text(alphabet=st.characters(max_codepoint=127), max_size=40)


@pytest.mark.parametrize("pre_tokenizer", NAMED.values(), ids=NAMED)
@OFTEN
@given(text=st.one_of(ASCII, st.text(alphabet=" \n\r\t'lLvesSa1,.\x1c\x0b", max_size=24)))
def test_the_fast_engine_finds_the_same_in_ascii(pre_tokenizer, text):
    assert pre_tokenizer._find_in_ascii(text) == pre_tokenizer._find(text)


def test_the_fast_engine_is_another_one_and_is_left_out_where_it_cannot_read_the_pattern():
    for pre_tokenizer in NAMED.values():
        assert type(pre_tokenizer._find_in_ascii.__self__) is not type(pre_tokenizer._find.__self__)
    unusual = PreTokenizer(r"\p{Lu}\p{Ll}+")
    assert unusual._find_in_ascii == unusual._find and unusual("HelloWorld") == ["Hello", "World"]


@pytest.mark.syllabus("GT-42", "GT-08")
def test_digits_and_runs_of_spaces():
    number, line = "12345", " " * 8 + "x"
    assert GPT2(number) == ["12345"] and GPT4(number) == ["123", "45"]
    assert LLAMA(number) == CODE(number) == list("12345")
    assert GPT2(line) == [" " * 7, " x"] and GPT4(line) == [" " * 7, " x"]  # the last space goes to the word
    assert LLAMA(line) == [line] and LLAMA(" " * 8 + "7") == [" " * 8, "7"]
    assert CODE(line) == [" " * 8, "x"] and WHITESPACE(line) == [" " * 8, "x"]
    assert CODE("if x:\n        y") == ["if", " x", ":", "\n        ", "y"]


# --- Text that goes on ---


def check_stable_pieces(pre_tokenizer, text, cut):
    pieces, rest = pre_tokenizer.stable_pieces(text[:cut])
    assert pieces + pre_tokenizer(rest + text[cut:]) == pre_tokenizer(text)


@pytest.mark.parametrize("pre_tokenizer", NAMED.values(), ids=NAMED)
@OFTEN
@given(text=TRICKY)
def test_no_further_text_changes_what_is_settled(pre_tokenizer, text):
    for cut in range(len(text) + 1):
        check_stable_pieces(pre_tokenizer, text, cut)


@pytest.mark.parametrize(
    ("pattern", "text", "cut"),
    [(GPT2.pattern, "we'll", 4), (GPT4.pattern, "we'll", 4), (GPT2.pattern, "a  b", 3)],
)
def test_planted_fault_a_shorter_look_ahead_is_noticed(pattern, text, cut):
    class Hasty(PreTokenizer):
        def stable_pieces(self, text):
            return self(text), ""

    with pytest.raises(AssertionError):
        check_stable_pieces(Hasty(pattern, look_ahead=0), text, cut)


def test_something_is_settled_in_ordinary_text(samples):
    for pre_tokenizer in NAMED.values():
        pieces, rest = pre_tokenizer.stable_pieces(samples["generated"])
        assert pieces and len(rest) < 20


def test_an_unknown_pattern_promises_nothing():
    assert PreTokenizer(r"\S+").stable_pieces("two words") == NoSplit().stable_pieces("two words") == ([], "two words")


def test_a_long_run_of_white_space_may_have_many_pieces():
    text = " \t  \t" * 40_000
    assert [piece for pieces in LLAMA.iter_blocks(text) for piece in pieces] == [" \t", "  \t"] * 40_000


@pytest.mark.parametrize("pre_tokenizer", ALL.values(), ids=ALL)
def test_blocks_hold_the_same_pieces(pre_tokenizer, samples, monkeypatch):
    monkeypatch.setattr(pretokenization, "BLOCK", 13)
    for text in samples.values():
        blocks = [piece for pieces in pre_tokenizer.iter_blocks(text) for piece in pieces]
        assert "".join(blocks) == text
        assert pre_tokenizer == AnySplit() or blocks == pre_tokenizer(text)


def test_a_pre_tokenizer_survives_pickling():
    assert pickle.loads(pickle.dumps(GPT4))("we'll 12345") == GPT4("we'll 12345")


def test_the_two_writings_of_gpt4s_pattern_differ_only_at_the_end(samples):
    for text in samples.values():
        text = " ".join(text.split("\n")).strip()
        assert GPT4(text) == LLAMA3(text)
    assert GPT4("a\n  ") == ["a", "\n  "] and LLAMA3("a\n  ") == ["a", "\n", "  "]


@pytest.mark.parametrize(
    ("pattern", "problem"), [("(a", "is not a regular expression"), ("(a)b", "has 1 capturing groups")]
)
def test_bad_patterns_are_refused(pattern, problem):
    with pytest.raises(ValueError, match=problem):
        PreTokenizer(pattern)
