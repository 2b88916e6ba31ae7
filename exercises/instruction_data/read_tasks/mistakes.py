import re

START = r"(?m)^Task \d+:"


def _read(text, cut_off, *, start=START, cut=lambda parts, cut_off: parts[:-1] if cut_off else parts, empty=False):
    parts = [" ".join(part.split()) for part in cut(re.split(start, text), cut_off)]
    return [part for part in parts if part or empty]


def cut_off_ignored(text, cut_off):
    """You also return an instruction that may be incomplete, because the text was cut off."""
    return _read(text, False)


def last_always_dropped(text, cut_off):
    """You leave out the last instruction even if the text was not cut off."""
    return _read(text, True)


def all_dropped(text, cut_off):
    """If the text was cut off, you drop everything. Only what stands after the last beginning may be incomplete."""
    return [] if cut_off else _read(text, False)


def empty_first(text, cut_off):
    """You leave out empty instructions before you drop the last one. Where a text was cut off just behind a colon, you
    lose a complete instruction."""
    found = _read(text, False)
    return found[:-1] if cut_off else found


def empty_returned(text, cut_off):
    """You also return empty instructions."""
    return _read(text, cut_off, empty=True)


def anywhere_in_a_line(text, cut_off):
    """You split in the middle of a line as well. An instruction begins at the beginning of a line only."""
    return _read(text, cut_off, start=r"Task \d+:")


def one_digit(text, cut_off):
    """You do not see the beginnings of instructions whose number has two or more digits."""
    return _read(text, cut_off, start=r"(?m)^Task \d:")


def two_digits(text, cut_off):
    """You miss beginnings: the number of an instruction may have one digit, or three."""
    return _read(text, cut_off, start=r"(?m)^Task \d\d:")


def number_not_needed(text, cut_off):
    """You let `Task:` without a number begin an instruction."""
    return _read(text, cut_off, start=r"(?m)^Task *\d*:")


def colon_not_needed(text, cut_off):
    """You let `Task 16` without a colon begin an instruction. Such a line may belong to the instruction before it."""
    return _read(text, cut_off, start=r"(?m)^Task \d+:?")


def word_not_needed(text, cut_off):
    """You let any number at the beginning of a line begin an instruction. The word Task belongs to it."""
    return _read(text, cut_off, start=r"(?m)^(?:Task )?\d+[:.]")


def first_lost(text, cut_off):
    """You lose the instruction before the first `Task`: its number stood at the end of the prompt."""
    parts = re.split(START, text)[1:]
    parts = parts[:-1] if cut_off else parts
    return [" ".join(part.split()) for part in parts if part.strip()]


def one_line_each(text, cut_off):
    """You lose the lines that belong to the instruction before them."""
    parts = re.split(START, text)
    parts = parts[:-1] if cut_off else parts
    return [part.strip().split("\n")[0].strip() for part in parts if part.strip()]


def numbers_trusted(text, cut_off):
    """You trust the numbers: of two instructions with the same number, you return one."""
    numbers = ["9", *re.findall(r"(?m)^Task (\d+):", text)]
    pairs = list(zip(numbers, re.split(START, text), strict=True))
    pairs = pairs[:-1] if cut_off else pairs
    return [" ".join(part.split()) for part in dict(pairs).values() if part.strip()]


def only_growing_numbers(text, cut_off):
    """You trust the numbers: you skip an instruction whose number is not above all before it."""
    numbers = [9, *map(int, re.findall(r"(?m)^Task (\d+):", text))]
    pairs = list(zip(numbers, re.split(START, text), strict=True))
    pairs = pairs[:-1] if cut_off else pairs
    found, highest = [], 8
    for number, part in pairs:
        if number > highest and part.strip():
            found.append(" ".join(part.split()))
            highest = number
    return found


def words_of_the_form_left(text, cut_off):
    """You leave `Task` and the number in front of the instructions."""
    parts = re.split(r"(?m)^(?=Task \d+:)", text)
    parts = parts[:-1] if cut_off else parts
    return [" ".join(part.split()) for part in parts if part.strip()]


def lines_as_instructions(text, cut_off):
    """You return every line as an instruction. Some belong to the one before them."""
    lines = text.split("\n")
    lines = lines[:-1] if cut_off else lines
    found = [re.sub(r"^Task \d+:", "", line) for line in lines]
    return [" ".join(line.split()) for line in found if line.strip()]


def only_the_ends(text, cut_off):
    """You take white space away from the ends of instructions, but not line breaks and spaces inside of them."""
    parts = re.split(START, text)
    parts = parts[:-1] if cut_off else parts
    return [part.strip() for part in parts if part.strip()]


def white_space_left(text, cut_off):
    """You return the white space as the model wrote it: at the ends of instructions, and inside of them."""
    parts = re.split(START, text)
    parts = parts[:-1] if cut_off else parts
    return [part for part in parts if part.strip()]


def spaces_before(text, cut_off):
    """You let a line begin an instruction in which `Task` stands behind spaces. The line has to begin with it."""
    return _read(text, cut_off, start=r"(?m)^\s*Task \d+:")


def small_letters(text, cut_off):
    """You let `task` in small letters begin an instruction."""
    return _read(text, cut_off, start=r"(?mi)^Task \d+:")


def last_line_dropped(text, cut_off):
    """If the text was cut off, you drop its last line. The instruction that may be incomplete can have more lines."""
    return _read(text.rpartition("\n")[0] if cut_off else text, False)
