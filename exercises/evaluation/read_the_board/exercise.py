import torch


def read_the_board() -> dict:
    """Return what the board shows."""
    chance = 1 / (1 + 10 ** ((1235 - 1305) / 400))
    return {"rank of E": 4, "rank of D": 4, "fewest votes": "E", "sure pair": "CD", "B against D": chance}


def accepted_written_freely():
    """Small letters, a pair as a list, values as strings."""
    return {"fewest votes": "e", "sure pair": ["d", "c"], "Rank of E": "4", "rank of D": 4.0, "B against D": "60 %"}


def accepted_from_tensors():
    """Uses tensors, and words beside the letters."""
    numbers = dict.fromkeys(("rank of E", "rank of D"), torch.tensor(4))
    return numbers | {
        "fewest votes": "Model E",
        "sure pair": "C and D",
        "B against D": torch.sigmoid(torch.tensor(0.4)),
    }


def cases(generator):
    return [{}]


def observe(returned):
    """whether each of the five entries is right, the chance with a margin"""
    names = ("rank of E", "rank of D", "fewest votes", "sure pair", "B against D")
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(name).strip().lower(): value for name, value in returned.items()}
    missing = [name for name in names if name.lower() not in given]
    assert not missing, f"the entry {missing[0]!r} is missing" if missing else ""
    found = {}
    for name in names:
        value = given[name.lower()]
        value = value.item() if hasattr(value, "item") else value
        if name in ("fewest votes", "sure pair"):
            text = "".join(map(str, value)) if isinstance(value, tuple | list | set) else str(value)
            letters = sorted(c for c in text.upper().replace("MODEL", "").replace("AND", "") if c.isalpha())
            wanted = 1 if name == "fewest votes" else 2
            assert len(letters) == wanted and set(letters) <= set("ABCDEF"), f"{value!r} does not fit {name!r}"
            found[name] = "".join(letters)
            if wanted == 2 and ord(letters[1]) - ord(letters[0]) != 1:
                found[name] = "no neighbours"
        else:
            try:
                text = str(value)
                found[name] = float(text.rstrip(" %")) / 100 if "%" in text else float(value)
            except (TypeError, ValueError):
                raise AssertionError(f"the entry {name!r} is {value!r}, which is not a number") from None
            assert found[name] == found[name], f"the entry {name!r} is NaN, which is not a number"
    chance = found["B against D"]
    sizes = {0.5: "too small: below one half", 0.5499: "too small", 0.6501: "right", 1.0001: "too large"}

    def rank(value):
        return "right" if value == 4 else f"too {'small' if value < 4 else 'large'}: {value:g}"

    return {
        "rank of E": rank(found["rank of E"]),
        "rank of D": rank(found["rank of D"]),
        "model with the fewest votes": {"E": "right"}.get(found["fewest votes"], found["fewest votes"]),
        "sure pair": {"CD": "right"}.get(found["sure pair"], found["sure pair"]),
        "chance of B against D": next((size for end, size in sizes.items() if chance < end), "too large: above one"),
    }


def hidden_cases(generator):
    return [{}]
