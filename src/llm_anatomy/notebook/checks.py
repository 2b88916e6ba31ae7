"""Checks of the exercises: immediate feedback for practice, which names the mistake if it is a known one.

The data of a check is generated from the exercise's master and lies beside this module:
``exercises/<chapter>/<name>.json`` holds the public cases, the expected results and the result of each known mistake;
``<name>.py`` holds the properties and, where many answers are right, the function whose result is compared instead of
the answer. The notebooks of other courses contain the same data: see :func:`use_checks`.
"""

import base64
import contextvars
import ctypes
import difflib
import inspect
import json
import math
import textwrap
import threading
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

TIME_LIMIT = 5.0  # seconds for one check, all its cases and properties together
FOLDER = Path(__file__).parent / "exercises"
BROUGHT = ("function", "arguments", "cases", "expected", "mistakes")


@dataclass(frozen=True)
class Result:
    """The result of a check; a notebook prints its message.

    Args:
        status: "passed", "not attempted", "mistake" (a known one) or "failed".
        message: one or two sentences for the student.
        mistake: the name of the known mistake.
    """

    status: str
    message: str
    mistake: str | None = None

    def __repr__(self) -> str:
        return textwrap.fill(self.message, 46, break_long_words=False, break_on_hyphens=False)


def check(exercise_id: object, answer: object) -> Result:
    """Run an answer on the exercise's public cases and report in a sentence or two what is right or wrong with it.

    A result is returned and nothing is raised, whatever the answer does, even if it loops forever.

    Args:
        exercise_id: chapter and name, such as "attention/hard_lookup".
        answer: the function itself, not its result.

    Returns:
        The result, whose message a notebook shows.
    """
    shipped = (path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.json"))
    known = sorted({*_brought, *shipped})
    if not isinstance(exercise_id, str):
        return Result("failed", f'The name of the exercise comes first and in quotes: check("{known[0]}", …).')
    if exercise_id not in known:
        close = difflib.get_close_matches(exercise_id, known, n=1, cutoff=0.5)
        hint = f'; did you mean "{close[0]}"?' if close else "."
        return Result("failed", f'There is no exercise "{exercise_id}"{hint} There are: {", ".join(known)}.')
    exercise, (properties, observe) = _known(exercise_id)
    function = exercise["function"]
    if not callable(answer):
        return Result(
            "failed",
            f'Give the function itself, without brackets: check("{exercise_id}", {function}); '
            f"this is a value of type {type(answer).__name__}.",
        )
    names = exercise["arguments"]
    if not _takes(answer, len(names)):
        return Result("failed", f"Not yet: {function} must take {len(names)} arguments, {', '.join(names)}.")
    result = _within(TIME_LIMIT, lambda: _examine(exercise, properties, observe, answer))
    return result or Result(
        "failed", f"Not yet: {function} is not done after {TIME_LIMIT:g} seconds. Is there a loop that never ends?"
    )


_brought: dict[str, tuple[dict, str]] = {}  # id → the exercise given to use_checks, and the source of its properties


def use_checks(text: str) -> None:
    """Register the checks that a notebook contains, so that :func:`check` can use them.

    Args:
        text: base64 of compressed JSON, ``{id: {"exercise": …, "checks": source of the properties}}``; spaces and line
            ends do not matter.

    Raises:
        ValueError: if the text is damaged.
    """
    try:
        found = json.loads(zlib.decompress(base64.b64decode(text)))
        read = {
            exercise_id: ({name: entry["exercise"][name] for name in BROUGHT}, entry["checks"])
            for exercise_id, entry in found.items()
        }
        for _, source in read.values():
            compile(source, "checks", "exec")
    except (ValueError, zlib.error, AttributeError, KeyError, TypeError, SyntaxError):
        raise ValueError(
            "the public checks in this cell are damaged: take the cell from a fresh copy of the notebook"
        ) from None
    _brought.update(read)


def _known(exercise_id: str) -> tuple[dict, tuple[list[Callable], Callable | None]]:
    if exercise_id in _brought:
        exercise, source = _brought[exercise_id]
        return exercise, _defined(source, exercise_id)
    path = FOLDER / f"{exercise_id}.json"
    return json.loads(path.read_text(encoding="utf-8")), checks_of(path.with_suffix(".py"))


def checks_of(path: Path) -> tuple[list[Callable], Callable | None]:
    """Load the functions ``property_…(answer, generator)`` of a file, in order, and ``observe`` if there is one."""
    return _defined(path.read_text(encoding="utf-8"), str(path))


def _defined(source: str, file: str) -> tuple[list[Callable], Callable | None]:
    namespace = {"__name__": Path(file).stem}
    exec(compile(source, file, "exec"), namespace)
    return [thing for name, thing in namespace.items() if name.startswith("property_")], namespace.get("observe")


def _examine(exercise: dict, properties: list[Callable], observe: Callable | None, answer: Callable) -> Result:
    cases, expected, function = exercise["cases"], exercise["expected"], exercise["function"]
    found = []
    for case in cases:
        result, error = outcome(answer, case, observe)
        if type(error) is NotImplementedError and not error.args:  # PyTorch's own come with a message
            text = "Not attempted yet: write your code in place of `raise NotImplementedError` and run the cell again."
            return Result("not attempted", text)
        found.append((result, error))
    for mistake in exercise["mistakes"]:
        if all(alike(result, known) for (result, _), known in zip(found, mistake["outcomes"], strict=True)):
            text = f"Known mistake, {mistake['name'].replace('_', ' ')}: {mistake['sentence']}"
            return Result("mistake", text, mistake["name"])
    where = [f"in case {i} ({_describe(case)}) {function}" for i, case in enumerate(cases, 1)]
    for location, (result, error), right in zip(where, found, expected, strict=True):
        fault = raised(error, answer) if error else _fault(result["returned"], right["returned"])
        if not fault and "changed" in result:
            fault = (
                f"changes its argument {' and '.join(result['changed'])}; it must leave what it is given as it was, "
                "so beware of operators such as += and of methods whose names end in an underscore"
            )
        if fault:
            return Result("failed", f"Not yet: {location} {fault}.")
    broken = broken_property(properties, answer)
    for location, (result, _), right in zip(where, found, expected, strict=True):
        if not alike(result, right):
            difference = _difference(result["returned"], right["returned"], observe is not None)
            meaning = f" We compare {' '.join(observe.__doc__.split())}." if observe else ""
            text = f"Not yet: {location} {difference}.{meaning}"
            return Result("failed", f"{text} {broken}" if broken else text)
    if broken:
        return Result("failed", f"Not yet, although all cases come out right: {broken}")
    count = f"{len(properties)} {'property' if len(properties) == 1 else 'properties'}"
    return Result("passed", f"Passed: {len(cases)} cases and {count}.")


# What a function does, as plain data


def encode(value: Any) -> dict:
    """Convert a value to plain data, with floats to six digits.

    The value is a tensor, a number, a string, None, or a tuple, a list or a dictionary (with string keys) of such
    values. Of any other value only the type is kept.
    """
    if isinstance(value, torch.Tensor) and value.layout == torch.strided and not (value.is_complex() or value.is_meta):
        data = [_six_digits(x) for x in value.detach().flatten().tolist()]
        return {"type": "tensor", "dtype": str(value.dtype), "shape": list(value.shape), "data": data}
    if isinstance(value, bool | int | float | str):
        return {"type": type(value).__name__, "shape": [], "data": [_six_digits(value)]}
    if isinstance(value, tuple | list):
        return {"type": type(value).__name__, "items": [encode(item) for item in value]}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        names = sorted(value)
        return {"type": "dict", "names": names, "items": [encode(value[name]) for name in names]}
    return {"type": type(value).__name__}


def decode(encoded: dict) -> Any:
    """Convert plain data back to a new copy of the value that was encoded."""
    kind = encoded["type"]
    if kind == "tensor":
        dtype = getattr(torch, encoded["dtype"].removeprefix("torch."))
        return torch.tensor(encoded["data"], dtype=dtype, device="cpu").reshape(encoded["shape"])
    if "items" in encoded:
        items = list(map(decode, encoded["items"]))
        if kind == "dict":
            return dict(zip(encoded["names"], items, strict=True))
        return tuple(items) if kind == "tuple" else items
    return encoded["data"][0] if "data" in encoded else None


def undecodable(encoded: dict) -> str | None:
    """Return the type of the first value that :func:`decode` cannot restore, or None."""
    if "items" in encoded:
        return next(filter(None, map(undecodable, encoded["items"])), None)
    return None if "data" in encoded or encoded["type"] == "NoneType" else encoded["type"]


def outcome(answer: Callable, case: dict, observe: Callable | None = None) -> tuple[dict, BaseException | None]:
    """Call the answer on an encoded case; return what it returned or raised and which arguments it changed.

    The exception itself is returned as well, so that the caller can report where it was raised.

    Args:
        observe: if given, ``observe(returned, **case)`` replaces the returned value; its AssertionError says why the
            value cannot be used.
    """
    arguments = {name: decode(value) for name, value in case.items()}
    error = None
    try:
        returned = answer(*arguments.values())
        if observe and returned is not None:
            returned = _observed(observe, returned, case)
    except _TimeIsUp:
        raise
    except BaseException as e:  # sys.exit() in an answer is a mistake like any other
        found, error = {"raised": type(e).__name__}, e
    else:
        found = {"returned": encode(returned)}
    changed = [name for name, value in arguments.items() if not agree(encode(value), case[name])]
    return found | ({"changed": changed} if changed else {}), error


def _observed(observe: Callable, returned: Any, case: dict) -> Any:
    try:
        return observe(_on_cpu(returned), **{name: decode(value) for name, value in case.items()})
    except AssertionError as e:
        raise _Unusable(str(e)) from e
    except Exception as e:
        raise _Unusable(type(e).__name__) from e


class _Unusable(Exception):
    """Raised if ``observe`` cannot use what the answer returned."""


def alike(a: dict, b: dict) -> bool:
    """Return whether two outcomes are the same up to rounding."""
    same = a.get("raised") == b.get("raised") and a.get("changed") == b.get("changed")
    return same and agree(a.get("returned", {}), b.get("returned", {}))


def agree(a: dict, b: dict) -> bool:
    """Return whether two encoded values have the same shape and numbers: floats up to rounding, integers exactly."""
    if "data" in a and "data" in b:
        return a["shape"] == b["shape"] and all(map(_close, a["data"], b["data"]))
    if "items" in a and "items" in b:
        same = len(a["items"]) == len(b["items"]) and a.get("names") == b.get("names")
        return same and all(map(agree, a["items"], b["items"]))
    return a == b


def _close(x: int | float | str, y: int | float | str) -> bool:
    if x == y or isinstance(x, str) or isinstance(y, str) or not (isinstance(x, float) or isinstance(y, float)):
        return x == y
    return math.isnan(x) and math.isnan(y) or math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-5)


