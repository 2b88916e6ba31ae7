r"""Where text is cut before anything is merged: no token crosses a border between two pieces.

A pre-tokenizer is a regular expression whose matches, side by side, are the whole text. The well-known ones are built
from the same parts: contractions, letters, digits, other signs, white space. They differ in how many digits stay
together, and in which piece gets the last space of a run.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import regex

BLOCK = 1 << 16
"""Characters that are looked at together."""


@dataclass(frozen=True)
class PreTokenizer:
    r"""Text to pieces; ``"".join(pieces)`` is the text again, for every text.

    Args:
        pattern: a regular expression without capturing groups, in the syntax of the ``regex`` library. A character
            that it leaves out becomes a piece of its own.
        look_ahead: how many characters beyond a piece decide where it ends, not counting white space; None where this
            is not known. Text that comes in chunks can be cut only where it is known.

    Raises:
        ValueError: for a pattern that does not compile or that captures groups.

    Source: Radford et al. (2019), section 2.2, which forbids merges across categories of characters; UCL-09, GT-42.

    >>> PreTokenizer(r"\p{L}+")("two words")
    ['two', ' ', 'words']
    """

    pattern: str
    look_ahead: int | None = None
    _find: Callable[[str], list[str]] = field(init=False, repr=False, compare=False)
    _find_in_ascii: Callable[[str], list[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        complete = f"{self.pattern}|(?s:.)"
        try:
            compiled = regex.compile(complete)
        except regex.error as error:
            raise ValueError(f"pattern={self.pattern!r} is no regular expression: {error}") from None
        if compiled.groups:
            raise ValueError(f"pattern={self.pattern!r} captures {compiled.groups} groups; write (?:…) instead")
        object.__setattr__(self, "_find", compiled.findall)
        object.__setattr__(self, "_find_in_ascii", _for_ascii(complete) or compiled.findall)

    def __call__(self, text: str) -> list[str]:
        return self._find_in_ascii(text) if text.isascii() else self._find(text)

    def iter_blocks(self, text: str) -> Iterator[list[str]]:
        """The same pieces, a list at a time, so that a long text needs little memory."""
        start, size = 0, BLOCK if self.look_ahead is not None else len(text)
        while start + size < len(text):
            pieces, rest = self.stable_pieces(text[start : start + size])
            yield pieces
            start += size - len(rest)
            size = BLOCK if pieces else 2 * size  # doubled, so that one long piece is not split again and again
        yield self(text[start:])

    def stable_pieces(self, text: str) -> tuple[list[str], str]:
        """The pieces that no further text can change, and the rest.

        A piece is settled once the white space after it has ended within the text, and ``look_ahead`` more characters
        are known: ``\\s+(?!\\S)`` waits for the end of a run, and ``'ll`` for two letters.
        """
        if self.look_ahead is None:
            return [], text
        pieces, rest = self(text), ""
        while pieces and (len(rest) <= self.look_ahead or rest.isspace()):
            rest = pieces.pop() + rest
        return pieces, rest


@dataclass(frozen=True)
class NoSplit(PreTokenizer):
    """No splitting: a text is one piece, and any two neighbours may be merged.

    Nothing of a text is settled before its end, so text in chunks is kept whole in memory.

    Source: Sennrich et al. (2016), section 3.2, splits at words; what happens without is UCL-07's example.

    >>> NoSplit()("two words")
    ['two words']
    """

    pattern: str = field(default=r"(?s:.+)", init=False)
    look_ahead: int | None = field(default=None, init=False)

    def __call__(self, text: str) -> list[str]:
        return [text] if text else []


@dataclass(frozen=True)
class AnySplit(PreTokenizer):
    """No splitting where none matters: each character has its ids whatever its neighbours are.

    Source: UCL-05, tokens that are letters or bytes.

    >>> AnySplit().stable_pieces("two words")
    (['two words'], '')
    """

    pattern: str = field(default=r"(?s:.+)", init=False)
    look_ahead: int | None = field(default=0, init=False)

    def __call__(self, text: str) -> list[str]:
        return [text] if text else []

    def stable_pieces(self, text: str) -> tuple[list[str], str]:
        return self(text), ""


def _for_ascii(pattern: str) -> Callable[[str], list[str]] | None:
    """What finds the same pieces in ASCII text in less than half the time: the standard library's engine, which knows
    no ``\\p{L}`` and so is told which letters and digits there are. None where it cannot read the pattern."""

    def spell_out(found: re.Match) -> str:
        letters_or_class = found[0].replace(r"\p{L}", "A-Za-z").replace(r"\p{N}", "0-9")
        return letters_or_class if letters_or_class.startswith("[") else f"[{letters_or_class}]"

    spelled = re.sub(r"\[(?:\\.|[^\]\\])*\]|\\p\{[LN]\}", spell_out, pattern)
    try:
        with warnings.catch_warnings(action="error"):
            return re.compile(spelled, re.ASCII).findall
    except (re.error, Warning):
        return None


# --- The patterns in use. A piece ends where its kind of character ends, so a look-ahead of two is enough. ---

_CONTRACTION = r"'(?:[sdmt]|ll|ve|re)"
_SIGNS = r" ?[^\s\p{L}\p{N}]+"
_LAST_SPACE_TO_THE_WORD = r"\s+(?!\S)|\s+"

GPT2 = PreTokenizer(rf"{_CONTRACTION}| ?\p{{L}}+| ?\p{{N}}+|{_SIGNS}|{_LAST_SPACE_TO_THE_WORD}", look_ahead=2)
"""Radford et al. (2019). Numbers of any length are one piece; of a run of spaces the last goes to the next word."""

GPT4 = PreTokenizer(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    look_ahead=2,
)
"""cl100k, of GPT-4 (tiktoken): digits in groups of three from the left, any one sign may lead a word, line ends stay
with the signs before them. Possessive quantifiers (``++``) give nothing back and save time."""

LLAMA3 = PreTokenizer(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    look_ahead=2,
)
"""The older writing of GPT-4's pattern, found in Llama 3's file: it differs where white space ends a text."""

WHITESPACE = PreTokenizer(r"\s+|\S+", look_ahead=0)
"""Runs of white space and what is between them."""

LLAMA = PreTokenizer(r" *[^ \p{N}]+|\p{N}| +", look_ahead=0)
"""SentencePiece as LLaMA used it: words with all the spaces before them, each digit alone."""

CODE = PreTokenizer(rf"\s{{2,}}|{_CONTRACTION}| ?\p{{L}}+|\p{{N}}|{_SIGNS}|\s", look_ahead=2)
"""For program text: an indentation is one piece, line end and all, and each digit is one."""
