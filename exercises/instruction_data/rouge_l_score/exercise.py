import re
from functools import cache

import torch


def rouge_l_score(first: str, second: str) -> float:
    """Return the F measure of the longest common subsequence of words."""
    a, b = (re.findall("[a-z0-9]+", text.lower()) for text in (first, second))
    row = [0] * (len(b) + 1)
    for word in a:
        above = row
        row = [0]
        for j, other in enumerate(b):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
    return 2 * row[-1] / (len(a) + len(b)) if row[-1] else 0.0


def accepted_recursive(first, second):
    """Recursion with a cache, and the formula as it stands."""
    a, b = (re.sub("[^a-z0-9]", " ", text.lower()).split() for text in (first, second))

    @cache
    def length(i, j):
        if i == len(a) or j == len(b):
            return 0
        return 1 + length(i + 1, j + 1) if a[i] == b[j] else max(length(i + 1, j), length(i, j + 1))

    if length(0, 0) == 0:
        return 0
    precision, recall = length(0, 0) / len(a), length(0, 0) / len(b)
    return 2 * precision * recall / (precision + recall)


def accepted_tensor(first, second):
    """A table in a tensor, and a tensor without axes as the result."""
    a, b = (re.findall("[a-z0-9]+", text.lower()) for text in (first, second))
    table = torch.zeros(len(a) + 1, len(b) + 1)
    for i, word in enumerate(a, 1):
        for j, other in enumerate(b, 1):
            table[i, j] = table[i - 1, j - 1] + 1 if word == other else torch.maximum(table[i - 1, j], table[i, j - 1])
    return 2 * table[-1, -1] / max(1, len(a) + len(b))


NAMES = ("first", "second")


def cases(generator):
    pairs = [
        ("Say whether the review is positive or not.", "Say if the review is positive or mixed?"),
        ("Sort the words.", "Sort words!"),
        ("Name a bird.", "A bird: name it."),
        ("Write it in one line, not two.", "In two, one line write it not."),
        ("The dog bites the man near the old mill", "the man near the dog bites"),
        ("Why?", "Add 2 and 3."),
        ("Is 4x4 = 16?", "is 4x4 more than 15, or is it 16"),
        ("...", "Rhyme."),
        ("Don't sing.", "Don sings"),
        ("Add_it up.", "add 2"),
        ("A well-known fish", "a known fish"),
        ("Go to the café", "the caf"),
    ]
    return [dict(zip(NAMES, pair, strict=True)) for pair in pairs]


def observe(returned, first, second):
    """the score"""
    return float(returned)


def property_symmetry(answer, generator):
    one, other = "Name the first of the four words.", "Name the last word."
    assert abs(float(answer(one, other)) - float(answer(other, one))) < 1e-6, (
        "The score should be the same if the two texts are exchanged. Yours is not."
    )


def hidden_cases(generator):
    words = ["sort", "the", "words", "of", "a", "text", "by", "their", "length", "and", "name", "the", "last", "one"]

    def text(n):
        chosen = torch.randint(len(words), (n,), generator=generator).tolist()
        return " ".join(words[i] for i in chosen).capitalize() + "."

    pairs = [(text(m), text(n)) for m, n in ((9, 12), (14, 11), (8, 17), (13, 10))]
    pairs += [
        ("Sort the words, all of them!", "sort the words"),
        ("Name it: the 3rd one", "Is the 3rd one it? Name it"),
        ("Is it 12 or 13 in 2024?", "In 1912, is it 12?"),
        ("Write the word's plural_form", "the word in its plural, not it's form"),
        ("Is the so-called résumé long?", "The r sum: is the so called one long?"),
    ]
    return [dict(zip(NAMES, pair, strict=True)) for pair in pairs]
