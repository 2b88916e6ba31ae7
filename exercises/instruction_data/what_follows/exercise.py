def what_follows() -> dict[str, str]:
    """Return whether the table shows or contradicts each of the statements A to H, or leaves it open."""
    return dict.fromkeys("AEH", "shown") | dict.fromkeys("CD", "contradicted") | dict.fromkeys("BFG", "open")


def accepted_written_freely():
    """Small letters, capitals and white space."""
    words = ("Shown", "open", " CONTRADICTED", "contradicted", "shown", "Open ", "OPEN", "shown")
    return dict(zip("abcdefgh", words, strict=True))


def accepted_by_intervals():
    """Compares intervals."""

    def larger(one, other):
        return "shown" if one[0] > other[1] else "contradicted" if one[1] < other[0] else "open"

    found = {"A": larger((66, 76), (0, 2)), "B": larger((69, 79), (66, 76)), "C": larger((7, 17), (58, 70))}
    found |= {"D": larger((9, 19), (75 / 2, 85 / 2)), "E": larger((1.34, 1.38), (1.20, 1.22))}
    found |= {"F": larger((69, 79), (67, 77)), "G": larger((1.21, 1.25), (1.20, 1.22))}
    return found | {"H": larger(((1.34 - 1.22) / 2,) * 2, (0, 1.25 - 1.20))}


def cases(generator):
    return [{}]


def observe(returned):
    """your eight words"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(letter).strip().upper(): word for letter, word in returned.items()}
    found = {}
    for letter in ("A", "B", "C", "D", "E", "F", "G", "H"):
        assert letter in given, f"the entry {letter!r} is missing"
        word = str(given[letter]).strip().lower()
        assert word in ("shown", "contradicted", "open"), f"{given[letter]!r} is not one of the three words"
        found[letter] = word
    return found


def hidden_cases(generator):
    return [{}]
