r"""Filters: which instructions and instances do not get into the pool.

A filter of instructions has a name, under which the pipeline counts what it refuses, and a method ``refuses``. The
filters here look at one instruction alone, except :class:`NearDuplicates`, which compares it with all of the pool.
"""

import re
import string
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np

from llm_anatomy.data_generation.pool import Instance


class InstructionFilter(Protocol):
    """A reason to refuse an instruction.

    Source: Wang et al. (2022), section 2.2 (filtering); GT-46.

    >>> isinstance(Length().name, str), Length().refuses("Sing.")
    (True, True)
    """

    name: ClassVar[str]
    """What is wrong with a refused instruction, in a word or two."""

    def refuses(self, instruction: str) -> bool:
        """Return whether the instruction is refused."""
        ...


@dataclass(frozen=True)
class Length:
    """Refuses instructions with too few or too many words.

    Args:
        least, most: the numbers of words that are allowed.

    Source: the published code of Wang et al. (2022), which refuses up to 3 words and more than 150; GT-46.

    >>> Length().refuses("Name three birds."), Length().refuses("Name three birds of Africa.")
    (True, False)
    """

    name: ClassVar[str] = "length"
    least: int = 4
    most: int = 150

    def refuses(self, instruction: str) -> bool:
        """Return whether the number of words is out of range."""
        return not self.least <= len(instruction.split()) <= self.most


@dataclass(frozen=True)
class Keywords:
    """Refuses instructions that ask for what a language model cannot read or make, such as images and files.

    Args:
        words: the words, compared without regard to case and as whole words.

    Source: Wang et al. (2022), section 2.2, with the words of their published code; GT-46.

    >>> Keywords().refuses("Describe the picture in one sentence."), Keywords().refuses("Explain what a pixel is.")
    (True, False)
    """

    name: ClassVar[str] = "keyword"
    words: tuple[str, ...] = (
        "image", "images", "graph", "graphs", "picture", "pictures", "file", "files", "map", "maps",
        "draw", "plot", "go to",
    )  # fmt: skip

    def refuses(self, instruction: str) -> bool:
        """Return whether the instruction contains one of the words."""
        return any(re.search(rf"\b{re.escape(word)}\b", instruction, re.IGNORECASE) for word in self.words)


@dataclass(frozen=True)
class Punctuation:
    """Refuses instructions that begin with punctuation, mostly the middle of something else.

    Source: the published code of Wang et al. (2022); GT-46.

    >>> Punctuation().refuses("- and the second of them"), Punctuation().refuses("Name two rivers in it.")
    (True, False)
    """

    name: ClassVar[str] = "punctuation"

    def refuses(self, instruction: str) -> bool:
        """Return whether the first character is punctuation."""
        return instruction.lstrip()[:1] in set(string.punctuation)


@dataclass(frozen=True)
class NotEnglish:
    """Refuses instructions whose first character is no character of ASCII, as a cheap sign of another language.

    Source: the published code of Wang et al. (2022); GT-46.

    >>> NotEnglish().refuses("Élargis la phrase par un adjectif."), NotEnglish().refuses("Translate 'très bien'.")
    (True, False)
    """

    name: ClassVar[str] = "not English"

    def refuses(self, instruction: str) -> bool:
        """Return whether the first character is outside of ASCII."""
        return not instruction.lstrip()[:1].isascii()


FILTERS: tuple[InstructionFilter, ...] = (Length(), Keywords(), Punctuation(), NotEnglish())
"""The filters of the paper that look at one instruction alone, in the order in which they are asked."""


def refused_by(instruction: str, filters: Iterable[InstructionFilter] = FILTERS) -> str | None:
    """Return the name of the first filter that refuses an instruction; None if none does.

    Args:
        instruction: any text.
        filters: in the order in which they are asked.

    Source: Wang et al. (2022), section 2.2; GT-46.

    >>> refused_by("Draw a map of the town where you live."), refused_by("Name the town where you live.")
    ('keyword', None)
    """
    return next((one.name for one in filters if one.refuses(instruction)), None)


