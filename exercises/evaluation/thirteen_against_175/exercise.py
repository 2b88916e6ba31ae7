import numpy as np


def thirteen_against_175() -> dict:
    """Return a verdict on LLaMA-13B for each benchmark, and how many questions OBQA would need."""
    rows = {
        "BoolQ": (0.781, 0.605, 3270),
        "PIQA": (0.801, 0.810, 1838),
        "HellaSwag": (0.792, 0.789, 10042),
        "WinoGrande": (0.730, 0.702, 1267),
        "ARC-e": (0.748, 0.688, 2376),
        "ARC-c": (0.527, 0.514, 1172),
        "OBQA": (0.564, 0.576, 500),
    }
    found = {}
    for name, (p, q, n) in rows.items():
        z = (p - q) / ((p * (1 - p) + q * (1 - q)) / n) ** 0.5
        found[name] = "within noise" if abs(z) <= 1.96 else "better" if z > 0 else "worse"
    p, q, _ = rows["OBQA"]
    return found | {"questions for OBQA": 1.96**2 * (p * (1 - p) + q * (1 - q)) / (p - q) ** 2}


def accepted_written_freely():
    """Small letters, underscores, a number as a string with a comma."""
    names = ("boolq", "piqa", "hellaswag", "Winogrande", "arc_e", "ARC_c", "obqa")
    verdicts = ("Better", "within_noise", "noise", "within the noise", "better ", "Within noise", "within-noise")
    return dict(zip(names, verdicts, strict=True)) | {"questions for OBQA": "13,075"}


def accepted_numpy():
    """Uses NumPy, and percentages throughout."""
    names = ["BoolQ", "PIQA", "HellaSwag", "WinoGrande", "ARC-e", "ARC-c", "OBQA"]
    a = np.array([78.1, 80.1, 79.2, 73.0, 74.8, 52.7, 56.4])
    b = np.array([60.5, 81.0, 78.9, 70.2, 68.8, 51.4, 57.6])
    n = np.array([3270, 1838, 10042, 1267, 2376, 1172, 500])
    both = a * (100 - a) + b * (100 - b)
    verdict = np.where(np.abs(a - b) <= 1.96 * np.sqrt(both / n), "within noise", np.where(a > b, "better", "worse"))
    needed = int(np.ceil(1.96**2 * both[-1] / (a - b)[-1] ** 2))
    return dict(zip(names, verdict, strict=True)) | {"questions for OBQA": needed}


def cases(generator):
    return [{}]


def observe(returned):
    """your seven verdicts, and the number of questions, with a margin"""
    assert isinstance(returned, dict), "return a dictionary"

    def plain(text):
        return " ".join(str(text).lower().replace("_", " ").replace("-", " ").split())

    given = {plain(name): value for name, value in returned.items()}
    found = {}
    for name in ("BoolQ", "PIQA", "HellaSwag", "WinoGrande", "ARC-e", "ARC-c", "OBQA"):
        assert plain(name) in given, f"the entry {name!r} is missing"
        spelt = plain(given[plain(name)])
        spelt = {"noise": "within noise", "within the noise": "within noise"}.get(spelt, spelt)
        assert spelt in ("better", "worse", "within noise"), f"{given[plain(name)]!r} is not one of the three verdicts"
        found[name] = spelt
    assert "questions for obqa" in given, "the entry 'questions for OBQA' is missing"
    number = given["questions for obqa"]
    number = number.item() if hasattr(number, "item") else number
    try:
        number = float(str(number).replace(",", "").replace("_", ""))
    except ValueError:
        raise AssertionError("the number of questions should be a number, without words") from None
    known = {
        "right": 13075,
        "that of one standard error": 13075 / 1.96**2,
        "that of percentages": 13075 / 1e4,
        "that of one model": 13075 / 2,
        "not squared": 13075 * 0.012 / 1.96,
        "that of percentages, squared": 13075e4,
        "that of two standard errors": 13075 * 4 / 1.96**2,
        "not squared, in proportion": (500 * 13075) ** 0.5,
        "twice as many": 2 * 13075,
        "how many more": 13075 - 500,
    }
    near = [name for name, value in known.items() if abs(number - value) <= 0.02 * value]
    size = near[0] if near else "too small" if number < 13075 else "too large"
    return found | {"questions for OBQA": size}


def hidden_cases(generator):
    return [{}]
