import re

NONE = ("<noinput>", "no input", "none", "n/a")
NAMES = ("instruction", "input", "output")


def _repaired(
    rows,
    *,
    strip=str.strip,
    start=r"^(Task \d+:|\d+\.)\s*",
    is_none=lambda text: text.lower() in NONE,
    none="",
    output=lambda text: re.sub(r"^Output:\s*", "", text),
    usable=lambda i, given, out: bool(i and out and out != given),
    repetition=lambda row, found: row in found,
):
    found = []
    for row in rows:
        instruction, given, out = (strip(row[name]) for name in NAMES)
        instruction = re.sub(start, "", instruction)
        given = none if is_none(given) else given
        out = output(out)
        repaired = dict(zip(NAMES, (instruction, given, out), strict=True))
        if usable(instruction, given, out) and not repetition(repaired, found):
            found.append(repaired)
    return found


def white_space_left(rows):
    """You leave white space at the ends of the strings."""
    return _repaired(rows, strip=lambda text: text)


def white_space_inside(rows):
    """You also change white space inside of the strings. It stays as it is."""
    return _repaired(rows, strip=lambda text: " ".join(text.split()))


def numbers_left(rows):
    """Your instructions still begin with their numbers."""
    return _repaired(rows, start=r"^$")


def only_task_numbers(rows):
    """You take `Task 12:` away, but not `12.` at the beginning of an instruction."""
    return _repaired(rows, start=r"^Task \d+:\s*")


def only_plain_numbers(rows):
    """You take `12.` away, but not `Task 12:` at the beginning of an instruction."""
    return _repaired(rows, start=r"^\d+\.\s*")


def numbers_anywhere(rows):
    """You also take numbers away that stand inside of an instruction."""
    return _repaired(rows, start=r"(Task \d+:|\b\d+\.)\s*")


def colon_not_needed(rows):
    """You also take `Task 7` without a colon, or a number without a full stop, away from an instruction."""
    return _repaired(rows, start=r"^(Task \d+:?|\d+\.?)\s*")


def space_after_the_number(rows):
    """White space is left where the number of an instruction was, or a number stays that is not followed by a space."""
    return _repaired(rows, start=r"^(Task \d+:|\d+\.) ")


def none_as_written(rows):
    """You compare the four inputs in small letters only, or in one spelling. Capital letters make no difference."""
    return _repaired(rows, is_none=lambda text: text in NONE)


def none_anywhere(rows):
    """You also empty inputs that contain one of the four and say more than this."""
    return _repaired(rows, is_none=lambda text: any(each in text.lower() for each in NONE))


def none_at_the_beginning(rows):
    """You also empty inputs that begin with one of the four and then go on."""
    return _repaired(rows, is_none=lambda text: text.lower().startswith(NONE))


def only_noinput(rows):
    """You empty `<noinput>`, but not the other three inputs."""
    return _repaired(rows, is_none=lambda text: text.lower() == "<noinput>")


def rows_without_input_dropped(rows):
    """You leave out rows without an input. Many instructions need none."""
    return _repaired(rows, usable=lambda i, given, out: bool(i and given and out and out != given))


def output_left(rows):
    """You leave `Output:` in the outputs."""
    return _repaired(rows, output=lambda text: text)


def output_anywhere(rows):
    """You take `Output:` away wherever it stands. Only the beginning is meant."""
    return _repaired(rows, output=lambda text: re.sub(r"Output:\s*", "", text))


def colon_of_output(rows):
    """You take `Output` away even if no colon follows it."""
    return _repaired(rows, output=lambda text: re.sub(r"^Output:?\s*", "", text))


def cut_after_the_word(rows):
    """White space is left where `Output:` was."""
    return _repaired(rows, output=lambda text: text.removeprefix("Output:"))


def empty_instructions(rows):
    """You keep rows whose instruction is empty."""
    return _repaired(rows, usable=lambda i, given, out: bool(out and out != given))


def empty_outputs(rows):
    """You keep rows whose output is empty."""
    return _repaired(rows, usable=lambda i, given, out: bool(i and out != given))


def echoes(rows):
    """You keep rows whose output repeats the input."""
    return _repaired(rows, usable=lambda i, given, out: bool(i and out))


def repetitions(rows):
    """You keep repetitions. Of rows that are the same by now, the first is enough."""
    return _repaired(rows, repetition=lambda row, found: False)


