"""Exercises: from a master (statement, stub, solution, mistakes, checks, hidden cases) to what the student gets.

A master is the folder ``exercises/<chapter>/<name>``; its place is its id. :func:`load` reads and validates it without
running anything, so it needs neither PyTorch nor the package. :func:`generate` makes the student's text, and runs the
masters that have changed to record what their public checks need to know.
"""

import ast
import hashlib
import json
import math
import re
import sys
from collections.abc import Callable
from csv import DictReader
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from bookbinder import ROOT
from groundwork import Refusal

CODE = ("stub", "solution", "mistakes", "checks", "hidden")
SECTIONS = ("Statement", "Hint 1", "Hint 2")
FEWEST_MISTAKES = 4
KINDS = {"Float": "floats", "Int": "integers", "Bool": "booleans"}
PLAIN = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "list[int]": "a list of whole numbers",
    "list[str]": "a list of texts",
    "dict[str, Tensor]": "a dictionary of tensors",
    "Module": "a PyTorch module",
}
SHIPPED = Path("src/llm_anatomy/notebook/exercises")
NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}  # that of the public checks


@dataclass(frozen=True)
class Master:
    """One exercise as its author wrote it.

    Args:
        shapes: has an entry for each argument and one for "returns".
        mistakes: known mistake → the sentence that the student should read.
        points: what a full answer earns when it is graded.
        seconds: how long an answer may run when it is graded, in all cases together.
        forbidden: names that are reported to a person when an answer uses them, such as "torch.softmax".
        tolerance: ``rtol`` and ``atol`` of what is graded.
        probes: probe → what it shows, in words for the student.
    """

    folder: Path
    title: str
    items: list[str]
    function: str
    difficulty: int
    importance: int
    minutes: int
    statement: str
    hints: tuple[str, str]
    shapes: dict[str, str]
    mistakes: dict[str, str]
    points: float
    seconds: float = 2
    forbidden: list[str] = field(default_factory=list)
    tolerance: dict[str, float] = field(default_factory=lambda: dict(TOLERANCE))
    probes: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def tag(self) -> str:
        """That of its cell in the student's notebook."""
        return f"exercise-{self.folder.name}"

    @property
    def code(self) -> str:
        """Its cell in the student's notebook: the stub and its check."""
        stub = _without_imports(_read(self.folder / "stub.py"))
        return f'{stub}\n\n\ncheck("{self.id}", {self.function})'

    @property
    def arguments(self) -> list[str]:
        return [name for name in self.shapes if name != "returns"]

    @property
    def hash(self) -> str:
        """Changes when something changes that the public checks are made from."""
        names = ["exercise.md", *(f"{name}.py" for name in CODE if name != "hidden")]
        texts = "\0".join((self.folder / name).read_text(encoding="utf-8") for name in names)
        return hashlib.sha256(texts.encode()).hexdigest()[:16]

    def run(self, name: str) -> dict:
        """What one of the master's Python files defines. It is run for this, and may import PyTorch."""
        path = self.folder / f"{name}.py"
        namespace = {"__name__": name}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
        return namespace

    def wrong(self) -> dict[str, Callable]:
        """The known mistakes, as functions."""
        namespace = self.run("mistakes")
        return {name: namespace[name] for name in self.mistakes}

    def cases(self, name: str) -> list[dict]:
        """The cases of ``checks`` or ``hidden``, the same on each call."""
        import torch

        return self.run(name)["cases"](torch.Generator().manual_seed(0))


# Reading a master


