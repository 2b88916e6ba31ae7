import numpy as np


def wrong_fields() -> dict[str, tuple]:
    """Return the name of the wrong field and its right value for each of the configs A to E."""
    return {
        "A": ("d_model", 32 * 128),
        "B": ("n_vocab", 128256),
        "C": ("n_kv_heads", 327_680 // (2 * 80 * 128 * 2)),
        "D": ("position", "learned"),
        "E": ("tie_embeddings", True),
    }


def accepted_small_dictionaries():
    """Writes each pair as a dictionary of one field, with values as strings."""
    pairs = {"a": {"d_model": "4096"}, "b": {"n_vocab": "128,256"}, "c": {"n_kv_heads": 8.0}}
    return pairs | {"d": {"position": "Learned "}, "e": {"tie_embeddings": "True"}}


def accepted_lists():
    """Writes each pair as a list, with NumPy's numbers."""
    fields = ["d_model", "n_vocab", "n_kv_heads", "position", "Tie_embeddings"]
    values = [np.int64(4096), np.float64(128256), np.int32(8), np.str_("learned"), np.bool_(True)]
    return {letter: [field, value] for letter, field, value in zip("ABCDE", fields, values, strict=True)}


def cases(generator):
    return [{}]


FIELDS = {
    "A": ("d_model", "n_layers", "n_heads", "d_ff"),
    "B": ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "n_vocab"),
    "C": ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "n_vocab"),
    "D": ("d_model", "n_layers", "n_heads", "d_ff", "n_ctx", "position"),
    "E": ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff", "n_vocab", "tie_embeddings"),
}


def observe(returned):
    """the field and the value for each letter"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(letter).strip().upper(): pair for letter, pair in returned.items()}
    found = []
    for letter, fields in FIELDS.items():
        assert letter in given, f"the entry {letter!r} is missing"
        pair = given[letter]
        if isinstance(pair, dict):
            pair = [each for item in pair.items() for each in item]
        assert isinstance(pair, tuple | list) and len(pair) == 2, (
            f"the entry {letter!r} is not a pair of a field and a value"
        )
        field, value = str(pair[0]).strip().lower(), pair[1]
        assert field in fields, f"the config {letter} has no field {pair[0]!r}"
        value = value.item() if hasattr(value, "item") else value
        plain = str(value).strip().lower().replace(",", "").replace("_", "")
        if field == "tie_embeddings":
            plain = {"1": "true", "1.0": "true", "yes": "true", "0": "false", "0.0": "false", "no": "false"}.get(
                plain, plain
            )
            assert plain in ("true", "false"), f"the value of tie_embeddings is True or False, and not {value!r}"
        elif field == "position":
            plain = {"learned absolute": "learned"}.get(plain, plain)
            known = ("none", "sinusoidal", "learned", "rope", "alibi")
            assert plain in known, f"the value {value!r} of position is not one of the five names"
        else:
            number = float(plain)
            assert number.is_integer(), f"the value of {field} is a whole number, and not {value!r}"
            plain = str(int(number))
        found.append(f"{field}={plain}")
    return dict(zip(FIELDS, found, strict=True))


def hidden_cases(generator):
    return [{}]
