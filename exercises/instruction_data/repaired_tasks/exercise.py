import re
from copy import deepcopy

import torch


def repaired_tasks(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the rows that can be used, repaired."""
    found = []
    for row in rows:
        instruction, given, output = (row[name].strip() for name in ("instruction", "input", "output"))
        instruction = re.sub(r"^(Task \d+:|\d+\.)\s*", "", instruction)
        if given.lower() in ("<noinput>", "no input", "none", "n/a"):
            given = ""
        output = re.sub(r"^Output:\s*", "", output)
        repaired = {"instruction": instruction, "input": given, "output": output}
        if instruction and output and output != given and repaired not in found:
            found.append(repaired)
    return found


def accepted_without_patterns(rows):
    """String methods in place of patterns, keys in another order, and a tuple."""
    found = {}
    for row in deepcopy(rows):
        text = {name: value.strip() for name, value in row.items()}
        head, separator, rest = text["instruction"].partition(":")
        if separator and head.startswith("Task ") and head.removeprefix("Task ").isdecimal():
            text["instruction"] = rest.lstrip()
        else:
            head, separator, rest = text["instruction"].partition(".")
            if separator and head.isdecimal():
                text["instruction"] = rest.lstrip()
        if text["input"].casefold() in {"none", "n/a", "<noinput>", "no input"}:
            text["input"] = ""
        text["output"] = text["output"].removeprefix("Output:").lstrip()
        key = text["output"], text["input"], text["instruction"]
        if all(key[::2]) and key[0] != key[1]:
            found.setdefault(key, {"output": key[0], "input": key[1], "instruction": key[2]})
    return tuple(found.values())


def accepted_in_steps(rows):
    """A list for each step."""
    rows = [{name: value.strip() for name, value in row.items()} for row in rows]
    for row in rows:
        if beginning := re.match(r"Task [0-9]+:|[0-9]+[.]", row["instruction"]):
            row["instruction"] = row["instruction"][beginning.end() :].strip()
        row["output"] = row["output"][7:].strip() if row["output"][:7] == "Output:" else row["output"]
        row["input"] = "" if re.fullmatch("(?i)<noinput>|no input|none|n/a", row["input"]) else row["input"]
    rows = [row for row in rows if row["instruction"] != "" != row["output"] != row["input"]]
    return [row for i, row in enumerate(rows) if rows.index(row) == i]


NAMES = ("instruction", "input", "output")


def observe(returned, rows):
    """how many rows you return, and then the rows themselves"""
    assert isinstance(returned, tuple | list), "return a list of dictionaries"
    assert all(isinstance(row, dict) for row in returned), "return a list of dictionaries"
    found = []
    for row in returned:
        missing = [name for name in ("instruction", "input", "output") if name not in row]
        assert not missing, f"a row lacks the entry {missing[0]!r}"
        found.append({name: str(row[name]) for name in ("instruction", "input", "output")})
    return f"{len(found)} row{'' if len(found) == 1 else 's'}", found


def _rows(*rows):
    return {"rows": [dict(zip(NAMES, row, strict=True)) for row in rows]}


def cases(generator):
    return [
        _rows(
            ("Task 12: Name a bird of the sea. ", "<noinput>", "Output: A gull."),
            ("Sort the words.", "dog, ant", " ant, dog\n"),
            ("3. Is it spam?", "You have won.", "Yes"),
            ("Repeat the word.", "echo", "echo"),
            ("Sort the words.", " dog, ant", "ant, dog"),
            ("Answer with none of the words.", "none of them", "Output:"),
            ("Which answer is missing?", "N/A", "none"),
        ),
        _rows(("1. Add.", "2, 3", "5")),
        _rows(("Sing.", "None", "La")),
        _rows(("Sing.", "none left", "La")),
        _rows(("Sing.", "There are none", "La")),
        _rows(("Task 10:", "", "A poem.")),
        _rows(("Spell it.", "no", "n o"), (" Spell it.", "no ", "n o")),
        _rows(("2 and 3 are what? 5. Say why.", "No Input", "Output: 5\n\nOutput: 6")),
        _rows(("Task 7 is hard.", "no input is given", "It is."), ("4 Task 8: no", "", "Output 7")),
        _rows(("Echo.", "x", "Output: x"), ("12.Count to 3.", "n/a", "1  2  3"), ("Why?", "", "")),
        _rows(("Name it.", "a", "b"), ("Name it.", "a", "c"), ("Name it.", "<NoInput>", "b"), ("Name it.", "", "b")),
        _rows(("Sing.", "none.", "put it on")),
        _rows(("How many?", "none", "none")),
        _rows(("4: why?", "a", "A"), ("4: why?", "a", "A")),
        _rows(("Say it twice.", "ha", "ha ha")),
        _rows(("Go.", "", "A"), ("Go.", "", "a")),
        _rows(("Go.", "", "Output:A gull.")),
        _rows(("5. Go.", "", "a"), ("6. Go.", "", "a")),
        _rows(("Write the form.", "", "output: a")),
        _rows(("Which comes last?", "dog, ant", "ant")),
        _rows(("Go.", "", "See Output:5")),
        _rows(("Spin it.", "", "Output:top")),
        _rows(("Task force: plan.", "", "a"), ("task 3: Sort.", "", "b")),
        _rows(("Task12: Sort.", "", "a"), ("12) Sort.", "", "b")),
        _rows(("List:\n1. one", "", "a")),
    ]


def hidden_cases(generator):
    parts = (
        (
            "Task 3: Sort it.",
            "Sort it.",
            " 14. Sort it. ",
            "Task 9 or 10?",
            "Task 118:\n",
            "2, 4 and 6. Go on.",
            "5) Sort it.",
            "sort it.",
        ),
        ("b a", "NONE", "<noinput> ", "No input", "n/a", "none of these", "of none", "a b", "None."),
        ("Output: a b", "a b ", "Output:", "", "The Output: c", "Output:a  b", "Output 7", "A b", "put a b", "n/a"),
    )

    def drawn(n):
        return _rows(
            *(tuple(part[int(torch.randint(len(part), (1,), generator=generator))] for part in parts) for _ in range(n))
        )

    chosen = _rows(
        ("Which word is it?", "None", "None"),
        ("Say it again.", "a b", "A b"),
        ("Say it again. ", "a b", "a b a b"),
        ("Say it again.", "a b", "a b A b"),
        ("8: Count.", "n/a.", "put it down"),
        ("Give the first word.", "a b", "a"),
        ("Write the form.", "a", "output: b"),
    )
    beginnings = _rows(
        ("Task group: sing.", "", "a"),
        ("task 5: Count.", "", "a"),
        ("TASK 6: Count.", "", "a"),
        ("Task7: Count.", "", "a"),
        ("8) Count.", "", "a"),
        ("Choose:\n1. tea\n2. milk", "", "a"),
        (" Task 9: Count.", "", "Say Output: 3"),
        ("10. Count.", "", "Output: put"),
        ("Name a toy.", "", "Output:top"),
    )
    return [drawn(25), drawn(40), drawn(60), chosen, beginnings]
