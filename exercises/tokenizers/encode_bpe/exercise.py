def encode_bpe(text: str, merges: list[tuple[str, str]]) -> list[str]:
    """Return the tokens of a text, from merges in the order in which they were learned."""
    tokens = list(text)
    for left, right in merges:
        merged, i = [], 0
        while i < len(tokens):
            if tokens[i : i + 2] == [left, right]:
                merged.append(left + right)
                i += 2
            else:
                merged.append(tokens[i])
                i += 1
        tokens = merged
    return tokens


def accepted_lowest_rank_first(text, merges):
    """Looks for the pair of lowest rank among all neighbours, again and again, as GPT-2's code does."""
    ranks, tokens = {tuple(pair): i for i, pair in enumerate(merges)}, list(text)
    while True:
        found = [(ranks[pair], i) for i, pair in enumerate(zip(tokens, tokens[1:], strict=False)) if pair in ranks]
        if not found:
            return tokens
        _, i = min(found)
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]


def accepted_in_place(text, merges):
    """Deletes the right token of each pair from the list."""
    tokens = [*text]
    for pair in merges:
        i = 0
        while i + 1 < len(tokens):
            if [tokens[i], tokens[i + 1]] == list(pair):
                tokens[i] += tokens.pop(i + 1)
            i += 1
    return tokens


def accepted_with_borders(text, merges):
    """Keeps the text in one string with a border between tokens, which str.replace removes."""
    border = "\0"
    written = border + border.join(text) + border
    for left, right in merges:
        parts, done = written.split(border)[1:-1], []
        while parts:
            if parts[:2] == [left, right]:
                done.append(left + right)
                parts = parts[2:]
            else:
                done.append(parts.pop(0))
        written = border + border.join(done) + border
    return tuple(written.split(border)[1:-1]) if text else []


def learned(text, n_merges):
    """The merges of a text."""
    tokens, merges = list(text), []
    for _ in range(n_merges):
        pairs = list(zip(tokens, tokens[1:], strict=False))
        left, right = max(dict.fromkeys(pairs), key=pairs.count)
        merges.append((left, right))
        merged, i = [], 0
        while i < len(tokens):
            pair = tokens[i : i + 2] == [left, right]
            merged.append(left + right if pair else tokens[i])
            i += 1 + pair
        tokens = merged
    return merges


def cases(generator):
    return [
        {"text": "aaabdaaabac", "merges": [("a", "a"), ("a", "b"), ("aa", "ab")]},
        {"text": "abc", "merges": [("b", "c"), ("a", "b")]},
        {"text": "abc", "merges": [("b", "c"), ("a", "bc"), ("a", "b")]},
        {"text": "abcab", "merges": [("b", "c"), ("a", "b"), ("ab", "c")]},
        {"text": "ababcbc", "merges": [("a", "b"), ("b", "c"), ("ab", "c"), ("ab", "abc")]},
        {"text": "aaaaa", "merges": [("a", "a"), ("aa", "aa")]},
        {"text": "then he hears the hen", "merges": learned("the hen then heard the other hen", 7)},
        {"text": "xyxyz", "merges": []},
        {"text": "aAa Aa", "merges": [("A", "a"), ("a", "Aa")]},  # capital letters are others
    ]


def property_nothing_is_lost(answer, generator):
    text = "she sells seashells"
    tokens = answer(text, [("s", "e"), ("l", "l"), ("s", "h"), ("sh", "e"), ("ll", "s")])
    assert "".join(tokens) == text, "Your tokens, joined, are not the text. A merge must not lose anything."
    assert list(answer("", [("a", "b")])) == [], "An empty text has no tokens; return an empty list."


def hidden_cases(generator):
    import torch

    def drawn(n_training, n, letters, n_merges):
        def draw(length):
            return "".join(letters[i] for i in torch.randint(len(letters), (length,), generator=generator).tolist())

        return {"text": draw(n) + "!", "merges": learned(draw(n_training), n_merges)}

    tangled = {"text": "abcababcb", "merges": [("b", "c"), ("a", "b"), ("ab", "c"), ("a", "bc")]}
    crossed = {"text": "abcabcbab", "merges": [("b", "c"), ("a", "b"), ("ab", "c")]}
    return [
        crossed,
        drawn(80, 40, "abc", 12),
        drawn(60, 30, "ab", 7),
        drawn(90, 25, "abcd ", 15),
        drawn(70, 60, "aAb", 9),
        tangled,
    ]
