def tiles(text):
    """After any pair you go on behind it, so you miss the pairs that begin at its second character. Only occurrences of
    the same pair may not overlap."""
    counts, i = {}, 0
    while i < len(text) - 1:
        pair = text[i : i + 2]
        counts[pair] = counts.get(pair, 0) + 1
        i += 2
    return counts


def equal_neighbours_skipped(text):
    """You never count a pair of equal characters. It can be merged too, though not with overlaps."""
    counts = {}
    for i in range(len(text) - 1):
        pair = text[i : i + 2]
        if pair[0] != pair[1]:
            counts[pair] = counts.get(pair, 0) + 1
    return counts


def runs_counted_once(text):
    """In a run of equal characters you count the pair once, however long the run is. In aaaa it can be used twice."""
    counts, before = {}, ""
    for i in range(len(text) - 1):
        pair = text[i : i + 2]
        if pair != before:
            counts[pair] = counts.get(pair, 0) + 1
        before = pair
    return counts


def halved(text):
    """You count all pairs of equal characters and divide the total by two. Each run has to be counted on its own: a
    single aa can be used once."""
    counts = {}
    for i in range(len(text) - 1):
        pair = text[i : i + 2]
        counts[pair] = counts.get(pair, 0) + 1
    return {pair: n // 2 if pair[0] == pair[1] else n for pair, n in counts.items()}


def halved_up(text):
    """You count all pairs of equal characters, divide the total by two and round up. Two short runs are not one long
    run: count each run on its own."""
    counts = {}
    for i in range(len(text) - 1):
        pair = text[i : i + 2]
        counts[pair] = counts.get(pair, 0) + 1
    return {pair: (n + 1) // 2 if pair[0] == pair[1] else n for pair, n in counts.items()}


def skipped_for_all_pairs(text):
    """After a pair of equal characters you skip one position for all pairs, so you miss the pair that begins there.
    Only occurrences of the same pair may not overlap."""
    counts, i = {}, 0
    while i < len(text) - 1:
        pair = text[i : i + 2]
        counts[pair] = counts.get(pair, 0) + 1
        i += 2 if pair[0] == pair[1] else 1
    return counts


def each_pair_once(text):
    """You count each pair once. Count all its occurrences that do not overlap."""
    return {text[i : i + 2]: 1 for i in range(len(text) - 1)}


def single_characters(text):
    """You count single characters. Count pairs of neighbours."""
    return {character: text.count(character) for character in text}


def run_lengths(text):
    """For a run of n equal characters you count n pairs. A merge can use half as many."""
    counts, before = {}, ""
    for i in range(len(text) - 1):
        pair = text[i : i + 2]
        counts[pair] = counts.get(pair, 0) + 1 + (pair[0] == pair[1] and pair != before)
        before = pair
    return counts


def last_pair_missing(text):
    """You leave out the last pair, and overlapping pairs are still counted. The end of the loop was right."""
    counts = {}
    for i in range(len(text) - 2):
        pair = text[i : i + 2]
        counts[pair] = counts.get(pair, 0) + 1
    return counts


def never_twice(text):
    """You count a pair of equal characters once in the whole text. Count it once for every two characters of each
    run."""
    return {text[i : i + 2]: 1 if text[i] == text[i + 1] else text.count(text[i : i + 2]) for i in range(len(text) - 1)}


def pattern_not_text(text):
    """You search for the pair as a regular expression, in which a dot or a bracket means something else. Search for the
    text itself."""
    import re

    return {text[i : i + 2]: len(re.findall(text[i : i + 2], text)) for i in range(len(text) - 1)}


def single_character_at_the_end(text):
    """You also count the last character alone, as if it were a pair."""
    return {text[i : i + 2]: text.count(text[i : i + 2]) for i in range(len(text))}
