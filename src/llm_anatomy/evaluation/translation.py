"""A metric of the alignment of translations; BLEU is in ``text_metrics``."""

from collections.abc import Collection, Iterable

Link = tuple[int, int]
"""The index of a word in the source, and that of its counterpart in the target."""


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
