def gated_rows() -> dict[str, str]:
    """Return what the table says of each of the claims A to H."""
    found = {letter: "true" for letter in "BFH"} | {letter: "false" for letter in "ACE"}
    return found | {"D": "cannot tell", "G": "cannot tell"}


def accepted_booleans():
    """Returns True and False where the table decides."""
    return {letter: letter in "BFH" for letter in "ABCEFH"} | {"D": "can't tell", "G": "cannot tell"}


def accepted_written_freely():
    """Small letters, capitals and spaces."""
    words = ("False", "TRUE", "false ", "Cannot tell", " false", "True", "cannot  tell", "true")
    return dict(zip("abcdefgh", words, strict=True))


def cases(generator):
    return [{}]


def observe(returned):
    """your eight verdicts"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(letter).strip().upper(): verdict for letter, verdict in returned.items()}
    found = {}
    for letter in ("A", "B", "C", "D", "E", "F", "G", "H"):
        assert letter in given, f"the entry {letter!r} is missing"
        verdict = given[letter].item() if hasattr(given[letter], "item") else given[letter]
        spelt = " ".join(str(verdict).lower().replace("_", " ").split())
        spelt = spelt.replace("can't", "cannot").replace("can not", "cannot")
        assert spelt in ("true", "false", "cannot tell"), f"{verdict!r} is not one of the three verdicts"
        found[letter] = spelt
    return found


def hidden_cases(generator):
    return [{}]
