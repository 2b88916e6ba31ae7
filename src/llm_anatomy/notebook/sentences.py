"""Sentences of the checks: which case goes wrong, what was returned, and what is wrong with its form or its numbers."""

import inspect
import math
import re
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


def fault(found: dict, right: dict, what: str = "returns", which: str = "") -> str | None:
    """Describe what is wrong with the type, length, shape or finiteness of a returned value, or return None.

    Args:
        which: which part of what was returned it is, such as "its first value"; empty if it is all of it.
    """
    verb = f"{what}, as {which}," if which else what
    if found["type"] == "NoneType" != right["type"]:
        return f"{verb} nothing (None): a `return` may be missing"
    several = "items" in found and "items" in right and ("names" in found) == ("names" in right)
    number = "data" in found and "data" in right and "str" not in (found["type"], right["type"])
    if found["type"] != right["type"] and not several and not number:  # a list will do for a tuple
        return f"{verb} {_form(found)} instead of {_form(right)}"
    if several:
        if found.get("names") != right.get("names"):
            return f"{verb} a dictionary with the keys {found['names']} instead of {right['names']}"
        if (n := len(found["items"])) != (wanted := len(right["items"])):
            whole = not which and right["type"] == "tuple"
            values = count(wanted, "value") if n == 0 else wanted
            return f"{verb} {count(n, 'value') if whole and n else _form(found)} instead of {values}"
        parts = zip(names_of_values(right, which), found["items"], right["items"], strict=True)
        return next(filter(None, (fault(f, r, what, part) for part, f, r in parts)), None)
    if "data" not in found:
        return f"{verb} a dictionary whose keys are not all strings" if "items" in right else None
    if found["shape"] != right["shape"]:
        if found["type"] == right["type"]:
            return f"{verb} shape {tuple(found['shape'])} instead of {tuple(right['shape'])}"
        forms = [f"a tensor of shape {tuple(x['shape'])}" if x["shape"] else "a number" for x in (found, right)]
        return f"{verb} {forms[0]} instead of {forms[1]}"
    for bad, name in ((math.isnan, "NaN (not a number)"), (math.isinf, "an infinite number")):
        if _any(bad, found) and not _any(bad, right):
            return f"{verb} {name}, but every number should be finite"
    return None


FORMS = {"tensor": "a tensor", "int": "a number", "float": "a number", "bool": "a truth value", "str": "a string"}
FORMS |= {"dict": "a dictionary", "NoneType": "None"}


def _form(encoded: dict) -> str:
    """What a value is, in words: a number, a string, a list of 3 values."""
    kind = encoded["type"]
    if "numpy" in encoded:
        return "a NumPy array"
    if kind in ("tuple", "list"):
        return f"a {kind} of {count(len(encoded['items']), 'value')}" if encoded["items"] else f"an empty {kind}"
    return FORMS.get(kind, f"a value of type {kind}")


def count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def names_of_values(encoded: dict, which: str = "") -> list[str]:
    """Words for the values of a tuple, list or dictionary: "its first value", "the value 'a' of its first value"."""
    if "names" in encoded:
        words = [f"value {name!r}" for name in encoded["names"]]
    else:
        words = [f"{nth(i)} value" for i in range(len(encoded["items"]))]
    return [f"the {each} of {which}" if which else f"its {each}" for each in words]


ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def nth(i: int) -> str:
    """The ordinal number of index ``i``: first for 0, 21st for 20."""
    if i < len(ORDINALS):
        return ORDINALS[i]
    n = i + 1
    return f"{n}{'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def dtype_fault(found: dict, right: dict, stated: str, what: str = "returns", which: str = "") -> str | None:
    """Describe a dtype of the wrong kind (floats, integers, booleans) or that differs from the one that is stated."""
    if "items" in found:
        parts = zip(names_of_values(right, which), found["items"], right["items"], strict=True)
        return next(filter(None, (dtype_fault(f, r, stated, what, part) for part, f, r in parts)), None)
    if "dtype" not in found or "dtype" not in right:  # a tensor of one number will do for a number
        return None
    verb = f"{what}, as {which}," if which else what
    if stated and found["dtype"] != right["dtype"]:
        whose = "" if right["dtype"] == f"torch.{stated}" else f" (the dtype of {stated})"
        return f"{verb} {found['dtype']} instead of {right['dtype']}{whose}, which the exercise asks for"
    kinds = [_kind(each["dtype"]) for each in (found, right)]
    return f"{verb} {kinds[0]} instead of {kinds[1]}" if kinds[0] != kinds[1] else None


def _kind(dtype: str) -> str:
    return "floats" if "float" in dtype else "booleans" if "bool" in dtype else "integers"


def _any(bad: Callable, encoded: dict) -> bool:
    return any(isinstance(x, float) and bad(x) for x in encoded["data"])


