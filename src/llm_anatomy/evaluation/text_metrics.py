"""Metrics of generated text against reference texts: BLEU, ROUGE, exact match and F1."""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


def ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """Count the n-grams of a text.

    Args:
        words: the words of the text.
        n: length of an n-gram, at least 1.

    Raises:
        ValueError: if ``n`` is below 1.

    Source: Papineni et al. (2002), "BLEU: a method for automatic evaluation of machine translation", section 2; CMU-27.

    >>> ngrams("the cat and the cat".split(), 2)[("the", "cat")]
    2
    """
    if n < 1:
        raise ValueError(f"{n=} must be at least 1")
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def ngram_precisions(translations: Sequence[str], references: Sequence[str], max_n: int = 4) -> list[tuple[int, int]]:
    r"""Count for each length n how many n-grams of the translations are in their references, of how many.

    An n-gram counts at most as often as the reference has it.

    .. math:: p_n = \frac{\sum_g \min(\mathrm{count}_\text{translation}(g), \mathrm{count}_\text{reference}(g))}
        {\sum_g \mathrm{count}_\text{translation}(g)}

    Args:
        translations: one for each sentence; words are separated by spaces.
        references: the right translations, in the same order.
        max_n: length of the longest n-grams.

    Returns:
        Numerator and denominator of each precision.

    Raises:
        ValueError: if the numbers of sentences differ.

    Source: Papineni et al. (2002), section 2.1; CMU-27.

    >>> ngram_precisions(["the the the cat"], ["the cat sat"], max_n=2)
    [(2, 4), (1, 3)]
    """
    _check_pairs(translations, references)
    counts = []
    for n in range(1, max_n + 1):
        both = [(ngrams(a.split(), n), ngrams(b.split(), n)) for a, b in zip(translations, references, strict=True)]
        counts.append((sum((a & b).total() for a, b in both), sum(a.total() for a, _ in both)))
    return counts


def brevity_penalty(n_words: int, n_reference: int) -> float:
    r"""Penalty of BLEU for translations that are shorter than their references.

    .. math:: \mathrm{BP} = \min\left(1, e^{1 - r/c}\right)

    Args:
        n_words: number of words c of all translations.
        n_reference: number of words r of all references.

    Source: Papineni et al. (2002), section 2.2; CMU-27.

    >>> brevity_penalty(12, 10), round(brevity_penalty(8, 10), 4)
    (1.0, 0.7788)
    """
    return min(1.0, math.exp(1 - n_reference / n_words)) if n_words else 0.0


def bleu_by_hand(translations: Sequence[str], references: Sequence[str], max_n: int = 4) -> float:
    r"""BLEU of a corpus, from 0 to 100, from its definition, without smoothing: 0 if one precision is 0.

    .. math:: \mathrm{BLEU} = 100\, \mathrm{BP} \exp\Big(\frac{1}{N} \sum_{n=1}^{N} \log p_n\Big)

    Args:
        translations: one for each sentence; words are separated by spaces.
        references: the right translations, in the same order.
        max_n: length N of the longest n-grams.

    Raises:
        ValueError: if there are no sentences, or their numbers differ.

    Source: Papineni et al. (2002), section 2.3; CMU-27.

    >>> round(bleu_by_hand(["the cat sat on a mat"], ["the cat sat on the mat"]), 2)
    53.73
    """
    _check_pairs(translations, references)
    counts = ngram_precisions(translations, references, max_n)
    if not all(matches for matches, _ in counts):
        return 0.0
    logarithms = [math.log(matches / total) for matches, total in counts]
    n_words, n_reference = (sum(len(text.split()) for text in texts) for texts in (translations, references))
    return 100 * brevity_penalty(n_words, n_reference) * math.exp(sum(logarithms) / max_n)


