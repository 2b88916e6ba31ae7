import re
import string
from collections import Counter

import torch


def squad_f1(prediction: str, answers: list[str]) -> tuple[float, float]:
    """Return the exact match and the F1 of a prediction, for the accepted answer that is best for it."""

    def normalized(text):
        text = text.lower().translate(str.maketrans("", "", string.punctuation))
        return [word for word in text.split() if word not in ("a", "an", "the")]

    def f1(found, wanted):
        if not found or not wanted:
            return float(found == wanted)
        return 2 * (Counter(found) & Counter(wanted)).total() / (len(found) + len(wanted))

    found, pairs = normalized(prediction), [normalized(answer) for answer in answers]
    return float(found in pairs), max(f1(found, wanted) for wanted in pairs)


def accepted_regular_expressions(prediction, answers):
    """Normalizes with regular expressions, as the script of the data set does, and returns a list."""

    def normalize(text):
        text = "".join(c for c in text.lower() if c not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    def score(answer):
        a, b = normalize(prediction).split(), normalize(answer).split()
        if not a or not b:
            return int(a == b)
        n = sum((Counter(a) & Counter(b)).values())
        if n == 0:
            return 0
        precision, recall = n / len(a), n / len(b)
        return 2 * precision * recall / (precision + recall)

    return [any(normalize(prediction) == normalize(answer) for answer in answers), max(map(score, answers))]


def accepted_crossing_out(prediction, answers):
    """Crosses matching words out of a list, and returns a tensor."""

    def words(text):
        kept = "".join(c for c in text if c not in string.punctuation).lower()
        return [w for w in kept.split() if w not in {"the", "a", "an"}]

    best = torch.zeros(2)
    for answer in answers:
        own, left = words(prediction), words(answer)
        both, n = len(own) + len(left), 0
        same = own == left
        for word in own:
            if word in left:
                left.remove(word)
                n += 1
        best = torch.maximum(best, torch.tensor([float(same), 1.0 if both == 0 else 2 * n / both]))
    return best


def observe(returned, prediction, answers):
    """the exact match and the F1"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "two numbers are needed, the exact match and the F1"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return dict(zip(("exact match", "F1"), map(float, numbers), strict=True))


def cases(generator):
    rows = [
        ("the Eiffel Tower in Paris", ["Eiffel Tower"]),
        ("The Beatles!", ["beatles", "the Fab Four"]),
        ("red", ["red red blue"]),
        ("red red", ["red blue"]),
        ("very very good", ["very very bad"]),
        ("in May 1889", ["1889", "May of the year 1889", "1889 in May"]),
        ("A U.S. senator", ["US senator"]),
        ("well-known man", ["wellknown woman"]),
        ("Anna", ["an anna the", "Thea"]),
        ("Dan", ["D", "Dana Day"]),
        ("The", ["a", "one"]),
        ("no", ["the"]),
        ("four", ["five", "six"]),
        ("on  Main Street", ["Main Street, on the"]),
        ('"The A-Team"', ["ateam"]),
        ("Lord of the Rings", ["Tolkien's book", "lord  of\nRings"]),
        ("new york city", ["York", "New York of the east"]),
        ("Pelé", ["Pel", "pele"]),
        ("cat dog", ["bird", "dog cat dog", "cat bird cow"]),
        ("grey wolf", ["fox", "Grey wolf."]),
        ("clock tower", ["Tower clock", "the clock tower", "tower, clock"]),  # F1 is 1 for each of the three
    ]
    return [{"prediction": prediction, "answers": answers} for prediction, answers in rows]


def property_order(answer, generator):
    match, f1 = map(float, answer("Street Main on", ["on Main Street"]))
    assert (match, f1) == (0, 1), (
        "For an answer with the right words in another order, the exact match should be 0 and F1 should be 1. "
        "Yours are not."
    )


def hidden_cases(generator):
    words = ["the", "Blue", "blue", "lake", "an", "Lake.", "deep", "it's", "its", "A", "cold,"]

    def text(n):
        return " ".join(words[i] for i in torch.randint(len(words), (n,), generator=generator).tolist())

    fixed = [
        ("Deep blue lake", ["a lake", "the deep, blue, blue lake"]),
        ("It's cold", ["its cold", "cold"]),
        ("lake lake", ["lake blue deep", "cold lake"]),
        ("blue blue lake", ["deep blue blue", "cold"]),
        ("cold lake cold lake", ["lake cold cold lake blue"]),
        ("than", ["th", "tha n"]),
        ("an", ["the", "a lake"]),
        ("blue", ["lake", "an"]),
        ("lake  blue", ["blue lake"]),
        ("The Lake", ["lake", "the blue lake"]),
        ("x-ray", ["x ray", "xray machine"]),
        ('"A lake"', ["lake"]),
        ("the A-minor", ["aminor"]),
        ("deep  in the\nlake", ["sea", "deep in\ta lake"]),
        ("cold  lake", ["cold lake blue"]),
        ("Chloé", ["chlo"]),
        ("old blue lake", ["lake", "old blue house by a sea"]),
        ("deep lake", ["sea", "Deep lake."]),
        ("cold blue sea", ["the sea, cold blue", "a cold, blue sea", "blue cold sea"]),
    ]
    drawn = [(text(5), [text(4), text(6)]) for _ in range(4)]
    return [{"prediction": prediction, "answers": answers} for prediction, answers in fixed + drawn]
