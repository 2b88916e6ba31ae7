"""Exercises: what the student gets of the masters, the text of a notebook and the public checks.

:func:`generate` makes both, and runs the masters that have changed to record what their public checks need to know.
"""

import ast
import base64
import json
import sys
import zlib
from pathlib import Path

from bookbinder import ROOT
from bookbinder.lecture_pages import count
from bookbinder.masters import WORK, Master, chapters, defect
from groundwork import write_whole

SHIPPED = Path("src/llm_anatomy/notebook/exercises")


def generate(check: bool = False, root: Path = ROOT) -> list[str]:
    """Write the students' texts and the public checks; return the files that were written or removed.

    A public check is made again when its master has changed, and for this the master is run.

    Args:
        check: write and run nothing; return a sentence for each file that is not what its master makes.
    """
    texts: dict[Path, str] = {}
    for chapter, (title, masters) in chapters(root).items():
        texts[root / "book" / chapter / "exercises.nb.md"] = page(title, masters, IN_BOOK.format(chapter=chapter))
        path = root / SHIPPED / f"{chapter}.txt"
        texts[path] = _shipped(path, masters, check)
    present = {*(root / SHIPPED).glob("*.txt"), *(root / "book").glob("*/exercises.nb.md")}
    strays = sorted(present.difference(texts))
    stale = [path for path in sorted(texts) if path not in present or path.read_text(encoding="utf-8") != texts[path]]
    if check:
        run = "run `python -m bookbinder exercises`"
        problems = [f"{path.relative_to(root).as_posix()} belongs to no exercise: {run}" for path in strays]
        return problems + [f"{path.relative_to(root).as_posix()} is not what its master makes: {run}" for path in stale]
    for path in strays:
        path.unlink()
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, texts[path].encode())
    return [path.relative_to(root).as_posix() for path in strays + stale]


def _shipped(path: Path, masters: list[Master], check: bool) -> str:
    """The public checks of a chapter as text: those that are stored, where no master has changed."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    stored = unpack(text) if text else {}
    if {name: entry["master"] for name, entry in stored.items()} == {master.id: master.hash for master in masters}:
        return text
    if check:
        return ""
    kept = {name: entry for name, entry in stored.items() if entry["master"] in {each.hash for each in masters}}
    return pack({master.id: kept.get(master.id) or public_checks(master) for master in masters})


def pack(checks: dict[str, dict]) -> str:
    """Public checks, by id, as :func:`llm_anatomy.notebook.checks.use_checks` reads them: base64 of compressed JSON."""
    content = json.dumps(checks, ensure_ascii=False, separators=(",", ":"))
    text = base64.b64encode(zlib.compress(content.encode(), 9)).decode()
    return "".join(f"{text[i : i + 100]}\n" for i in range(0, len(text), 100))


def unpack(text: str) -> dict[str, dict]:
    """What :func:`pack` was given."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def public_checks(master: Master) -> dict:
    """Run a master and return what its public check knows: cases, expected outcomes, those of known mistakes.

    Raises:
        Refusal: The solution fails, or a mistake cannot be told from the solution or from another mistake.
    """
    from llm_anatomy.notebook import checks, outcomes, sentences

    path = master.folder / "exercise.py"
    solution = master.right()[master.function]
    cases = encoded_cases(master)
    _check_dtypes(master, cases)
    expected = []
    properties, observe = checks.defined(master.checks)
    for i, case in enumerate(cases, 1):
        result, error = outcomes.outcome(solution, case, observe)
        if error or "changed" in result:
            what = checks.raised(error, solution) if error else f"changes {', '.join(result['changed'])}"
            raise defect(path, f"in case {i} {master.function} {what}")
        expected.append(result)
    if master.kind == "figure" and observe and not all(sentences.in_parts(each["returned"]) for each in expected):
        raise defect(path, 'observe must return a dictionary, part → "right" if it is right, with no part wrong here')
    if broken := checks.broken_property(properties, solution):
        raise defect(path, f"{master.function} fails a property: {broken}")
    given, known = {}, {}
    if master.kind == "debug":
        given["the code that is given"] = [outcomes.outcome(master.given(), case, observe)[0] for case in cases]
    for name, mistake in master.wrong().items():
        found = [outcomes.outcome(mistake, case, observe)[0] for case in cases]
        if not any(map(outcomes.tells, found, expected)) and not any(map(outcomes.alike, found, expected)):
            what = "raises or returns NaN in every public case, so that anything else that does would be taken for it"
            raise defect(master.folder / "mistakes.py", f"{name} {what}")
        for other, theirs in {"right": expected, **given, **known}.items():
            if all(map(outcomes.alike, found, theirs)):
                what = f"cannot be told from {other} by the public cases; add a case that separates them"
                raise defect(master.folder / "mistakes.py", f"{name} {what}")
        known[name] = list(map(outcomes.fingerprint, found))
    return {
        "master": master.hash,
        **{name: getattr(master, name) for name in ("function", "arguments", "dimensions", "kind", "dtype", "seconds")},
        **{name: getattr(master, name) for name in ("forbidden", "explanation", "checks")},
        "cases": cases,
        "expected": expected,
        "unchanged": [outcomes.fingerprint(each) for found in given.values() for each in found],
        "mistakes": [{"name": n, "sentence": text, "outcomes": known[n]} for n, text in master.mistakes.items()],
    }


