from collections import Counter


def unknown_share(training: list[str], new: list[str], n_words: int) -> float:
    """Return the share of the words of a new text that are not in the vocabulary of the training text."""
    vocabulary = {word for word, _ in Counter(training).most_common(n_words)}
    return sum(word not in vocabulary for word in new) / len(new)


def accepted_sorted_by_count(training, new, n_words):
    """Sorts the words by count and by where they come first."""
    words = sorted(set(training), key=lambda word: (-training.count(word), training.index(word)))
    known = words[:n_words]
    return len([word for word in new if word not in known]) / len(new)


def accepted_one_minus_known(training, new, n_words):
    """Numbers the words, gives unknown ones the next number, and returns a tensor."""
    import torch

    counts = {}
    for word in training:
        counts[word] = counts.get(word, 0) + 1
    order = sorted(counts, key=counts.get, reverse=True)  # stable
    id_of = {word: i for i, word in enumerate(order[:n_words])}
    ids = torch.tensor([id_of.get(word, n_words) for word in new])
    return (ids == n_words).double().mean()


def cases(generator):
    small = {"training": ["a", "b", "b"], "new": ["a", "b", "b", "c"], "n_words": 1}
    ties = {
        "training": ["two", "one", "one", "three", "two", "ace", "four"],
        "new": ["four", "four", "two", "ace", "three", "four", "ace", "six"],
        "n_words": 3,
    }
    pig = {
        "training": ["the", "pig", "chased", "a", "dog", "and", "the", "dog", "chased", "the", "pig"],
        "new": ["The", "cat", "chased", "the", "cat", "and", "a", "dog", "ran"],
        "n_words": 4,
    }
    return [
        small,
        ties,
        pig,
        {"training": ["x", "y", "y"], "new": ["y", "z", "y", "x", "z"], "n_words": 9},
        {"training": ["x", "y"], "new": ["y", "x", "z"], "n_words": 0},
        {"training": ["x", "y", "y", "z", "z", "z"], "new": ["z", "x", "y", "z", "y", "z", "z"], "n_words": 1},
    ]


def property_training_text_itself(answer, generator):
    text = ["to", "be", "or", "not", "to", "be"]
    assert abs(float(answer(text, text, 4))) < 1e-9, (
        "If the vocabulary has room for every word of the training text, none of its words should be unknown."
    )


def property_more_words_never_hurt(answer, generator):
    training, new = ["a", "a", "a", "b", "b", "c", "d", "d", "d", "d"], ["a", "b", "c", "d", "e", "c"]
    shares = [float(answer(training, new, n)) for n in range(6)]
    assert shares == sorted(shares, reverse=True), (
        "With a larger vocabulary, your share of unknown words becomes larger."
    )


def hidden_cases(generator):
    words = ["pig", "dog", "cat", "hen", "the", "a", "and", "chased", "saw", "heard", "slept", "The", "Pig"]

    def drawn(n_training, n_new, n_words):
        import torch

        def draw(n, of):
            return [words[i] for i in torch.randint(of, (n,), generator=generator).tolist()]

        return {"training": draw(n_training, 12), "new": [*draw(n_new, 13), "owl", "pig"], "n_words": n_words}

    ties = {
        "training": ["cat", "hen", "hen", "pig", "ox", "ant"],
        "new": ["ox", "ant", "pig", "ox", "ant", "cat", "ant", "hen"],
        "n_words": 3,
    }
    nothing = {"training": ["ox", "ant"], "new": ["ant", "cat", "ox"], "n_words": 0}
    return [nothing, ties, drawn(30, 17, 4), drawn(12, 8, 3), drawn(20, 25, 1), drawn(9, 6, 50), drawn(40, 12, 6)]
