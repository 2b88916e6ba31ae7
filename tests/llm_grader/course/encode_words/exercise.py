import torch


def encode_words(words: list[str], vocabulary: list[str]) -> list[int]:
    """The numbers of the longest pieces, from the beginning of each word."""
    numbers = []
    for word in words:
        while word:
            fitting = [piece for piece in vocabulary if word.startswith(piece)]
            longest = max(fitting, key=len, default=None)
            numbers.append(-1 if longest is None else vocabulary.index(longest))
            word = word[len(longest or " ") :]
    return numbers


def accepted_from_the_longest(words, vocabulary):
    """Tries ever shorter pieces at each position."""
    numbers, number = [], {piece: i for i, piece in reversed(list(enumerate(vocabulary)))}
    for word in words:
        start = 0
        while start < len(word):
            ends = [end for end in range(len(word), start, -1) if word[start:end] in number]
            numbers.append(number[word[start : ends[0]]] if ends else -1)
            start = ends[0] if ends else start + 1
    return numbers


def accepted_recursion(words, vocabulary):
    """The first piece, and then the rest of the word."""
    order = sorted(range(len(vocabulary)), key=lambda i: -len(vocabulary[i]))

    def pieces(word):
        if not word:
            return ()
        first = next((i for i in order if word.startswith(vocabulary[i])), -1)
        return first, *pieces(word[max(1, len(vocabulary[first])) if first >= 0 else 1 :])

    return tuple(number for word in words for number in pieces(word))


def cases(generator):
    vocabulary = ["l", "o", "lo", "low", "w", "er", "e", "r"]
    return [
        {"words": ["lower", "slow"], "vocabulary": vocabulary},
        {"words": ["", "rower"], "vocabulary": vocabulary},
    ]


def property_words_apart(answer, generator):
    vocabulary = ["a", "b", "ab", "ba"]
    together = answer(["aab", "bab"], vocabulary)
    assert together == answer(["aab"], vocabulary) + answer(["bab"], vocabulary), (
        "Two words together give other numbers than each alone. A piece does not reach into the next word."
    )


def hidden_cases(generator):
    pieces = ["na", "n", "a", "b", "ban", "ana", "s", "nas"]

    def drawn(letters, count):
        picked = torch.randint(len(letters), (count, 7), generator=generator).tolist()
        return {"words": ["".join(letters[i] for i in row) for row in picked], "vocabulary": pieces}

    return [{"words": ["bananas", "x"], "vocabulary": pieces}, drawn("abns", 4), drawn("anb?", 6)]
