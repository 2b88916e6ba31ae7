from decimal import Decimal


def holm_by_hand() -> dict[str, float]:
    """Return the corrected p-values, and how many variants differ from the baseline by each of three rules."""
    values = {"A": 0.004, "B": 0.030, "C": 0.009, "D": 0.60, "E": 0.012, "F": 0.028, "G": 0.007}
    corrected, largest = {}, 0.0
    for factor, letter in zip(range(7, 0, -1), sorted(values, key=values.__getitem__), strict=True):
        largest = max(largest, min(1.0, factor * values[letter]))
        corrected[letter] = largest
    counts = {
        "uncorrected": sum(p < 0.05 for p in values.values()),
        "bonferroni": sum(7 * p < 0.05 for p in values.values()),
        "holm": sum(p < 0.05 for p in corrected.values()),
    }
    return corrected | counts


def accepted_on_paper():
    """Written down, with small letters and some values as strings."""
    return {
        "a": 0.028, "g": ".042", "c": 0.045, "e": "0.048", "f": Decimal("0.084"), "b": 0.084, "d": 0.6,
        "Uncorrected": 6, "Bonferroni": 2.0, "Holm": "4",
    }  # fmt: skip


def accepted_from_the_end():
    """The largest of all products of smaller values, letter by letter."""
    values = dict(zip("ABCDEFG", (4, 30, 9, 600, 12, 28, 7), strict=True))
    ranked = sorted(values.values())
    found = {
        letter: max((7 - i) * p for i, p in enumerate(ranked) if p <= own) / 1000 for letter, own in values.items()
    }
    return found | {"holm": 4, "bonferroni": 2, "uncorrected": 6}


def cases(generator):
    return [{}]


def observe(returned):
    """the seven values and the three numbers of variants"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(name).strip().lower(): value for name, value in returned.items()}
    found = {}
    for name in ("a", "b", "c", "d", "e", "f", "g", "uncorrected", "bonferroni", "holm"):
        shown = name.upper() if len(name) == 1 else name
        assert name in given, f"the entry {shown!r} is missing"
        try:
            number = float(given[name])
        except (TypeError, ValueError):
            raise AssertionError(f"the entry {shown!r} is {given[name]!r}, which is not a number") from None
        found[shown] = round(number + 1e-9, 3) + 0.0
    return found


def hidden_cases(generator):
    return [{}]
