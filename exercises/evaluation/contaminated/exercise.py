import string

import numpy as np
import torch


def contaminated(questions: list[str], texts: list[str], is_right: list[bool], n: int) -> tuple[int, float, float]:
    """Return how many questions are contaminated, and the accuracies on all and on clean questions."""

    def split(text):
        pieces = (piece.strip(string.punctuation) for piece in text.lower().split())
        return [piece for piece in pieces if piece]

    def runs(words, length):
        return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}

    words, seen = [split(question) for question in questions], [split(text) for text in texts]
    clean = []
    for own, right in zip(words, is_right, strict=True):
        length = min(n, len(own))
        if not any(runs(own, length) & runs(text, length) for text in seen):
            clean.append(right)
    accuracy = sum(is_right) / len(is_right)
    return len(questions) - len(clean), accuracy, sum(clean) / len(clean) if clean else 0.0


def accepted_strings(questions, texts, is_right, n):
    """Searches in joined strings, with separators, and returns a list."""

    def joined(text):
        words = [w.strip(string.punctuation) for w in text.lower().split()]
        return [w for w in words if w]

    everything = " | ".join("  ".join(joined(text)) for text in texts)
    everything = f" {everything} "
    clean = []
    for question in questions:
        words = joined(question)
        k = min(n, len(words))
        clean.append(not any(f" {'  '.join(words[i : i + k])} " in everything for i in range(len(words) - k + 1)))
    right = [bool(x) for x in is_right]
    kept = [x for x, ok in zip(right, clean, strict=True) if ok]
    return [clean.count(False), np.mean(right), np.mean(kept) if kept else 0]


def accepted_tensor(questions, texts, is_right, n):
    """Compares word by word, and returns a tensor."""

    def split(text):
        return [w for w in (piece.strip(string.punctuation).lower() for piece in text.split()) if w]

    def found(own):
        k = min(n, len(own))
        for text in map(split, texts):
            for i in range(len(own) - k + 1):
                for j in range(len(text) - k + 1):
                    if own[i : i + k] == text[j : j + k]:
                        return True
        return False

    hit = torch.tensor([found(split(question)) for question in questions])
    right = torch.tensor([float(x) for x in is_right])
    return torch.stack([hit.sum(), right.mean(), right[~hit].sum() / max(1, int((~hit).sum()))])


def observe(returned, questions, texts, is_right, n):
    """the number of contaminated questions and the two accuracies"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 3, "three numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return dict(zip(("contaminated", "accuracy", "clean accuracy"), map(float, numbers), strict=True))


NAMES = ("questions", "texts", "is_right", "n")


def cases(generator):
    rows = [
        (
            ["The lake is deep and cold.", "Who saw the small bird?", "Where is Tom?", "It was a dark night"],
            ["We know: the lake is deep -- and cold!", "He saw the small", "bird. Where, is Tom now", "It was dark"],
            [True, True, True, False],
            4,
        ),
        (["a b c", "d"], ["c b a"], [True, False], 3),
        (["a b c d", "b c", "c d e", "d a"], ["b c", "a b", "c d, e"], [True, False, True, True], 2),
        (["Up.", "no (yes) no"], ["UP!", "no yes"], [False, True], 3),
        (["x y", "z"], ["y z x y"], [True, False], 2),
        (["it's so", "its so", "so it"], ["its so", "so - it"], [True, False, False], 2),
        (["a b c d", "e f g h", "k l"], ["x c d y", "f g q", "z"], [True, False, False], 2),
        (["p q r", "q r s", "r"], ["p", "q r", "rs"], [True, False, True], 3),
        (["z y", "a b", "a b"], ["a b"], [True, False, False], 2),  # a question twice, and not in alphabetical order
        (
            ["well-known lake", "known lake", "art is", "to be"],
            ["the well known\nlake", "smart is", "to-be"],
            [True, False, True, True],
            2,
        ),
        (["k j", "i h g f", "j"], ["j k g", "f h i"], [True, False, False], 3),
        (["m n o p", "r s t", "u v"], ["l m n o", "r s"], [True, False, True], 2),
        (["(so) deep", "'how far'", "too far"], ["so deep", "how *far* it is"], [True, False, False], 2),
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def property_copy(answer, generator):
    questions = ["Is snow cold, too?", "Yes", "one two three four five six"]
    found = answer(questions, ["nothing", *reversed(questions)], [True, False, True], 4)
    assert [float(each) for each in found][::2] == [3, 0], (
        "If every question stands in the training text, all of them are contaminated and none is clean. "
        "Yours says something else."
    )


def hidden_cases(generator):
    def text(n):
        words = ["a", "B", "c.", "d", "(e)", "-", "b", "C", "it's"]
        return " ".join(["d", *(words[i] for i in torch.randint(len(words), (n,), generator=generator).tolist())])

    def drawn(n_questions, n_texts, length, n):
        questions = [text(2 + i % length) for i in range(n_questions)] + ["Q r s", "t u v", "w x", "y", "k l m n o"]
        questions += ["o-n z", "f g h i", "f's g's h's i's", "j j j j"]
        questions += ["v u z y x", "(k 'l", "y"]
        more = ["v u z y", "k l q", "x o n z", "f\ng\nh\ni", "f s g s h s", "jj j j j", "on z"]
        texts = (
            [text(6) for _ in range(n_texts)] + ["q, R S", "t u", "v", "x w", "Y!", "o n m l k", "k l z m n o"] + more
        )
        right = (torch.rand(n_questions, generator=generator) < 0.5).tolist() + [
            True,
            True,
            False,
            True,
            True,
            False,
            True,
            True,
            False,
            True,
            False,
            True,
        ]
        return dict(zip(NAMES, (questions, texts, right, n), strict=True))

    return [drawn(6, 2, 5, 3), drawn(9, 3, 4, 3), drawn(7, 2, 6, 4), drawn(5, 2, 5, 2)]
