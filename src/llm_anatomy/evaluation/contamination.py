"""Contamination: which questions of a benchmark stand in a training text."""

from collections.abc import Iterable, Sequence

import regex


def overlaps(questions: Sequence[str], texts: Iterable[str], n: int = 13) -> list[float]:
    r"""Measure how much of each question stands in a training text: the share of its n-grams of words that occur there.

    .. math:: \frac{|\{\text{n-grams of the question}\} \cap \{\text{n-grams of the texts}\}|}
        {|\{\text{n-grams of the question}\}|}

    Words are compared in lower case and without punctuation. A question with fewer than ``n`` words is one n-gram of
    its own length. One that was copied has an overlap of 1. One that was rewritten has less, and may go unnoticed.

    Args:
        questions: with their answers, if these should count.
        texts: the training text, in any number of parts; n-grams do not cross from one part to the next.
        n: number of words.

    Raises:
        ValueError: if ``n`` is below 1, or a question has no words.

    Source: Brown et al. (2020), "Language models are few-shot learners", appendix C, with n = 13; GT-09.

    >>> overlaps(["The lake is deep and cold", "The river is deep and cold"], ["... the lake is deep, and cold."], n=3)
    [1.0, 0.5]
    """
    if n < 1:
        raise ValueError(f"{n=} must be at least 1")
    wanted = []
    for question in questions:
        words = _words(question)
        if not words:
            raise ValueError(f"the question {question!r:.60} has no words")
        wanted.append(_ngrams(words, min(n, len(words))))
    lengths = {len(gram) for grams in wanted for gram in grams}
    missing = {gram for grams in wanted for gram in grams}
    for text in texts:
        words = _words(text)
        for length in lengths:
            missing -= _ngrams(words, length)
    return [1 - len(grams & missing) / len(grams) for grams in wanted]


def _words(text: str) -> list[str]:
    return regex.findall(r"[\p{L}\p{N}]+", text.lower())


def _ngrams(words: list[str], n: int) -> set[tuple[str, ...]]:
    return set(zip(*(words[i:] for i in range(n)), strict=False))
