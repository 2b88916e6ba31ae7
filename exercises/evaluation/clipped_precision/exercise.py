from collections import Counter

import torch


def clipped_precision(translation: list[str], references: list[list[str]], n: int) -> tuple[int, int]:
    """Return how many n-grams of the translation count as found, and how many there are."""

    def ngrams(words):
        return Counter(zip(*(words[k:] for k in range(n)), strict=False))

    found, allowed = ngrams(translation), Counter()
    for reference in references:
        allowed |= ngrams(reference)
    return (found & allowed).total(), found.total()


def accepted_loops(translation, references, n):
    """Joins n-grams to strings, counts in loops, and returns a list of floats."""
    grams = ["\n".join(translation[i : i + n]) for i in range(len(translation) - n + 1)]
    others = [["\n".join(r[i : i + n]) for i in range(len(r) - n + 1)] for r in references]
    matches = 0
    for gram in set(grams):
        matches += min(grams.count(gram), max(each.count(gram) for each in others))
    return [float(matches), float(len(grams))]


def accepted_crossing_out(translation, references, n):
    """Crosses n-grams out, reference by reference, and returns a tensor."""
    grams = [tuple(translation[i : i + n]) for i in range(len(translation) - n + 1)]
    most = {}
    for reference in references:
        for gram in set(grams):
            count = sum(tuple(reference[i : i + n]) == gram for i in range(len(reference)))
            most[gram] = max(count, most.get(gram, 0))
    matches = 0
    for gram in grams:
        if most.get(gram, 0) > 0:
            most[gram] -= 1
            matches += 1
    return torch.tensor([matches, len(grams)])


def observe(returned, translation, references, n):
    """the two numbers, the numerator first"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "two numbers are needed, not their ratio"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return tuple(map(float, numbers))


NAMES = ("translation", "references", "n")


def cases(generator):
    rows = [
        ("the the the the the the the", ["the cat is on the mat", "there is a cat on the mat"], 1),
        ("a b a", ["b a", "a c a"], 1),
        ("a b a b", ["a b", "b a b c"], 2),
        ("b a c", ["a b c", "c d a"], 2),
        ("so it is", ["it is so it seems", "it is what it is"], 2),
        ("on the mat the cat sat on the mat", ["the cat sat on the mat on the mat", "on the mat sat a cat"], 3),
        ("cat", ["the cat sat"], 3),
        ("he read the book he read", ["he read", "the book he had", "he read it and he read on"], 2),
        ("It was as it was", ["it was as it was"], 2),
    ]
    return [dict(zip(NAMES, (a.split(), [b.split() for b in bs], n), strict=True)) for a, bs, n in rows]


def property_copy(answer, generator):
    words = ["a", "rose", "is", "a", "rose", "is", "a", "rose"]
    for n in (1, 2, 4):
        matches, total = map(float, answer(list(words), [["no"], list(words)], n))
        assert matches == total == 9 - n, (
            f"A translation that equals a reference should match in all of its {9 - n} n-grams for n = {n}. "
            f"Yours does not."
        )


def hidden_cases(generator):
    def drawn(n_words, n_references, n):
        def text(length):
            return ["abc"[i] for i in torch.randint(3, (length,), generator=generator).tolist()]

        references = [text(n_words - 1 - i) for i in range(n_references)]
        return dict(zip(NAMES, (text(n_words), references, n), strict=True))

    fixed = [
        ("to be or not to be to be", ["to be or not", "to be and to be"], 2),
        ("no one sees no one", ["one no sees", "sees one no"], 2),
        ("go go go on", ["go go", "go on go", "on go go"], 1),
        ("We saw what we saw", ["we saw what we saw"], 2),
        ("we", ["we saw"], 4),
    ]
    rows = [dict(zip(NAMES, (a.split(), [b.split() for b in bs], n), strict=True)) for a, bs, n in fixed]
    return [*rows, drawn(11, 2, 1), drawn(12, 2, 2), drawn(14, 3, 2), drawn(16, 3, 3)]
