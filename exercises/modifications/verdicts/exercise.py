def verdicts() -> dict[str, str]:
    """Return the verdict on each of the variants A to H."""
    found = {"A": "better", "C": "worse", "E": "better"} | {letter: "unstable" for letter in "DG"}
    return found | {letter: "within noise" for letter in "BFH"}


def accepted_written_freely():
    """Small letters, capitals and underscores."""
    words = ("Better", "within_noise", "WORSE", "unstable", "better ", "within  noise", "Unstable", "Within noise")
    return dict(zip("abcdefgh", words, strict=True))


def accepted_by_the_rule():
    """Applies the rule to the table."""
    p = {"A": 0.0002, "B": 0.0199, "C": 0.0012, "D": 0.0383, "E": 0.0039, "F": 0.2139, "H": 0.0211}
    spread = dict(zip("ABCDEFGH", (0.005, 0.007, 0.019, 0.099, 0.006, 0.021, 0.008, 0.006), strict=True))
    below = True
    verdict = dict.fromkeys(spread, "within-noise")
    for factor, letter in zip(range(7, 0, -1), sorted(p, key=p.get), strict=True):
        below = below and factor * p[letter] < 0.05
        verdict[letter] = ("worse" if letter in "CFH" else "better") if below else "noise"
    return verdict | {letter: "unstable" for letter in spread if spread[letter] > 0.024 or letter == "G"}


def cases(generator):
    return [{}]


def observe(returned):
    """your eight verdicts"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(letter).strip().upper(): verdict for letter, verdict in returned.items()}
    found = {}
    for letter in ("A", "B", "C", "D", "E", "F", "G", "H"):
        assert letter in given, f"the entry {letter!r} is missing"
        spelt = " ".join(str(given[letter]).lower().replace("_", " ").replace("-", " ").split())
        spelt = {"noise": "within noise", "within the noise": "within noise"}.get(spelt, spelt)
        known = ("better", "worse", "within noise", "unstable")
        assert spelt in known, f"{given[letter]!r} is not one of the four verdicts"
        found[letter] = spelt
    return found


def hidden_cases(generator):
    return [{}]
