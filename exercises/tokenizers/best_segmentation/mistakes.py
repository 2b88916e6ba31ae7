import math


def _split(text, log_p, score_of, better=max):
    best, begins = [0.0], [0]
    for n in range(1, len(text) + 1):
        options = [(score_of(best[m], log_p[text[m:n]]), m) for m in range(n) if text[m:n] in log_p]
        score, m = better(options)
        best.append(score)
        begins.append(m)
    tokens, n = [], len(text)
    while n > 0:
        tokens.append(text[begins[n] : n])
        n = begins[n]
    return tokens[::-1], best[-1]


def _score(tokens, log_p):
    return sum(log_p[token] for token in tokens)


def _right(text, log_p):
    return _split(text, log_p, lambda score, p: score + p)


def longest_token_first(text, log_p):
    """You take the longest token at each step. It can leave an expensive rest: compare whole cuts."""
    tokens, i = [], 0
    while i < len(text):
        j = max(j for j in range(i + 1, len(text) + 1) if text[i:j] in log_p)
        tokens.append(text[i:j])
        i = j
    return tokens, _score(tokens, log_p)


def most_probable_token_first(text, log_p):
    """You take the most probable token at each step. It can leave an expensive rest: compare whole cuts."""
    tokens, i = [], 0
    while i < len(text):
        j = max((j for j in range(i + 1, len(text) + 1) if text[i:j] in log_p), key=lambda j: log_p[text[i:j]])
        tokens.append(text[i:j])
        i = j
    return tokens, _score(tokens, log_p)


def characters_only(text, log_p):
    """You cut the text into single characters. Longer tokens of the vocabulary can give a larger score."""
    return list(text), _score(text, log_p)


def fewest_tokens(text, log_p):
    """You look for the cut with the fewest tokens. Look for the one with the largest sum of log_p."""
    tokens, _ = _split(text, dict.fromkeys(log_p, -1.0), lambda score, p: score + p)
    return tokens, _score(tokens, log_p)


def worst_cut(text, log_p):
    """You return the cut with the smallest score. A larger logarithm is a larger probability."""
    return _split(text, log_p, lambda score, p: score + p, min)


def tokens_reversed(text, log_p):
    """Your tokens are right, but in the opposite order. You follow the positions back from the end: turn the list
    round."""
    tokens, score = _right(text, log_p)
    return tokens[::-1], score


def probability(text, log_p):
    """Your tokens are right, but you return the probability. Return its logarithm, the sum over the tokens."""
    tokens, score = _right(text, log_p)
    return tokens, math.exp(score)


def score_of_the_last_token(text, log_p):
    """Your tokens are right, but your score is that of one token. Add up all of them."""
    tokens, _ = _right(text, log_p)
    return tokens, log_p[tokens[-1]]


def mean_score(text, log_p):
    """Your tokens are right, but you divide the score by their number. Return the sum."""
    tokens, score = _right(text, log_p)
    return tokens, score / len(tokens)


def score_alone(text, log_p):
    """You return only the score. Return the tokens as well, before it."""
    return _right(text, log_p)[1]


def tokens_alone(text, log_p):
    """You return only the tokens. Return their score as well."""
    return _right(text, log_p)[0]


def score_first(text, log_p):
    """You return the score first. Return the tokens first."""
    return _right(text, log_p)[::-1]


def what_came_before_forgotten(text, log_p):
    """At each position you choose the last token by its own log_p, and your score is that of one token. Add best[m],
    the score of what comes before it."""
    return _split(text, log_p, lambda score, p: p)


def what_came_before_forgotten_in_the_choice(text, log_p):
    """At each position you choose the last token by its own log_p and forget the score of what comes before it. Add
    best[m]."""
    tokens, _ = _split(text, log_p, lambda score, p: p)
    return tokens, _score(tokens, log_p)


def merged_pairs(text, log_p):
    """You join neighbours while that helps, as BPE would. This can end in a cut that is not the best: compare all of
    them, step by step."""
    tokens = list(text)
    while True:
        gains = [
            (log_p[a + b] - log_p[a] - log_p[b], -i)
            for i, (a, b) in enumerate(zip(tokens, tokens[1:], strict=False))
            if a + b in log_p
        ]
        if not gains or max(gains)[0] <= 0:
            return tokens, _score(tokens, log_p)
        i = -max(gains)[1]
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]


def negative_score(text, log_p):
    """Your tokens are right, but your score has the wrong sign. A sum of logarithms of probabilities is below 0."""
    tokens, score = _right(text, log_p)
    return tokens, -score


def best_mean(text, log_p):
    """You compare the mean over the tokens. Compare the sum: it is the logarithm of the probability of the whole
    cut."""

    def rest(i):
        if i == len(text):
            return [[]]
        ends = [j for j in range(i + 1, len(text) + 1) if text[i:j] in log_p]
        return [[text[i:j], *tokens] for j in ends for tokens in rest(j)]

    tokens = max(rest(0), key=lambda tokens: _score(tokens, log_p) / len(tokens)) if len(text) < 12 else list(text)
    return tokens, _score(tokens, log_p)


def strings_outside_the_vocabulary(text, log_p):
    """You use strings that are not in the vocabulary, as if they cost nothing: 0 is the logarithm of probability 1."""
    return [text], log_p.get(text, 0)
