"""Sentences of the checks: which case goes wrong, what was returned, and what is wrong with its form or its numbers."""

import inspect
import math
import textwrap
import traceback
from collections.abc import Callable

from llm_anatomy.notebook.outcomes import Unusable, agree, close, decode

WIDTH, LINES = 46, 5  # of what a notebook prints, which a phone shows; of an example


def described(case: dict) -> str:
    """Describe the arguments of a case: shapes of tensors, lengths of collections, other values as they are."""
    return ", ".join(f"{name} {_brief(value)}" for name, value in case.items())


def _brief(value: dict) -> str:
    if "items" in value:
        return f"of length {len(value['items'])}"
    return f"of shape {tuple(value['shape'])}" if value["type"] == "tensor" else repr(decode(value))


def example(function: str, case: dict, found: dict, expected: dict) -> str:
    """Show a call, what it returns and what is expected; empty if they do not fit in five lines."""
    for digits in (3, 5):
        values = [_written(each, digits) for each in (found, expected)]
        if values[0] != values[1]:
            break
    arguments = ", ".join(f"{name}={_written(value, 5)}" for name, value in case.items())
    parts = (f"{function}({arguments})", f"returns  {values[0]}", f"expected {values[1]}")
    lines = [line for part in parts for line in textwrap.wrap(part, WIDTH, subsequent_indent="  ")]
    return "\n".join(lines) if len(lines) <= LINES and max(map(len, lines)) <= WIDTH else ""


def _written(encoded: dict, digits: int) -> str:
    """A value as it is shown to a student, without the names of its types."""
    if "items" in encoded:
        items = [_written(item, digits) for item in encoded["items"]]
        if "names" in encoded:
            pairs = zip(encoded["names"], items, strict=True)
            return "{" + ", ".join(f"{name!r}: {item}" for name, item in pairs) + "}"
        return (
            f"[{', '.join(items)}]" if encoded["type"] == "list" else f"({', '.join(items)}{',' * (len(items) == 1)})"
        )
    if "data" not in encoded:
        return "None" if encoded["type"] == "NoneType" else f"a {encoded['type']}"

    def nested(entries: list[str], shape: list[int]) -> str:
        if not shape:
            return entries[0]
        size = len(entries) // shape[0] if shape[0] else 0
        return f"[{', '.join(nested(entries[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0]))}]"

    entries = [f"{x:.{digits}g}" if isinstance(x, float) else repr(x) for x in encoded["data"]]
    return nested(entries, encoded["shape"])


def raised(error: BaseException, answer: Callable) -> str:
    """Describe an exception: its type, its line in the student's code, and the most useful line of its message."""
    if isinstance(error, Unusable):
        return f"returns something that cannot be used: {str(error).rstrip('.')}"
    code = getattr(inspect.unwrap(answer), "__code__", None)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    location = f' in line {frames[-1].lineno}, "{frames[-1].line}"' if frames else ""
    name, lines = type(error).__name__, str(error).strip().splitlines() or [""]
    message = lines[-1 if name == "EinopsError" else 0].strip().rstrip(".")  # einops ends with what is wrong
    return f"raises {name}{location}" + (f": {message[:200]}" if message else "")


def fault(found: dict, right: dict, what: str = "returns") -> str | None:
    """Describe what is wrong with the type, shape or finiteness of a returned value, or return None."""
    if found["type"] == "NoneType" != right["type"]:
        return f"{what} nothing (None): a `return` may be missing"
    several = "items" in found and "items" in right and ("names" in found) == ("names" in right)
    number = "data" in found and "data" in right and "str" not in (found["type"], right["type"])
    if found["type"] != right["type"] and not several and not number:  # a list will do for a tuple
        return f"{what} a value of type {found['type']} instead of type {right['type']}"
    if several:
        if found.get("names") != right.get("names"):
            return f"{what} a dictionary with the keys {found['names']} instead of {right['names']}"
        if len(found["items"]) != len(right["items"]):
            n = len(found["items"])
            return f"{what} {n} value{'' if n == 1 else 's'} instead of {len(right['items'])}"
        pairs = zip(_locations(right), found["items"], right["items"], strict=True)
        faults = (fault(f, r, f"{what.rstrip(',')}, as value {location},") for location, f, r in pairs)
        return next(filter(None, faults), None)
    if "data" not in found:
        return f"{what} a dictionary whose keys are not all strings" if "items" in right else None
    if found["shape"] != right["shape"]:
        return f"{what} shape {tuple(found['shape'])} instead of {tuple(right['shape'])}"
    for bad, name in ((math.isnan, "NaN (not a number)"), (math.isinf, "an infinite number")):
        if _any(bad, found) and not _any(bad, right):
            return f"{what} {name}, but every number should be finite"
    return None