def filter_instances(instances: Iterable[Instance], longest: int = 400) -> tuple[list[Instance], Counter[str]]:
    """Return the instances that can be used, and how many were left out for which reason.

    An instance is left out if its output is empty or repeats its input, if it is too long, and if it was there before.
    Where the same input has several outputs, all of its instances are left out, since some of them may be wrong.

    Args:
        instances: of one task.
        longest: the most words of an input and of an output.

    Source: Wang et al. (2022), section 2.2 and the appendix on heuristics; GT-46.

    >>> filter_instances([Instance("4, 2", "4"), Instance("4, 2", "4"), Instance("7, 1", "7"), Instance("7, 1", "1")])
    ([Instance(input='4, 2', output='4')], Counter({'contradiction': 2, 'repeated instance': 1}))
    """
    refused, kept = Counter[str](), list[Instance]()
    for instance in instances:
        instance = Instance(instance.input.strip(), instance.output.strip())
        if not instance.output:
            refused["empty output"] += 1
        elif instance.output == instance.input:
            refused["output repeats input"] += 1
        elif max(len(text.split()) for text in instance) > longest:
            refused["long instance"] += 1
        elif instance in kept:
            refused["repeated instance"] += 1
        else:
            kept.append(instance)
    n_outputs = Counter(instance.input for instance in kept)
    usable = [instance for instance in kept if n_outputs[instance.input] == 1 or not instance.input]
    if len(usable) < len(kept):
        refused["contradiction"] += len(kept) - len(usable)
    return usable, refused


# --- Near-duplicates ---


def words_of(text: str) -> list[str]:
    """Split a text as ROUGE does: in lower case, at everything that is neither a letter of ASCII nor a digit.

    Args:
        text: any text.

    Source: Lin (2004), "ROUGE", and the tokenizer of the package rouge-score, without stemming.

    >>> words_of("Name the child's 2 dogs!")
    ['name', 'the', 'child', 's', '2', 'dogs']
    """
    return re.findall(r"[a-z0-9]+", text.lower())


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    r"""Compute the length of the longest common subsequence: words that both texts have in the same order.

    A row of the table of dynamic programming is one integer, with one bit for each word of the first text. In row
    :math:`j`, a bit is 0 where the row of lengths goes up by one; with :math:`M_w` the positions of the word
    :math:`w`, the next row follows by an addition, whose carries run along the text:

    .. math:: V_{j+1} = (V_j + (V_j \mathbin{\&} M_w)) \mathbin{|} (V_j \mathbin{\&} \lnot M_w)

    Args:
        first, second: words, or anything that can be a key.

    Source: Hyyrö (2004), "Bit-parallel LCS-length computation revisited"; Crochemore et al. (2001).

    >>> lcs_length("name a colour of the sky".split(), "name the colour of a sky".split())
    4
    """
    return _lcs_length(_positions(first), len(first), second)


def _positions(words: Sequence[str]) -> dict[str, int]:
    """For each word, an integer whose bits say where it stands."""
    positions: dict[str, int] = {}
    for i, word in enumerate(words):
        positions[word] = positions.get(word, 0) | 1 << i
    return positions


def _lcs_length(positions: dict[str, int], n_words: int, others: Sequence[str]) -> int:
    every = (1 << n_words) - 1
    row = every
    for word in others:
        found = row & positions.get(word, 0)
        if found:
            row = (row + found) | (row - found)
    return n_words - (row & every).bit_count()


def rouge_l(first: Sequence[str], second: Sequence[str]) -> float:
    r"""Compute ROUGE-L, the F measure of the longest common subsequence.

    .. math:: F = \frac{2 P R}{P + R} = \frac{2\, \mathrm{LCS}}{m + n}, \quad P = \frac{\mathrm{LCS}}{m}, \;
        R = \frac{\mathrm{LCS}}{n}

    Args:
        first, second: the words of the two texts, from :func:`words_of`.

    Source: Lin (2004), "ROUGE", section 3, with beta 1; Wang et al. (2022), section 2.2; GT-46.

    >>> rouge_l("name three kinds of birds".split(), "name three kinds of fish".split())
    0.8
    """
    n_words = len(first) + len(second)
    return 2 * lcs_length(first, second) / n_words if n_words else 0.0