def load(folder: Path) -> Master:
    """The master in a folder. Refuses one that is incomplete or contradicts itself, naming file and field."""
    text = _read(folder / "exercise.md")
    match = re.fullmatch(r"---\n(.*?\n)---\n(.*)", text, re.DOTALL)
    if not match:
        raise Refusal(f"{_shown(folder / 'exercise.md')}: a header between two lines of --- is missing")
    header, sections = _header(folder / "exercise.md", match[1]), _sections(folder / "exercise.md", match[2])
    trees = {name: _parse(folder / f"{name}.py") for name in CODE}
    function = header["function"]
    stub, solution = (_function(folder / f"{name}.py", trees[name], function) for name in ("stub", "solution"))
    if ast.unparse(stub.args) != ast.unparse(solution.args) or ast.dump(stub.returns) != ast.dump(solution.returns):
        raise Refusal(f"{_shown(folder / 'stub.py')}: the signature of {function} differs from that in solution.py")
    if ast.unparse(stub.body[-1]) != "raise NotImplementedError":
        raise Refusal(f"{_shown(folder / 'stub.py')}: {function} must end in `raise NotImplementedError`")
    for name in ("checks", "hidden"):
        if "cases" not in _functions(trees[name]):
            raise Refusal(f"{_shown(folder / f'{name}.py')}: the function cases(generator) is missing")
    if not any(name.startswith("property_") for name in _functions(trees["checks"])):
        raise Refusal(f"{_shown(folder / 'checks.py')}: a function property_…(answer, generator) is missing")
    if observe := _functions(trees["checks"]).get("observe"):
        names = ["returned", *(a.arg for a in stub.args.args)]
        if [a.arg for a in observe.args.args] != names:
            raise Refusal(f"{_shown(folder / 'checks.py')}: observe must take the arguments {', '.join(names)}")
        if not ast.get_docstring(observe):
            raise Refusal(f"{_shown(folder / 'checks.py')}: observe has no docstring, which names what is compared")
    return Master(
        folder,
        **{"points": header["difficulty"]} | header,
        statement=sections["Statement"],
        hints=(sections["Hint 1"], sections["Hint 2"]),
        shapes=_shapes(stub),
        mistakes=_mistakes(folder / "mistakes.py", trees["mistakes"], stub),
        tolerance=_tolerance(folder / "hidden.py", trees["hidden"]),
        probes=_probes(folder / "probes.py", stub),
    )


def _shown(path: Path) -> str:
    return "/".join(path.parts[-3:])


def _read(path: Path) -> str:
    if not path.is_file():
        raise Refusal(f"{_shown(path)}: the file is missing")
    return path.read_text(encoding="utf-8")


@cache
def _items_of_the_lectures() -> set[str]:
    with (ROOT / "src/llm_anatomy/data/syllabus_items.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"] for row in DictReader(file)}


Fields = dict[str, tuple[Callable, str]]


def _yaml(path: Path, text: str, fields: Fields, optional: Fields | None = None) -> dict:
    """The fields of a header, each held to what is said of it; the optional ones may be missing."""
    fields = fields | (optional or {})
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise Refusal(f"{_shown(path)}: the header is not YAML: {' '.join(str(e).split())}") from e
    values = values if isinstance(values, dict) else {}
    for name in values:
        if name not in fields:
            raise Refusal(f"{_shown(path)}: the header has a field {name}, but allowed are {', '.join(fields)}")
    for name, (allowed, words) in fields.items():
        if name not in values:
            if optional and name in optional:
                continue
            raise Refusal(f"{_shown(path)}: the field {name} is missing; it must be {words}")
        if not allowed(values[name]):
            raise Refusal(f"{_shown(path)}: the field {name} is {values[name]!r}; it must be {words}")
    return values


def _text(value) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_text, value))


