def _failing(row, n_matrices=None):
    """Which of the three equations fail: heads, factor, number of parameters."""
    n_matrices = n_matrices or (3 if row["gated"] else 2)
    d_model, d_ff = row["d_model"], row["d_ff"]
    block = 4 * d_model**2 + n_matrices * d_model * d_ff
    return (
        d_model != 128 * row["n_heads"],
        abs(d_ff - row["factor"] * d_model) > 0.5,
        block * row["n_layers"] != row["n_parameters"],
    )


def _value(row, name, n_matrices=None):
    n_matrices = n_matrices or (3 if row["gated"] else 2)
    block = 4 * row["d_model"] ** 2 + n_matrices * row["d_model"] * row["d_ff"]
    return {
        "d_model": 128 * row["n_heads"],
        "n_heads": row["d_model"] // 128,
        "d_ff": round(row["factor"] * row["d_model"]),
        "factor": row["d_ff"] / row["d_model"],
        "n_layers": round(row["n_parameters"] / block),
    }[name]


def _name(row):
    names = {(1, 1, 1): "d_model", (1, 0, 0): "n_heads", (0, 1, 1): "d_ff", (0, 1, 0): "factor", (0, 0, 1): "n_layers"}
    return names[tuple(map(int, _failing(row)))]


def heads_blamed(row):
    """Where the width does not agree with the heads, you always change the number of heads. If the width is wrong, the
    other two equations fail as well."""
    name = "n_heads" if _failing(row)[0] else _name(row)
    return name, _value(row, name)


def heads_blamed_exactly(row):
    """Where the width does not agree with the heads, you always change the number of heads. If the width is wrong, the
    other two equations fail as well."""
    return ("n_heads", row["d_model"] / 128) if _failing(row)[0] else (_name(row), _value(row, _name(row)))


def width_blamed(row):
    """Where the width does not agree with the heads, you always change the width. If the number of heads is wrong, the
    other two equations hold."""
    name = "d_model" if _failing(row)[0] else _name(row)
    return name, _value(row, name)


def factor_blamed(row):
    """Where the width agrees with the heads but the factor with nothing, you always change the factor. What does the
    number of parameters say?"""
    name = "factor" if _name(row) in ("factor", "d_ff") else _name(row)
    return name, _value(row, name)


def feed_forward_blamed(row):
    """Where the width agrees with the heads but the factor with nothing, you always change `d_ff`. What does the number
    of parameters say?"""
    name = "d_ff" if _name(row) in ("factor", "d_ff") else _name(row)
    return name, _value(row, name)


def factor_first(row):
    """Wherever the factor disagrees, you change the factor. It also disagrees if one of the two widths is wrong."""
    name = "factor" if _failing(row)[1] else _name(row)
    return name, _value(row, name)


def layers_first(row):
    """Wherever the number of parameters disagrees, you change the number of layers. It also disagrees if one of the two
    widths is wrong."""
    name = "n_layers" if _failing(row)[2] else _name(row)
    return name, _value(row, name)


def gate_forgotten(row):
    """You give every feed-forward layer two matrices, so that the rows of gated models seem to have a wrong number of
    parameters. A gated one has three."""
    heads, factor, parameters = _failing(row, 2)
    name = ("d_model" if factor else "n_heads") if heads else "d_ff" if factor and parameters else "factor"
    name = "n_layers" if not heads and not factor else name
    return name, _value(row, name, 2)


def gate_everywhere(row):
    """You give every feed-forward layer three matrices. One without a gate has two."""
    heads, factor, parameters = _failing(row, 3)
    name = ("d_model" if factor else "n_heads") if heads else "d_ff" if factor and parameters else "factor"
    name = "n_layers" if not heads and not factor else name
    return name, _value(row, name, 3)


def wrong_value_returned(row):
    """You find the wrong entry, but you return the value that stands there."""
    name = _name(row)
    return name, row[name]


def value_first(row):
    """The name comes first, then the value."""
    name = _name(row)
    return _value(row, name), name


def name_alone(row):
    """You return the name alone. Return the right value, too."""
    return _name(row)


def repaired_in_place(row):
    """Your answer is right, but you also change the row that you are given. Leave it as it is."""
    name = _name(row)
    row[name] = _value(row, name)
    return name, row[name]


def factor_turned_round(row):
    """You divide `d_model` by `d_ff`. The factor says how many times wider the feed-forward layer is."""
    name = _name(row)
    return name, 1 / _value(row, name) if name == "factor" else _value(row, name)


def heads_of_64(row):
    """Your heads are 64 wide. In all models of this table they are 128 wide."""
    name = _name(row)
    factor = {"n_heads": 2, "d_model": 0.5}.get(name, 1)
    return name, _value(row, name) * factor
