from collections import defaultdict

import torch


def clean_votes(rows: list[dict[str, str]]) -> dict[str, tuple[int, float]]:
    """Return the number of votes on each pair of models, and the score of the first in the alphabet."""
    outcomes = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5, "tie (bothbad)": 0.5}
    counted, found = set(), {}
    for row in rows:
        winner, vote = row["winner"].strip().lower(), (row["battle"], row["voter"])
        if winner not in outcomes or row["model_a"] == row["model_b"] or vote in counted:
            continue
        counted.add(vote)
        names = sorted((row["model_a"], row["model_b"]))
        score = outcomes[winner] if names[0] == row["model_a"] else 1 - outcomes[winner]
        number, total = found.get(" ".join(names), (0, 0.0))
        found[" ".join(names)] = number + 1, total + score
    return found


def accepted_first_valid(rows):
    """Keeps the first valid row of each voter and battle in a dictionary, and returns lists."""
    kept = {}
    for row in rows:
        said = row["winner"].lower().strip().replace("tie (bothbad)", "both_bad")
        if said in ("a", "b", "tie", "both_bad") and len({row["model_a"], row["model_b"]}) == 2:
            kept.setdefault((row["voter"], row["battle"]), row | {"winner": said})
    found = defaultdict(lambda: [0, 0.0])
    for row in kept.values():
        swapped = row["model_b"] < row["model_a"]
        pair = f"{row['model_b']} {row['model_a']}" if swapped else f"{row['model_a']} {row['model_b']}"
        found[pair][0] += 1
        found[pair][1] += (
            {"a": 1, "b": 0}.get(row["winner"], 0.5) if not swapped else {"a": 0, "b": 1}.get(row["winner"], 0.5)
        )
    return dict(found)


def accepted_from_the_end(rows):
    """Looks back from each row, and returns tensors."""

    def score(row):
        return {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5, "tie (bothbad)": 0.5}.get(
            row["winner"].lower().strip()
        )

    usable = [row for row in rows if score(row) is not None and row["model_a"] != row["model_b"]]
    found = {}
    for i, row in enumerate(usable):
        if any(row["battle"] == b["battle"] and row["voter"] == b["voter"] for b in usable[:i]):
            continue
        first = min(row["model_a"], row["model_b"])
        own = score(row) if first == row["model_a"] else 1 - score(row)
        name = f"{first} {max(row['model_a'], row['model_b'])}"
        found[name] = found.get(name, torch.zeros(2)) + torch.tensor([1.0, own])
    return found


def observe(returned, rows):
    """the number of votes and the score of each pair"""
    assert isinstance(returned, dict), "return a dictionary"
    found = {}
    for pair, values in returned.items():
        assert isinstance(pair, str), f"the entry {pair!r} should be two names in one string, with a space between them"
        numbers = values.tolist() if hasattr(values, "tolist") else values
        assert isinstance(numbers, tuple | list) and len(numbers) == 2, f"the entry {pair!r} should have two numbers"
        found[pair] = tuple(map(float, numbers))
    return found


def _rows(text):
    names = ("battle", "voter", "model_a", "model_b", "winner")
    return {"rows": [dict(zip(names, line.split("|"), strict=True)) for line in text.split("\n")]}


def cases(generator):
    return [
        _rows(
            "1|ann|beta|alpha|a\n1|ann|beta|alpha|a\n1|bob|beta|alpha| B\n2|ann|alpha|gamma|TIE\n3|bob|gamma|gamma|a\n"
            "4|cid|gamma|beta|both_bad\n5|bob|alpha|beta|left\n5|bob|alpha|beta|b\n6|cid|gamma|alpha|tie (bothbad)"
        ),
        _rows("1|ann|b|a|a\n1|ann|b|a|b"),
        _rows("1|ann|b|a|?\n1|ann|b|a|a"),
        _rows("7|ann|y|x|A \n8|ann|x|y|a"),
        _rows("1|ann|p|p|a\n1|ann|q|p|tie\n2|bob|q|p|a\n2|cid|q|p|a\n2|bob|p|q|b"),
        _rows("1|ann|m|n|a\n2|ann|n|m|b\n2|bob|n|m|Both_bad\n3|bob|m|k|a\n3|ann|k|m|tie (bothbad)"),
        _rows("2|ann|b|a|a\n1|ann|b|a|b\n2|ann|b|a|b"),  # a battle whose rows do not follow each other
        _rows("1|11|v|u|a\n11|1|u|v|a\n11|2|u|v|tied\n12|1|w|v|\n12|2|w|v|Tie"),
    ]


def hidden_cases(generator):
    said = ["a", "b", "A", " b ", "tie", "Tie", "both_bad", "tie (bothbad)", "left", ""]

    def drawn(n, n_battles, models):
        def pick(choices):
            return choices[int(torch.randint(len(choices), (1,), generator=generator))]

        pairs = [(pick(models), pick(models)) for _ in range(n_battles)]
        lines = []
        for _ in range(n):
            battle = int(torch.randint(n_battles, (1,), generator=generator))
            lines.append("|".join((str(battle), pick(["ann", "bob", "cid"]), *pairs[battle], pick(said))))
        more = ["1|23|b|a|a", "12|3|b|a|b", "95|cid|a|b|tie?"]
        fixed = ["90|ann|b|b|a", "90|ann|b|a|tie", "91|bob|b|a|?", "91|bob|b|a| A", "91|cid|b|a|a", "92|bob|a|b|b"]
        return _rows(
            "\n".join([*lines, *fixed, "93|ann|a|b|both_bad", "93|ann|a|b|a", "94|cid|b|a|tie (bothbad)", *more])
        )

    return [drawn(20, 6, "abc"), drawn(30, 12, "abcd"), drawn(16, 5, "ba")]
