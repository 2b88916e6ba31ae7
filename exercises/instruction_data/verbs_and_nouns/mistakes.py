from collections import Counter


def _pair(words, *, verb="first", noun="first", lower=True):
    tags = [tag for _, tag in words]
    if verb == "first" and tags[0] != "verb" or "verb" not in tags:
        return None
    start = 0 if verb == "first" else tags.index("verb")
    nouns = [word for word, tag in words[start + 1 :] if tag == "noun"]
    if not nouns:
        return None
    pair = words[start][0], nouns[0 if noun == "first" else -1]
    return tuple(map(str.lower, pair)) if lower else pair


def _result(instructions, n_top, pair=_pair, divisor=None, **options):
    pairs = Counter(found for found in (pair(words, **options) for words in instructions) if found)
    n = len(instructions) if divisor is None else divisor(pairs)
    return len(pairs), sum(count for _, count in pairs.most_common(n_top)) / max(1, n)


def any_verb(instructions, n_top):
    """You take the first verb wherever it stands. An instruction whose first word is no verb has no pair."""
    return _result(instructions, n_top, verb="any")


def last_noun(instructions, n_top):
    """You take the last noun of an instruction. The first one behind the verb is asked for."""
    return _result(instructions, n_top, noun="last")


def capitals(instructions, n_top):
    """You distinguish capital and small letters."""
    return _result(instructions, n_top, lower=False)


def verbs_alone(instructions, n_top):
    """You count verbs. A pair consists of a verb and a noun."""
    return _result(instructions, n_top, pair=lambda words: (_pair(words) or [None])[0])


def nouns_alone(instructions, n_top):
    """You count nouns. A pair consists of a verb and a noun."""
    return _result(instructions, n_top, pair=lambda words: (_pair(words) or [None])[-1])


def instructions_with_a_pair(instructions, n_top):
    """You divide by the instructions that have a pair. The share is that of all instructions."""
    return _result(instructions, n_top, divisor=lambda pairs: sum(pairs.values()))


def different_pairs(instructions, n_top):
    """You divide by the number of different pairs. The share is that of all instructions."""
    return _result(instructions, n_top, divisor=len)


def not_divided(instructions, n_top):
    """Your second number is a count. Divide it by the number of instructions."""
    return _result(instructions, n_top, divisor=lambda pairs: 1)


def pairs_with_repetitions(instructions, n_top):
    """Your first number is how many instructions have a pair. Count each different pair once."""
    pairs = [pair for pair in map(_pair, instructions) if pair]
    return len(pairs), _result(instructions, n_top)[1]


def no_noun_counts(instructions, n_top):
    """You count a verb without a noun as a pair."""

    def pair(words):
        return _pair([*words, ("", "noun")])

    return _result(instructions, n_top, pair=pair)


def most_frequent_one(instructions, n_top):
    """You take the share of the most frequent pair, whatever `n_top` is."""
    return _result(instructions, 1)


def share_of_the_pairs(instructions, n_top):
    """Your second number is which share of the different pairs is taken. Count the instructions that have them."""
    n = _result(instructions, n_top)[0]
    return n, min(n, n_top) / max(1, n)


def rarest(instructions, n_top):
    """You take the rarest pairs. Take the most frequent ones."""
    pairs = Counter(pair for pair in map(_pair, instructions) if pair)
    return len(pairs), sum(sorted(pairs.values())[:n_top]) / len(instructions)


def exchanged(instructions, n_top):
    """You return the two numbers in the wrong order."""
    return _result(instructions, n_top)[::-1]
