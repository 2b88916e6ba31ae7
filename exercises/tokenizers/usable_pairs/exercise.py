def broken(text: str) -> dict[str, int]:
    """Count how many times a merge could use each pair of neighbouring characters."""
    counts = {}
    for i in range(len(text) - 1):
        pair = text[i : i + 2]
        counts[pair] = counts.get(pair, 0) + 1
    return counts


def usable_pairs(text: str) -> dict[str, int]:
    """Count how many times a merge could use each pair of neighbouring characters."""
    counts, ends = {}, {}
    for i in range(len(text) - 1):
        pair = text[i : i + 2]
        if ends.get(pair, 0) <= i:
            counts[pair] = counts.get(pair, 0) + 1
            ends[pair] = i + 2
    return counts


def accepted_count_method(text):
    """Lets str.count do the work, which does not count overlapping occurrences."""
    return {text[i : i + 2]: text.count(text[i : i + 2]) for i in range(len(text) - 1)}


def accepted_runs(text):
    """Counts runs of equal characters with groupby, and borders between runs."""
    from collections import Counter
    from itertools import groupby

    counts, before = Counter(), ""
    for character, run in groupby(text):
        n = len(list(run))
        if before:
            counts[before + character] += 1
        if n > 1:
            counts[2 * character] += n // 2
        before = character
    return counts


def accepted_replaced(text):
    """Replaces each pair by a sign of its own, and measures how much shorter the text becomes."""
    pairs = {a + b for a, b in zip(text, text[1:], strict=False)}
    return {pair: len(text) - len(text.replace(pair, "\0")) for pair in sorted(pairs)}


def cases(generator):
    texts = ("aaabdaaabac", "aaab", "abab", "aaaa", "aabaaab  c   d", "zzzzzyzz", "aabaa", "ab", "a.ab(c(a(b", "")
    texts += ("AaaAa",)  # a capital letter is another one
    return [{"text": text} for text in texts]


def hidden_cases(generator):
    import torch

    def drawn(n, letters):
        return {"text": "".join(letters[i] for i in torch.randint(len(letters), (n,), generator=generator).tolist())}

    return [
        drawn(40, "ab"),
        drawn(60, "abc"),
        {"text": "qqqqqqqqq"},
        {"text": "a.ab.b..c"},
        drawn(30, "  x"),
        drawn(30, "aAb"),
        drawn(25, "0019"),
    ]
