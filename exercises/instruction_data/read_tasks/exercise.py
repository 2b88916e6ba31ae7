import re


def read_tasks(text: str, cut_off: bool) -> list[str]:
    """Return the instructions that a model wrote after `Task 9:`."""
    parts = re.split(r"^Task \d+:", text, flags=re.MULTILINE)
    if cut_off:
        parts.pop()
    in_one_line = [" ".join(part.split()) for part in parts]
    return [instruction for instruction in in_one_line if instruction]


def accepted_line_by_line(text, cut_off):
    """Goes through the lines, and returns a tuple."""
    found = [""]
    for line in text.split("\n"):
        head, colon, rest = line.partition(":")
        if colon and head[:5] == "Task " and head[5:].isdigit():
            found.append(rest)
        else:
            found[-1] += " " + line
    if cut_off:
        found = found[:-1]
    return tuple(re.sub(r"\s+", " ", each).strip() for each in found if each.strip())


def accepted_with_marks(text, cut_off):
    """Puts a mark before each beginning, and writes all in one line before it splits."""
    marked = re.sub(r"(?m)^Task [0-9]+:", " \0 ", text)
    parts = " ".join(marked.split()).split("\0")
    return [part.strip(" ") for part in parts[: len(parts) - bool(cut_off)] if part.strip(" ")]


NAMES = ("text", "cut_off")


def cases(generator):
    lecture = (
        " Name a bird of the sea.\nTask 10: Sort the words\nby their length.\nTask 10: Is the message spam?\n"
        "Task 13:\nTask 14: Continue Task 3: sort it.\nTask 15: Write a poem about"
    )
    texts = [
        (lecture, True),
        (" Sing.\nTask 10: Dance.", False),
        (" Sing.\nTask 10: Dance.\nTask 11:", True),
        ("\nTask 9: Name a fish.\n\nTask 110:  Spell\tthe word. ", False),
        (" Add 2 and 3", True),
        (" Rhyme.\nTask: an idea.\nTask 11: Stop at Task 16.\nTask 16 is long.", False),
        ("Sum the list.\nTask 12: Name it.\nTask 11: Count to 10: slowly.\n2. Why?", False),
        ("Go.\ntask 3: no start", False),
        ("Go.\n Task 3: no start", False),
        ("Go.\nTask 10: Run\nfast", True),
        ("Task 9: Go.\nTask 10: Run.", False),
        ("Go.\nTask  8: no start", False),
        ("Go.\nTask 8. No start", False),
        ("Go.\nTask list: run", False),
        ("Go.\nTask 10: Go.", False),
        ("Go\nTask 10: Run.", True),
    ]
    return [dict(zip(NAMES, each, strict=True)) for each in texts]


def observe(returned, text, cut_off):
    """the list of instructions"""
    if hasattr(returned, "tolist"):
        returned = returned.tolist()
    assert isinstance(returned, tuple | list), "return a list of strings"
    assert all(isinstance(each, str) for each in returned), "return a list of strings"
    return list(map(str, returned))


def property_nothing_is_lost(answer, generator):
    found = answer(" Add.\nTask 10: Sort.\nTask 11: Count.", False)
    assert len(found) == 3, "From a text with three complete instructions, three should be read. Yours reads others."


def hidden_cases(generator):
    texts = [
        (" Draw a map\nof it.\nTask 10: Spell it.\nTask 12:\n", True),
        (" Spell it.\nTask 7: Do Task 8: now.\nTask 8: Add\nthem. ", False),
        ("\n\nTask 9:\nTask 9: Sort it.\nTask 100: Solve it.\nTask is hard.\nTask 101: Why", True),
        (" Why?\nTask 10: Name it.\n3: three\nTask 11: Go.", False),
        ("Go. Task 10: Run.\nTask 11: Stop.", True),
        (" Do\n  Task 8: twice.\ntask 9: Go  on.\nTask 10: Sort\tit", False),
        ("Rhyme.\nTask 10: Write a poem\nabout the", True),
        ("Go.\nTask 10: Run.\nTask: none.\nTask 10: Stop.\nTask 16 is long.\nTask 12: Try", True),
        ("Task 9: Add them.\nTask  4: twice.\nTask 5. More.\nTask name: sum.\nTask 11: Add them.", False),
        ("Spell it\nTask 10: Spell it\nTask 11: Add them.", True),
    ]
    return [dict(zip(NAMES, each, strict=True)) for each in texts]
