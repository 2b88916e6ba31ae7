def missing_parts() -> dict[str, str]:
    """Return which part is missing in each of the models A to F."""
    parts = "attention", "causal mask", "positions", "residuals", "norms", "feed-forward"
    return dict(zip("ABCDEF", parts, strict=True))


def accepted_other_order():
    """Goes through the parts instead of the reports."""
    reports = {"feed-forward": "F", "residuals": "D", "positions": "C", "norms": "E", "attention": "A"}
    return {"B": "causal mask"} | {letter: part for part, letter in reports.items()}


def accepted_written_freely():
    """Capital letters and spaces around the names do not matter."""
    named = "Attention, causal mask , Positions, Residuals, Norms, feed-forward"
    return {letter: name for letter, name in zip("ABCDEF", named.split(","), strict=True)}


def cases(generator):
    return [{}]


LETTERS = ("A", "B", "C", "D", "E", "F")


PARTS = ("attention", "causal mask", "feed-forward", "norms", "positions", "residuals")


def observe(returned):
    """the part that you name for each report"""
    assert isinstance(returned, dict), "return a dictionary from letters to parts"
    if all(letter in LETTERS for letter in returned):
        for part in returned.values():
            assert str(part).strip().lower() in PARTS, f"{part!r} is not one of the six names that the statement gives"
        named = [str(part).strip().lower() for part in returned.values()]
        twice = next((part for part in named if named.count(part) > 1), None)
        assert not twice, f"you name {twice!r} more than once, but no two students forgot the same part"
    return {str(letter).strip().upper(): str(part).strip().lower() for letter, part in returned.items()}


def hidden_cases(generator):
    return [{}]
