"""Run a notebook with its solutions and tests, and record how the tests call what students write.

The instructor's code runs with the instructor's rights, so this is a process of its own:
``python -m llm_grader.importers.recording REQUEST REPLY``. Both are files with JSON.
"""

import ast
import builtins
import contextlib
import copy
import functools
import importlib.util
import inspect
import io
import json
import os
import random
import re
import sys
import time
import types
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bookbinder import masters
from llm_grader.importers.assignment import statements

MAX_CALLS = 200  # of one test
MAX_CHARACTERS = 50_000  # of one value
DTYPES = {"float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool"}


class CannotBeWritten(Exception):
    """Raised for a value of which no case can be made; the message completes the sentence "… is a …"."""


def literal(value: Any, wrapped: bool = False) -> str:
    """Return Python code for a value.

    Args:
        value: None, a number, a string, an array, a tensor, or a tuple, list, set or dictionary of these.
        wrapped: write tuples, sets and arrays as ``{"tuple": …}``, which the grader can send to a worker.

    Raises:
        CannotBeWritten: it is or contains something else, or it is very long.
    """
    text = _plain_literal(value, wrapped)
    if len(text) > MAX_CHARACTERS:
        raise CannotBeWritten("very large value")
    return text


def _plain_literal(value: Any, wrapped: bool) -> str:
    kind = type(value).__name__
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) is float:
        return repr(value) if value - value == 0 else f'float("{value}")'
    if type(value) in (list, tuple, set, frozenset):
        items = [_plain_literal(item, wrapped) for item in value]
        if kind == "list":
            return f"[{', '.join(items)}]"
        if wrapped:
            return f'{{"{kind}": [{", ".join(sorted(items) if "set" in kind else items)}]}}'
        if kind == "tuple":
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        return f"{kind}([{', '.join(sorted(items))}])"
    if type(value) is dict:
        if not all(type(key) in (str, int) for key in value):
            raise CannotBeWritten("dictionary whose keys are neither strings nor whole numbers")
        return f"{{{', '.join(f'{key!r}: {_plain_literal(entry, wrapped)}' for key, entry in value.items())}}}"
    module = type(value).__module__.partition(".")[0]
    if module == "numpy" and kind == "ndarray":
        return _array_literal(value.tolist(), str(value.dtype), value.shape, wrapped, "np")
    if module == "torch" and kind == "Tensor":
        dtype = str(value.dtype).removeprefix("torch.")
        return _array_literal(value.detach().tolist(), dtype, tuple(value.shape), False, "torch")
    if module == "numpy" and hasattr(value, "item") and isinstance(value.item(), bool | int | float | str):
        return _plain_literal(value.item(), wrapped)
    raise CannotBeWritten(kind)


def _array_literal(items: Any, dtype: str, shape: tuple, wrapped: bool, library: str) -> str:
    if dtype not in DTYPES:
        raise CannotBeWritten(f"array of {dtype}")
    text, name = (
        _plain_literal(items, False),
        "np.bool_" if (library, dtype) == ("np", "bool") else f"{library}.{dtype}",
    )
    reshaped = f".reshape({shape})" if 0 in shape else ""
    if library == "torch" or wrapped:
        tensor = f"torch.tensor({text}, dtype=torch.{dtype}){reshaped}"
        return f'{{"array": {tensor}}}' if wrapped else tensor
    return f"np.array({text}, dtype={name}){reshaped}"