class NearDuplicates:
    r"""Refuses instructions whose ROUGE-L with any text of a growing pool reaches a threshold.

    The decisions are those of a loop over the whole pool, computed exactly, with integers. With :math:`m` and :math:`n`
    words, :math:`F \geq t` needs a common subsequence of at least :math:`t (m + n) / 2` words, and so as many words in
    common, in whatever order. These are counted for all of the pool at once, with an inverted index, which lists for
    each word the texts that contain it. Hardly any text has enough of them by chance, and only for those that do is the
    subsequence computed. Texts of very different lengths need no bound of their own: no text has more common words than
    words.

    The paper adds what is below 0.7, and so does this class; the paper's published code refuses only what is above.

    Args:
        texts: the pool at the beginning, such as the instructions of the seed tasks.
        threshold: above 0 and at most 1.

    Raises:
        ValueError: for a threshold out of range.

    Source: Wang et al. (2022), section 2.2 (0.7); Sarawagi and Kirpal (2004), "Efficient set joins on similarity
    predicates", for counting in an inverted index; GT-46.

    >>> filtered = NearDuplicates(["Name three kinds of birds.", "Sort the words by length."])
    >>> filtered.refuses("Name three kinds of fish."), filtered.refuses("Name a fish.")
    (True, False)
    >>> filtered.find("Sort by length.")
    1
    """

    name: ClassVar[str] = "near-duplicate"

    def __init__(self, texts: Iterable[str] = (), threshold: float = 0.7):
        if not 0 < threshold <= 1:
            raise ValueError(f"{threshold=} must be above 0 and at most 1")
        self.threshold = Fraction(str(threshold))  # 7/10, and not the float beside it
        self._texts: list[list[str]] = []
        self._lengths = array("q")
        self._index: defaultdict[tuple[str, int], array] = defaultdict(lambda: array("q"))
        for text in texts:
            self.add(text)

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> None:
        """Add a text to the pool, whether it is a near-duplicate or not."""
        words = words_of(text)
        for key in _numbered(words):
            self._index[key].append(len(self._texts))
        self._texts.append(words)
        self._lengths.append(len(words))

    def refuses(self, instruction: str) -> bool:
        """Return whether a text of the pool is a near-duplicate of an instruction."""
        return self.find(instruction) is not None

    def find(self, text: str) -> int | None:
        """Return the index of the oldest near-duplicate in the pool; None if there is none."""
        words = words_of(text)
        positions = _positions(words)
        for i in self._candidates(words):
            other = self._texts[i]
            if _reaches(self.threshold, _lcs_length(positions, len(words), other), len(words), len(other)):
                return i
        return None

    def _candidates(self, words: list[str]) -> list[int]:
        """The texts of the pool that have as many words in common with these as a near-duplicate must have."""
        lists = [self._index[key] for key in _numbered(words) if key in self._index]
        if not lists:
            return []
        n_shared = np.bincount(np.concatenate(lists), minlength=len(self))
        n_words = len(words) + np.frombuffer(self._lengths, np.int64)
        n_least = float(self.threshold) / 2 * n_words - 0.001  # a little less, since floats are rounded
        return np.flatnonzero(n_shared >= n_least).tolist()


def _reaches(threshold: Fraction, n_shared: int, m: int, n: int) -> bool:
    """Whether so many shared words of m and n give an F measure of the threshold."""
    return 2 * threshold.denominator * n_shared >= threshold.numerator * (m + n)


def _numbered(words: list[str]) -> list[tuple[str, int]]:
    """Each word with the number of times that it stood before, so that a repeated word can be shared repeatedly."""
    seen, numbered = Counter[str](), list[tuple[str, int]]()
    for word in words:
        numbered.append((word, seen[word]))
        seen[word] += 1
    return numbered