def same_instruction(rows):
    """You keep one row for each instruction. Rows with other inputs or outputs are not the same."""
    return _repaired(
        rows, repetition=lambda row, found: any(row["instruction"] == each["instruction"] for each in found)
    )


def same_question(rows):
    """You keep one row for each instruction and input. Rows with other outputs are not the same."""
    return _repaired(
        rows, repetition=lambda row, found: any(all(row[n] == each[n] for n in NAMES[:2]) for each in found)
    )


def last_repetition(rows):
    """Of rows that are the same, you keep the last. Keep the first, in the order of the rows."""
    found = _repaired(rows[::-1])
    return found[::-1]


def dropped_first(rows):
    """You leave rows out before you repair them. Some become the same, or empty, only by the repair."""
    usable = []
    for row in rows:
        if row["instruction"] and row["output"] and row["output"] != row["input"] and row not in usable:
            usable.append(row)
    return _repaired(usable, usable=lambda i, given, out: True, repetition=lambda row, found: False)


def in_the_caller_s_rows(rows):
    """Your answer is right, but you also change the rows that you are given. Make new ones."""
    found = _repaired(rows)
    for row in rows:
        for name in NAMES:
            row[name] = row[name].strip()
        row["output"] = re.sub(r"^Output:\s*", "", row["output"]) + "."
    return found


def letters_of_output(rows):
    """You take letters away from the beginning of an output that does not begin with `Output:`. `lstrip` takes away
    any of the characters that it is given; `removeprefix` takes away a word."""
    return _repaired(rows, output=lambda text: re.sub("^[Output:]+", "", text).strip())


def other_marks(rows):
    """You also take numbers away that another mark follows, or `Task` with a number and another mark than a colon."""
    return _repaired(rows, start=r"^(Task )?\d+[.:)]\s*")


def full_stop_after_none(rows):
    """You also empty an input that has a full stop behind one of the four."""
    return _repaired(rows, is_none=lambda text: text.lower().rstrip(".") in NONE)


def capitals_in_echoes(rows):
    """You leave out a row whose output differs from the input in capital letters."""
    return _repaired(rows, usable=lambda i, given, out: bool(i and out and out.lower() != given.lower()))


def echo_inside(rows):
    """You leave out a row whose output contains the input and says more. Only an output that equals it is an echo."""
    return _repaired(rows, usable=lambda i, given, out: bool(i and out and not (given and given in out)))


def capitals_in_repetitions(rows):
    """You leave out a row that differs from another one only in capital letters. To count as the same, rows must be
    equal."""
    return _repaired(
        rows,
        repetition=lambda row, found: any(all(row[n].lower() == each[n].lower() for n in NAMES) for each in found),
    )


def repetitions_before_the_repair(rows):
    """You look for repetitions before you repair the rows. Some become the same only by the repair."""
    different = [row for i, row in enumerate(rows) if row not in rows[:i]]
    return _repaired(different, repetition=lambda row, found: False)


def echo_before_the_repair(rows):
    """You compare the output with the input before you empty an input that only says that there is none."""
    return _repaired([row for row in rows if row["output"].strip() != row["input"].strip()])


def first_output_anywhere(rows):
    """You take the first `Output:` of an output away wherever it stands. Only the beginning is meant."""
    return _repaired(rows, output=lambda text: text.replace("Output:", "", 1).strip())


def letters_behind_output(rows):
    """You also take letters away that follow `Output:`. `lstrip` takes away any of the characters that it is given;
    `removeprefix` takes away a word."""
    return _repaired(rows, output=lambda text: re.sub("^Output:[Output:]*", "", text).strip())


def task_without_a_number(rows):
    """You also take away what stands before a colon if it begins with `Task` and has no number."""
    return _repaired(rows, start=r"^(Task [^:]*:|\d+\.)\s*")


def task_in_small_letters(rows):
    """You also take the beginning away if `Task` is written in small letters."""
    return _repaired(rows, start=r"(?i)^(Task \d+:|\d+\.)\s*")


def beginning_of_each_line(rows):
    """You also take numbers away at the beginning of a later line. Only the beginning of the instruction is meant."""
    return _repaired(rows, start=r"(?m)^(Task \d+:|\d+\.)\s*")


def brackets(rows):
    """You also take a number away that a bracket follows, as in `12) Sort`."""
    return _repaired(rows, start=r"^(Task \d+:|\d+[.)])\s*")


def space_not_needed(rows):
    """You also take `Task` and a number away if no space stands between them."""
    return _repaired(rows, start=r"^(Task ?\d+:|\d+\.)\s*")
