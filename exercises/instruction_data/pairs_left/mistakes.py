from collections import Counter
from itertools import combinations


def _shorter(a, b):
    return 2 * min(len(a), len(b)) / (len(a) + len(b))


def _common(a, b):
    return 2 * (Counter(a) & Counter(b)).total() / (len(a) + len(b))


def _lcs(a, b):
    row = [0] * (len(b) + 1)
    for word in a:
        above = row
        row = [0]
        for j, other in enumerate(b):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
    return 2 * row[-1] / (len(a) + len(b))


def _left(texts, threshold, first=_shorter, second=_common, reaches=lambda bound, t: bound >= t):
    pairs = list(combinations(texts, 2))
    return tuple(sum(reaches(bound(a, b), threshold) for a, b in pairs) for bound in (first, second))


def ordered_pairs(texts, threshold):
    """You count each pair twice, once from each side."""
    return tuple(2 * n for n in _left(texts, threshold))


def pairs_with_itself(texts, threshold):
    """You count a text and itself as a pair."""
    return tuple(n + len(texts) for n in _left(texts, threshold))


def all_of_them(texts, threshold):
    """You compare each text with all texts, also with itself, so that each pair counts twice."""
    return tuple(2 * n + len(texts) for n in _left(texts, threshold))


def each_word_once(texts, threshold):
    """In the second bound, you count each common word once. A word that stands twice in both texts counts twice."""
    return _left(texts, threshold, second=lambda a, b: 2 * len(set(a) & set(b)) / (len(a) + len(b)))


def words_of_one_text(texts, threshold):
    """In the second bound, you count the words of one text that stand in the other. A word that stands there
    only once counts once."""
    return _left(texts, threshold, second=lambda a, b: 2 * sum(word in b for word in a) / (len(a) + len(b)))


def subsequence_computed(texts, threshold):
    """Your second number is right for ROUGE-L itself. The bound counts common words in any order, and leaves more."""
    return _left(texts, threshold, second=_lcs)


def ratio_of_lengths(texts, threshold):
    """Your first bound compares the ratio of the lengths with the threshold. Put the shorter length into the formula
    for F."""
    return _left(texts, threshold, first=lambda a, b: min(len(a), len(b)) / max(len(a), len(b)))


def factor_forgotten(texts, threshold):
    """You forget the factor 2 in the formula for F."""
    return _left(texts, threshold, first=lambda a, b: _shorter(a, b) / 2, second=lambda a, b: _common(a, b) / 2)


def longer_text(texts, threshold):
    """Your first bound leaves out no pair at all. Put the length of the shorter text into the formula for F, and
    divide by both lengths."""
    return _left(texts, threshold, first=lambda a, b: 2 * max(len(a), len(b)) / (len(a) + len(b)))


def above_only(texts, threshold):
    """You leave out pairs whose bound equals the threshold. They could reach it."""
    return _left(texts, threshold, reaches=lambda bound, t: bound > t)


def skipped_counted(texts, threshold):
    """You count the pairs that are skipped. Count those that are left."""
    return _left(texts, threshold, reaches=lambda bound, t: bound < t)


def jaccard(texts, threshold):
    """In the second bound, you divide by the words that are in either text, as another measure does. Put the number of
    common words into the formula for F."""
    return _left(
        texts, threshold, second=lambda a, b: (Counter(a) & Counter(b)).total() / (Counter(a) | Counter(b)).total()
    )


def exchanged(texts, threshold):
    """You return the two numbers in the wrong order."""
    return _left(texts, threshold)[::-1]


def neighbours(texts, threshold):
    """You compare each text with the next one only. All pairs are asked for."""
    pairs = list(zip(texts, texts[1:], strict=False))
    return tuple(sum(bound(a, b) >= threshold for a, b in pairs) for bound in (_shorter, _common))


def same_words_left_out(texts, threshold):
    """You leave out pairs of texts that have the same words. They are pairs, too."""
    pairs = [(a, b) for a, b in combinations(texts, 2) if a != b]
    return tuple(sum(bound(a, b) >= threshold for a, b in pairs) for bound in (_shorter, _common))


def each_text_once(texts, threshold):
    """You take a text once if it stands in the list several times. Each of them forms pairs."""
    return _left([list(text) for text in dict.fromkeys(map(tuple, texts))], threshold)


def capitals_ignored(texts, threshold):
    """In the second bound, you count words as common that differ in capital letters. Compare them as they are."""
    return _left(texts, threshold, second=lambda a, b: _common([w.lower() for w in a], [w.lower() for w in b]))
