import re


def next_prompt(instructions: list[str], n_new: int) -> tuple[str, str]:
    """Return the prompt for new instructions, and the text at which a completion stops."""
    lines = [f"Task {i}: {' '.join(text.split())}" for i, text in enumerate(instructions, start=1)]
    n_shown = len(instructions)
    prompt = "\n".join(["Continue this list of varied tasks.", *lines, f"Task {n_shown + 1}:"])
    return prompt, f"\nTask {n_shown + n_new + 1}"


def accepted_grown(instructions, n_new):
    """Appends to a text in a loop, and returns a list."""
    prompt, number = "Continue this list of varied tasks.\n", 1
    for instruction in instructions:
        prompt += "Task " + str(number) + ": " + re.sub(r"\s+", " ", instruction).strip() + "\n"
        number += 1
    return [prompt + f"Task {number}:", "\nTask " + str(number + n_new)]


def accepted_list_of_stops(instructions, n_new):
    """Writes the stop text into a list, as APIs want it."""
    n = len(instructions) + 1
    numbered = [f"Task {i}: {' '.join(instructions[i - 1].split())}" for i in range(1, n)]
    prompt = "Continue this list of varied tasks."
    for line in numbered:
        prompt = f"{prompt}\n{line}"
    return f"{prompt}\nTask {n}:", [f"\nTask {n + n_new}"]


def cases(generator):
    lecture = [
        "Say whether the review is positive, negative or mixed.",
        "Return the first number of the list.",
        "Why do leaves change their colour in autumn?",
        "Rewrite the sentence\nso that\tit is polite.",
        "Which language is the sentence written in?",
        "Write a story   about a dog.",
        "Name three birds. ",
        "Translate the sentence into French.",
    ]
    return [
        {"instructions": lecture, "n_new": 7},
        {"instructions": ["Sing."], "n_new": 2},
        {"instructions": [" Name a\nbird.", "Task 4 of the list is hard.  Why?"], "n_new": 1},
        {"instructions": lecture[2:7], "n_new": 12},
        {"instructions": ["Rhyme.", "Sing.", "Rhyme."], "n_new": 4},  # `index` would find the first of two equal ones
    ]


def observe(returned, instructions, n_new):
    """the prompt and the stop text, character by character"""
    if hasattr(returned, "tolist"):
        returned = returned.tolist()
    assert isinstance(returned, tuple | list) and len(returned) == 2, "return two strings, the prompt and the stop text"
    prompt, stop = returned
    if isinstance(stop, tuple | list) and len(stop) == 1:
        stop = stop[0]
    for name, text in (("prompt", prompt), ("stop text", stop)):
        assert isinstance(text, str), f"the {name} is not a string"
    return str(prompt), str(stop)


def property_last_line_is_open(answer, generator):
    prompt = answer(["Add the numbers.", "Sort the words.", "Count the letters."], 4)[0]
    assert str(prompt).splitlines()[-1].startswith("Task 4"), (
        "If three tasks are shown, the last line should begin with `Task 4`. Yours does not."
    )


def hidden_cases(generator):
    texts = ["Sort the\n  words.", "Name two\trivers.", "Spell the word.", " Add 2  and 3.\n", "Is it spam?", "Rhyme."]
    texts += [texts[1], "Rhyme."]
    return [{"instructions": texts[:n], "n_new": n_new} for n, n_new in ((8, 7), (4, 3), (3, 9), (2, 1))]