def dtype_fault(found: dict, right: dict, stated: str, what: str = "returns") -> str | None:
    """Describe a dtype of the wrong kind (floats, integers, booleans) or that differs from the one that is stated."""
    if "items" in found:
        pairs = zip(_locations(right), found["items"], right["items"], strict=True)
        faults = (dtype_fault(f, r, stated, f"{what.rstrip(',')}, as value {location},") for location, f, r in pairs)
        return next(filter(None, faults), None)
    if "dtype" not in found or "dtype" not in right:  # a tensor of one number will do for a number
        return None
    if stated and found["dtype"] != right["dtype"]:
        whose = "" if right["dtype"] == f"torch.{stated}" else f" (the dtype of {stated})"
        return f"{what} {found['dtype']} instead of {right['dtype']}{whose}, which the exercise asks for"
    kinds = [_kind(each["dtype"]) for each in (found, right)]
    return f"{what} {kinds[0]} instead of {kinds[1]}" if kinds[0] != kinds[1] else None


def _kind(dtype: str) -> str:
    return "floats" if "float" in dtype else "booleans" if "bool" in dtype else "integers"


def _any(bad: Callable, encoded: dict) -> bool:
    return any(isinstance(x, float) and bad(x) for x in encoded["data"])


def _locations(encoded: dict) -> list:
    """Return the names or numbers by which messages refer to the values of a tuple, a list or a dictionary."""
    return list(map(repr, encoded["names"])) if "names" in encoded else list(range(1, len(encoded["items"]) + 1))


def difference(found: dict, right: dict, verb: str = "returns") -> str:
    if "items" in right:
        if len(found.get("items", ())) != len(right["items"]):
            return f"{verb} something other than what is expected"
        if strange := [name for name in found.get("names", ()) if name not in right.get("names", ())]:
            return f"{verb} a value for {strange[0]!r}, which should not be there"
        entries = zip(_locations(right), found["items"], right["items"], strict=True)
        location, value, expected = next(entry for entry in entries if not agree(*entry[1:]))
        within = difference(value, expected, verb)
        if verb == "leads to":
            return f"{within} for {location}" if "names" in right else within
        return f"is wrong in value {location}: it {within}"
    if "data" not in found or found["shape"] != right["shape"]:
        return f"{verb} something other than what is expected"
    if len(right["data"]) <= 6:
        return f"{verb} {_written(found, 5)} instead of {_written(right, 5)}"
    pairs = list(zip(found["data"], right["data"], strict=True))
    if isinstance(right["data"][0], float):
        gap = max(abs(x - y) for x, y in pairs)
        return f"{verb} numbers that are off by up to {gap:{'.2g' if gap < 100 else '.0f'}}"
    wrong = [i for i, pair in enumerate(pairs) if not close(*pair)]
    (x, y), location = pairs[wrong[0]], _index_of(wrong[0], right["shape"])
    return f"{verb} {x} instead of {y} at {location} ({len(wrong)} of {len(pairs)} entries are wrong)"


ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def not_right(found: dict, right: dict) -> str | None:
    """Say which of several values are not right, without the right ones; None if there is one value, or none right."""
    pairs = list(zip(found.get("items", ()), right.get("items", ()), strict=False))
    names = _locations(right) if "names" in right else ORDINALS
    wrong = [name for name, pair in zip(names, pairs, strict=False) if not agree(*pair)]
    if not 0 < len(wrong) < len(pairs) == len(right["items"]) <= len(names):
        return None
    number = "number" if all(item["type"] in ("int", "float") for item in right["items"]) else "value"
    listed = " and ".join(filter(None, (", ".join(wrong[:-1]), wrong[-1])))
    numbers, are = (f"{number}s", "are") if len(wrong) > 1 else (number, "is")
    return (
        f"your {numbers} for {listed} {are} not right"
        if "names" in right
        else f"your {listed} {numbers} {are} not right"
    )


def _index_of(i: int, shape: list[int]) -> list[int]:
    """Return the indices of entry number ``i`` of a tensor of this shape."""
    location = []
    for size in reversed(shape):
        i, index = divmod(i, size)
        location.insert(0, index)
    return location
