from collections import Counter


def _replace(tokens, left, right, new=None):
    merged, i = [], 0
    while i < len(tokens):
        if tokens[i : i + 2] == [left, right]:
            merged.append(left + right if new is None else new)
            i += 2
        else:
            merged.append(tokens[i])
            i += 1
    return merged


def _pairs(tokens):
    return Counter(zip(tokens, tokens[1:], strict=False))


def _train(text, n_merges, choose=lambda counts: max(counts, key=counts.get), least=2, count=_pairs):
    tokens, merges = list(text), []
    for _ in range(n_merges):
        counts = count(tokens)
        if not counts or max(counts.values()) < least:
            break
        pair = choose(counts)
        merges.append(pair)
        tokens = _replace(tokens, *pair)
    return merges, tokens


def last_of_equals(text, n_merges):
    """Of pairs that occur equally often you choose the one that comes last. Choose the one that comes first."""
    return _train(text, n_merges, lambda counts: max(reversed(counts), key=counts.get))


def alphabetical_ties(text, n_merges):
    """Of pairs that occur equally often you choose the first in the alphabet. Choose the one that comes first in the
    text."""
    return _train(text, n_merges, lambda counts: min(counts, key=lambda pair: (-counts[pair], pair)))


def largest_of_equals(text, n_merges):
    """Of pairs that occur equally often you choose the last in the alphabet. A max over tuples compares the pairs too;
    choose the pair that comes first in the text."""
    return _train(text, n_merges, lambda counts: max((n, pair) for pair, n in counts.items())[1])


def single_pairs_merged(text, n_merges):
    """You go on merging when no pair occurs twice. Stop there."""
    return _train(text, n_merges, least=1)


def pairs_counted_once(text, n_merges):
    """You count the pairs only once, at the beginning. After each merge the text has other pairs: count again."""
    tokens, merges = list(text), []
    for pair, n in _pairs(tokens).most_common(n_merges):
        if n > 1:
            merges.append(pair)
            tokens = _replace(tokens, *pair)
    return merges, tokens


def overlaps_not_counted(text, n_merges):
    """You do not count overlapping occurrences. That is sensible, but here they count, as on the slide."""

    def count(tokens):
        counts, ends = {}, {}
        for i, pair in enumerate(zip(tokens, tokens[1:], strict=False)):
            if ends.get(pair, 0) <= i:
                counts[pair] = 1 + counts.get(pair, 0)
                ends[pair] = i + 2
        return counts

    return _train(text, n_merges, count=count)


def first_occurrence_only(text, n_merges):
    """You replace only the first occurrence of the chosen pair. Replace it everywhere."""
    tokens, merges = list(text), []
    for _ in range(n_merges):
        counts = _pairs(tokens)
        if not counts or max(counts.values()) < 2:
            break
        pair = max(counts, key=counts.get)
        merges.append(pair)
        i = next(i for i in range(len(tokens)) if tuple(tokens[i : i + 2]) == pair)
        tokens[i : i + 2] = ["".join(pair)]
    return merges, tokens


def one_merge_too_many(text, n_merges):
    """You make one merge too many. The loop should run n_merges times at most."""
    return _train(text, n_merges + 1)


def one_merge_too_few(text, n_merges):
    """You make one merge too few. Do you count from 1 in a loop that begins at 0?"""
    return _train(text, n_merges - 1)


def joined_merges(text, n_merges):
    """You return the merges as joined strings. Return each as a pair of two strings: the same string can come from
    different pairs."""
    merges, tokens = _train(text, n_merges)
    return ["".join(pair) for pair in merges], tokens


def merges_alone(text, n_merges):
    """You return only the merges. Return the text after them as well, as a list of tokens."""
    return _train(text, n_merges)[0]


def tokens_alone(text, n_merges):
    """You return only the tokens. Return the merges as well, before them."""
    return _train(text, n_merges)[1]


def other_order(text, n_merges):
    """You return the tokens first. Return the merges first."""
    return _train(text, n_merges)[::-1]


def vocabulary_not_text(text, n_merges):
    """Your merges are right, but then you return the vocabulary. Return the text as it is cut after the last merge."""
    merges, _ = _train(text, n_merges)
    return merges, sorted(set(text)) + ["".join(pair) for pair in merges]


def different_tokens(text, n_merges):
    """Your merges are right, but then you return each different token once. Return the whole text as it is cut."""
    merges, tokens = _train(text, n_merges)
    return merges, list(dict.fromkeys(tokens))


def text_joined(text, n_merges):
    """Your merges are right, but you return the text as one string. Return a list of its tokens."""
    merges, tokens = _train(text, n_merges)
    return merges, "".join(tokens)


def tokens_not_merged(text, n_merges):
    """Your merges are right, but you return the characters of the text. Return it as it is cut after the last merge."""
    return _train(text, n_merges)[0], list(text)


def rarest_pair(text, n_merges):
    """You choose the rarest pair. Choose the one that occurs most often."""
    return _train(text, n_merges, lambda counts: min(counts, key=counts.get))


def words_apart(text, n_merges):
    """You cut the text into words first, so no token crosses a space. Real tokenizers do this, but here a space is a
    character like any other."""

    def count(tokens):
        return Counter({pair: n for pair, n in _pairs(tokens).items() if " " not in pair[0] + pair[1]})

    return _train(text, n_merges, count=count)


def spaces_begin_words(text, n_merges):
    """In your merges a space stands only at the beginning of a token, as in GPT-2. Here a space is a character like any
    other."""

    def count(tokens):
        return Counter({pair: n for pair, n in _pairs(tokens).items() if not pair[1].startswith(" ")})

    return _train(text, n_merges, count=count)


def counts_carried_over(text, n_merges):
    """You add to the counts of the step before. After each merge, count the pairs of the new text alone."""
    total = Counter()

    def count(tokens):
        total.update(zip(tokens, tokens[1:], strict=False))
        return total

    return _train(text, n_merges, count=count)
