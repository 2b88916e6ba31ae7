from collections import Counter

import numpy as np
import torch


def label_balance(labels: list[str]) -> tuple[float, float]:
    """Return the largest share of a label, and the effective number of labels."""
    counts = Counter(label.strip().lower() for label in labels if label.strip())
    p = torch.tensor([float(n) for n in counts.values()]) / counts.total()
    return p.max().item(), (-(p * p.log()).sum()).exp().item()


def accepted_product(labels):
    """A product of powers in place of the exponential, and a list."""
    cleaned = [label.casefold().strip() for label in labels]
    cleaned = [label for label in cleaned if label != ""]
    number, largest = 1.0, 0
    for label in set(cleaned):
        share = cleaned.count(label) / len(cleaned)
        number *= share**-share
        largest = max(largest, share)
    return [largest, number]


def accepted_numpy(labels):
    """NumPy's unique, and an array."""
    cleaned = np.array([each for each in map(str.upper, map(str.strip, labels)) if each])
    counts = np.unique(cleaned, return_counts=True)[1]
    p = counts / counts.sum()
    return np.array([p.max(), np.exp((p * np.log(1 / p)).sum())])


def observe(returned, labels):
    """the largest share and the effective number"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "two numbers are needed"
    return tuple(map(float, numbers))


def cases(generator):
    input_first = ["positive"] * 9 + ["Positive", " positive "] * 3 + ["POSITIVE", "Mixed", ""] + ["negative"] * 3
    output_first = ["mixed", "positive", "negative"] * 6 + ["Mixed", "positive", " "]
    return [
        {"labels": input_first},
        {"labels": output_first},
        {"labels": ["yes", "Yes ", "no", "YES"]},
        {"labels": ["a", "", "B", "b", " a", "c", "B", "b"]},
        {"labels": ["spam"] * 3 + [" Spam"]},
        {"labels": ["no", "no.", "\nno"]},
        {"labels": ["not A", "nota", "not a", "not  a"]},
        {"labels": ["en", "fr", "es", "EN", "fr", "EN", "de ", "", "it", "en"]},
    ]


def property_equal_labels(answer, generator):
    largest, number = (float(each) for each in answer(["a", "b", "c", "d"] * 3))
    assert abs(largest - 0.25) < 1e-4 and abs(number - 4) < 1e-3, (
        "Four labels that are equally frequent should give 0.25 and 4. Yours do not."
    )


def hidden_cases(generator):
    def drawn(n_labels, n):
        forms = ("{}", "{}\n", " {}", "{}.", "{0} {0}", "{0}{0}", "{0}  {0}")
        found = [""]
        for i in range(n):
            label = "abcdefgh"[int(n_labels * torch.rand(1, generator=generator).item() ** 2)]
            label = forms[i % 7].format(label)
            found.append(label.upper() if i % 3 == 0 else label)
        return {"labels": found}

    return [drawn(3, 20), drawn(5, 31), drawn(2, 17), drawn(7, 44)]