def _six_digits(x: Any) -> Any:
    return float(f"{x:.6g}") if isinstance(x, float) else x


# Sentences


def _describe(case: dict) -> str:
    def briefly(value: dict) -> Any:
        if "items" in value:
            return f"of length {len(value['items'])}"
        return tuple(value["shape"]) if value["type"] == "tensor" else repr(decode(value))

    shown = map(briefly, case.values())
    return ", ".join(f"{name} {what}" for name, what in zip(case, shown, strict=True))


def raised(error: BaseException, answer: Callable) -> str:
    """Describe an exception: its type, its line in the student's code, and the most useful line of its message."""
    if isinstance(error, _Unusable):
        return f"returns something that cannot be used: {str(error).rstrip('.')}"
    code = getattr(inspect.unwrap(answer), "__code__", None)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    location = f' in line {frames[-1].lineno}, "{frames[-1].line}"' if frames else ""
    name, lines = type(error).__name__, str(error).strip().splitlines() or [""]
    message = lines[-1 if name == "EinopsError" else 0].strip().rstrip(".")  # einops ends with what is wrong
    return f"raises {name}{location}" + (f": {message[:200]}" if message else "")


def _fault(found: dict, right: dict, what: str = "returns") -> str | None:
    """Describe what is wrong with the type, shape, dtype or finiteness of a returned value, or return None."""
    if found["type"] == "NoneType" != right["type"]:
        return f"{what} nothing (None): a `return` may be missing"
    several = "items" in found and "items" in right and ("names" in found) == ("names" in right)
    if found["type"] != right["type"] and not several:  # a list will do for a tuple
        return f"{what} a value of type {found['type']} where a {right['type']} is expected"
    if several:
        if found.get("names") != right.get("names"):
            return f"{what} a dictionary with the names {found['names']} where {right['names']} are expected"
        if len(found["items"]) != len(right["items"]):
            return f"{what} {len(found['items'])} values where {len(right['items'])} are expected"
        pairs = zip(_locations(right), found["items"], right["items"], strict=True)
        faults = (_fault(f, r, f"{what.rstrip(',')}, as value {location},") for location, f, r in pairs)
        return next(filter(None, faults), None)
    if "data" not in found:
        return f"{what} a dictionary whose names are not all texts" if "items" in right else None
    if found["shape"] != right["shape"]:
        return f"{what} shape {tuple(found['shape'])} where {tuple(right['shape'])} is expected"
    if found.get("dtype") != right.get("dtype"):
        return f"{what} {found['dtype']} where {right['dtype']} is expected"
    for bad, name in ((math.isnan, "NaN (not a number)"), (math.isinf, "an infinite number")):
        if _any(bad, found) and not _any(bad, right):
            return f"{what} {name} where every number should be finite"
    return None


