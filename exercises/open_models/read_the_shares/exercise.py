def read_the_shares() -> dict:
    """Return the letters of the five models, and the ratio for LLaMA 65B."""
    letters = {"GPT-2": "D", "T5 11B": "C", "LLaMA 65B": "A", "Llama 3 70B": "E", "Gemma 2B": "B"}
    return letters | {"ratio": 66 / 33}


def accepted_from_the_config():
    """Takes the ratio from the config."""
    letters = dict(zip(("LLaMA 65B", "Gemma 2B", "T5 11B", "GPT-2", "Llama 3 70B"), "ABCDE", strict=True))
    return {"ratio": 3 * 2.6875 / 4} | letters


def accepted_written_freely():
    """Small letters and spaces around them do not matter, and the ratio may be a string."""
    letters = {"T5 11B": "c", "GPT-2": " d", "Gemma 2B": "b ", "Llama 3 70B": "e", "LLaMA 65B": "A"}
    return letters | {"ratio": "2"}


def cases(generator):
    return [{}]


MODELS = ("GPT-2", "T5 11B", "LLaMA 65B", "Llama 3 70B", "Gemma 2B")


def observe(returned):
    """whether the letters and, with a margin, the ratio are right"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(name).strip().lower(): value for name, value in returned.items()}
    missing = [name for name in (*MODELS, "ratio") if name.lower() not in given]
    assert not missing, f"the entry {missing[0]!r} is missing" if missing else ""
    letters = {name: str(given[name.lower()]).strip().upper() for name in MODELS}
    for name, letter in letters.items():
        assert letter in ("A", "B", "C", "D", "E"), f"{given[name.lower()]!r} is not one of the letters A to E"
    assert len(set(letters.values())) == 5, "each of the five bars belongs to a model of its own"
    ratio = given["ratio"].item() if hasattr(given["ratio"], "item") else given["ratio"]
    ratio = float(ratio)
    assert ratio == ratio, "the ratio is NaN, which is not a number"
    sizes = {"right": 2, "too small: of T5 11B": 4 / 3, "too large: of Llama 3 70B": 14 / 3}
    size = "too small" if ratio < 2 else "too large"
    size = next((name for name, value in sizes.items() if abs(ratio - value) <= 0.2001), size)
    bars = dict(zip(MODELS, "DCAEB", strict=True))
    found = {f'letter for "{name}"': "right" if letters[name] == bars[name] else letters[name] for name in MODELS}
    return found | {"ratio": size}


def hidden_cases(generator):
    return [{}]
