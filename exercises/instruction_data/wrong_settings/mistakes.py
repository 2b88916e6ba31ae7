RIGHT = {
    "A": "stop",
    "B": "max_tokens",
    "C": "threshold",
    "D": "temperature",
    "E": "n_seeds",
    "F": "output_first",
}


def stop_and_length():
    """A and B are exchanged. Both say why the completions end."""
    return RIGHT | {"A": "max_tokens", "B": "stop"}


def length_twice():
    """Only A is wrong: its completions do not end because of their length."""
    return RIGHT | {"A": "max_tokens"}


def stop_twice():
    """Only B is wrong: its completions do not end because of a stop text."""
    return RIGHT | {"B": "stop"}


def other_number_shown():
    """Only A is wrong: its prompts show eight tasks, as before."""
    return RIGHT | {"A": "n_in_context"}


def other_number_for_drift():
    """Only E is wrong: who wrote the tasks of a prompt in the first rounds, and who after a thousand tasks?"""
    return RIGHT | {"E": "n_in_context"}


def threshold_and_temperature():
    """C and D are exchanged. Which of the two fields decides what gets into the pool?"""
    return RIGHT | {"C": "temperature", "D": "threshold"}


def temperature_for_duplicates():
    """Only C is wrong: whatever a model writes, a filter should refuse what is too similar."""
    return RIGHT | {"C": "temperature"}


def seeds_for_duplicates():
    """C and E are exchanged. In E, new instructions are similar to each other, but are they too similar to pass?"""
    return RIGHT | {"C": "n_seeds", "E": "threshold"}


def threshold_twice():
    """Only E is wrong: the filter works. What do the prompts contain after a thousand tasks?"""
    return RIGHT | {"E": "threshold"}


def temperature_for_drift():
    """D and E are exchanged. In which of them is nothing left to chance?"""
    return RIGHT | {"D": "n_seeds", "E": "temperature"}


def seeds_for_labels():
    """E and F are exchanged. F says that all is well with the instructions."""
    return RIGHT | {"E": "output_first", "F": "n_seeds"}


def temperature_for_labels():
    """Only F is wrong: the temperature is that of the completions with new instructions, and all is well with these."""
    return RIGHT | {"F": "temperature"}