def _any(bad: Callable, encoded: dict) -> bool:
    return any(isinstance(x, float) and bad(x) for x in encoded["data"])


def _locations(encoded: dict) -> list:
    """Return the names or numbers by which messages refer to the values of a tuple, a list or a dictionary."""
    return list(map(repr, encoded["names"])) if "names" in encoded else list(range(1, len(encoded["items"]) + 1))


def _difference(found: dict, right: dict, observed: bool) -> str:
    verb = "leads to" if observed else "returns"
    if "items" in right:
        entries = zip(_locations(right), found["items"], right["items"], strict=True)
        location, found, right = next(entry for entry in entries if not agree(*entry[1:]))
        difference = _difference(found, right, observed)
        return difference if observed else f"is wrong in value {location}: it {difference}"
    if len(right["data"]) <= 6:
        return f"{verb} {_numbers(found)} where {_numbers(right)} is expected"
    pairs = list(zip(found["data"], right["data"], strict=True))
    if isinstance(right["data"][0], float):
        gap = max(abs(x - y) for x, y in pairs)
        return f"{verb} numbers that are off by up to {gap:{'.2g' if gap < 100 else '.0f'}}"
    wrong = [i for i, pair in enumerate(pairs) if not _close(*pair)]
    (x, y), location = pairs[wrong[0]], _index_of(wrong[0], right["shape"])
    return f"{verb} {x} at {location} where {y} is expected ({len(wrong)} of {len(pairs)} entries are wrong)"


