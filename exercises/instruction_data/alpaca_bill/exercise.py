from fractions import Fraction


def alpaca_bill() -> dict[str, int | float]:
    """Return what examples cost in five calculations."""
    price = 20 / 1_000_000
    return {
        "cents": round(100 * 500 / 52_000, 2),
        "tokens": round(500 / price / 52_000),
        "single": round(52_000 * (1_600 + 80) * price),
        "batch": round(52_000 / 20 * (1_600 + 20 * 80) * price, 1),
        "filtered": round(52_000 / 0.8 / 20 * (1_600 + 20 * 80) * price),
    }


def accepted_on_paper():
    """Written down, some as strings with a unit, with capital letters."""
    return {"Cents": "0.96", "TOKENS": "481 tokens", "single": "$1,747", "Batch": "166.40 dollars", "filtered": 208.0}


def accepted_not_rounded():
    """Without rounding, as fractions and floats."""
    dollars = Fraction(20, 10**6)
    found = {"filtered": 65_000 * 160 * dollars, "batch": 52_000 * (80 + 80) * dollars, "single": 1747.2}
    return found | {"tokens": 25e6 / 52e3, "cents": Fraction(50_000, 52_000)}


def accepted_cut():
    """Digits cut off in place of rounding, where the next digit does not matter much."""
    return {"cents": 0.961, "tokens": 480.8, "single": 1747, "batch": 166.4, "filtered": 208}


def cases(generator):
    return [{}]


def observe(returned):
    """the five numbers, rounded"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(name).strip().lower(): value for name, value in returned.items()}
    found = {}
    for name, digits in (("cents", 2), ("tokens", 0), ("single", 0), ("batch", 1), ("filtered", 0)):
        assert name in given, f"the entry {name!r} is missing"
        value = given[name]
        if isinstance(value, str):
            words = value.replace(",", "").replace("$", " ").replace("¢", " ").split()
            value = words[0] if words else value
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise AssertionError(f"the entry {name!r} is {given[name]!r}, which is not a number") from None
        found[name] = round(number + 1e-9, digits) + 0.0
    return found


def hidden_cases(generator):
    return [{}]
