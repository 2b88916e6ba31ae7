def wrong_cells() -> dict:
    """Return the four wrong cells, and what should stand in each."""
    return {
        "GPT vocabulary": 478 + 40_000,
        "GPT2 positions": "absolute",
        "BLOOM size": round(176_247_271_424 / 1e9),
        "LLaMA size": round(65_285_660_672 / 1e9, 1),
    }


def accepted_strings():
    """Writes everything as strings, with units and other spellings."""
    return {"bloom size": "176B", "llama_size": "65.3 B", "gpt2 position": "Learned absolute", "GPT vocab": "40,478"}


def accepted_pairs():
    """Uses pairs as keys, exact sizes, and the word that PyTorch's users would choose."""
    return {
        ("GPT", "vocabulary"): 40478.0,
        ("GPT-2", "positions"): "learned",
        ("BLOOM", "size"): 176.247,
        ("LLaMA", "size"): 65_285_660_672,
    }


def cases(generator):
    return [{}]


COLUMNS = ("size", "vocabulary", "positions", "activation", "factor")


def _plain(text):
    return "".join(each for each in str(text).lower() if each.isalnum() or each == ".")


def _cell(key):
    text = _plain("".join(map(str, key)) if isinstance(key, tuple | list) else key).replace("mlpfactor", "factor")
    for model in ("llama2", "gpt2", "bloom", "llama", "gpt", "t5"):
        if text.startswith(model):
            names = [name for name in COLUMNS if len(text) > len(model) and name.startswith(text.removeprefix(model))]
            return f"{model} {names[0]}" if names else None
    return None


def _content(cell, value):
    plain = _plain(value.item() if hasattr(value, "item") else value)
    if cell.endswith("positions"):
        words = {"learned": "absolute", "learnedabsolute": "absolute", "absolutelearned": "absolute"}
        return {**words, "sinusoidal": "sine"}.get(plain, plain)
    if cell.endswith("activation"):
        return plain
    number = float(plain.removesuffix("billion").removesuffix("b"))
    number = number / 1e9 if cell.endswith("size") and number > 1e6 else number
    return str(round(number, {"bloom size": 0, "llama size": 1}.get(cell, 4)) + 0.0)


def observe(returned):
    """how many of the wrong cells you find, and how many of them you repair"""
    assert isinstance(returned, dict), "return a dictionary"
    assert all(map(_cell, returned)), (
        f"{next((key for key in returned if not _cell(key)), None)!r} does not name a model and a column of the table"
    )
    found = {_cell(key): _content(_cell(key), value) for key, value in returned.items()}
    right = {"gpt vocabulary": "40478.0", "gpt2 positions": "absolute", "bloom size": "176.0", "llama size": "65.3"}
    n_found, n_repaired = len(found.keys() & right.keys()), len(found.items() & right.items())
    changed = ", ".join(sorted(found.keys() - right.keys())) or "none"
    summary = f"{n_found} of the wrong cells, {n_repaired} repaired; right cells changed: {changed}"
    return summary, "; ".join(sorted(f"{cell}: {value}" for cell, value in found.items()))


def hidden_cases(generator):
    return [{}]
