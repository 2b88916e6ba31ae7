from collections import Counter


def train_bpe(text: str, n_merges: int) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the merges that byte pair encoding learns from a text, and the text's tokens after them."""
    tokens, merges = list(text), []
    for _ in range(n_merges):
        counts = Counter(zip(tokens, tokens[1:], strict=False))
        if not counts or max(counts.values()) < 2:
            break
        left, right = max(counts, key=counts.get)  # the first of equals
        merges.append((left, right))
        merged, i = [], 0
        while i < len(tokens):
            if tokens[i : i + 2] == [left, right]:
                merged.append(left + right)
                i += 2
            else:
                merged.append(tokens[i])
                i += 1
        tokens = merged
    return merges, tokens


def accepted_most_common(text, n_merges):
    """Counts with Counter.most_common, which also keeps the order of first occurrence, and returns lists."""
    tokens, merges = list(text), []
    while len(merges) < n_merges:
        best = Counter((tokens[i], tokens[i + 1]) for i in range(len(tokens) - 1)).most_common(1)
        if not best or best[0][1] == 1:
            break
        pair = best[0][0]
        merges.append(list(pair))
        i = 0
        while i < len(tokens) - 1:
            if (tokens[i], tokens[i + 1]) == pair:
                tokens[i : i + 2] = [pair[0] + pair[1]]
            i += 1
    return [merges, tokens]


def accepted_numbers(text, n_merges):
    """Works with numbers, as real tokenizers do, and sorts pairs by count and first position."""
    alphabet = sorted(set(text))
    names = list(alphabet)
    ids, merges = [alphabet.index(character) for character in text], []
    for _ in range(n_merges):
        pairs = list(zip(ids[:-1], ids[1:], strict=True))
        ranked = sorted(set(pairs), key=lambda pair: (-pairs.count(pair), pairs.index(pair)))
        if not ranked or pairs.count(ranked[0]) < 2:
            break
        a, b = ranked[0]
        merges.append((names[a], names[b]))
        names.append(names[a] + names[b])
        new, skip = [], False
        for i, token in enumerate(ids):
            if skip:
                skip = False
            elif (token, *ids[i + 1 : i + 2]) == (a, b):
                new.append(len(names) - 1)
                skip = True
            else:
                new.append(token)
        ids = new
    return merges, [names[i] for i in ids]


def cases(generator):
    return [
        {"text": "aaabdaaabac", "n_merges": 3},
        {"text": "abcabc", "n_merges": 1},
        {"text": "bababa", "n_merges": 5},
        {"text": "low lower lowest", "n_merges": 4},
        {"text": "xyzzyxzzy", "n_merges": 0},
        {"text": "the hen then hid", "n_merges": 40},
        {"text": "cdabcdeab", "n_merges": 2},
        {"text": " Aa aA  Aa ", "n_merges": 3},  # capital letters, two spaces, and spaces at the ends
    ]


def property_tokens_join_to_the_text(answer, generator):
    text = "a cat, a cap and a cab"
    assert "".join(answer(text, 6)[1]) == text, "Your tokens, joined, are not the text. A merge must not lose anything."


def property_short_texts(answer, generator):
    for text in ("", "a", "ab"):
        merges, tokens = answer(text, 3)
        assert list(merges) == [] and list(tokens) == list(text), (
            f"In the text {text!r} no pair occurs twice, so there is nothing to merge."
        )


def hidden_cases(generator):
    import torch

    def drawn(n, letters, n_merges):
        text = "".join(letters[i] for i in torch.randint(len(letters), (n,), generator=generator).tolist())
        return {"text": text, "n_merges": n_merges}

    return [
        drawn(60, "ab", 6),
        drawn(50, "abc", 9),
        drawn(12, "abcdefgh", 30),
        {"text": "aaaaaaa", "n_merges": 4},
        {"text": "to be or to go to be to do to be", "n_merges": 6},
        {"text": " Do do  Do doDo  Do. ", "n_merges": 5},
    ]
