from collections import Counter


def _grams(words, n):
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def _counts(words, n):
    return Counter(_grams(words, n))


def not_clipped(translation, references, n):
    """You count every n-gram that occurs in a reference, however often the translation repeats it. Clip the counts."""
    known = {gram for reference in references for gram in _grams(reference, n)}
    grams = _grams(translation, n)
    return sum(gram in known for gram in grams), len(grams)


def references_added_up(translation, references, n):
    """You add up the counts of the references. An n-gram counts at most as often as it occurs in one of them."""
    allowed = sum((_counts(reference, n) for reference in references), Counter())
    found = _counts(translation, n)
    return (found & allowed).total(), found.total()


def first_reference_alone(translation, references, n):
    """You compare with the first reference only."""
    found = _counts(translation, n)
    return (found & _counts(references[0], n)).total(), found.total()


def last_reference_alone(translation, references, n):
    """You compare with the last reference only."""
    found = _counts(translation, n)
    return (found & _counts(references[-1], n)).total(), found.total()


def best_reference_alone(translation, references, n):
    """You take the reference with the most matches. Each n-gram may have its largest count in another reference."""
    found = _counts(translation, n)
    return max((found & _counts(reference, n)).total() for reference in references), found.total()


def rarest_reference(translation, references, n):
    """You clip with the reference that has an n-gram least often. It is the one that has it most often."""
    found = _counts(translation, n)
    allowed = _counts(references[0], n)
    for reference in references[1:]:
        allowed &= _counts(reference, n)
    return (found & allowed).total(), found.total()


def different_ngrams(translation, references, n):
    """You count each different n-gram once, above and below. Repeated ones count up to the clip."""
    known = {gram for reference in references for gram in _grams(reference, n)}
    grams = set(_grams(translation, n))
    return len(grams & known), len(grams)


def different_matches(translation, references, n):
    """In your numerator, each different n-gram counts once. It counts as often as the clip allows."""
    known = {gram for reference in references for gram in _grams(reference, n)}
    grams = _grams(translation, n)
    return len(set(grams) & known), len(grams)


def words_below(translation, references, n):
    """Your denominator is the number of words. It is the number of n-grams, which is smaller for n > 1."""
    found, allowed = _counts(translation, n), Counter()
    for reference in references:
        allowed |= _counts(reference, n)
    return (found & allowed).total(), len(translation)


def last_ngram_forgotten(translation, references, n):
    """The last n-gram of a text is missing, of the translation or of all texts: m words have m − n + 1 n-grams."""

    def counts(words):
        return Counter(_grams(words, n)[:-1])

    found, allowed = counts(translation), Counter()
    for reference in references:
        allowed |= counts(reference)
    return (found & allowed).total(), found.total()


def recall(translation, references, n):
    """Your denominator counts the n-grams of the first reference. For a precision, it counts those of the
    translation."""
    found, allowed = _counts(translation, n), Counter()
    for reference in references:
        allowed |= _counts(reference, n)
    return (found & allowed).total(), len(_grams(references[0], n))


def exchanged(translation, references, n):
    """Your two numbers are exchanged: the numerator comes first."""
    found, allowed = _counts(translation, n), Counter()
    for reference in references:
        allowed |= _counts(reference, n)
    return found.total(), (found & allowed).total()


def steps_of_n(translation, references, n):
    """You cut the texts into pieces of n words. The n-grams overlap: one begins at each word."""

    def counts(words):
        return Counter(_grams(words, n)[::n])

    found, allowed = counts(translation), Counter()
    for reference in references:
        allowed |= counts(reference)
    return (found & allowed).total(), found.total()


def order_ignored(translation, references, n):
    """You ignore the order of the words in an n-gram. The words of an n-gram must follow each other as they do."""

    def counts(words):
        return Counter(tuple(sorted(gram)) for gram in _grams(words, n))

    found, allowed = counts(translation), Counter()
    for reference in references:
        allowed |= counts(reference)
    return (found & allowed).total(), found.total()


def less_than_nothing(translation, references, n):
    """If the translation has fewer than n words, your denominator is not 0."""
    found, allowed = _counts(translation, n), Counter()
    for reference in references:
        allowed |= _counts(reference, n)
    return (found & allowed).total(), len(translation) - n + 1


def capitals_ignored(translation, references, n):
    """You do not distinguish capital and small letters. Compare the words as they are."""
    found, allowed = _counts([word.lower() for word in translation], n), Counter()
    for reference in references:
        allowed |= _counts([word.lower() for word in reference], n)
    return (found & allowed).total(), found.total()
