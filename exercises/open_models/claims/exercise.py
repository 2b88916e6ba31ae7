def claims() -> dict[str, str]:
    """Return what the table says of each of the claims A to H."""
    verdicts = {letter: "true" for letter in "AEH"} | {letter: "false" for letter in "BCG"}
    return verdicts | {"D": "cannot tell", "F": "cannot tell"}


def accepted_booleans():
    """Returns True and False where the table decides."""
    return {"D": "cannot tell", "F": "Cannot tell"} | {x: x in "AEH" for x in "ABCEGH"}


def accepted_written_freely():
    """Small letters, and capital letters in the verdicts."""
    verdicts = ("True", "FALSE", "false.", "cannot_tell", "true", "can't tell", "False", " true")
    return dict(zip("abcdefgh", verdicts, strict=True))


def cases(generator):
    return [{}]


def observe(returned):
    """your eight verdicts"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(letter).strip().upper(): verdict for letter, verdict in returned.items()}
    found = []
    for letter in ("A", "B", "C", "D", "E", "F", "G", "H"):
        assert letter in given, f"the entry {letter!r} is missing"
        verdict = given[letter].item() if hasattr(given[letter], "item") else given[letter]
        spelt = (
            " ".join(str(verdict).lower().replace("_", " ").strip(" .").split())
            .replace("can't", "cannot")
            .replace("can not", "cannot")
        )
        assert spelt in ("true", "false", "cannot tell"), f"{verdict!r} is not one of the three verdicts"
        found.append(spelt)
    return dict(zip("ABCDEFGH", found, strict=True))


def hidden_cases(generator):
    return [{}]
