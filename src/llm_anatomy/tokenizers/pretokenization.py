r"""Pre-tokenization: text is cut into pieces before it is encoded, and no token crosses a border between pieces.

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
"""Long texts are processed in blocks of this many characters."""


@dataclass(frozen=True)
class PreTokenizer:
    r"""Cut text into pieces with a regular expression; ``"".join(pieces)`` is always the text again.

    Args:
        pattern: a regular expression without capturing groups, in the syntax of the ``regex`` library. A character
            that no match covers becomes a piece of its own.
        look_ahead: how many characters after a piece influence where it ends, not counting white space; None if this
            is not known. Text that arrives in chunks can be cut early only if it is known.

    Raises:
        ValueError: if the pattern does not compile, or has capturing groups.

    Source: Radford et al. (2019), section 2.2: no merges across categories of characters; UCL-09, GT-42.

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
            raise ValueError(f"pattern={self.pattern!r} is not a regular expression: {error}") from None
        if compiled.groups:
            raise ValueError(f"pattern={self.pattern!r} has {compiled.groups} capturing groups; write (?:…) instead")
        object.__setattr__(self, "_find", compiled.findall)
        object.__setattr__(self, "_find_in_ascii", _for_ascii(complete) or compiled.findall)

    def __call__(self, text: str) -> list[str]:
        return self._find_in_ascii(text) if text.isascii() else self._find(text)

    def iter_blocks(self, text: str) -> Iterator[list[str]]:
        """Yield the same pieces in lists, one list for each block of text, so that a long text needs little memory."""
        start, size = 0, BLOCK if self.look_ahead is not None else len(text)
        while start + size < len(text):
            pieces, rest = self.stable_pieces(text[start : start + size])
            yield pieces
            start += size - len(rest)
            size = BLOCK if pieces else 2 * size  # doubled, so that a long piece is not cut again and again
        yield self(text[start:])

    def stable_pieces(self, text: str) -> tuple[list[str], str]:
        """Return the pieces that stay the same whatever text follows, and the rest of the text.

        A piece is stable if the white space after it ends within the text and at least ``look_ahead`` more characters
        follow: ``\\s+(?!\\S)`` has to see the end of a run of spaces, and ``'ll`` has to see two letters.
        """
        if self.look_ahead is None:
            return [], text
        pieces, rest = self(text), list[str]()
        n_characters, is_space = 0, True
        while pieces and (n_characters <= self.look_ahead or is_space):
            piece = pieces.pop()
            rest.append(piece)
            n_characters, is_space = n_characters + len(piece), is_space and piece.isspace()
        return pieces, "".join(reversed(rest))


@dataclass(frozen=True)
class NoSplit(PreTokenizer):
    """Do not cut: the whole text is one piece, and any two neighbouring tokens may be merged.

    No part of a text is stable before its end, so a text that arrives in chunks is kept in memory as a whole.

    Source: UCL-07's example, which cuts nothing; Sennrich et al. (2016), section 3.2, cut text into words.

    >>> NoSplit()("two words")
    ['two words']
    """

    pattern: str = field(default=r"(?s:.+)", init=False)
    look_ahead: int | None = field(default=None, init=False)

    def __call__(self, text: str) -> list[str]:
        return [text] if text else []


@dataclass(frozen=True)
class AnySplit(PreTokenizer):
    """Allow a cut after any character, for tokenizers that encode each character independently of its neighbours.

    Source: UCL-05, where letters or bytes are tokens.

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
    """Find the same pieces in ASCII text with the standard library's ``re``, in less than half the time.

    That engine does not know ``\\p{L}`` and ``\\p{N}``, so the ASCII letters and digits are written out. Return None if
    it cannot read the pattern.
    """

    def spell_out(found: re.Match) -> str:
        letters_or_class = found[0].replace(r"\p{L}", "A-Za-z").replace(r"\p{N}", "0-9")
        return letters_or_class if letters_or_class.startswith("[") else f"[{letters_or_class}]"

    spelled = re.sub(r"\[(?:\\.|[^\]\\])*\]|\\p\{[LN]\}", spell_out, pattern)
    try:
        with warnings.catch_warnings(action="error"):
            return re.compile(spelled, re.ASCII).findall
    except (re.error, Warning):
        return None


# --- The patterns of well-known models. A look-ahead of 2 is enough: a piece ends with its category of characters. ---

_CONTRACTION = r"'(?:[sdmt]|ll|ve|re)"
_SIGNS = r" ?[^\s\p{L}\p{N}]+"
_LAST_SPACE_TO_THE_WORD = r"\s+(?!\S)|\s+"

GPT2 = PreTokenizer(rf"{_CONTRACTION}| ?\p{{L}}+| ?\p{{N}}+|{_SIGNS}|{_LAST_SPACE_TO_THE_WORD}", look_ahead=2)
"""GPT-2's pattern (Radford et al., 2019). A number is one piece, however long. The last space of a run
joins the next word."""

GPT4 = PreTokenizer(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    look_ahead=2,
)
"""GPT-4's pattern (cl100k in tiktoken): digits are grouped by three from the left, a word may begin with any one sign,
and line breaks stay with the signs before them. Possessive quantifiers (``++``) avoid backtracking and save time."""

LLAMA3 = PreTokenizer(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    look_ahead=2,
)
"""An older form of GPT-4's pattern, from Llama 3's file. The two differ only in white space at the end of a text."""

QWEN2 = PreTokenizer(LLAMA3.pattern.replace(r"\p{N}{1,3}", r"\p{N}"), look_ahead=2)
"""Qwen 2's pattern: Llama 3's, but each digit is a piece."""

WHITESPACE = PreTokenizer(r"\s+|\S+", look_ahead=0)
"""Runs of white space, and the runs of other characters between them."""

LLAMA = PreTokenizer(r" *[^ \p{N}]+|\p{N}| +", look_ahead=0)
"""LLaMA's SentencePiece model: each word with all the spaces before it, and each digit alone."""

CODE = PreTokenizer(rf"\s{{2,}}|{_CONTRACTION}| ?\p{{L}}+|\p{{N}}|{_SIGNS}|\s", look_ahead=2)
"""For source code: a line break with the indentation after it is one piece, and each digit is a piece."""
