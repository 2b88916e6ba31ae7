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
