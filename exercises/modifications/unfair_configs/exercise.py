import numpy as np


def unfair_configs() -> dict[str, tuple]:
    """Return the name of the wrong field and its right value for each of the variants A to E."""
    saved = 2 * 512 * (8 - 2) * 64
    return {
        "A": ("d_ff", 2 * 1536 // 3),
        "B": ("n_heads", 8 // 2),
        "C": ("d_ff", 1536 + saved // (2 * 512)),
        "D": ("feedforward", "swish"),
        "E": ("d_embed", (32_000 * 512 - 12_222_464) // (32_000 + 512)),
    }


def accepted_small_dictionaries():
    """Writes each pair as a dictionary of one field, with values as strings."""
    pairs = {"a": {"d_ff": "1024"}, "b": {"n_heads": 4, "n_kv_heads": 4}, "c": {"d_ff": "1,920"}}
    return pairs | {"d": {"feedforward": "Swish "}, "e": {"d_embed": 128.0}}


def accepted_lists():
    """Writes each pair as a list, with NumPy's numbers, and another name of Swish."""
    values = [np.int64(1024), np.float64(4), np.int32(1920), np.str_("silu"), 128]
    fields = ["d_ff", "n_kv_heads", "D_FF", "feedforward", " d_embed"]
    return {letter: [field, value] for letter, field, value in zip("ABCDE", fields, values, strict=True)}


def cases(generator):
    return [{}]


FIELDS = {
    "A": ("feedforward", "d_ff"),
    "B": ("n_layers", "n_heads", "n_kv_heads", "d_ff"),
    "C": ("n_kv_heads", "d_ff"),
    "D": ("feedforward",),
    "E": ("d_embed",),
}


def observe(returned):
    """the field and the value for each letter"""
    assert isinstance(returned, dict), "return a dictionary"
    given = {str(letter).strip().upper(): pair for letter, pair in returned.items()}
    found = {}
    for letter, fields in FIELDS.items():
        assert letter in given, f"the entry {letter!r} is missing"
        pair = given[letter]
        if isinstance(pair, dict):
            values = {str(value) for value in pair.values()}
            is_one = len(pair) == 1 or set(pair) == {"n_heads", "n_kv_heads"} and len(values) == 1
            pair = next(iter(pair.items())) if is_one else None
        assert isinstance(pair, tuple | list) and len(pair) == 2, (
            f"the entry {letter!r} is not a pair of a field and a value"
        )
        field, value = str(pair[0]).strip().lower(), pair[1]
        names = set("".join(c if c.isalnum() or c == "_" else " " for c in field).split()) - {"and"}
        field = "n_heads" if names == {"n_heads", "n_kv_heads"} else field
        assert field in fields, f"the variant {letter} gives no field {pair[0]!r}"
        value = value.item() if hasattr(value, "item") else value
        plain = str(value).strip().lower().replace(",", "").replace("_", "")
        if field == "feedforward":
            plain = {"silu": "swish"}.get(plain, plain)
        else:
            try:
                number = float(plain)
            except ValueError:
                raise AssertionError(f"the value of {field} is a number, and not {value!r}") from None
            assert number.is_integer(), f"the value of {field} is a whole number, and not {value!r}"
            plain = str(int(number))
        found[letter] = f"{field.replace('n_kv_heads', 'n_heads') if letter == 'B' else field}={plain}"
    return found


def hidden_cases(generator):
    return [{}]
