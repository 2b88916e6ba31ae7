"""Checks of what widgets and predictions are given: each refuses with a sentence that says what is allowed."""

import math


def finite(name: str, number) -> float:
    """Return the number as a float; raise a ValueError if it is not finite."""
    try:
        as_float = float(number)
    except (TypeError, ValueError):
        as_float = math.nan
    if not math.isfinite(as_float):
        raise ValueError(f"{name}={number!r}; it must be a finite number")
    return as_float


def whole(name: str, number, low: int, high: int, *, even: bool = False) -> int:
    """Return the number if it is an integer (even, if required) from ``low`` to ``high``, else raise a ValueError."""
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if not is_whole or not low <= number <= high or (even and number % 2):
        kind = "an even" if even else "a whole"
        raise ValueError(f"{name}={number!r}; it must be {kind} number from {low} to {high}")
    return number


def above_one(name: str, number) -> float:
    """Return the number as a float above 1: a base of RoPE's frequencies."""
    as_float = finite(name, number)
    if as_float <= 1:
        raise ValueError(f"{name}={number!r}; it must be above 1, so that the planes differ in frequency")
    return as_float


def list_of_strings(name: str, strings) -> list[str]:
    """Return the strings as a list; raise a ValueError if there are none or one is empty."""
    as_list = list(strings) if isinstance(strings, list | tuple) else []
    if not as_list or not all(isinstance(string, str) and string.strip() for string in as_list):
        raise ValueError(f"{name}={strings!r}; it must be a non-empty list of non-empty strings")
    return as_list
