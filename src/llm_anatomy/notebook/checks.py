"""Checks of the exercises: immediate feedback for practice, which names the mistake if it is a known one.

The data of a check is generated from the exercise's master and lies beside this module, one file for each chapter,
``exercises/<chapter>.txt``: for each exercise the public cases, the expected results, what comes of each known mistake,
and the source of the properties and, where many answers are right, of the function whose result is compared instead of
the answer. The notebooks of other courses contain the same text: see :func:`use_checks`.
"""

import ast
import base64
import contextlib
import contextvars
import ctypes
import difflib
import inspect
import json
import sys
import textwrap
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from llm_anatomy.notebook.diagnosis import diagnose
from llm_anatomy.notebook.outcomes import CheckTimeout, agree, alike, decode, on_cpu, outcome
from llm_anatomy.notebook.sentences import (
    WIDTH,
    described,
    difference,
    dtype_fault,
    example,
    fault,
    in_parts,
    names_of_values,
    not_right,
    of_parts,
    raised,
)

TIME_LIMIT = 5.0  # seconds of CPU time for one check, all its cases and properties together, imports not counted
WALL_LIMIT = 60.0  # seconds by the clock, for an answer that waits and uses no CPU time
PAUSE = 0.05  # seconds between two looks at a running answer
FOLDER = Path(__file__).parent / "exercises"
NEEDED = ("function", "arguments", "dimensions", "kind", "dtype", "forbidden", "explanation")
NEEDED += ("cases", "expected", "unchanged", "mistakes", "checks")


@dataclass(frozen=True)
class Result:
    """The result of a check; a notebook prints the example and, below it, the message.

    Args:
        status: "passed", "not attempted", "mistake" (a known one), "forbidden" (right, but with a function that the
            exercise asks to do without) or "failed".
        message: one or two sentences for the student.
        mistake: the name of the known mistake.
        example: the smallest input that goes wrong, what it returns and what is expected, if five lines hold them.
    """

    status: str
    message: str
    mistake: str | None = None
    example: str = ""

    def __repr__(self) -> str:
        message = textwrap.fill(self.message, WIDTH, break_long_words=False, break_on_hyphens=False)
        return f"{self.example}\n{message}" if self.example else message


def check(exercise_id: object, answer: object) -> Result:
    """Run an answer on the exercise's public cases and report in a sentence or two what is right or wrong with it.

    A result is returned and nothing is raised, whatever the answer does, even if it loops forever. Its time is CPU
    time, so that a busy computer refuses no right answer: 5 seconds, or the ``seconds`` of the exercise if they are
    more. What the answer imports takes no time from it.

    Args:
        exercise_id: chapter and name, such as "attention/hard_lookup".
        answer: the function itself, not its result.

    Returns:
        The result, whose message a notebook shows.
    """
    known = _shipped(FOLDER) | _brought
    if not isinstance(exercise_id, str):
        return Result("failed", f'Give the name of the exercise first, in quotes: check("{min(known)}", …).')
    if exercise_id not in known:
        matches = difflib.get_close_matches(exercise_id, known, n=1, cutoff=0.5)
        hint = f'; did you mean "{matches[0]}"?' if matches else "."
        listed = ", ".join(sorted(known))
        return Result("failed", f'There is no exercise "{exercise_id}"{hint} The exercises are {listed}.')
    exercise = known[exercise_id]
    function, names = exercise["function"], exercise["arguments"]
    if not callable(answer):
        return Result(
            "failed",
            f'Pass the function itself, without brackets: check("{exercise_id}", {function}). '
            f"You passed a value of type {type(answer).__name__}.",
        )
    if not _takes(answer, len(names)):
        wanted = f"the argument{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else "no arguments"
        return Result("failed", f"Not yet: {function} must take {wanted}.")
    limit = max(TIME_LIMIT, exercise.get("seconds", TIME_LIMIT))
    result = _within(limit, _Trial(exercise, answer).result)
    if not isinstance(result, Result):
        result = Result("failed", f"Not yet: {function} has not finished {result}")
    noted = result.status != "not attempted" and _asks_for_cuda(answer)
    return replace(result, message=f"{result.message} {CPU_NOTE}") if noted else result


