import re

HEAD = "Continue this list of varied tasks."


def _prompt(
    instructions,
    n_new,
    *,
    head=HEAD,
    start=1,
    open_number=0,
    end="",
    stop=0,
    before="\n",
    after="",
    flat=True,
    sep=": ",
):
    lines = [
        f"Task {i}{sep}{' '.join(text.split()) if flat else text}" for i, text in enumerate(instructions, start=start)
    ]
    n = len(instructions) + start + open_number
    prompt = "\n".join([*([head] if head else []), *lines, f"Task {n}:"]) + end
    return prompt, f"{before}Task {len(instructions) + n_new + 1 + stop}{after}"


def space_at_the_end(instructions, n_new):
    """A space follows the last colon of your prompt. A tokenizer joins it to the next word, and the model would have to
    begin a word without its space."""
    return _prompt(instructions, n_new, end=" ")


def line_break_at_the_end(instructions, n_new):
    """A line break follows the last colon of your prompt, so that the model would begin in a new line."""
    return _prompt(instructions, n_new, end="\n")


def stop_one_too_early(instructions, n_new):
    """Your stop text has the number of the last task that the model may write, so it writes one task less."""
    return _prompt(instructions, n_new, stop=-1)


def stop_one_too_late(instructions, n_new):
    """With your stop text, the model may write one task more than it should."""
    return _prompt(instructions, n_new, stop=1)


def always_sixteen(instructions, n_new):
    """Your stop text is right for eight tasks and seven new ones. It depends on both numbers."""
    return _prompt(instructions, n_new)[0], "\nTask 16"


def stop_without_line_break(instructions, n_new):
    """Your stop text does not begin with a line break, so an instruction that mentions the task would be cut off."""
    return _prompt(instructions, n_new, before="")


def stop_with_colon(instructions, n_new):
    """Your stop text ends in a colon, and it should end in the number."""
    return _prompt(instructions, n_new, after=":")


def line_breaks_in_instructions(instructions, n_new):
    """You write instructions as they are. Where one has a line break, the list falls apart."""
    return _prompt(instructions, n_new, flat=False)


def only_line_breaks_replaced(instructions, n_new):
    """You replace line breaks, but white space is left: at the ends of instructions, or several spaces in a row."""
    return _prompt([text.replace("\n", " ") for text in instructions], n_new, flat=False)


def only_the_ends(instructions, n_new):
    """You take white space away from the ends of instructions, but not line breaks and spaces inside of them."""
    return _prompt([text.strip() for text in instructions], n_new, flat=False)


def numbered_from_zero(instructions, n_new):
    """Your first task has the number 0."""
    return _prompt(instructions, n_new, start=0)


def last_number_repeated(instructions, n_new):
    """Your last line repeats the number of the last instruction. The next task has the next number."""
    return _prompt(instructions, n_new, open_number=-1)


def first_line_missing(instructions, n_new):
    """The first line is missing, which says what the list is."""
    return _prompt(instructions, n_new, head="")


def no_open_task(instructions, n_new):
    """Your prompt ends with the last instruction. An open line with the next number is missing."""
    prompt, stop = _prompt(instructions, n_new)
    return "\n".join(prompt.splitlines()[:-1]), stop


def stop_counts_new_tasks_only(instructions, n_new):
    """Your stop text counts the new tasks only. Their numbers go on where those of the instructions end."""
    return _prompt(instructions, n_new)[0], f"\nTask {n_new + 1}"


def full_stop_for_colon(instructions, n_new):
    """In the lines of the instructions, a colon should follow the number."""
    return _prompt(instructions, n_new, sep=". ")


def stop_first(instructions, n_new):
    """You return the stop text first. The prompt comes first."""
    return _prompt(instructions, n_new)[::-1]


def tabs_left(instructions, n_new):
    """You replace spaces and line breaks. A tab is white space, too."""
    return _prompt([re.sub("[ \\n]+", " ", text).strip(" \n") for text in instructions], n_new, flat=False)


def inner_runs_left(instructions, n_new):
    """You replace line breaks and clean the ends of instructions. Other white space inside of them is left: several
    spaces in a row, or a tab."""
    return _prompt([text.strip().replace("\n", " ") for text in instructions], n_new, flat=False)


def space_at_the_ends(instructions, n_new):
    """One space is left at the ends of those instructions that begin or end with white space."""
    return _prompt([re.sub(r"\s+", " ", text) for text in instructions], n_new, flat=False)
