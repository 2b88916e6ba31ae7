def read_the_cache() -> dict:
    """Return the letters of the five models, the number of key-value heads, and the length of the window."""
    letters = {"multi-head": "C", "grouped": "E", "multi-query": "D", "latent": "A", "window": "B"}
    return letters | {"key-value heads": 8, "length": 4096}


def accepted_rounded():
    """Reads the length roughly."""
    letters = dict(zip(("latent", "window", "multi-head", "multi-query", "grouped"), "ABCDE", strict=True))
    return {"length": 4000, "key-value heads": 32 / 4} | letters


def accepted_written_freely():
    """Small letters and spaces around them do not matter, and numbers may be strings."""
    letters = {"grouped": "e", "multi-head": " c", "window": "b ", "multi-query": "d", "latent": "A"}
    return letters | {"key-value heads": "8", "length": "4,100"}


def cases(generator):
    return [{}]


MODELS = ("multi-head", "grouped", "multi-query", "latent", "window")


def observe(returned):
    """whether the letters, the number of key-value heads and, with a margin, the length are right"""
    assert isinstance(returned, dict), "return a dictionary"
    missing = [name for name in (*MODELS, "key-value heads", "length") if name not in returned]
    assert not missing, f"the entry {missing[0]!r} is missing" if missing else ""
    letters = {name: str(returned[name]).strip().upper() for name in MODELS}
    for name, letter in letters.items():
        assert letter in ("A", "B", "C", "D", "E"), f"{returned[name]!r} is not one of the letters A to E"
    assert len(set(letters.values())) == 5, "each of the five curves belongs to a model of its own"
    read = [returned[name] for name in ("key-value heads", "length")]
    read = [each.item() if hasattr(each, "item") else each for each in read]
    try:
        heads, length = (float(str(each).replace(",", "")) for each in read)
    except ValueError:
        raise AssertionError("the number of key-value heads and the length should be numbers without words") from None
    assert length == length, "the length is NaN, which is not a number"
    assert heads in (1, 2, 4, 8, 16, 32), "the number of key-value heads should be a power of 2, from 1 to 32"
    curves = dict(zip(MODELS, "CEDAB", strict=True))
    found = {f'letter for "{name}"': "right" if letters[name] == curves[name] else letters[name] for name in MODELS}
    found["number of key-value heads"] = (
        "right" if heads == 8 else f"too {'small' if heads < 8 else 'large'}: {int(heads)}"
    )
    size = "too short" if length < 4096 else "too long"
    return found | {"length of the window": "right" if abs(length - 4096) <= 0.2001 * 4096 else size}


def hidden_cases(generator):
    return [{}]
