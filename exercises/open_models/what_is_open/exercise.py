def what_is_open() -> dict[str, str]:
    """Return which of the models P, Q, R and S allow each of the seven undertakings."""
    return {
        "compare": "PQRS",
        "look inside": "QRS",
        "memory": "S",
        "restarts": "R",
        "emergence": "S",
        "retrain": "S",
        "product": "S",
    }


def accepted_lists():
    """Returns lists, tuples and sets of letters, and says of each letter whether it is in."""
    only = dict.fromkeys(("memory", "emergence", "retrain", "product"), ["S"])
    only["product"] = {"P": False, "Q": False, "R": False, "S": True}
    return only | {"restarts": ("R",), "look inside": {"S", "R", "Q"}, "compare": ["P", "Q", "R", "S"]}


def accepted_written_freely():
    """Small letters in any order, with commas and spaces, and capital letters in the names."""
    given = {"Compare": "s, r, q and p", "Look inside": "R, Q, S", "Memory": " s", "Restarts": "r"}
    return given | {"Emergence": "S", "Retrain": "S.", "Product": "s"}


def cases(generator):
    return [{}]


NAMES = ("compare", "look inside", "memory", "restarts", "emergence", "retrain", "product")


def observe(returned):
    """the letters of the seven entries"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {" ".join(str(name).lower().replace("_", " ").split()): letters for name, letters in returned.items()}
    found = []
    for name in NAMES:
        assert name in given, f"the entry {name!r} is missing"
        letters = given[name]
        if isinstance(letters, dict):
            letters = [letter for letter, allowed in letters.items() if allowed]
        if isinstance(letters, set | frozenset | tuple | list):
            letters = " ".join(map(str, letters))
        assert isinstance(letters, str), f"the entry {name!r} should be a string of letters"
        words = letters.upper().replace(",", " ").replace(".", " ").replace("AND", " ").split()
        named = set("".join(words))
        assert named <= set("PQRS"), f"{letters!r} contains something other than the letters P, Q, R and S"
        found.append("".join(sorted(named)))
    return dict(zip(NAMES, found, strict=True))


def hidden_cases(generator):
    return [{}]
