def read_the_pool() -> dict[str, int | float]:
    """Return what can be read from the figure."""
    counts = [40, 50, 70, 140, 220, 150, 110, 80, 60, 80]
    accepted = [sum(counts[:i]) for i in range(11)]
    half = min(range(11), key=lambda i: abs(accepted[i] - 500)) / 10
    return {"refused": sum(counts[7:]), "stricter": sum(counts[5:7]), "half": half, "new": sum(counts[:2])}


def accepted_as_read():
    """Values as one reads them, some as strings."""
    return {"New": 92, "half": "0.5", "Stricter": 255.0, "refused": "225"}


def accepted_less_exact():
    """Within the allowed error."""
    return {"refused": 207, "stricter": 273, "half": 0.50, "new": 76}


def cases(generator):
    return [{}]


RIGHT = {"refused": 220, "stricter": 260, "new": 90}
READINGS = {
    "refused": (80, 140, 220, 330, 780),
    "stricter": (110, 150, 190, 260, 340, 480),
    "new": (40, 50, 90, 160, 910),
}


def observe(returned):
    """whether each of the four numbers is right, within the allowed error"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(name).strip().lower(): value for name, value in returned.items()}
    found = {}
    for name in ("refused", "stricter", "half", "new"):
        assert name in given, f"the entry {name!r} is missing"
        value = given[name].replace(",", "") if isinstance(given[name], str) else given[name]
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise AssertionError(f"the entry {name!r} is {given[name]!r}, which is not a number") from None
        assert number == number, f"the entry {name!r} is {number}, which is not a number"
        if name == "half":
            right, read = 0.5, round(number, 2)
        else:
            right, read = RIGHT[name], min(READINGS[name], key=lambda reading: abs(reading - number))
            read = read if abs(read - number) <= 15 else round(number, 2)
        part = 'threshold "half"' if name == "half" else f'number for "{name}"'
        found[part] = "right" if read == right else f"too {'small' if read < right else 'large'}: {read:g}"
    return found


def hidden_cases(generator):
    return [{}]