def encoded_cases(master: Master, function: str = "cases") -> list[dict]:
    """The cases that a function of a master draws, as plain data.

    Raises:
        Refusal: They do not fit the exercise.
    """
    from llm_anatomy.notebook import outcomes

    path, drawn = master.folder / "exercise.py", master.cases(function)
    if not isinstance(drawn, list) or not drawn or not all(isinstance(case, dict) for case in drawn):
        raise defect(path, f"{function} must return a list of cases, each a dictionary of the arguments")
    cases, case_of = [], "hidden case" if function == "hidden_cases" else "case"
    for i, case in enumerate(drawn, 1):
        if list(case) != master.arguments:
            held, wanted = (", ".join(map(str, names)) or "nothing" for names in (case, master.arguments))
            raise defect(path, f"{case_of} {i} holds {held}; it must hold {wanted}")
        cases.append({name: outcomes.encode(value) for name, value in case.items()})
        for name, value in cases[-1].items():
            if strange := outcomes.undecodable(value):
                what = "tensors, numbers, texts, None, or tuples, lists and dictionaries of these"
                raise defect(path, f"{name} of {case_of} {i} holds a {strange}; it may hold {what}")
    return cases


def _check_dtypes(master: Master, cases: list[dict]) -> None:
    """Refuse public cases in an unusual dtype, where the exercise does not say that it matters."""
    for i, case in enumerate(cases, 1):
        for name, value in case.items():
            dtype = value.get("dtype", "torch.float32")
            if master.dtype not in master.arguments and "float" in dtype and dtype != "torch.float32":
                words = f"{name} of case {i} is {dtype}, but the header names no argument for dtype"
                raise defect(
                    master.folder / "exercise.py", f"{words}; a dtype that matters is stated, as `dtype: {name}`"
                )


IN_BOOK = "These exercises go with the chapter {{doc}}`{chapter}`. "
HEAD = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# Exercises: {title}

{opening}Replace `raise NotImplementedError` by your code, or correct the
code that you are given.{guide}
{time}

{checks}{hand_in}

```{{code-cell}} ipython3
{imports}

setup()
```
"""
HAND_IN = """\
**To hand in your work,** download this notebook and submit only this file: *File → Download → Download .ipynb* in
Colab, *File → Download* in JupyterLab."""

GUIDE_TO_CHECKS = " Then run the cell and read the message below it"
GUIDE_TO_MISTAKES = """: if your mistake is a common one, the message
names it"""
GUIDE_TO_HINTS = " Each exercise has two hints, and the second tells you more than the first."
CHECKS = """\
The checks are for practice and give no marks. They try your code on a few cases; *passed* means that it is right in
these cases.

