"""Exercises: what the student gets of the masters, the text of a notebook and the public checks.

:func:`generate` makes both, and runs the masters that have changed to record what their public checks need to know.
"""

import ast
import json
import sys
from pathlib import Path

from bookbinder import ROOT
from bookbinder.masters import FIELDS, Master, chapters, defect, is_import, read
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
        for master in masters:
            path = root / SHIPPED / f"{master.id}.json"
            stored = path.read_text(encoding="utf-8") if path.exists() else "{}"
            if json.loads(stored).get("master") == master.hash:
                texts[path] = stored
            else:
                texts[path] = "" if check else public_checks(master)
            texts[path.with_suffix(".py")] = read(master.folder / "checks.py")
    present = {path for path in (root / SHIPPED).glob("*/*") if path.suffix in (".json", ".py")}
    present.update((root / "book").glob("*/exercises.nb.md"))
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


def public_checks(master: Master) -> str:
    """Run a master and return what its public check knows, as JSON: cases, expected outcomes, those of known mistakes.

    Raises:
        Refusal: The solution fails, or a mistake cannot be told from the solution or from another mistake.
    """
    from llm_anatomy.notebook import checks as engine

    solution = master.run("solution")[master.function]
    cases = [{name: engine.encode(value) for name, value in case.items()} for case in master.cases("checks")]
    path = master.folder / "checks.py"
    for i, case in enumerate(cases, 1):
        if list(case) != master.arguments:
            raise defect(path, f"case {i} holds {', '.join(case)}; it must hold {', '.join(master.arguments)}")
        for name, value in case.items():
            if strange := engine.undecodable(value):
                what = "tensors, numbers, texts, None, or tuples, lists and dictionaries of these"
                raise defect(path, f"{name} of case {i} holds a {strange}; it may hold {what}")
    expected = []
    properties, observe = engine.checks_of(path)
    for i, case in enumerate(cases, 1):
        result, error = engine.outcome(solution, case, observe)
        if error or "changed" in result:
            what = engine.raised(error, solution) if error else f"changes {', '.join(result['changed'])}"
            raise defect(master.folder / "solution.py", f"in case {i} {master.function} {what}")
        expected.append(result)
    if broken := engine.broken_property(properties, solution):
        raise defect(master.folder / "solution.py", f"{master.function} fails a property: {broken}")
    known = {"right": expected}
    for name, mistake in master.wrong().items():
        outcomes = [engine.outcome(mistake, case, observe)[0] for case in cases]
        if all("raised" in outcome for outcome in outcomes):
            what = "raises in every public case, so that any other such exception would be taken for it"
            raise defect(master.folder / "mistakes.py", f"{name} {what}")
        for other, theirs in known.items():
            if all(map(engine.alike, outcomes, theirs)):
                what = f"cannot be told from {other} by the public cases; add a case that separates them"
                raise defect(master.folder / "mistakes.py", f"{name} {what}")
        known[name] = outcomes
    return _json(
        {
            "id": master.id,
            "title": master.title,
            "function": master.function,
            "arguments": master.arguments,
            "master": master.hash,
            "cases": cases,
            "expected": expected,
            "mistakes": [
                {"name": name, "sentence": sentence, "outcomes": known[name]}
                for name, sentence in master.mistakes.items()
            ],
        }
    )


def _json(values: dict) -> str:
    """Values as JSON, with a line for each value or entry of a list, so that a difference can be read."""

    def lines(value) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(f"  {json.dumps(entry, ensure_ascii=False)}" for entry in value) + "\n ]"
        return json.dumps(value, ensure_ascii=False)

    return "{\n" + ",\n".join(f" {json.dumps(name)}: {lines(value)}" for name, value in values.items()) + "\n}\n"


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

{opening}Write your code in place of `raise NotImplementedError`, run the
cell, and read the answer below it: it names the mistake where it is a well-known one. Each exercise has two hints, the
second stronger than the first.

The answer is for practice and is not a mark. It looks at a few cases only; "passed" means that these come out right.

**To hand in,** download this notebook and submit that file alone: *File → Download → Download .ipynb* in Colab,
*File → Download* in JupyterLab.

```{{code-cell}} ipython3
{imports}

setup()
```
"""

EXERCISE = """
## {title}

Difficulty {difficulty} of 3, importance {importance} of 3, about {minutes} minutes.

{statement}

| name | what it is |
| --- | --- |
{shapes}

:::{{dropdown}} Hint 1
{hints[0]}
:::

:::{{dropdown}} Hint 2
{hints[1]}
:::

```{{code-cell}} ipython3
:tags: [{tag}]

{code}
```
"""


def page(title: str, masters: list[Master], opening: str = "") -> str:
    """The student's text of a chapter's exercises."""
    stubs = [read(master.folder / "stub.py") for master in masters]
    parts = [HEAD.format(title=title, opening=opening, imports=_imports(stubs))]
    for master in masters:
        shapes = {f"`{name}`": what for name, what in master.shapes.items() if name != "returns"}
        shapes["what it returns"] = master.shapes["returns"]
        parts.append(
            EXERCISE.format(
                **{name: getattr(master, name) for name in (*FIELDS, "statement", "hints", "tag", "code")},
                shapes="\n".join(f"| {name} | {what} |" for name, what in shapes.items()),
            )
        )
    return "".join(parts)


def _imports(stubs: list[str]) -> str:
    """The imports of the set-up cell: those of the stubs, PyTorch and the check, in the groups that ruff makes."""
    plain, names = {"math", "torch"}, {"llm_anatomy.notebook": {"check", "setup"}}
    for node in filter(is_import, (node for stub in stubs for node in ast.parse(stub).body)):
        if isinstance(node, ast.ImportFrom):
            names.setdefault(node.module, set()).update(alias.name for alias in node.names)
        else:
            plain.update(alias.name for alias in node.names)
    lines = {name: f"import {name}" for name in sorted(plain)}
    lines |= {name: f"from {name} import {', '.join(sorted(names[name]))}" for name in sorted(names)}
    groups: list[list[str]] = [[], [], []]
    for name, line in lines.items():
        top = name.partition(".")[0]
        groups[0 if top in sys.stdlib_module_names else 2 if top == "llm_anatomy" else 1].append(line)
    return "\n\n".join("\n".join(group) for group in groups if group)
