def wrong_settings() -> dict[str, str]:
    """Return the field that each of A to F has changed."""
    fields = "stop", "max_tokens", "threshold", "temperature", "n_seeds", "output_first"
    return dict(zip("ABCDEF", fields, strict=True))


def accepted_by_field():
    """Goes through the fields."""
    reports = {"n_seeds": "e", "stop": "a", "max_tokens": "b", "temperature": "d", "threshold": "c"}
    return {"F": "output_first"} | {letter: field for field, letter in reports.items()}


def accepted_written_freely():
    """Capital letters, white space, quotes and hyphens."""
    words = "Stop, max tokens , THRESHOLD,`temperature`,n_seeds,output-first"
    return {letter: word for letter, word in zip("ABCDEF", words.split(","), strict=True)}


def cases(generator):
    return [{}]


def observe(returned):
    """the field that you name for each report"""
    assert isinstance(returned, dict), "return a dictionary from letters to fields"
    given = {str(letter).strip().upper(): field for letter, field in returned.items()}
    fields = ("n_in_context", "n_seeds", "stop", "max_tokens", "temperature", "threshold", "output_first")
    found = {}
    for letter in ("A", "B", "C", "D", "E", "F"):
        assert letter in given, f"the entry {letter!r} is missing"
        field = "_".join(str(given[letter]).lower().replace("-", " ").replace("_", " ").strip(" `'\"").split())
        assert field in fields, f"{given[letter]!r} is not one of the seven fields"
        found[letter] = field
    return found


def hidden_cases(generator):
    return [{}]
