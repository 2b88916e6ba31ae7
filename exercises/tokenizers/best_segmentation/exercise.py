import math


def best_segmentation(text: str, log_p: dict[str, float]) -> tuple[list[str], float]:
    """Return the most probable way to cut a text into tokens, and its logarithm."""
    best, begins = [0.0], [0]
    for n in range(1, len(text) + 1):
        score, m = max((best[m] + log_p.get(text[m:n], -math.inf), m) for m in range(n))
        best.append(score)
        begins.append(m)
    tokens, n = [], len(text)
    while n > 0:
        tokens.append(text[begins[n] : n])
        n = begins[n]
    return tokens[::-1], best[-1]


def accepted_recursion(text, log_p):
    """Asks for the best cut of the rest after each possible first token, and remembers the answers."""
    from functools import cache

    @cache
    def rest(i):
        if i == len(text):
            return 0.0, ()
        options = []
        for token, p in log_p.items():
            if text.startswith(token, i):
                score, tokens = rest(i + len(token))
                options.append((p + score, (token, *tokens)))
        return max(options)

    score, tokens = rest(0)
    return list(tokens), score


def accepted_whole_cuts(text, log_p):
    """Keeps the best cut of each beginning of the text as a whole, and extends it token by token."""
    import torch

    best = {0: (0.0, [])}
    for n in range(len(text)):
        score, tokens = best[n]
        for end in range(n + 1, len(text) + 1):
            token = text[n:end]
            if token in log_p and (end not in best or score + log_p[token] > best[end][0]):
                best[end] = (score + log_p[token], [*tokens, token])
    score, tokens = best[len(text)]
    return [tokens, torch.tensor(score)]


def vocabulary(letters, longer, generator):
    """Logarithms of probabilities: rare letters, and longer tokens that are more frequent."""
    import torch

    low = (-2 - 3 * torch.rand(len(letters), generator=generator)).tolist()
    high = (-2 - 7 * torch.rand(len(longer), generator=generator)).tolist()
    return dict(zip([*letters, *longer], low + high, strict=True))


def cases(generator):
    small = {"text": "aab", "log_p": {"a": -1.5, "b": -3.0, "aa": -2.0, "ab": -1.0}}
    greedy = {
        "text": "abcd",
        "log_p": {"a": -3.0, "b": -3.0, "c": -3.0, "d": -6.0, "abc": -2.0, "ab": -2.5, "cd": -2.0},
    }
    late = {"text": "dcba", "log_p": {"a": -3.0, "b": -3.0, "c": -3.0, "d": -6.0, "cba": -2.0, "dc": -2.0, "ba": -2.5}}
    many = {"text": "aaa", "log_p": {"a": -1.0, "aa": -2.5, "aaa": -3.5}}
    word = {
        "text": "unhappiness",
        "log_p": {c: -5.0 - n / 10 for n, c in enumerate("unhapies")}
        | {"un": -3.0, "happi": -4.5, "happ": -4.2, "ness": -3.3, "ine": -4.0, "unh": -4.6, "ss": -3.7, "hap": -3.9},
    }
    longer = {"text": "ab", "log_p": {"a": -2.0, "b": -2.0, "ab": -3.0}}
    return [
        small,
        longer,
        greedy,
        late,
        many,
        word,
        {"text": "abab", "log_p": {"a": -2.0, "b": -1.0, "ba": -0.5, "bab": -4.2}},
    ]


def property_score_of_the_tokens(answer, generator):
    log_p = vocabulary("abc", ["ab", "bc", "ca", "abc", "bb"], generator)
    tokens, score = answer("abcabbcabca", log_p)
    assert "".join(tokens) == "abcabbcabca", "Your tokens, joined, are not the text."
    assert abs(sum(log_p[token] for token in tokens) - float(score)) < 1e-4, (
        "The score that you return is not the sum over the tokens that you return."
    )


def property_a_long_text(answer, generator):
    log_p = vocabulary("ab", ["ab", "aab", "abb"], generator)
    assert "".join(answer(100 * "ab", log_p)[0]) == 100 * "ab", (
        "For a text of 200 letters, your tokens are not the text."
    )


def hidden_cases(generator):
    import torch

    def drawn(n, letters, longer):
        text = "".join(letters[i] for i in torch.randint(len(letters), (n,), generator=generator).tolist())
        return {"text": text, "log_p": vocabulary(letters, longer, generator)}

    return [
        drawn(20, "abc", ["ab", "bc", "cab", "abcc", "ccb"]),
        drawn(60, "ab", ["ab", "abb", "aab", "aabb"]),
        drawn(15, "xyz", ["xy", "yz", "zx", "xxy", "yyz"]),
        drawn(120, "pig", ["pi", "ig", "pig", "gp", "ggi", "ipg"]),
    ]