def _numbers(encoded: dict) -> str:
    numbers = [round(x, 4) if isinstance(x, float) else x for x in encoded["data"]]
    return str(numbers) if encoded["shape"] else repr(numbers[0])


def _index_of(i: int, shape: list[int]) -> list[int]:
    """Return the indices of entry number ``i`` of a tensor of this shape."""
    location = []
    for size in reversed(shape):
        i, index = divmod(i, size)
        location.insert(0, index)
    return location


def broken_property(properties: list[Callable], answer: Callable) -> str | None:
    """Return the message of the first property that the answer does not have, or None."""

    def guarded(*arguments):
        try:
            return _on_cpu(answer(*arguments))
        except _TimeIsUp:
            raise
        except BaseException as e:
            raise _AnswerRaised from e

    for holds in properties:
        name = holds.__name__.removeprefix("property_").replace("_", " ")
        try:
            holds(guarded, torch.Generator().manual_seed(0))
        except AssertionError as e:
            return str(e)
        except _AnswerRaised as e:
            return f"Tested for the property “{name}”, it {raised(e.__cause__, answer)}."
        except Exception as e:  # the property could not handle what the answer returned
            return f"Tested for the property “{name}”, it returns something that cannot be used ({type(e).__name__})."
    return None


def _on_cpu(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(_on_cpu, value))
    if isinstance(value, dict):
        return {name: _on_cpu(entry) for name, entry in value.items()}
    return value.cpu() if isinstance(value, torch.Tensor) else value


class _AnswerRaised(Exception):
    """Distinguishes an AssertionError of the student's code from one of a property."""


# Calling the student's function


def _takes(answer: Callable, n_arguments: int) -> bool:
    try:
        inspect.signature(answer).bind(*range(n_arguments))
    except TypeError:
        return False
    except ValueError:  # some built-in functions have no signature: the call will tell
        return True
    return True


class _TimeIsUp(BaseException):
    pass


def _within(seconds: float, work: Callable[[], Result]) -> Result | None:
    """Return the result of the work, or None if it takes too long: it runs in a thread, which can be abandoned."""
    done: list[Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except _TimeIsUp:
            pass
        except BaseException as e:  # an error of ours: those of the answer are part of the result
            failed.append(e)

    # What a notebook prints from a thread goes to the right cell if the thread has the cell's context.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
    thread.start()
    try:
        thread.join(seconds)
    finally:  # also when the reader interrupts
        if thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_TimeIsUp))
    for error in failed:
        raise error
    return done[0] if done else None
