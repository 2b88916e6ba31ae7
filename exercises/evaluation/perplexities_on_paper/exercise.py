import math

import numpy as np


def perplexities_on_paper() -> dict:
    """Return the bits per byte of three models, the best of them, and the perplexity that A would need."""
    models = {"A": (60, 16), "B": (40, 32), "C": (120, 4)}
    found = {letter: n_tokens * math.log2(perplexity) / 240 for letter, (n_tokens, perplexity) in models.items()}
    best = min(found, key=found.__getitem__)
    return found | {"best": best, "needed": 2 ** (found[best] * 240 / 60)}


def accepted_on_paper():
    """Written down, with small letters and some values as strings."""
    return {"a": 1, "b": "0.833", "c": 1.0, "Best": "model b", "needed": "10.1"}


def accepted_numpy():
    """Uses NumPy and nats."""
    n_tokens, perplexity = np.array([60, 40, 120]), np.array([16.0, 32.0, 4.0])
    found = n_tokens * np.log(perplexity) / (240 * np.log(2))
    needed = np.exp(found.min() * 240 * np.log(2) / 60)
    return dict(zip("ABC", found, strict=True)) | {"best": "ABC"[found.argmin()], "needed": needed}


def cases(generator):
    return [{}]


def observe(returned):
    """the three numbers of bits per byte, the best model and the perplexity that A would need"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(name).strip().lower(): value for name, value in returned.items()}
    found = {}
    for name in ("A", "B", "C", "best", "needed"):
        assert name.lower() in given, f"the entry {name!r} is missing"
        value = given[name.lower()]
        value = value.item() if hasattr(value, "item") else value
        if name == "best":
            found[name] = str(value).upper().replace("MODEL", "").strip(" .")
            assert found[name] in ("A", "B", "C"), f"{value!r} is not one of the letters A, B and C"
        else:
            try:
                found[name] = round(float(value) + 1e-9, 1 if name == "needed" else 3) + 0.0
            except (TypeError, ValueError):
                raise AssertionError(f"the entry {name!r} is {value!r}, which is not a number") from None
    return found


def hidden_cases(generator):
    return [{}]