"""
NO_CHECK = """
This exercise has no check in the notebook: try your code on examples of your own.
"""

EXERCISE = """
## {title}

{about}

{statement}
{figure}{shapes}{hints}{unchecked}
```{{code-cell}} ipython3
:tags: [{tag}]

{code}
```
"""
SHAPES = """
| name | what it is |
| --- | --- |
{rows}
"""
HINT = """
:::{{dropdown}} Hint {number}
{hint}
:::
"""
FIGURE = """
```{{code-cell}} ipython3
:tags: [hide-input]

{code}
```
"""


def page(title: str, masters: list[Master], opening: str = "") -> str:
    """The student's text of a chapter's exercises."""
    checked = [master for master in masters if master.checked]
    guide = (
        f"{GUIDE_TO_CHECKS}{GUIDE_TO_MISTAKES if any(each.mistakes for each in checked) else ''}." if checked else ""
    )
    guide += GUIDE_TO_HINTS if all(len(master.hints) == 2 for master in masters) else ""
    head = {"title": title, "opening": opening, "guide": guide, "checks": CHECKS if checked else "", "hand_in": HAND_IN}
    parts = [HEAD.format(**head, time=_time(masters), imports=set_up_imports(masters))]
    for master in masters:
        shapes = {f"`{name}`": what for name, what in master.shapes.items() if name != "returns"}
        shapes["what it returns"] = master.shapes["returns"]
        rows = "\n".join(f"| {name} | {what} |" for name, what in shapes.items() if what)
        parts.append(
            EXERCISE.format(
                **{name: getattr(master, name) for name in ("title", "statement", "tag", "code")},
                about=_about(master),
                figure=FIGURE.format(code=master.figure) if master.figure else "",
                shapes=SHAPES.format(rows=rows) if rows else "",
                hints="".join(HINT.format(number=n, hint=hint) for n, hint in enumerate(master.hints, 1)),
                unchecked="" if master.checked else NO_CHECK,
            )
        )
    return "".join(parts)


def _about(master: Master) -> str:
    """What a student wants to know before beginning: whether it can be left out, its kind, how hard and how long."""
    kind = [f"**{WORK[master.kind]}.**"] if WORK[master.kind] else []
    rest = [f"{name} {getattr(master, name)} of 3" for name in ("difficulty", "importance") if getattr(master, name)]
    rest += [f"about {master.minutes} minutes"] if master.minutes else []
    which = ["Core" if master.core else "Optional"] if rest or not master.core else []
    return " ".join(kind + (["; ".join(which + ([", ".join(rest)] if rest else [])) + "."] if which else []))


def _time(masters: list[Master]) -> str:
    """How long the exercises take, if they say it."""
    core, more = ([each.minutes for each in masters if each.core is core] for core in (True, False))
    if not all(core + more):
        return ""
    text = f"Plan about {sum(core)} minutes for the {count(len(core), 'core exercise')}"
    return f"{text} and {sum(more)} more for the {count(len(more), 'optional one')}." if more else f"{text}."


def set_up_imports(masters: list[Master]) -> str:
    """The imports of the set-up cell: PyTorch, the check and what the solutions need, in the groups that ruff makes."""
    plain, names = {"math", "torch"}, {"llm_anatomy.notebook": {"check", "setup"}}
    for node in (node for master in masters for node in master.imports):
        found = {ast.unparse(alias) for alias in node.names}  # with "as …"
        (names.setdefault(node.module, set()) if isinstance(node, ast.ImportFrom) else plain).update(found)
    lines = [f"import {name}" for name in sorted(plain)]
    lines += [f"from {name} import {', '.join(sorted(names[name]))}" for name in sorted(names)]
    groups: list[list[str]] = [[], [], []]
    for line in lines:
        top = line.split()[1].partition(".")[0]
        groups[0 if top in sys.stdlib_module_names else 2 if top == "llm_anatomy" else 1].append(line)
    return "\n\n".join("\n".join(group) for group in groups if group)