CPU_NOTE = (
    "Note that this code asks for 'cuda', so it will fail where it is graded, on a CPU: use the device of the "
    "arguments, such as x.device."
)


def _asks_for_cuda(answer: Callable) -> bool:
    """Return whether the source of an answer names the device "cuda" or calls ``.cuda()`` without asking for a GPU."""
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(answer)))))
    except Exception:  # there is no source, or it is only a part of a statement
        return False
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    called = [node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    names_it = "cuda" in called or any(text == "cuda" or text.startswith("cuda:") for text in texts)
    return names_it and "is_available" not in called


# The data of the checks

_brought: dict[str, dict] = {}  # id → an exercise given to use_checks


def use_checks(text: str) -> None:
    """Register the checks that a notebook contains, so that :func:`check` can use them.

    Args:
        text: base64 of compressed JSON, id → the data of a check; spaces and line ends do not matter.

    Raises:
        ValueError: if the text is damaged.
    """
    try:
        read = _unpack(text)
        for entry in read.values():
            if missing := [name for name in NEEDED if name not in entry]:
                raise ValueError(missing)
            compile(entry["checks"], "checks", "exec")
    except (ValueError, zlib.error, AttributeError, TypeError, SyntaxError):
        raise ValueError(
            "the public checks in this cell are damaged: take the cell from a fresh copy of the notebook"
        ) from None
    _brought.update(read)


def _unpack(text: str) -> dict[str, dict]:
    return json.loads(zlib.decompress(base64.b64decode(text)))


@cache
def _shipped(folder: Path) -> dict[str, dict]:
    chapters = [_unpack(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.txt"))]
    return {name: entry for chapter in chapters for name, entry in chapter.items()}


_compiled = cache(partial(compile, filename="checks", mode="exec"))


def defined(source: str) -> tuple[list[Callable], Callable | None]:
    """Run the source of checks; return the functions ``property_…(answer, generator)`` in order, and ``observe``."""
    namespace: dict[str, Any] = {"__name__": "checks"}
    exec(_compiled(source), namespace)
    return [thing for name, thing in namespace.items() if name.startswith("property_")], namespace.get("observe")


# The verdict


class _Case(NamedTuple):
    """A case, what the answer made of it, and what is expected."""

    number: int
    arguments: dict
    found: dict
    error: BaseException | None
    expected: dict

    @property
    def right(self) -> bool:
        return alike(self.found, self.expected)

    @property
    def rank(self) -> tuple[bool, int]:
        """Order in which cases that go wrong are reported: small before large, and last what only a dtype broke."""
        dtypes = {value.get("dtype", "") for value in self.arguments.values()}
        unusual = any("float" in dtype and dtype != "torch.float32" for dtype in dtypes)
        return unusual and self.error is not None, sum(map(_n_entries, self.arguments.values()))

    @property
    def values(self) -> tuple[dict, dict]:
        """What was returned and what is expected."""
        return self.found["returned"], self.expected["returned"]


def _n_entries(encoded: dict) -> int:
    return sum(map(_n_entries, encoded["items"])) if "items" in encoded else len(encoded.get("data", ()))


NOT_ATTEMPTED = "Not attempted yet: write your code in place of `raise NotImplementedError` and run the cell again."
UNCHANGED = "Not attempted yet: this code still does what the code you were given does. Find the mistake in it."
ON_PAPER = ("data", "config")  # without arguments, they are worked out on paper like a prediction
NOT_THE_VALUE = "Not yet: this is not the right value. The hints tell you how to find it."


class _Trial:
    """An answer tried on the cases of an exercise."""

    def __init__(self, exercise: dict, answer: Callable) -> None:
        self.exercise, self.answer = exercise, answer
        self.properties, self.observe = defined(exercise["checks"])
        self.forbidden = _Forbidden(exercise["forbidden"])
        self.cases: list[_Case] = []

    def result(self) -> Result:
        for number, arguments in enumerate(self.exercise["cases"], 1):
            found, error = outcome(self.watched, arguments, self.observe)
            if type(error) is NotImplementedError and not error.args:  # PyTorch's own come with a message
                return Result("not attempted", NOT_ATTEMPTED)
            self.cases.append(_Case(number, arguments, found, error, self.exercise["expected"][number - 1]))
        if all(case.right for case in self.cases):
            return self.of_right_values()
        if self.exercise["unchanged"] and self.comes_to(self.exercise["unchanged"]):
            return Result("not attempted", UNCHANGED)
        used = f" {self.without}" if self.forbidden.used else ""
        for mistake in self.exercise["mistakes"]:
            if self.comes_to(mistake["outcomes"]):
                text = f"Known mistake, {mistake['name'].replace('_', ' ')}: {mistake['sentence']}{self.dtypes()}{used}"
                return Result("mistake", text, mistake["name"], self.example)
        return Result("failed", self.unknown_mistake() + used, None, self.example)

    def watched(self, *arguments):
        with self.forbidden if self.exercise["forbidden"] else contextlib.nullcontext():  # it slows each operation down
            return self.answer(*arguments)

    def comes_to(self, outcomes: list[dict]) -> bool:
        return all(alike(case.found, known) for case, known in zip(self.cases, outcomes, strict=True))

    @property
    def without(self) -> str:
        return f"This exercise asks you not to use {' or '.join(sorted(self.forbidden.used))}."

    def where(self, case: _Case) -> str:
        function = self.exercise["function"]
        return f"in case {case.number} ({described(case.arguments)}), {function}" if case.arguments else function

    def of_right_values(self) -> Result:
        for case in self.cases:
            if wrong := self.wrong_dtype(case):
                return Result("failed", f"The values are right, but {self.where(case)} {wrong}.")
        if broken := broken_property(self.properties, self.answer):
            return Result("failed", f"Not yet. All cases are right, but a property does not hold: {broken}")
        if self.forbidden.used:
            return Result("forbidden", f"Right, but {self.without[0].lower()}{self.without[1:]}")
        n, more = len(self.properties), f"{len(self.cases)} case{'s' if len(self.cases) != 1 else ''}"
        more += f" and {n} {'property' if n == 1 else 'properties'}" if n else ""
        return Result("passed", f"Passed: {more}. {self.exercise['explanation']}".strip())

    def dtypes(self) -> str:
        """Where the exercise states a dtype: a sentence about the first case that has another one, or nothing."""
        for case in self.cases if self.exercise["dtype"] else ():
            wrong = "returned" in case.found and not fault(*case.values) and self.wrong_dtype(case)
            if wrong:
                return f" Note the dtype: {self.where(case)} {wrong}."
        return ""

    def wrong_dtype(self, case: _Case) -> str | None:
        return dtype_fault(*case.values, self.exercise["dtype"])

    @property
    def first_wrong(self) -> _Case:
        return min((case for case in self.cases if not case.right), key=lambda case: case.rank)

    @property
    def on_paper(self) -> bool:
        """Whether the answer consists of values and not of code, so that no message may contain what is expected."""
        kind = self.exercise["kind"]
        return kind == "predict" or kind in ON_PAPER and not self.exercise["arguments"]

    @property
    def example(self) -> str:
        """The smallest input that goes wrong, what comes of it and what should; empty if they do not fit."""
        case = self.first_wrong
        given_away = self.observe or self.on_paper
        if given_away or "returned" not in case.found or "changed" in case.found:
            return ""
        return example(self.exercise["function"], case.arguments, *case.values)

    def unknown_mistake(self) -> str:
        """What goes wrong first, and how, where no known mistake explains it."""
        case = self.first_wrong
        where = self.where(case)
        if case.error:
            return f"Not yet: {where} {raised(case.error, self.answer)}."
        found, expected = case.values
        if found["type"] == "NoneType" != expected["type"]:
            return f"Not yet: {where} returns nothing (None): a `return` may be missing."
        if "changed" in case.found:
            names = " and ".join(case.found["changed"])
            return (
                f"Not yet: {where} changes its argument {names}. It must leave its arguments as they are: work on a "
                "copy, or avoid assignments to entries, operators such as += and methods that change their object."
            )
        if self.on_paper:
            which = not_right(found, expected)
            return f"Not yet: {which}. The hints tell you how to go on." if which else NOT_THE_VALUE
        if self.exercise["kind"] == "figure" and in_parts(expected):
            known = [(each["sentence"], each["outcomes"][case.number - 1]) for each in self.exercise["mistakes"]]
            known = [(sentence, outcome["returned"]) for sentence, outcome in known if "returned" in outcome]
            return f"Not yet. {of_parts(found, known)}"
        if self.observe:
            meaning = f"We compare {' '.join((self.observe.__doc__ or '').split())}."
            broken = broken_property(self.properties, self.answer, stated=True)
            sentences = [f"Not yet: {where} {difference(found, expected, 'leads to')}.", meaning, broken]
            return " ".join(filter(None, sentences))
        wrong, how = fault(found, expected), self.diagnosis()
        if not wrong and self.exercise["dtype"]:
            wrong = self.wrong_dtype(case)
        if not wrong and not how:
            how = broken_property(self.properties, self.answer, stated=True)
        if how and self.example:
            return f"Not yet: {self.exercise['function']} {wrong}. {how}" if wrong else f"Not yet. {how}"
        return " ".join(filter(None, [f"Not yet: {where} {wrong or difference(found, expected)}.", how]))

    def diagnosis(self) -> str | None:
        """What the values of all cases together tell about the mistake, in a sentence, if they tell anything."""
        pairs = [(case, _numeric_parts(*case.values)) for case in self.cases if "returned" in case.found]
        pairs = [(case, parts) for case, parts in pairs if parts]
        if len({len(parts) for _, parts in pairs}) != 1:
            return None
        for i in range(len(pairs[0][1])):
            found, expected = [parts[i][1] for _, parts in pairs], [parts[i][2] for _, parts in pairs]
            sentence = not all(map(agree, found, expected)) and diagnose(
                [torch.as_tensor(decode(each)) for each in found],
                [torch.as_tensor(decode(each)) for each in expected],
                [{name: decode(value) for name, value in case.arguments.items()} for case, _ in pairs],
                [_sizes(self.exercise["dimensions"], case.arguments) for case, _ in pairs],
            )
            if sentence:
                several, which = len(pairs[0][1]) > 1, pairs[0][1][i][0].replace("its ", "the ")
                return f"In {which}, {sentence[0].lower()}{sentence[1:]}" if several else sentence
        return None


def _numeric_parts(found: dict, expected: dict, which: str = "") -> list[tuple[str, dict, dict]]:
    """Each pair of tensors or numbers, of what was returned and what is expected, with the words that name it.

    There are none if they cannot be compared.
    """
    if "items" in found and "items" in expected and len(found["items"]) == len(expected["items"]):
        each = zip(found["items"], expected["items"], names_of_values(expected, which), strict=True)
        parts = [_numeric_parts(*one) for one in each]
        return sum(parts, []) if all(parts) else []
    numeric = all("data" in each and each["type"] != "str" for each in (found, expected))
    return [(which, found, expected)] if numeric else []


def _sizes(dimensions: dict[str, list[str]], case: dict) -> dict[str, int]:
    """The sizes of a case by name: the named axes of tensors, and whole numbers that are arguments."""
    sizes = {name: value["data"][0] for name, value in case.items() if value["type"] == "int"}
    for argument, names in dimensions.items():
        sizes |= dict(zip(names, case[argument].get("shape", ()), strict=False))
    return sizes


class _Forbidden(TorchFunctionMode):
    """Notes which of the forbidden functions are called, under whatever name."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names, self.used = {_plain(name.rpartition(".")[2]): name for name in reversed(names)}, set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        called = _plain(getattr(func, "__name__", ""))
        self.used |= {name for plain, name in self.names.items() if plain in called}
        return func(*args, **(kwargs or {}))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def broken_property(properties: list[Callable], answer: Callable, stated: bool = False) -> str | None:
    """Return the message of the first property that the answer does not have, or None.

    Args:
        stated: leave out the properties that cannot be tested, since the answer raises or returns what does not fit.
    """

    def guarded(*arguments):
        try:
            returned = on_cpu(answer(*arguments))
            return returned if _holds_float64(arguments) else _in_float32(returned)
        except CheckTimeout:
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
            if not stated:
                return f"When we test the property “{name}”, your function {raised(e.__cause__ or e, answer)}."
        except Exception as e:  # the property could not handle what the answer returned
            if not stated:
                why = f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0][:200]}".rstrip(". :")
                what = f"returns something that cannot be used ({why})"
                return f"When we test the property “{name}”, your function {what}."
    return None


def _holds_float64(value: Any) -> bool:
    if isinstance(value, tuple | list | dict):
        return any(map(_holds_float64, value.values() if isinstance(value, dict) else value))
    return isinstance(value, torch.Tensor) and value.dtype == torch.float64


def _in_float32(value: Any) -> Any:
    """What is more precise than the arguments is right too, and a property could not compare it with them."""
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(map(_in_float32, value))
    if isinstance(value, dict):
        return {name: _in_float32(entry) for name, entry in value.items()}
    return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.float64 else value


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


def _within(seconds: float, work: Callable[[], Result]) -> Result | str:
    """Return the result of the work, or how long it has taken if that is too long.

    The work runs in a thread, which can be abandoned. Its time is the CPU time of the thread outside imports: a first
    ``torch.optim`` imports 800 modules, in a second or, on a busy computer, in twenty.
    """
    clocks: list[Callable[[], float]] = []
    done: list[Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            clocks.append(_clock_of_this_thread())
            done.append(work())
        except CheckTimeout:
            pass
        except BaseException as e:  # an error of ours: those of the answer are part of the result
            failed.append(e)

    # What a notebook prints from a thread goes to the right cell if the thread has the cell's context.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
    thread.start()
    begin, before, used = time.monotonic(), 0.0, 0.0
    try:
        while used <= seconds and time.monotonic() - begin <= WALL_LIMIT:
            thread.join(PAUSE)
            if not thread.is_alive():
                break
            with contextlib.suppress(IndexError, OSError):  # it has just begun, or just ended
                now = clocks[0]()
                used += 0 if _imports(thread) else now - before
                before = now
    finally:  # also when the reader interrupts
        if thread.is_alive():
            threading.Thread(target=_stop, args=(thread,), daemon=True).start()
    for error in failed:
        raise error
    if done:
        return done[0]
    if used > seconds:
        return f"after {seconds:g} seconds of computing. Is there a loop that never ends?"
    return (
        f"after {WALL_LIMIT:g} seconds, of which it has computed for {used:.0f}. Does it wait for something, such as "
        "an input, or is this computer busy with something else?"
    )


def _clock_of_this_thread() -> Callable[[], float]:
    """Return a clock of the CPU time of this thread that other threads can read (on Windows and macOS: the process)."""
    now = time.process_time
    if hasattr(time, "pthread_getcpuclockid"):
        now = partial(time.clock_gettime, time.pthread_getcpuclockid(threading.get_ident()))
    start = now()
    return lambda: now() - start


def _imports(thread: threading.Thread) -> bool:
    """Whether the thread is importing a module at this moment."""
    return importing(sys._current_frames().get(thread.ident or 0))


def importing(frame: FrameType | None) -> bool:
    """Return whether a frame belongs to the import of a module."""
    while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def _stop(thread: threading.Thread) -> None:
    """Raise :class:`CheckTimeout` in the thread, again if it is caught there, but never during an import.

    An interrupted import would leave the module broken for the rest of the session. If the thread has begun an import
    between the look at it and the order, the order is taken back.
    """
    raise_in = partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong(thread.ident or 0))
    while thread.is_alive():
        if not _imports(thread):
            raise_in(ctypes.py_object(CheckTimeout))
            if _imports(thread):
                raise_in(None)
        thread.join(1)
