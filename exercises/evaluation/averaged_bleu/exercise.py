import math
from collections import Counter

import numpy as np
import torch


def broken(translations: list[list[str]], references: list[list[str]], max_n: int) -> float:
    """Return BLEU of a corpus, from 0 to 1."""

    def ngrams(words, n):
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    product = 1.0
    for n in range(1, max_n + 1):
        precisions = []
        for translation, reference in zip(translations, references, strict=True):
            found, wanted = ngrams(translation, n), ngrams(reference, n)
            if found:
                precisions.append((found & wanted).total() / found.total())
        product *= sum(precisions) / len(precisions) if precisions else 0.0
    n_words, n_reference = sum(map(len, translations)), sum(map(len, references))
    return min(1.0, math.exp(1 - n_reference / n_words)) * product ** (1 / max_n)


def averaged_bleu(translations: list[list[str]], references: list[list[str]], max_n: int) -> float:
    """Return BLEU of a corpus, from 0 to 1."""

    def ngrams(words, n):
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    product = 1.0
    for n in range(1, max_n + 1):
        matches = total = 0
        for translation, reference in zip(translations, references, strict=True):
            found, wanted = ngrams(translation, n), ngrams(reference, n)
            matches, total = matches + (found & wanted).total(), total + found.total()
        product *= matches / total if total else 0.0
    n_words, n_reference = sum(map(len, translations)), sum(map(len, references))
    return min(1.0, math.exp(1 - n_reference / n_words)) * product ** (1 / max_n)


def accepted_weighted_average(translations, references, max_n):
    """Weighs the precision of each sentence by its number of n-grams, and takes logarithms, with NumPy."""

    def grams(words, n):
        return [" ".join(words[i : i + n]) for i in range(max(len(words) - n + 1, 0))]

    logs = []
    for n in range(1, max_n + 1):
        own = [grams(words, n) for words in translations]
        other = [grams(words, n) for words in references]
        hits = [sum(min(a.count(g), b.count(g)) for g in set(a)) for a, b in zip(own, other, strict=True)]
        shares = [hit / max(len(a), 1) for hit, a in zip(hits, own, strict=True)]
        weights = [len(a) for a in own]
        if not sum(hits):
            return 0
        logs.append(np.log(np.average(shares, weights=weights)))
    c, r = len(sum(translations, [])), len(sum(references, []))
    return np.exp(np.mean(logs) + min(0, 1 - r / c))


def accepted_joined(translations, references, max_n):
    """Tags the n-grams with the number of their sentence, and counts them all at once."""
    result = 1.0
    for n in range(1, max_n + 1):
        found, wanted = (
            Counter((k, *s[i : i + n]) for k, s in enumerate(texts) for i in range(len(s) - n + 1))
            for texts in (translations, references)
        )
        if not (found & wanted):
            return 0.0
        result *= (found & wanted).total() / found.total()
    c, r = sum(len(s) for s in translations), sum(len(s) for s in references)
    return result ** (1 / max_n) * (1.0 if c > r else math.exp(1 - r / c))


NAMES = ("translations", "references", "max_n")


def _case(pairs, max_n):
    translations, references = zip(*((a.split(), b.split()) for a, b in pairs), strict=True)
    return dict(zip(NAMES, (list(translations), list(references), max_n), strict=True))


def cases(generator):
    long = ("the cat sat on the mat and slept all day", "the cat sat on the mat and slept the whole day")
    return [
        _case([long, ("no dogs here today", "dogs are not here")], 4),
        _case([("a b", "b a"), ("c", "c")], 1),
        _case([("a b c d", "a b c e"), ("x y", "y x z")], 2),
        _case([long, ("it rains", "it is raining"), ("so it did so it did", "so it did indeed")], 3),
        _case([("the the", "the"), ("on a lake", "on the lake near a wood")], 1),
        _case([long], 4),
        _case([("a b c d", "a b c"), ("e f g", "e f")], 1),
        _case([("a b c d e", "a b c d f"), ("x", "y"), ("a b", "a b")], 3),
        _case([("a b c", "a b x"), ("b c d e", "q b c y z w")], 2),
        _case([("a b c", "a c b"), ("d e f g", "g f e d"), ("h", "h")], 2),
        _case([("a b", "a b"), ("c d", "c")], 3),
    ]


def property_copies(answer, generator):
    pair = (
        [["we", "went", "to", "the", "lake"], ["it", "was", "cold"]],
        [["we", "came", "to", "the", "lake"], ["it", "was", "cold"]],
    )
    one, two = float(answer(*pair, 2)), float(answer(*(2 * each for each in pair), 2))
    assert abs(one - two) < 1e-4, "If the whole corpus is there twice, BLEU should stay. Yours changes."


def hidden_cases(generator):
    def drawn(lengths, max_n, letters):
        pairs = []
        for own, other in lengths:
            words = [letters[i] for i in torch.randint(len(letters), (max(own, other),), generator=generator).tolist()]
            changed = ["q" if torch.rand(1, generator=generator) < 0.15 else word for word in words]
            pairs.append((" ".join(words[:own]), " ".join(changed[:other])))
        return _case(pairs, max_n)

    fixed = [
        _case([("a a b a c a", "a b a c d"), ("e f", "e g h"), ("d", "e")], 2),
        _case([("a b c", "b a c"), ("d e", "e d f")], 2),
        _case([("u v", "u v"), ("w", "w")], 4),
        _case([("k l m n o p q", "k l m n r p q s t"), ("u v w", "u w v"), ("k l", "l m")], 2),
    ]
    return [*fixed, drawn([(9, 11), (3, 3), (14, 12)], 2, "abcdef"), drawn([(20, 23), (4, 5), (7, 7)], 3, "abcd")]
