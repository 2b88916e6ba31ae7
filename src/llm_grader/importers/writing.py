"""Make masters of the functions and variables that an assignment asks for, and say what is not carried over."""

import ast
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bookbinder import masters
from groundwork import Refusal
from llm_grader.importers.assignment import Assignment, Notebook, Question, bound, needed, plain_markdown, statements

MAX_CASES = 30
MAX_PUBLIC_CASES = 10
RECORDING_SECONDS = 600  # for one notebook
TRIAL_SECONDS = 300  # for all masters that follow one that was stopped

GUESSED = "answers that know nothing, such as 0 or 1 or an argument as it is, get all its hidden cases right"

HELPERS = '''\
def _restored(value):
    """Return an argument as the tests give it: with its tuples, sets and arrays."""
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["array"]:
        return value["array"].numpy()
    kinds = {"tuple": tuple, "set": set, "frozenset": frozenset}
    if len(value) == 1 and (kind := kinds.get(next(iter(value)))):
        return kind(map(_restored, next(iter(value.values()))))
    return {name: _restored(entry) for name, entry in value.items()}


def _compared(value):
    """Return a result as the grader compares it: arrays as tensors, and sets as sorted lists."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy()) if value.dtype.kind in "fiub" else value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [_compared(item) for item in value]
    return {name: _compared(entry) for name, entry in value.items()} if isinstance(value, dict) else value
'''


@dataclass
class Target:
    """A function or a variable that the tests of a question look at; it becomes a master.

    Args:
        function: name of the function that students write.
        calls: the recorded calls.
        expected: for a variable, its value.
        points: its share of the question's points.
        noticed: whether a test fails if it returns something else.
        alone: whether the question has no other.
        reason: why it cannot be carried over.
        notes: what the instructor should know about it.
    """

    notebook: Notebook
    question: int
    name: str
    function: str
    calls: list[dict] = field(default_factory=list)
    expected: dict | None = None
    points: float = 0
    noticed: bool = False
    alone: bool = True
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    returned: str = "[]"
    needs: set[str] = field(default_factory=set)

    @property
    def about(self) -> Question:
        return self.notebook.questions[self.question]