def shown_publicly(value: Any) -> bool:
    """Return whether the checks in students' notebooks can hold a value."""
    if isinstance(value, list | tuple):
        return all(map(shown_publicly, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(shown_publicly, value.values()))
    return value is None or isinstance(value, bool | int | float | str) or type(value).__name__ == "Tensor"


def changed(value: Any) -> Any:
    """Return another value of the same type, which a test that looks at the value should notice."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, list | tuple):
        return type(value)([*value[:-1], changed(value[-1])] if value else [0])
    if isinstance(value, set | frozenset):
        return type(value)(list(value)[1:] or [0])
    if isinstance(value, dict):
        last = next(reversed(value), "x")
        return {**value, last: changed(value.get(last))}
    with contextlib.suppress(Exception):
        return ~value if "bool" in str(getattr(value, "dtype", "")) else value + 1
    return 0 if value is None else None


class Recorder:
    """Runs cells in one namespace and records the calls that tests make.

    Args:
        given: for each question, the names that its solution binds and that students are given.
    """

    def __init__(self, given: list[list[str]]) -> None:
        self.given = given
        self.namespace: dict[str, Any] = {"__name__": "__main__", "display": print}
        self.calls: list[dict] = []
        self.hidden = False  # whether the statement of the test that runs is hidden
        self.testing = False
        self.raised: list[tuple[dict, Callable, type[Exception]]] = []  # calls that raised, to be called again
        self.depth = 0
        self.change = ""  # name of the function that returns something else than it should
        self.variables: dict[int, dict[str, dict]] = {}

    def run(self, number: int, cell: dict) -> dict:
        """Run a cell and return what is known about it: its error, and for a test its calls."""
        if cell["role"] == "test":
            return self._run_test(number, cell)
        error, _ = self._execute(number, cell)
        if cell["role"] == "solution":
            self._watch(cell)
        return {"error": error}

    def _execute(self, number: int, cell: dict) -> tuple[str, list[str]]:
        """Run a cell and return its error, and what it displays."""
        shown, hidden, printed = [], set(cell["hidden"]), io.StringIO()
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                for node in ast.parse(cell["source"]).body:
                    self.hidden = not hidden.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1))
                    if isinstance(node, ast.Expr):
                        code = compile(ast.Expression(node.value), f"<cell {number}>", "eval")
                        shown.append(repr(eval(code, self.namespace)))
                    else:
                        exec(compile(ast.Module([node], []), f"<cell {number}>", "exec"), self.namespace)
        except (Exception, SystemExit) as e:
            return " ".join(f"{type(e).__name__}: {e}".rstrip(": ").split())[:200], shown
        return "", [*shown, printed.getvalue()]

    def _watch(self, cell: dict) -> None:
        """Record calls of the functions that a solution defines, and the values of its variables."""
        question = cell["question"]
        names = {name for node in statements(cell["source"]) for name in _assigned(node)}
        for name in sorted(names - set(self.given[question]) & self.namespace.keys()):
            value = self.namespace.get(name)
            if isinstance(value, types.FunctionType):
                self.namespace[name] = self._recorded(question, name, value)
            elif name in self.namespace and not isinstance(value, type | types.ModuleType):
                self.variables.setdefault(question, {})[name] = _described(value)

    def _recorded(self, question: int, name: str, function: Callable) -> Callable:
        @functools.wraps(function)
        def recorded(*positional: Any, **named: Any) -> Any:
            if not self.testing or self.depth:
                return function(*positional, **named)
            call = {"question": question, "function": name, "hidden": self.hidden} | _arguments(
                function, positional, named
            )
            kept, kept_named = _copied((positional, named))
            started, self.depth = time.monotonic(), self.depth + 1
            try:
                returned = function(*positional, **named)
                call |= {"returned": _described(returned)}
            except Exception as e:
                known = getattr(builtins, type(e).__name__, None) is type(e)
                call |= {"raised": type(e).__name__, "known": known}
                self.raised.append((call, lambda: function(*kept, **kept_named), type(e)))
                raise
            finally:
                self.depth -= 1
                call["seconds"] = time.monotonic() - started
                if len(self.calls) < MAX_CALLS:
                    self.calls.append(call)
            return changed(returned) if self.change == name else returned

        return recorded

    def _call_again(self) -> None:
        """Mark the calls that raised only because of what their test did, such as deleting a function."""
        self.testing = False
        for call, again, error in self.raised:
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    again()
            except error:
                continue
            except Exception:
                pass
            call["known"] = False
        self.testing = True

    def _run_test(self, number: int, cell: dict) -> dict:
        before, state = dict(self.namespace), _random_state()
        self.calls, self.raised, self.testing = [], [], True
        error, shown = self._execute(number, cell)
        self._call_again()
        calls, after, state_after = self.calls, dict(self.namespace), _random_state()
        nodes = [node for statement in statements(cell["source"]) for node in ast.walk(statement)]
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        used |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        read = [
            [question, name]
            for question, names in self.variables.items()
            for name in names
            if name in used and name in before
        ]
        noticed, self.calls = [], []
        for question, name in (
            [] if error else _without_repetition([[c["question"], c["function"]] for c in calls] + read)
        ):
            self.namespace.clear()
            self.namespace.update(before)
            _set_random_state(state)
            self.change = name
            if [question, name] in read:
                with contextlib.suppress(Exception):
                    self.namespace[name] = changed(copy.deepcopy(before[name]))
            other_error, other_shown = self._execute(number, cell)
            self.change = ""
            if other_error or (cell["shows"] and other_shown != shown):
                noticed.append([question, name])
        self.testing = False
        self.namespace.clear()
        self.namespace.update(after)
        _set_random_state(state_after)
        return {"error": error, "calls": calls, "read": read, "noticed": noticed}


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # it will not be written as a case either
        return value


def _assigned(node: ast.stmt) -> set[str]:
    return set() if masters.is_import(node) else set(masters.bound(node))


def _without_repetition(pairs: list[list]) -> list[list]:
    return [list(pair) for pair in dict.fromkeys(map(tuple, pairs))]


def _described(value: Any) -> dict:
    """Return a value as code, or why it cannot be written."""
    try:
        text = literal(value)
        return {"text": text, "wrapped": literal(value, True), "public": shown_publicly(value)}
    except CannotBeWritten as e:
        return {"strange": str(e)}


def _arguments(function: Callable, positional: tuple, named: dict) -> dict:
    """Return the arguments of a call by name, before the call can change them."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*positional, **named)
    except TypeError:
        return {"strange": "its tests call it with the wrong number of arguments"}
    bound.apply_defaults()
    allowed = (inspect.Parameter.POSITIONAL_OR_KEYWORD,)
    if strange := [name for name, parameter in signature.parameters.items() if parameter.kind not in allowed]:
        return {"strange": f"its parameter {strange[0]} is not a plain one"}
    described = {name: _described(value) for name, value in bound.arguments.items()}
    for name, found in described.items():
        if "strange" in found:
            return {"strange": f"its argument {name} is of type {found['strange']}"}
    return {"arguments": described}


def _random_state() -> tuple:
    numpy = sys.modules.get("numpy")
    return random.getstate(), numpy and numpy.random.get_state()


def _set_random_state(state: tuple) -> None:
    random.setstate(state[0])
    if state[1]:
        sys.modules["numpy"].random.set_state(state[1])


def _stand_in_for_nose() -> None:
    """Provide the assertions of nose, which many older tests import and which newer versions of Python cannot run."""
    case, tools = unittest.TestCase(), types.ModuleType("nose.tools")
    for name in dir(case):
        if name.startswith("assert"):
            setattr(tools, re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name), getattr(case, name))
    nose = types.ModuleType("nose")
    for module, name, value in (
        (tools, "ok_", case.assertTrue),
        (tools, "eq_", case.assertEqual),
        (nose, "tools", tools),
    ):
        setattr(module, name, value)
    sys.modules |= {"nose": nose, "nose.tools": tools}


def main(request_path: str, reply_path: str) -> None:
    """Record a notebook."""
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    os.chdir(request["folder"])
    sys.path.insert(0, request["folder"])
    os.environ.setdefault("MPLBACKEND", "agg")
    if importlib.util.find_spec("nose") is None:
        _stand_in_for_nose()
    recorder = Recorder(request["given"])
    cells = [recorder.run(number, cell) for number, cell in enumerate(request["cells"], 1)]
    reply = {"cells": cells, "variables": recorder.variables}
    Path(reply_path).write_text(json.dumps(reply), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
