import re
from collections import Counter


def _words(text):
    return re.findall("[a-z0-9]+", text.lower())


def _lcs(a, b):
    row = [0] * (len(b) + 1)
    for word in a:
        row = _next(row, word, b)
    return row[-1]


def _next(above, word, b):
    row = [0]
    for j, other in enumerate(b):
        row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
    return row


def _score(first, second, *, words=_words, common=_lcs, result=lambda n, a, b: 2 * n / (a + b)):
    a, b = words(first), words(second)
    n = common(a, b)
    return result(n, len(a), len(b)) if n else 0.0


def any_order(first, second):
    """You count common words in any order. In a subsequence, they stand in the same order in both texts."""
    return _score(first, second, common=lambda a, b: (Counter(a) & Counter(b)).total())


def different_words(first, second):
    """You count different common words, in any order: repeated words count once, and the order does not matter."""
    return _score(first, second, common=lambda a, b: len(set(a) & set(b)))


def without_gaps(first, second):
    """Your common words stand side by side in both texts. Other words may stand in between."""

    def longest(a, b):
        runs = [
            n
            for i in range(len(a))
            for j in range(len(b))
            for n in range(1, min(len(a) - i, len(b) - j) + 1)
            if a[i : i + n] == b[j : j + n]
        ]
        return max(runs, default=0)

    return _score(first, second, common=longest)


def precision_alone(first, second):
    """You divide by the number of words of the first text. The measure takes both texts into account."""
    return _score(first, second, result=lambda n, a, b: n / a)


def recall_alone(first, second):
    """You divide by the number of words of the second text. The measure takes both texts into account."""
    return _score(first, second, result=lambda n, a, b: n / b)


def arithmetic_mean(first, second):
    """You take the arithmetic mean of P and R. F is their harmonic mean."""
    return _score(first, second, result=lambda n, a, b: (n / a + n / b) / 2)


def geometric_mean(first, second):
    """You take the geometric mean of P and R. F is their harmonic mean."""
    return _score(first, second, result=lambda n, a, b: n / (a * b) ** 0.5)


def factor_forgotten(first, second):
    """Your scores are half as large as they should be: two texts that are the same have the score 1."""
    return _score(first, second, result=lambda n, a, b: n / (a + b))


def jaccard(first, second):
    """You divide by the words that are in either text. This is another measure of similarity."""
    return _score(first, second, result=lambda n, a, b: n / (a + b - n))


def longer_text(first, second):
    """You divide by the number of words of the longer text."""
    return _score(first, second, result=lambda n, a, b: n / max(a, b))


def shorter_text(first, second):
    """You divide by the number of words of the shorter text."""
    return _score(first, second, result=lambda n, a, b: n / min(a, b))


def length_alone(first, second):
    """You return the length of the longest common subsequence. Divide by the lengths of the texts."""
    return float(_score(first, second, result=lambda n, a, b: n))


def capitals(first, second):
    """You distinguish capital and small letters."""
    return _score(first, second, words=lambda text: re.findall("[A-Za-z0-9]+", text))


def punctuation(first, second):
    """You split at spaces, so that a word with a full stop is not the word without it."""
    return _score(first, second, words=lambda text: text.lower().split())


def capitals_and_punctuation(first, second):
    """You split at spaces and leave the words as they are: capital letters and punctuation make words differ."""
    return _score(first, second, words=str.split)


def letters(first, second):
    """You compare letters. A subsequence consists of whole words."""
    return _score(first, second, words=lambda text: [*"".join(_words(text))])


def no_digits(first, second):
    """You leave out digits, which belong to the words."""
    return _score(first, second, words=lambda text: re.findall("[a-z]+", text.lower()))


def greedy(first, second):
    """You take each word of the first text at its first chance. A word that comes early may cost many later ones."""

    def length(a, b):
        n, j = 0, 0
        for word in a:
            if word in b[j:]:
                j = b.index(word, j) + 1
                n += 1
        return n

    return _score(first, second, common=length)


def every_match_counts(first, second):
    """Where two words are the same, your table adds 1 to the entry above or to the left. So a word can be used twice;
    add 1 to the entry diagonally above."""

    def length(a, b):
        row = [0] * (len(b) + 1)
        for word in a:
            above = row
            row = [0]
            for j, other in enumerate(b):
                row.append(max(above[j + 1], row[j]) + (word == other))
        return row[-1]

    return _score(first, second, common=length)


def apostrophes(first, second):
    """You let an apostrophe belong to a word. It separates two words, as any character but a letter or a digit does."""
    return _score(first, second, words=lambda text: re.findall("[a-z0-9']+", text.lower()))


def underscores(first, second):
    """You let an underscore belong to a word, as the pattern for word characters does. It separates two words."""
    return _score(first, second, words=lambda text: re.findall(r"\w+", text.lower()))
