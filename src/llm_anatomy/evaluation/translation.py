"""Metrics of translations: BLEU, through sacrebleu, and the alignment error rate."""

from collections.abc import Collection, Iterable, Sequence

Link = tuple[int, int]
"""The index of a word in the source, and that of its counterpart in the target."""


def bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    r"""BLEU of a corpus, from 0 to 100: how many n-grams of the translations are in the references.

    .. math:: \mathrm{BLEU} = 100 \min\left(1, e^{1 - r/c}\right) \left(p_1 p_2 p_3 p_4\right)^{1/4}

    Here :math:`p_n` is the share of the n-grams that are in the reference, and c and r are the numbers of words in the
    translations and in the references. Words are separated by spaces; nothing else is tokenized.

    Args:
        translations: one for each sentence.
        references: the right translations, in the same order.

    Raises:
        ValueError: if there are no sentences, the numbers differ, or sacrebleu is not installed.

    Source: Papineni et al. (2002), section 2; Post (2018), "A call for clarity in reporting BLEU scores"; CMU-27.

    >>> bleu(["kavon lon vidun today ."], ["kavon lon vidun today ."])
    100.0
    """
    if not translations or len(translations) != len(references):
        raise ValueError(f"{len(translations)} translations and {len(references)} references; there must be as many")
    try:
        from sacrebleu import corpus_bleu
    except ImportError:
        raise ValueError("BLEU needs sacrebleu (pip install 'llm_anatomy[experiments]')") from None
    score = corpus_bleu(list(translations), [list(references)], tokenize="none", force=True).score
    return min(score, 100.0)  # it is computed with logarithms


def alignment_error_rate(
    found: Iterable[Collection[Link]], sure: Iterable[Collection[Link]], possible: Iterable[Collection[Link]]
) -> float:
    r"""How far an alignment of words is from the known one: 0 for a perfect one, 1 if no link is right.

    .. math:: \mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

    A are the links found, S the sure ones and P the possible ones, to which all sure ones belong, each over all
    sentences. A link that is sure must be found; one that is only possible may be found.

    Args:
        found: the links found in each sentence.
        sure, possible: the known links of each sentence.

    Raises:
        ValueError: if the numbers of sentences differ, a sure link is not possible, or there are no links at all.

    Source: Och and Ney (2003), section 5.2; UCL-31.

    >>> alignment_error_rate([{(0, 0), (1, 1)}], sure=[{(0, 0)}], possible=[{(0, 0), (2, 1)}])
    0.33333333333333337
    """
    n_right = n_links = 0
    for a, s, p in zip(map(set, found), map(set, sure), map(set, possible), strict=True):
        if not s <= p:
            raise ValueError(f"the links {sorted(s - p)} are sure and not possible; sure links must be possible ones")
        n_right += len(a & s) + len(a & p)
        n_links += len(a) + len(s)
    if not n_links:
        raise ValueError("there are no links; an alignment error rate needs some")
    return 1 - n_right / n_links
