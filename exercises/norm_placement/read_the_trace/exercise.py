import math


def read_the_trace() -> dict:
    """Return the letters of the three runs, the loss of the stuck one, and the letter of the smallest gradient norm."""
    letters = {"post without warm-up": "C", "post with warm-up": "A", "pre without warm-up": "B"}
    return letters | {"level": 3.08, "smallest gradient": letters["post without warm-up"]}


def accepted_rounded():
    """Reads the level roughly."""
    return {
        "smallest gradient": "C",
        "level": 3.1,
        "pre without warm-up": "B",
        "post with warm-up": "A",
        "post without warm-up": "C",
    }


def accepted_written_freely():
    """Small letters and spaces around them do not matter, and the level may be a string."""
    names = ("post without warm-up", "post with warm-up", "pre without warm-up", "smallest gradient")
    return {"level": "3.05"} | dict(zip(names, ("c", " a", "b ", "C"), strict=True))


def cases(generator):
    return [{}]


NAMES = ("post without warm-up", "post with warm-up", "pre without warm-up", "smallest gradient")


def observe(returned):
    """whether the letters and, with a margin, the level are right"""
    assert isinstance(returned, dict), "return a dictionary"
    missing = [name for name in (*NAMES, "level") if name not in returned]
    assert not missing, f"the entry {missing[0]!r} is missing" if missing else ""
    letters = {name: str(returned[name]).strip().upper() for name in NAMES}
    for name, letter in letters.items():
        assert letter in ("A", "B", "C"), f"{returned[name]!r} is not one of the letters A, B and C"
    runs = [letters[name] for name in NAMES[:3]]
    assert len(set(runs)) == 3, "each of the three curves belongs to a run of its own"
    level = float(returned["level"])
    assert math.isfinite(level), "the level should be a number"
    size = "right" if abs(level - 3.08) <= 0.07001 else "too low" if level < 3.08 else "too high"
    right = dict(zip(NAMES, "CABC", strict=True))
    said = {f'letter for "{name}"': "right" if letters[name] == right[name] else letters[name] for name in NAMES}
    return said | {"level": size}


def hidden_cases(generator):
    return [{}]
