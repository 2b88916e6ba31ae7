import torch


def repaired_row(row: dict) -> tuple[str, float]:
    """Return the name of the wrong entry, and its right value."""
    d_model, d_ff, n_layers = row["d_model"], row["d_ff"], row["n_layers"]
    n_matrices = 3 if row["gated"] else 2
    heads_agree = d_model == 128 * row["n_heads"]
    factor_agrees = abs(d_ff - row["factor"] * d_model) < 0.5
    depth = row["n_parameters"] / (4 * d_model**2 + n_matrices * d_model * d_ff)
    if not heads_agree and not factor_agrees:
        return "d_model", 128.0 * row["n_heads"]
    if not heads_agree:
        return "n_heads", d_model / 128
    if factor_agrees:
        return "n_layers", float(round(depth))
    return ("factor", d_ff / d_model) if depth == n_layers else ("d_ff", row["factor"] * d_model)


def accepted_trial(row):
    """Tries a value for each entry in turn, until all equations hold, and returns a list."""

    def holds(r):
        block = 4 * r["d_model"] ** 2 + (2 + r["gated"]) * r["d_model"] * r["d_ff"]
        heads = r["n_heads"] * 128 == r["d_model"]
        return heads and r["d_ff"] == r["factor"] * r["d_model"] and block * r["n_layers"] == r["n_parameters"]

    block = 4 * row["d_model"] ** 2 + (2 + row["gated"]) * row["d_model"] * row["d_ff"]
    tried = {
        "factor": row["d_ff"] / row["d_model"],
        "d_ff": row["d_model"] * row["factor"],
        "d_model": row["n_heads"] * 128,
        "n_heads": row["d_model"] / 128,
        "n_layers": row["n_parameters"] / block,
    }
    return next([name, value] for name, value in tried.items() if holds(row | {name: value}))


def accepted_from_the_width(row):
    """Finds the right width first, which at least two equations confirm, and derives the others from it."""
    d = 128 * row["n_heads"]
    if abs(row["d_ff"] / d - row["factor"]) > 1e-6 and abs(row["d_ff"] / row["d_model"] - row["factor"]) < 1e-6:
        return "n_heads", row["d_model"] / 128
    if d != row["d_model"]:
        return "d_model", d
    feedforward = row["n_parameters"] / row["n_layers"] - 4 * d * d
    d_ff = feedforward / d / (3 if row["gated"] else 2)
    if abs(row["d_ff"] / d - row["factor"]) < 1e-6:
        return "n_layers", row["n_parameters"] // (4 * d * d + (3 if row["gated"] else 2) * d * row["d_ff"])
    return ("d_ff", d_ff) if row["d_ff"] != d_ff else ("factor", d_ff / d)


def _row(d_model, n_heads, d_ff, n_layers, gated, wrong):
    n_parameters = n_layers * (4 * d_model**2 + (3 if gated else 2) * d_model * d_ff)
    sizes = {"d_model": d_model, "n_heads": n_heads, "d_ff": d_ff, "factor": d_ff / d_model, "n_layers": n_layers}
    return {"row": sizes | {"gated": gated, "n_parameters": n_parameters} | wrong}


def cases(generator):
    return [
        # small ones first, which a message can show
        _row(256, 2, 1024, 3, False, {"factor": 2.0}),
        _row(256, 2, 1024, 3, False, {"d_model": 128}),
        _row(256, 2, 1024, 8, False, {"n_layers": 5}),
        _row(384, 3, 1152, 5, True, {"n_heads": 4}),
        _row(384, 3, 1152, 5, True, {"d_ff": 1024}),
        _row(256, 2, 1024, 6, True, {"n_layers": 9}),
        _row(4096, 32, 11008, 32, True, {"d_model": 4086}),  # OLMo 7B, as on the slide
        _row(4096, 32, 11008, 32, True, {"factor": 4.0}),  # LLaMA-7B
        _row(12288, 96, 49152, 96, False, {"d_ff": 12288}),  # GPT-3
        _row(12288, 96, 49152, 96, False, {"n_heads": 64}),  # OPT-175B
        _row(5120, 40, 13824, 40, True, {"d_ff": 11008}),  # LLaMA-13B
        _row(8192, 64, 22016, 95, True, {"n_heads": 95}),  # DeepSeek 67B
    ]


def hidden_cases(generator):
    wrong = [{"d_model": 640}, {"n_heads": 9}, {"d_ff": 1000}, {"factor": 5.0}, {"n_layers": 11}]
    rows = []
    for i, each in enumerate(wrong):
        n_heads, n_layers = torch.randint(2, 5, (2,), generator=generator).tolist()
        rows += [
            _row(256 * n_heads, 2 * n_heads, 128 * 7 * n_heads, 2 + n_layers, bool(gated), each)
            for gated in (i % 2, 1 - i % 2)
        ]
    return rows