def difference(found: dict, right: dict, verb: str = "returns", which: str = "") -> str:
    """Describe the first entry that differs. Other than in :func:`fault`, type and shape may be right."""
    it = f"is wrong in {which}: it {verb}" if which and verb != "leads to" else verb
    if "items" in right:
        if len(found.get("items", ())) != len(right["items"]):
            return f"{it} something other than what is expected"
        if strange := [name for name in found.get("names", ()) if name not in right.get("names", ())]:
            return f"{it} a value for {strange[0]!r}, which should not be there"
        parts = zip(range(len(right["items"])), found["items"], right["items"], strict=True)
        i, value, expected = next(part for part in parts if not agree(*part[1:]))
        within = difference(value, expected, verb, names_of_values(right, which)[i])
        return f"{within} for {right['names'][i]!r}" if verb == "leads to" and "names" in right else within
    if "data" not in found or found["shape"] != right["shape"]:
        return f"{it} something other than what is expected"
    if len(right["data"]) <= 6:
        return f"{it} {_written(found, 5)} instead of {_written(right, 5)}"
    pairs = list(zip(found["data"], right["data"], strict=True))
    if isinstance(right["data"][0], float):
        gap = max(abs(x - y) for x, y in pairs)
        return f"{it} numbers that are off by up to {gap:{'.2g' if gap < 100 else '.0f'}}"
    wrong = [i for i, pair in enumerate(pairs) if not close(*pair)]
    (x, y), location = pairs[wrong[0]], _index_of(wrong[0], right["shape"])
    return f"{it} {x} instead of {y} at {location} ({len(wrong)} of {len(pairs)} entries are wrong)"


def not_right(found: dict, right: dict) -> str | None:
    """Say which of several values are not right, without the right ones; None if there is one value, or none right."""
    pairs = list(zip(found.get("items", ()), right.get("items", ()), strict=False))
    names = list(map(repr, right["names"])) if "names" in right else ORDINALS
    wrong = [name for name, pair in zip(names, pairs, strict=False) if not agree(*pair)]
    if not 0 < len(wrong) < len(pairs) == len(right["items"]) <= len(names):
        return None
    number = "number" if all(item["type"] in ("int", "float") for item in right["items"]) else "value"
    numbers, are = (f"{number}s", "are") if len(wrong) > 1 else (number, "is")
    return (
        f"your {numbers} for {_listed(wrong)} {are} not right"
        if "names" in right
        else f"your {_listed(wrong)} {numbers} {are} not right"
    )


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


RIGHT = {"type": "str", "shape": [], "data": ["right"]}  # what ``observe`` says of a part that is right


def in_parts(right: dict) -> bool:
    """Return whether an answer is judged part by part: what is expected is that each part, by its name, is right."""
    return "names" in right and all(item == RIGHT for item in right["items"])


def of_parts(found: dict, mistakes: list[tuple[str, dict]]) -> str:
    """Say what is wrong with each part of an answer that is judged part by part.

    Known mistakes get their sentences also if they occur together or beside another one. The parts that remain are
    named. Of what ``observe`` says of such a part, "too small: half a wave", the student reads only "too small". The
    sentences come in the order of the parts: the first number of the answer before the second.

    Args:
        found: what ``observe`` says of each part.
        mistakes: for each known mistake, its sentence and what ``observe`` says of the parts.
    """
    known = [(sentence, _wrong_parts(each)) for sentence, each in mistakes]
    order = sorted(found["names"], key=lambda name: (_ordinal(name, known), name))
    wrong = _wrong_parts(found)
    left = {name: wrong[name] for name in order if name in wrong}
    told: list[tuple[int, str]] = []
    for sentence, parts in sorted(known, key=lambda each: -len(each[1])):
        if parts and parts.items() <= left.items():
            told.append((min(map(order.index, parts)), sentence))
            left = {name: said for name, said in left.items() if name not in parts}
    how: dict[str, list[str]] = {}
    for name, said in left.items():
        way = said.partition(":")[0]
        how.setdefault(way if way.startswith("too ") else "not right", []).append(name)
    for way, names in how.items():
        sentence = f"Your {_together(names)} {'is' if len(names) == 1 else 'are'} {way}."
        told.append((order.index(names[0]), sentence))
    return " ".join([sentence for _, sentence in sorted(told)] + (["The hints tell you how to go on."] if left else []))


def _wrong_parts(observed: dict) -> dict[str, str]:
    parts = zip(observed["names"], observed["items"], strict=True)
    return {name: str(item["data"][0]) for name, item in parts if item != RIGHT}


def _ordinal(part: str, known: list[tuple[str, dict]]) -> int:
    """Which number of the answer a part is, if its name or a sentence about it alone says so; else a large one."""
    which = rf"({'|'.join(ORDINALS)})\b"
    said = [re.search(rf"\b{which}", part)]
    said += [re.match(rf"(?:Your|For the) {which}", sentence) for sentence, parts in known if parts.keys() == {part}]
    return min((ORDINALS.index(match[1]) for match in said if match), default=len(ORDINALS))


def _together(names: list[str]) -> str:
    """List names: letters for A and B, instead of letter for A and letter for B."""
    split = [name.partition(" for ") for name in names]
    groups = {head: [tail for each, _, tail in split if each == head] for head, _, _ in split}
    return _listed([
        f"{head}{'s' if len(tails) > 1 else ''} for {_listed(tails)}" if all(tails) else head
        for head, tails in groups.items()
    ])  # fmt: skip


def _index_of(i: int, shape: list[int]) -> list[int]:
    """Return the indices of entry number ``i`` of a tensor of this shape."""
    location = []
    for size in reversed(shape):
        i, index = divmod(i, size)
        location.insert(0, index)
    return location
