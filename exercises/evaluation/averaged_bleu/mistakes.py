import math
from collections import Counter


def _counts(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _pooled(translations, references, n, clip=True):
    matches = total = 0
    for translation, reference in zip(translations, references, strict=True):
        found, wanted = _counts(translation, n), _counts(reference, n)
        matches += (found & wanted).total() if clip else sum(c for gram, c in found.items() if gram in wanted)
        total += found.total()
    return matches, total


def _penalty(translations, references, sign=1):
    c, r = sum(map(len, translations)), sum(map(len, references))
    return min(1.0, math.exp(1 - r / c)) if sign == 1 else min(1.0, math.exp(1 - c / r))


def _mean(shares):
    product = math.prod(shares)
    return product ** (1 / len(shares))


def _shares(translations, references, max_n, **options):
    pairs = [_pooled(translations, references, n, **options) for n in range(1, max_n + 1)]
    return [matches / total if total else 0.0 for matches, total in pairs]


def mean_of_sentences(translations, references, max_n):
    """You average BLEU over the sentences. That is another measure: add up matches and n-grams over the corpus."""
    scores = [
        _penalty([a], [b]) * _mean(_shares([a], [b], max_n)) for a, b in zip(translations, references, strict=True)
    ]
    return sum(scores) / len(scores)


def empty_sentences_counted(translations, references, max_n):
    """You still average the precisions of the sentences, and count those that are too short for n words as 0."""
    shares = []
    for n in range(1, max_n + 1):
        pairs = [_pooled([a], [b], n) for a, b in zip(translations, references, strict=True)]
        shares.append(sum(m / t if t else 0.0 for m, t in pairs) / len(pairs))
    return _penalty(translations, references) * _mean(shares)


def weighted_by_words(translations, references, max_n):
    """You weigh the precision of each sentence by its words. Its n-grams are fewer for n > 1."""
    shares = []
    for n in range(1, max_n + 1):
        total = 0.0
        for a, b in zip(translations, references, strict=True):
            m, t = _pooled([a], [b], n)
            total += len(a) * (m / t if t else 0.0)
        shares.append(total / sum(map(len, translations)))
    return _penalty(translations, references) * _mean(shares)


def not_clipped(translations, references, max_n):
    """You add up over the corpus now, but your matches are no longer clipped by the counts in the reference."""
    return _penalty(translations, references) * _mean(_shares(translations, references, max_n, clip=False))


def penalty_forgotten(translations, references, max_n):
    """Your precisions are right, but the penalty for brevity is missing."""
    return _mean(_shares(translations, references, max_n))


def penalty_turned_round(translations, references, max_n):
    """Your precisions are right, but the penalty is for long translations. It is for short ones."""
    return _penalty(translations, references, sign=-1) * _mean(_shares(translations, references, max_n))


def arithmetic_mean(translations, references, max_n):
    """You average the precisions of the lengths. BLEU takes their geometric mean."""
    shares = _shares(translations, references, max_n)
    return _penalty(translations, references) * sum(shares) / len(shares)


def root_forgotten(translations, references, max_n):
    """You multiply the precisions, but the root of their product is missing."""
    return _penalty(translations, references) * math.prod(_shares(translations, references, max_n))


def divided_by_the_reference(translations, references, max_n):
    """You divide by the n-grams of the references. A precision is divided by those of the translations."""
    shares = []
    for n in range(1, max_n + 1):
        total = sum(_counts(b, n).total() for b in references)
        shares.append(_pooled(translations, references, n)[0] / total if total else 0.0)
    return _penalty(translations, references) * _mean(shares)


def one_bag_of_ngrams(translations, references, max_n):
    """You compare all translations with all references at once. A match has to be in the reference of the same
    sentence."""
    shares = []
    for n in range(1, max_n + 1):
        found, wanted = (sum((_counts(s, n) for s in texts), Counter()) for texts in (translations, references))
        shares.append((found & wanted).total() / found.total() if found else 0.0)
    return _penalty(translations, references) * _mean(shares)


def from_zero_to_hundred(translations, references, max_n):
    """Your BLEU is from 0 to 100. The function should return it from 0 to 1."""
    return 100 * _penalty(translations, references) * _mean(_shares(translations, references, max_n))


def without_lengths_that_fail(translations, references, max_n):
    """You leave out the lengths for which no n-gram matches. A precision of 0 makes the result 0."""
    shares = [share or 1.0 for share in _shares(translations, references, max_n)]
    return _penalty(translations, references) * _mean(shares)


def without_lengths_that_are_too_long(translations, references, max_n):
    """You leave out the lengths for which no translation has enough words. Their precision is 0, and so is the
    result."""
    pairs = [_pooled(translations, references, n) for n in range(1, max_n + 1)]
    return _penalty(translations, references) * _mean([m / t if t else 1.0 for m, t in pairs])
