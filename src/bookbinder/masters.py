"""Masters: an exercise as its author wrote it, in the folder ``exercises/<chapter>/<name>``, whose path is its id.

:func:`load` reads and validates a master without running anything, so it needs neither PyTorch nor the package.
"""

import ast
import hashlib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bookbinder import ROOT, myst
from bookbinder.syllabus import rows
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
NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}  # that of the public checks


@dataclass(frozen=True)
class Master:
    """One exercise as its author wrote it.

    Args:
        shapes: Type and shape, in words, of each argument and of what is returned ("returns").
        mistakes: Known mistake → the sentence that the student should read.
        points: What a full answer earns when it is graded.
        seconds: How long an answer may run when it is graded, in all cases together.
        forbidden: Names that are reported to a person when an answer uses them, such as "torch.softmax".
        tolerance: ``rtol`` and ``atol`` for grading.
        probes: Probe → what it shows, in words for the student.
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
        """The tag of its cell in the student's notebook."""
        return f"exercise-{self.folder.name}"

    @property
    def code(self) -> str:
        """Its cell in the student's notebook: the stub and its check."""
        return f'{without_imports(read(self.folder / "stub.py"))}\n\n\ncheck("{self.id}", {self.function})'

    @property
    def arguments(self) -> list[str]:
        return [name for name in self.shapes if name != "returns"]

    @property
    def hash(self) -> str:
        """A hash of everything that the public checks are made from."""
        names = ["exercise.md", *(f"{name}.py" for name in CODE if name != "hidden")]
        texts = "\0".join((self.folder / name).read_text(encoding="utf-8") for name in names)
        return hashlib.sha256(texts.encode()).hexdigest()[:16]

    def run(self, name: str) -> dict:
        """Run one of the master's Python files, which may import PyTorch, and return what it defines."""
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


def load(folder: Path) -> Master:
    """The master in a folder.

    Raises:
        Refusal: It is incomplete or contradicts itself; the message names the file and what is wrong in it.
    """
    header, sections = _statement(folder / "exercise.md")
    trees = {name: _parse(folder / f"{name}.py") for name in CODE}
    function = header["function"]
    stub, solution = (_function(folder / f"{name}.py", trees[name], function) for name in ("stub", "solution"))
    if ast.unparse(stub.args) != ast.unparse(solution.args) or ast.dump(stub.returns) != ast.dump(solution.returns):
        raise defect(folder / "stub.py", f"the signature of {function} differs from that in solution.py")
    if ast.unparse(stub.body[-1]) != "raise NotImplementedError":
        raise defect(folder / "stub.py", f"{function} must end in `raise NotImplementedError`")
    for name in ("checks", "hidden"):
        if "cases" not in _functions(trees[name]):
            raise defect(folder / f"{name}.py", "the function cases(generator) is missing")
    arguments = [argument.arg for argument in stub.args.args]
    checks = _functions(trees["checks"])
    if not any(name.startswith("property_") for name in checks):
        raise defect(folder / "checks.py", "a function property_…(answer, generator) is missing")
    if observe := checks.get("observe"):
        _check_arguments(folder / "checks.py", observe, ["returned", *arguments])
        if not ast.get_docstring(observe):
            raise defect(folder / "checks.py", "observe has no docstring, which names what is compared")
    return Master(
        folder,
        **{"points": header["difficulty"]} | header,
        statement=sections["Statement"],
        hints=(sections["Hint 1"], sections["Hint 2"]),
        shapes=_shapes(stub),
        mistakes=_mistakes(folder / "mistakes.py", trees["mistakes"], arguments),
        tolerance=_tolerance(folder / "hidden.py", trees["hidden"]),
        probes=_probes(folder / "probes.py", arguments),
    )


def shown(path: Path) -> str:
    """A file of a master as messages name it: chapter, exercise and file."""
    return "/".join(path.parts[-3:])


def defect(path: Path, words: str) -> Refusal:
    """The error that says what is wrong in a file of a master."""
    return Refusal(f"{shown(path)}: {words}")


def read(path: Path) -> str:
    if not path.is_file():
        raise defect(path, "the file is missing")
    return path.read_text(encoding="utf-8")


def _text(value) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_text, value))