def _above_zero(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _names(value) -> bool:
    return _texts(value) and all(part.isidentifier() for name in value for part in name.split("."))


FIELDS: Fields = {
    "title": (_text, "a text"),
    "items": (_texts, "a list of items of the lectures, such as [UCL-17]"),
    "function": (lambda value: _text(value) and value.isidentifier(), "the name of the function to write"),
    "difficulty": (lambda value: value in (1, 2, 3), "1, 2 or 3"),
    "importance": (lambda value: value in (1, 2, 3), "1, 2 or 3"),
    "minutes": (lambda value: isinstance(value, int) and value > 0, "a whole number above 0"),
}
FOR_GRADING: Fields = {
    "points": (_above_zero, "a number above 0"),
    "seconds": (_above_zero, "a number above 0"),
    "forbidden": (_names, "a list of names, such as [torch.softmax]"),
}


def _header(path: Path, text: str) -> dict:
    values = _yaml(path, text, FIELDS, FOR_GRADING)
    for item in values["items"]:
        if item not in _items_of_the_lectures():
            raise Refusal(f"{_shown(path)}: {item} is not an item of the lectures")
    return values


def _sections(path: Path, text: str) -> dict[str, str]:
    _, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    sections = {title.strip(): body.strip() for title, body in zip(parts[::2], parts[1::2], strict=True)}
    for title in SECTIONS:
        if not sections.get(title):
            raise Refusal(f"{_shown(path)}: the section “{title}” is missing or empty")
    for title in sections:
        if title not in SECTIONS:
            raise Refusal(f"{_shown(path)}: the section “{title}” is not one of {', '.join(SECTIONS)}")
    return sections


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(_read(path))
    except SyntaxError as e:
        raise Refusal(f"{_shown(path)}: line {e.lineno} is not Python: {e.msg}") from e


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _function(path: Path, tree: ast.Module, name: str) -> ast.FunctionDef:
    node = _functions(tree).get(name)
    if node is None:
        raise Refusal(f"{_shown(path)}: the function {name} is missing")
    if not ast.get_docstring(node):
        raise Refusal(f"{_shown(path)}: {name} has no docstring")
    for argument in node.args.args:
        if argument.annotation is None:
            raise Refusal(f"{_shown(path)}: the argument {argument.arg} of {name} has no type with its shape")
    if node.returns is None:
        raise Refusal(f"{_shown(path)}: {name} has no return type with its shape")
    return node


def _shapes(stub: ast.FunctionDef) -> dict[str, str]:
    """In words: Float[Tensor, "n_keys d_head"] is "floats, (n_keys, d_head)"."""

    def words(annotation: ast.expr) -> str:
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "tuple":
            return " and ".join(map(words, annotation.slice.elts))

        def shape(match: re.Match) -> str:
            sizes = match[2].split()
            return f"{KINDS[match[1]]}, ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"

        if ast.unparse(annotation) in PLAIN:
            return PLAIN[ast.unparse(annotation)]
        return re.sub(rf"({'|'.join(KINDS)})\[Tensor, '([^']*)'\]", shape, ast.unparse(annotation))

    return {a.arg: words(a.annotation) for a in stub.args.args} | {"returns": words(stub.returns)}


def _mistakes(path: Path, tree: ast.Module, stub: ast.FunctionDef) -> dict[str, str]:
    mistakes = {}
    for name, node in _functions(tree).items():
        if name.startswith("_"):
            continue
        if [a.arg for a in node.args.args] != [a.arg for a in stub.args.args]:
            raise Refusal(f"{_shown(path)}: {name} must take the arguments of {stub.name}")
        if not ast.get_docstring(node):
            raise Refusal(f"{_shown(path)}: {name} has no sentence for the student, which is its docstring")
        mistakes[name] = " ".join(ast.get_docstring(node).split())
    if len(mistakes) < FEWEST_MISTAKES:
        raise Refusal(f"{_shown(path)}: {len(mistakes)} mistakes, but at least {FEWEST_MISTAKES} are needed")
    return mistakes


def _tolerance(path: Path, tree: ast.Module) -> dict[str, float]:
    """The constant TOLERANCE where there is one. Nothing is run to read it."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["TOLERANCE"]:
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                value = None
            if not isinstance(value, dict) or set(value) != set(TOLERANCE) or not all(map(_above_zero, value.values())):
                raise Refusal(
                    f"{_shown(path)}: TOLERANCE is {ast.unparse(node.value)}; "
                    "it must hold rtol and atol, each a number above 0"
                )
            return value
    return dict(TOLERANCE)


def _probes(path: Path, stub: ast.FunctionDef) -> dict[str, str]:
    """The probes, each with its sentence, of the one file that may be missing."""
    if not path.exists():
        return {}
    names = ["answer", *(a.arg for a in stub.args.args)]
    found = {name: node for name, node in _functions(_parse(path)).items() if not name.startswith("_")}
    if not found:
        raise Refusal(f"{_shown(path)}: a function call(answer, …) or probe_…(answer, …) is missing")
    for name, node in found.items():
        if name != "call" and not name.startswith("probe_"):
            raise Refusal(f"{_shown(path)}: {name} must be named call, probe_… or, if it only helps, _…")
        if [a.arg for a in node.args.args] != names:
            raise Refusal(f"{_shown(path)}: {name} must take the arguments {', '.join(names)}")
        if name != "call" and not ast.get_docstring(node):
            raise Refusal(f"{_shown(path)}: {name} has no sentence for the student, which is its docstring")
    return {name: " ".join(ast.get_docstring(node).split()) for name, node in found.items() if name != "call"}


CHAPTER_FIELDS: Fields = {
    "title": (_text, "a text"),
    "order": (_texts, "the list of the chapter's exercises in their order"),
}


def load_chapter(folder: Path) -> tuple[str, list[Master]]:
    """Title and masters of a chapter's folder, in the order that its chapter.yml gives."""
    path = folder / "chapter.yml"
    header = _yaml(path, _read(path), CHAPTER_FIELDS)
    found = sorted(
        child.name for child in folder.iterdir() if child.is_dir() and not child.name.startswith((".", "__"))
    )
    if sorted(header["order"]) != found:
        raise Refusal(f"{_shown(path)}: order lists {header['order']}, but the folders here are {found}")
    for name in (folder.name, *found):  # they become parts of ids and tags
        if not NAME.fullmatch(name):
            raise Refusal(f"{_shown(path)}: the folder name {name!r} must be up to 50 letters, digits, - and _")
    masters = [load(folder / name) for name in header["order"]]
    functions = [master.function for master in masters]
    for function in functions:
        if functions.count(function) > 1:  # they share one notebook
            raise Refusal(f"{_shown(path)}: {functions.count(function)} exercises ask for a function {function}")
    return header["title"], masters


def chapters(root: Path = ROOT) -> dict[str, tuple[str, list[Master]]]:
    """All chapters with exercises: folder name → title and masters."""
    folders = sorted(path.parent for path in (root / "exercises").glob("*/chapter.yml"))
    strays = {path.parents[1] for path in (root / "exercises").glob("*/*/exercise.md")} - set(folders)
    return {folder.name: load_chapter(folder) for folder in sorted(strays.union(folders))}


# Making what the student gets


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
            texts[path.with_suffix(".py")] = _read(master.folder / "checks.py")
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
        path.write_text(texts[path], encoding="utf-8", newline="\n")
    return [path.relative_to(root).as_posix() for path in strays + stale]


def public_checks(master: Master) -> str:
    """What the check knows: cases, expected outcomes and those of each known mistake. Runs the master.

    Refuses a master whose solution fails, or with a mistake that could not be told from right or from another one.
    """
    from llm_anatomy.notebook import checks as engine

    solution, wrong = master.run("solution")[master.function], master.wrong()
    cases = [{name: engine.encode(value) for name, value in case.items()} for case in master.cases("checks")]
    where = _shown(master.folder / "checks.py")
    for i, case in enumerate(cases, 1):
        if list(case) != master.arguments:
            raise Refusal(f"{where}: case {i} holds {', '.join(case)}; it must hold {', '.join(master.arguments)}")
        for name, value in case.items():
            if strange := engine.undecodable(value):
                what = "tensors, numbers, texts, None, or tuples, lists and dictionaries of these"
                raise Refusal(f"{where}: {name} of case {i} holds a {strange}; it may hold {what}")
    expected = []
    properties, observe = engine.checks_of(master.folder / "checks.py")
    for i, case in enumerate(cases, 1):
        result, error = engine.outcome(solution, case, observe)
        if error or "changed" in result:
            what = engine.raised(error, solution) if error else f"changes {', '.join(result['changed'])}"
            raise Refusal(f"{_shown(master.folder / 'solution.py')}: in case {i} {master.function} {what}")
        expected.append(result)
    if broken := engine.broken_property(properties, solution):
        raise Refusal(f"{_shown(master.folder / 'solution.py')}: {master.function} fails a property: {broken}")
    known = {"right": expected}
    for name, mistake in wrong.items():
        outcomes = [engine.outcome(mistake, case, observe)[0] for case in cases]
        if all("raised" in outcome for outcome in outcomes):
            what = "raises in every public case, so that any other such exception would be taken for it"
            raise Refusal(f"{_shown(master.folder / 'mistakes.py')}: {name} {what}")
        for other, theirs in known.items():
            if all(map(engine.alike, outcomes, theirs)):
                what = f"cannot be told from {other} by the public cases; add a case that separates them"
                raise Refusal(f"{_shown(master.folder / 'mistakes.py')}: {name} {what}")
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
    """One line for each value or entry of a list, so that a difference can be read."""

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
    stubs = [_read(master.folder / "stub.py") for master in masters]
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


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _without_imports(stub: str) -> str:
    first = next(node for node in ast.parse(stub).body if not _is_import(node))
    return "\n".join(stub.splitlines()[first.lineno - 1 :]).strip()


def _imports(stubs: list[str]) -> str:
    """For the set-up cell: what the stubs import, PyTorch and the check, in the groups that ruff makes."""
    plain, names = {"math", "torch"}, {"llm_anatomy.notebook": {"check", "setup"}}
    for node in filter(_is_import, (node for stub in stubs for node in ast.parse(stub).body)):
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