def bleu(translations: Sequence[str], references: Sequence[str], tokenize: str = "none") -> float:
    r"""BLEU of a corpus, from 0 to 100, through sacrebleu: how many n-grams of the translations are in the references.

    .. math:: \mathrm{BLEU} = 100 \min\left(1, e^{1 - r/c}\right) \left(p_1 p_2 p_3 p_4\right)^{1/4}

    Here :math:`p_n` is the share of the n-grams that are in the reference, and c and r are the numbers of words in the
    translations and in the references. A precision of 0 is smoothed, unless there is not a single match.

    Args:
        translations: one for each sentence.
        references: the right translations, in the same order.
        tokenize: how sacrebleu separates words: by spaces alone (``"none"``), or as its ``"13a"``, ``"intl"``, ``"zh"``
            and others do.

    Raises:
        ValueError: if there are no sentences, the numbers differ, or sacrebleu is not installed.

    Source: Papineni et al. (2002), section 2; Post (2018), "A call for clarity in reporting BLEU scores"; CMU-27.

    >>> bleu(["kavon lon vidun today ."], ["kavon lon vidun today ."])
    100.0
    """
    return bleu_with_signature(translations, references, tokenize)[0]


def bleu_with_signature(
    translations: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> tuple[float, str]:
    """BLEU of a corpus, and sacrebleu's signature, which says with which settings and version it was computed.

    Args:
        translations: one for each sentence.
        references: the right translations, in the same order.
        tokenize: as in :func:`bleu`.

    Raises:
        ValueError: as :func:`bleu` does.

    Source: Post (2018), "A call for clarity in reporting BLEU scores", section 4; CMU-27.

    >>> score, signature = bleu_with_signature(["The cat sat on a mat."], ["The cat sat on the mat."])
    >>> round(score, 1), signature.partition("|version")[0]
    (48.9, 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp')
    """
    _check_pairs(translations, references)
    try:
        from sacrebleu import BLEU
    except ImportError:
        raise ValueError("BLEU needs sacrebleu (pip install 'llm_anatomy[experiments]')") from None
    metric = BLEU(tokenize=tokenize, force=True)
    score = metric.corpus_score(list(translations), [list(references)]).score
    return min(score, 100.0), str(metric.get_signature())  # it is computed with logarithms


class Rouge(NamedTuple):
    """A score of ROUGE: how much of the candidate is in the reference, how much of the reference is found, and both.

    Args:
        precision: share of the candidate that matches.
        recall: share of the reference that matches.
        f1: harmonic mean of the two.

    Source: Lin (2004), "ROUGE: a package for automatic evaluation of summaries", section 2; GT-46.

    >>> Rouge.from_counts(n_matches=3, n_candidate=4, n_reference=6)
    Rouge(precision=0.75, recall=0.5, f1=0.6)
    """

    precision: float
    recall: float
    f1: float

    @classmethod
    def from_counts(cls, n_matches: int, n_candidate: int, n_reference: int) -> "Rouge":
        """The score from the number of matches and the lengths of both texts."""
        if not n_matches:
            return cls(0.0, 0.0, 0.0)
        return cls(n_matches / n_candidate, n_matches / n_reference, 2 * n_matches / (n_candidate + n_reference))


def rouge_words(text: str) -> list[str]:
    """Split a text into the words that ROUGE compares: runs of the letters a to z and digits, in lower case.

    Args:
        text: the text.

    Source: the package rouge-score, version 0.1.2, without stemming; GT-46.

    >>> rouge_words("Don't stop: it's 42!")
    ['don', 't', 'stop', 'it', 's', '42']
    """
    return re.findall(r"[a-z0-9]+", text.lower())


def rouge_n(candidate: str, reference: str, n: int = 1) -> Rouge:
    r"""ROUGE-N: the n-grams that two texts share.

    .. math:: R = \frac{\text{matches}}{\text{n-grams of the reference}}, \quad
        P = \frac{\text{matches}}{\text{n-grams of the candidate}}, \quad F_1 = \frac{2 P R}{P + R}

    Args:
        candidate: the generated text.
        reference: the reference.
        n: length of an n-gram.

    Source: Lin (2004), section 2; GT-46.

    >>> rouge_n("the cat sat", "the cat was here", n=1).recall
    0.5
    """
    found, wanted = (ngrams(rouge_words(text), n) for text in (candidate, reference))
    return Rouge.from_counts((found & wanted).total(), found.total(), wanted.total())


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    r"""Find the longest sequence of words that both texts have in the same order, perhaps with others in between.

    .. math:: \ell_{ij} = \begin{cases} \ell_{i+1, j+1} + 1 & a_i = b_j \\
        \max(\ell_{i+1, j}, \ell_{i, j+1}) & \text{otherwise} \end{cases}

    Args:
        first, second: the words of the two texts.

    Returns:
        The index in the first text and in the second of each word of the sequence. Of several sequences of the same
        length, the one that matches earliest in the first text.

    Source: Wagner and Fischer (1974), "The string-to-string correction problem"; Lin (2004), section 3; GT-46.

    >>> longest_common_subsequence("police killed the gunman".split(), "police kill the gunman".split())
    [(0, 0), (2, 2), (3, 3)]
    """
    rows, columns = len(first), len(second)
    lengths = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            same = first[i] == second[j]
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same else max(lengths[i + 1][j], lengths[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < rows and j < columns:
        if first[i] == second[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i][j + 1] == lengths[i][j]:
            j += 1
        else:
            i += 1
    return pairs


def rouge_l(candidate: str, reference: str) -> Rouge:
    r"""ROUGE-L: the longest common subsequence of two texts.

    .. math:: R = \frac{\mathrm{LCS}}{n_\text{reference}}, \quad P = \frac{\mathrm{LCS}}{n_\text{candidate}}, \quad
        F_1 = \frac{2 P R}{P + R}

    Args:
        candidate: the generated text.
        reference: the reference.

    Source: Lin (2004), section 3; Wang et al. (2022), "Self-Instruct", section 2.2, which refuses a new instruction
    whose ROUGE-L with an older one is 0.7 or more; GT-46.

    >>> rouge_l("police killed the gunman", "police kill the gunman").f1
    0.75
    """
    found, wanted = rouge_words(candidate), rouge_words(reference)
    return Rouge.from_counts(len(longest_common_subsequence(found, wanted)), len(found), len(wanted))


def normalize_answer(text: str) -> str:
    """Bring an answer into the form that is compared: lower case, without punctuation, articles and extra spaces.

    Args:
        text: the answer.

    Source: Rajpurkar et al. (2016), "SQuAD: 100,000+ questions for machine comprehension of text", section 6, and their
    script; GT-10.

    >>> normalize_answer("The  Eiffel Tower, Paris.")
    'eiffel tower paris'
    """
    letters = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", letters).split())


def exact_match(prediction: str, answers: str | Sequence[str]) -> bool:
    """Check whether an answer is one of the right ones after :func:`normalize_answer`.

    Args:
        prediction: the model's answer.
        answers: the right answer, or several.

    Source: Rajpurkar et al. (2016), section 6.1; GT-10.

    >>> exact_match("the Moon!", ["moon", "the earth's moon"])
    True
    """
    return normalize_answer(prediction) in [normalize_answer(answer) for answer in _several(answers)]


def token_f1(prediction: str, answers: str | Sequence[str]) -> float:
    r"""Overlap of the words of an answer with those of the right one, at best over several right ones.

    .. math:: F_1 = \frac{2 \cdot \text{common words}}{\text{words of the prediction} + \text{words of the answer}}

    Args:
        prediction: the model's answer.
        answers: the right answer, or several.

    Source: Rajpurkar et al. (2016), section 6.1; GT-10.

    >>> round(token_f1("in the city of Paris", ["Paris", "Lyon"]), 2)
    0.4
    """
    found = Counter(normalize_answer(prediction).split())
    scores = []
    for answer in _several(answers):
        wanted = Counter(normalize_answer(answer).split())
        n_words = found.total() + wanted.total()
        scores.append(2 * (found & wanted).total() / n_words if n_words else 1.0)
    return max(scores, default=0.0)


def _several(answers: str | Sequence[str]) -> Sequence[str]:
    return [answers] if isinstance(answers, str) else answers


def _check_pairs(translations: Sequence[str], references: Sequence[str]) -> None:
    if isinstance(translations, str) or isinstance(references, str):
        raise ValueError("translations and references must be lists of sentences, not one string")
    if not translations or len(translations) != len(references):
        raise ValueError(f"{len(translations)} translations and {len(references)} references; there must be as many")