def _above_zero(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _names(value) -> bool:
    return _texts(value) and all(part.isidentifier() for name in value for part in name.split("."))


FIELDS = {
    "title": (_text, "a text"),
    "items": (_texts, "a list of items of the lectures, such as [UCL-17]"),
    "function": (lambda value: _text(value) and value.isidentifier(), "the name of the function to write"),
    "difficulty": (lambda value: value in (1, 2, 3), "1, 2 or 3"),
    "importance": (lambda value: value in (1, 2, 3), "1, 2 or 3"),
    "minutes": (lambda value: isinstance(value, int) and value > 0, "a whole number above 0"),
}
FOR_GRADING = {  # may be missing
    "points": (_above_zero, "a number above 0"),
    "seconds": (_above_zero, "a number above 0"),
    "forbidden": (_names, "a list of names, such as [torch.softmax]"),
}
FIELDS_OF_CHAPTER = {
    "title": (_text, "a text"),
    "order": (_texts, "the list of the chapter's exercises in their order"),
}


def _check_fields(path: Path, values: dict[str, Any], needed: dict, optional: dict) -> None:
    allowed = needed | optional
    for name in values:
        if name not in allowed:
            raise defect(path, f"the header has a field {name}, but allowed are {', '.join(allowed)}")
    for name, (is_allowed, words) in allowed.items():
        if name in needed and name not in values:
            raise defect(path, f"the field {name} is missing; it must be {words}")
        if name in values and not is_allowed(values[name]):
            raise defect(path, f"the field {name} is {values[name]!r}; it must be {words}")


def _statement(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Header and sections of an exercise.md."""
    text = read(path)
    if not text.startswith("---\n"):
        raise defect(path, "a header between two lines of --- is missing")
    header, sections = myst.header(text, shown(path)), myst.sections(text)
    _check_fields(path, header, FIELDS, FOR_GRADING)
    for item in header["items"]:
        if item not in rows(ROOT, "syllabus_items.csv"):
            raise defect(path, f"{item} is not an item of the lectures")
    for title in (*SECTIONS, *sections):
        if title not in SECTIONS:
            raise defect(path, f"the section “{title}” is not one of {', '.join(SECTIONS)}")
        if not sections.get(title):
            raise defect(path, f"the section “{title}” is missing or empty")
    return header, sections


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(read(path))
    except SyntaxError as e:
        raise defect(path, f"line {e.lineno} is not Python: {e.msg}") from e


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _function(path: Path, tree: ast.Module, name: str) -> ast.FunctionDef:
    node = _functions(tree).get(name)
    if node is None:
        raise defect(path, f"the function {name} is missing")
    if not ast.get_docstring(node):
        raise defect(path, f"{name} has no docstring")
    for argument in node.args.args:
        if argument.annotation is None:
            raise defect(path, f"the argument {argument.arg} of {name} has no type with its shape")
    if node.returns is None:
        raise defect(path, f"{name} has no return type with its shape")
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


def _check_arguments(path: Path, function: ast.FunctionDef, names: list[str]) -> None:
    if [argument.arg for argument in function.args.args] != names:
        raise defect(path, f"{function.name} must take the arguments {', '.join(names)}")


def _sentences(path: Path, functions: Iterable[ast.FunctionDef]) -> dict[str, str]:
    """The docstrings of functions, which the student reads."""
    for function in functions:
        if not ast.get_docstring(function):
            raise defect(path, f"{function.name} has no sentence for the student, which is its docstring")
    return {function.name: " ".join(ast.get_docstring(function).split()) for function in functions}


def _public(tree: ast.Module) -> list[ast.FunctionDef]:
    return [function for name, function in _functions(tree).items() if not name.startswith("_")]


def _mistakes(path: Path, tree: ast.Module, arguments: list[str]) -> dict[str, str]:
    for function in _public(tree):
        _check_arguments(path, function, arguments)
    mistakes = _sentences(path, _public(tree))
    if len(mistakes) < FEWEST_MISTAKES:
        raise defect(path, f"{len(mistakes)} mistakes, but at least {FEWEST_MISTAKES} are needed")
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
                said = ast.unparse(node.value)
                raise defect(path, f"TOLERANCE is {said}; it must hold rtol and atol, each a number above 0")
            return value
    return dict(TOLERANCE)


def _probes(path: Path, arguments: list[str]) -> dict[str, str]:
    """The probes, each with its sentence, of the one file that may be missing."""
    functions = _public(_parse(path)) if path.exists() else []
    if path.exists() and not functions:
        raise defect(path, "a function call(answer, …) or probe_…(answer, …) is missing")
    for function in functions:
        if function.name != "call" and not function.name.startswith("probe_"):
            raise defect(path, f"{function.name} must be named call, probe_… or, if it only helps, _…")
        _check_arguments(path, function, ["answer", *arguments])
    return _sentences(path, [function for function in functions if function.name != "call"])


def load_chapter(folder: Path) -> tuple[str, list[Master]]:
    """Title and masters of a chapter's folder, in the order that its chapter.yml gives."""
    path = folder / "chapter.yml"
    header = myst.header(f"---\n{read(path)}\n---\n", shown(path))
    _check_fields(path, header, FIELDS_OF_CHAPTER, {})
    found = sorted(
        child.name for child in folder.iterdir() if child.is_dir() and not child.name.startswith((".", "__"))
    )
    if sorted(header["order"]) != found:
        raise defect(path, f"order lists {header['order']}, but the folders here are {found}")
    for name in (folder.name, *found):  # they become parts of ids and tags
        if not NAME.fullmatch(name):
            raise defect(path, f"the folder name {name!r} must be up to 50 letters, digits, - and _")
    masters = [load(folder / name) for name in header["order"]]
    functions = [master.function for master in masters]
    for function in functions:
        if functions.count(function) > 1:  # they share one notebook
            raise defect(path, f"{functions.count(function)} exercises ask for a function {function}")
    return header["title"], masters


def chapters(root: Path = ROOT) -> dict[str, tuple[str, list[Master]]]:
    """All chapters with exercises: folder name → title and masters."""
    folders = sorted(path.parent for path in (root / "exercises").glob("*/chapter.yml"))
    strays = {path.parents[1] for path in (root / "exercises").glob("*/*/exercise.md")} - set(folders)
    return {folder.name: load_chapter(folder) for folder in sorted(strays.union(folders))}


def is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def without_imports(stub: str) -> str:
    first = next(node for node in ast.parse(stub).body if not is_import(node))
    return "\n".join(stub.splitlines()[first.lineno - 1 :]).strip()
