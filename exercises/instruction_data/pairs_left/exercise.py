from collections import Counter
from itertools import combinations

import torch


def pairs_left(texts: list[list[str]], threshold: float) -> tuple[int, int]:
    """Return how many pairs are left by the bound of the lengths, and by that of the common words."""
    by_length = by_words = 0
    for a, b in combinations(texts, 2):
        by_length += 2 * min(len(a), len(b)) / (len(a) + len(b)) >= threshold
        by_words += 2 * (Counter(a) & Counter(b)).total() / (len(a) + len(b)) >= threshold
    return by_length, by_words


def accepted_loops(texts, threshold):
    """Loops over indices, crosses out common words, and returns a list."""
    left = [0, 0]
    for i in range(len(texts)):
        for j in range(i):
            rest, n_common = list(texts[j]), 0
            for word in texts[i]:
                if word in rest:
                    rest.remove(word)
                    n_common += 1
            m, n = len(texts[i]), len(texts[j])
            left[0] += not 2 * min(m, n) < threshold * (m + n)
            left[1] += not 2 * n_common < threshold * (m + n)
    return left


def accepted_matrix(texts, threshold):
    """Counts words in a matrix, and returns a tensor."""
    vocabulary = sorted({word for text in texts for word in text})
    counts = torch.tensor([[text.count(word) for word in vocabulary] for text in texts])
    sizes = counts.sum(1)
    common = torch.minimum(counts[:, None], counts).sum(-1)
    shorter = torch.minimum(sizes[:, None], sizes)
    bounds = 2 * torch.stack((shorter, common)) / (sizes[:, None] + sizes)
    return (bounds >= threshold).triu(diagonal=1).sum((1, 2))


def observe(returned, texts, threshold):
    """the two numbers of pairs"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "two numbers are needed"
    numbers = [float(number) for number in numbers]
    assert all(number.is_integer() for number in numbers), "the numbers of pairs should be whole"
    return tuple(map(int, numbers))


def _drawn(generator, n_texts, n_words, least, most):
    words = ["sort", "name", "the", "a", "words", "text", "of", "by", "two", "in", "line", "list"][:n_words]
    sizes = torch.randint(least, most + 1, (n_texts,), generator=generator).tolist()
    return [[words[i] for i in torch.randint(n_words, (size,), generator=generator).tolist()] for size in sizes]


def cases(generator):
    lecture = ["name three kinds of birds", "name three kinds of fish", "sort the words of the text by length", "rhyme"]
    return [
        {"texts": [text.split() for text in lecture], "threshold": 0.7},
        {"texts": [["a", "a", "b"], ["a", "a", "c"]], "threshold": 0.55},
        {"texts": [["b", "a"], ["a", "b"], ["a"]], "threshold": 0.65},
        {"texts": [["a"], ["a", "b", "c"]], "threshold": 0.5},
        {"texts": [["go", "on"], ["come", "on"], ["come", "by"]], "threshold": 0.5},  # one word decides
        {"texts": [["a", "b"], ["c"], ["a", "b"], ["b", "a", "c"]], "threshold": 0.75},
        {"texts": _drawn(generator, 20, 7, 3, 9), "threshold": 0.7},
        {"texts": _drawn(generator, 25, 5, 1, 12), "threshold": 0.62},
        {"texts": _drawn(generator, 15, 12, 4, 20), "threshold": 0.45},
        {"texts": [["Go", "on"], ["go", "on"]], "threshold": 0.75},
    ]


def property_the_second_bound_is_stronger(answer, generator):
    texts = [["a", "b"], ["b", "c"], ["c", "c", "a"], ["a", "b", "c", "d"]]
    first, second = (float(number) for number in answer(texts, 0.6))
    assert second <= first, "The second bound should never leave more pairs than the first. Yours does."


def hidden_cases(generator):
    return [
        {"texts": _drawn(generator, *sizes), "threshold": threshold}
        for sizes, threshold in (((30, 6, 2, 10), 0.7), ((18, 9, 3, 15), 0.53), ((24, 4, 1, 8), 0.81))
    ] + [
        {"texts": [["a"], ["a", "b", "b"], ["b", "a", "b"]], "threshold": 0.5},
        {"texts": [["a", "c"], ["b"], ["a", "c"], ["a", "c"], ["c", "b", "a"]], "threshold": 0.75},
        {"texts": [["A", "c"], ["a", "c"], ["b", "c", "C"], ["c", "b", "c"]], "threshold": 0.65},
    ]