def check_folder(out: Path) -> None:
    """Refuse a folder that masters cannot be written to."""
    if not masters.NAME.fullmatch(out.resolve().name):
        raise Refusal(f"The name of --out {out} must be up to 50 letters, digits, - and _.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refusal(f"--out {out} exists and is not empty; name a new folder.")


def write(assignment: Assignment, out: Path) -> str:
    """Write the masters of an assignment and return a report.

    Raises:
        Refusal: no question can be carried over.
    """
    targets, left_out, failed = [], [], []
    for notebook in assignment.notebooks:
        recorded = _record(notebook)
        found, missing = _targets(notebook, recorded)
        failed += [
            f"- {notebook.path.name}: {about['error']}."
            for cell, about in zip(notebook.cells, recorded["cells"], strict=True)
            if cell.role == "given" and about["error"]
        ]
        targets += found
        left_out += missing
    for target in targets:
        if not target.reason:
            _compose(target)
    _check_together(targets)
    _try([target for target in targets if not target.reason])
    again = [target for target in targets if target.reason == GUESSED and len({c["hidden"] for c in target.calls}) == 2]
    for target in again:
        target.reason, target.notes = (
            "",
            ["its hidden tests could be guessed, so its visible ones are hidden cases too"],
        )
        _compose(target, hide_all=True)
    _try(again)
    _check_together(targets)
    kept = [target for target in targets if not target.reason]
    report = _report(assignment, targets, left_out, failed)
    if not kept:
        raise Refusal(f"No question can be carried over, so nothing is written.\n\n{report}")
    _write_chapter(out, assignment.title, kept)
    (out / "imported.md").write_text(report, encoding="utf-8")
    return report


def _write_chapter(folder: Path, title: str, targets: list[Target]) -> None:
    for target in targets:
        (folder / target.function).mkdir(parents=True)
        for name, text in target.files.items():
            (folder / target.function / name).write_text(text, encoding="utf-8")
    content = {"title": title, "core": [target.function for target in targets]}
    (folder / "chapter.yml").write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf-8")


# Run


def _ask(module: str, request: Any, seconds: float) -> tuple[str, str]:
    """Run a module on a request in a process of its own; return its reply and why it ended early."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("request", "reply")]
        paths[0].write_text(json.dumps(request), encoding="utf-8")
        command = [sys.executable, "-m", f"llm_grader.importers.{module}", *map(str, paths)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
            why = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["its process ended"])[-1]
        except subprocess.TimeoutExpired:
            why = f"it takes more than {seconds} seconds"
        return paths[1].read_text(encoding="utf-8") if paths[1].exists() else "", why


def _record(notebook: Notebook) -> dict:
    request = {
        "folder": str(notebook.path.resolve().parent),
        "given": [sorted(question.given) for question in notebook.questions],
        "cells": [asdict(cell) for cell in notebook.cells],
    }
    reply, why = _ask("recording", request, RECORDING_SECONDS)
    if why:
        raise Refusal(f"{notebook.path} cannot be run with its solutions: {why}.")
    return json.loads(reply)


def _try(targets: list[Target]) -> None:
    """Try masters and give a reason to those that the grader would not accept."""
    with tempfile.TemporaryDirectory() as folder:
        _try_in(Path(folder), targets)


def _try_in(folder: Path, targets: list[Target]) -> None:
    for number, target in enumerate(targets):
        _write_chapter(folder / str(number) / "trial", "trial", [target])
    number = 0
    while number < len(targets):
        request = [
            (str(folder / str(i) / "trial"), target.returned) for i, target in enumerate(targets[number:], number)
        ]
        reply, why = _ask("trial", request, TRIAL_SECONDS)
        for line in reply.splitlines():
            targets[number].reason = json.loads(line)
            number += 1
        if number < len(targets):
            targets[number].reason = f"its solution cannot be run alone ({why})"
            number += 1


# Choose


def _targets(notebook: Notebook, recorded: dict) -> tuple[list[Target], list[tuple[Notebook, Question]]]:
    """Return what the tests of a notebook look at, and the questions of which nothing becomes a master."""
    found: dict[tuple[int, str], Target] = {}
    shares: dict[int, list[tuple[float, list[Target]]]] = {}
    variables = {int(question): names for question, names in recorded["variables"].items()}

    def target(question: int, name: str, function: str) -> Target:
        return found.setdefault((question, name), Target(notebook, question, name, function))

    for cell, about in zip(notebook.cells, recorded["cells"], strict=True):
        question = notebook.questions[cell.question] if cell.question >= 0 else None
        if question is None or question.reason:
            continue
        if cell.role == "solution":
            question.reason = f"its solution raises {about['error']}" if about["error"] else ""
            continue
        if about["error"]:
            question.reason = f"a test fails on its solution ({about['error']})"
            continue
        used = [(call["question"], call["function"], call) for call in about["calls"]]
        used += [(index, name, None) for index, name in about["read"]]
        # tests may stand below the next answer, and may use earlier answers beside their own
        owner = cell.question if any(index == cell.question for index, *_ in used) or not used else used[-1][0]
        if owner != cell.question:
            question.points -= question.tests[cell.test].points
            notebook.questions[owner].points += question.tests[cell.test].points
        these = []
        for index, name, call in used:
            if index != owner:
                continue
            each = target(index, name, name if call else f"find_{name}")
            if call:
                each.calls.append(call)
            else:
                each.expected = variables[index][name]
            each.noticed |= [index, name] in about["noticed"]
            these += [] if each in these else [each]
        shares.setdefault(owner, []).append((question.tests[cell.test].points, these))
    for index, tests in shares.items():
        everything = [each for (question, _), each in found.items() if question == index]
        for points, these in tests:
            for each in these or everything:
                each.points += points / len(these or everything)
        if any(not these for _, these in tests) and everything:
            everything[0].notes.append("a test that looks at none of its functions and variables is left out")
    missing = []
    for index, question in enumerate(notebook.questions):
        own = [each for each in found.values() if each.question == index]
        for each in own:
            each.reason, each.alone = question.reason, len(own) == 1
        if not own:
            no_tests = "it has no tests" if not question.tests else ""
            why = "its tests call no function and read no variable that its solution defines"
            question.reason = question.reason or no_tests or why
            missing.append((notebook, question))
    return list(found.values()), missing


def _check_together(targets: list[Target]) -> None:
    """Give a reason to those that cannot be in one notebook with the others."""
    functions: set[str] = set()
    for target in targets:
        if not target.reason and target.function in functions:
            target.reason = "another question asks for a function of the same name"
        functions |= set() if target.reason else {target.function}
    for target in targets:  # in their order, since a question needs only those before it
        if target.reason:
            continue
        written = {t.name for t in targets if t.notebook is target.notebook and not t.reason and t.expected is None}
        if lacking := sorted(target.needs - written):
            target.reason = f"its solution needs {lacking[0]}, which another question asks for and no exercise defines"


# Compose


def _compose(target: Target, hide_all: bool = False) -> None:
    """Make the files of a master, or give the reason why there are none.

    Args:
        target: the function or variable.
        hide_all: make hidden cases of the visible tests as well, although there are hidden ones.
    """
    question, notebook = target.about, target.notebook
    if target.points <= 0:
        target.reason = "its tests are worth no points"
    elif not target.noticed:
        target.reason = "its tests pass with another result as well, so comparing results could refuse a right answer"
    elif not target.function.isidentifier() or not masters.NAME.fullmatch(target.function):
        target.reason = "its name has letters that the name of a master cannot have"
    else:
        last = max(
            i for i, cell in enumerate(notebook.cells) if (cell.role, cell.question) == ("solution", target.question)
        )
        cells = [cell for cell in notebook.cells[: last + 1] if cell.role != "test" and statements(cell.source)]
        source = needed("\n".join(cell.source for cell in cells), target.name)
        own = {name for cell in cells if cell.question == target.question for name in bound(cell.source)}
        theirs = {name for cell in cells if cell.role == "given" for name in bound(cell.source)}
        theirs |= {name for other in notebook.questions for name in other.given}
        answers = {name for cell in cells if cell.role == "solution" for name in bound(cell.source)}
        imported = {name for node in statements(source) if masters.is_import(node) for name in masters.bound(node)}
        target.needs = (bound(source) & answers) - own - theirs - imported
        _write_files(target, question, source, _given_code(cells, theirs & bound(source)), hide_all)


def _given_code(cells: list, names: set[str]) -> str:
    """Return the code that students are given and that an answer needs, without imports."""
    source = masters.part("\n".join(cell.source for cell in cells), names)
    return "\n\n".join(masters.written(source, node) for node in statements(source) if not masters.is_import(node))


def _write_files(target: Target, question: Question, source: str, given: str, hide_all: bool) -> None:
    function = target.function
    if target.expected is None:
        returning, raising = _usable_calls(target)
        node = next((n for n in statements(source) if isinstance(n, ast.FunctionDef) and n.name == function), None)
        if not target.reason and node is None:
            target.reason = "it is not defined by a plain `def`"
        if target.reason or node is None:
            return
        arguments = [argument.arg for argument in node.args.args]
    else:
        if "strange" in target.expected:
            target.reason = f"it is of type {target.expected['strange']}, which cannot be compared"
            return
        returning, raising, arguments = [{"arguments": {}, "returned": target.expected, "hidden": True}], [], []
        docstring = f"Return what the question assigns to `{target.name}`."
        source += f'\n\ndef {function}():\n    """{docstring}"""\n    return {target.name}\n'
    public = [call for call in returning if not call["hidden"]]
    hidden = [call for call in returning if call["hidden"] or hide_all] or public
    if public and hidden is public:
        target.notes.append("it has no hidden tests, so the calls of its visible tests are its hidden cases")
    if len(hidden) > MAX_CASES:
        target.notes.append(f"{MAX_CASES} of its {len(hidden)} hidden calls are kept")
        hidden = hidden[:: math.ceil(len(hidden) / MAX_CASES)]
    values = [value for call in returning for value in (*call["arguments"].values(), call["returned"])]
    plain = all(value["text"] == value["wrapped"] for call in hidden for value in call["arguments"].values())
    parts = [source.strip()]
    if not plain or any("np.array(" in v["text"] or "set([" in v["text"] for v in values):
        given_arguments = ", ".join(f"_restored({name})" for name in arguments)
        signature = ", ".join(["answer", *arguments])
        parts += [HELPERS.strip(), f"def call({signature}):\n    return _compared(answer({given_arguments}))"]
    if public and all(value["public"] for value in values):
        parts.append(_cases("cases", public[:MAX_PUBLIC_CASES], "text"))
    parts.append(_cases("hidden_cases", hidden, "wrapped"))
    parts += [_probe(number, call, arguments) for number, call in enumerate(raising, 1)]
    body = "\n\n\n".join(parts) + "\n"
    imports = [
        f"import {library}\n"
        for library, use in (("numpy as np", "np."), ("torch", "torch."))
        if use in body and library.split()[-1] not in bound(source)
    ]
    target.files = {"exercise.py": "".join(imports) + body, "exercise.md": _statement(target, question, given, hidden)}
    target.returned = f"[{', '.join(call['returned']['text'] for call in hidden)}]"


def _usable_calls(target: Target) -> tuple[list[dict], list[dict]]:
    """Return the calls of a function that return, and those that raise, each once and without such as are too odd."""
    returning, raising = {}, {}
    for call in target.calls:
        if "strange" in call:
            target.reason = call["strange"]
        elif "raised" in call:
            if call["known"]:
                raising.setdefault(json.dumps(call["arguments"]), call)
            else:
                target.notes.append(f"a call in its tests that raises {call['raised']} is left out")
        elif "strange" in call["returned"]:
            target.reason = f"it returns a value of type {call['returned']['strange']}, which cannot be compared"
        else:
            key = json.dumps(call["arguments"])
            if key in returning and not call["hidden"]:
                returning[key]["hidden"] = False
            returning.setdefault(key, dict(call))
    if not returning and not target.reason:
        target.reason = "its tests only call it where it raises an error"
    elif all(call["returned"]["text"] == "None" for call in returning.values()) and not target.reason:
        target.reason = "it returns nothing, so its tests look at what it prints or changes"
    return list(returning.values()), list(raising.values())


def _cases(name: str, calls: Iterable[dict], form: str) -> str:
    cases = [", ".join(f"{key!r}: {value[form]}" for key, value in call["arguments"].items()) for call in calls]
    lines = "".join(f"        {{{case}}},\n" for case in cases)
    return f"def {name}(generator):\n    return [\n{lines}    ]"


def _probe(number: int, call: dict, arguments: list[str]) -> str:
    """Return a probe that shows whether an answer raises the error that the solution raises."""
    given = ", ".join(value["text"] for value in call["arguments"].values())
    what = "A call of the hidden tests" if call["hidden"] or len(given) > 60 else f"{call['function']}({given})"
    sentence = f"{what} raises {call['raised']}."
    return (
        f"def probe_error_{number}({', '.join(['answer', *arguments])}):\n"
        f"    {sentence!r}\n"
        f"    try:\n        answer({given})\n"
        f"    except Exception as error:\n        return isinstance(error, {call['raised']})\n"
        "    return False"
    )


def _statement(target: Target, question: Question, given: str, hidden: list[dict]) -> str:
    """Return the text of exercise.md."""
    title, text, pictures = plain_markdown(question.statement)
    title = re.sub(r"\s*\([\d.]+ points?\)", "", title.strip("# *")) or question.name
    title = title if target.alone else f"{title}: {target.name}"
    target.notes += [f"the picture {picture} is left out" for picture in pictures]
    asked = f"Write the function `{target.function}`."
    if target.expected is not None:
        asked = (
            f"In this notebook, write a function `{target.function}` without arguments that returns what you are "
            f"asked to assign to `{target.name}`."
        )
    tests = [test.visible for test in question.tests if "==" in test.visible or "assert" in test.visible]
    tests = [visible for visible in tests if target.name in visible and "```" not in visible]
    about = {"title": title, "function": target.function, "points": round(target.points, 4)}
    seconds = sum(call.get("seconds", 0) for call in hidden)
    about |= {"seconds": math.ceil(4 * seconds)} if seconds > 0.5 else {}
    parts = [f"---\n{yaml.safe_dump(about, allow_unicode=True, sort_keys=False)}---\n", "## Statement"]
    parts += [text] if text else []
    parts.append(asked)
    if tests:
        code = "\n\n".join(tests)
        parts.append(f"These tests come with the question:\n\n```python\n{code}\n```")
    if given:
        parts.append(f"The code in the next cell is given.\n\n## Figure\n\n```python\n{given}\n```")
    return "\n\n".join(parts) + "\n"


# Report


def _points(points: float) -> str:
    return f"{round(points, 4):g} point{'' if points == 1 else 's'}"


def _report(
    assignment: Assignment, targets: list[Target], missing: list[tuple[Notebook, Question]], failed: list[str]
) -> str:
    """Return what was carried over and what was not, as Markdown."""
    kept, lost = [], []
    for target in targets:
        about = f"{target.notebook.path.name}, {target.about.name}: `{target.name}` ({_points(target.points)})"
        if target.reason:
            lost.append(f"- {about}: {target.reason}.")
        else:
            notes = "".join(f"; {note}" for note in dict.fromkeys(target.notes))
            kept.append(f"- {about} is now the exercise `{target.function}`{notes}.")
    for notebook, question in missing:
        lost.append(f"- {notebook.path.name}, {question.name} ({_points(question.points)}): {question.reason}.")
    parts = [f"# {assignment.title}", "Carried over:", "\n".join(kept or ["- nothing"])]
    if lost:
        parts += ["Not carried over:", "\n".join(lost)]
    if failed:
        parts += ["Cells outside the questions that raised an error:", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"
