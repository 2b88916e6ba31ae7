"""Masters: an exercise as its author wrote it, in the folder ``exercises/<chapter>/<name>``, whose path is its id.

A master has three files: ``exercise.md`` is what the student reads, ``exercise.py`` holds the solution and everything
that an answer is tried on, ``mistakes.py`` is the catalogue of known mistakes. :func:`load` reads and validates them
without running anything, so it needs neither PyTorch nor the package.

The book's masters are complete. A private master, of a course that is marked, may be as small as a title, a statement,
a solution and its hidden cases; what else it has is checked as the book's is.
"""

import ast
import copy
import hashlib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

from bookbinder import ROOT, myst
from bookbinder.syllabus import rows
from groundwork import Refusal

FILES = ("exercise.md", "exercise.py", "mistakes.py")
HINTS = ("Hint 1", "Hint 2")
SECTIONS = ("Statement", *HINTS)
MORE_SECTIONS = ("Figure", "Explanation")  # may be missing
FEWEST_MISTAKES, FEWEST_ACCEPTED = 4, 2
WORK = {  # kind of exercise → what the student's page calls it
    "write": "",
    "debug": "Find the mistake",
    "predict": "Predict, then read why",
    "decide": "Measure and decide",
    "figure": "Read the figure",
    "data": "Decide from the data",
    "config": "Find the error in a config",
    "table": "Repair the table",
}
KINDS = {"Float": "floats", "Int": "integers", "Bool": "booleans"}
SCALARS = {"Float": "a number", "Int": "a whole number", "Bool": "True or False"}
DTYPES = ("float32", "int64")
PLAIN = {
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "str": "a string",
    "list[int]": "a list of whole numbers",
    "list[float]": "a list of numbers",
    "list[str]": "a list of strings",
    "list[tuple[str, str]]": "a list of pairs of strings",
    "dict[str, int]": "a dictionary of whole numbers",
    "dict[str, float]": "a dictionary of numbers",
    "dict": "a dictionary",
    "dict[str, Tensor]": "a dictionary of tensors",
    "Module": "a PyTorch module",
}
NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}  # that of the public checks
CHECKED_AGAIN = 4  # raised when the same master makes other public checks than before


@dataclass(frozen=True)
class Master:
    """One exercise as its author wrote it.

    Args:
        source: The text of ``exercise.py``.
        core: Whether it belongs to the chapter's core, which most readers should do.
        kind: What it asks for, one of :data:`WORK`.
        difficulty: 1 to 3, like the importance; 0, like the minutes, where a private master does not say it.
        checked: Whether it has ``cases``, and so a public check.
        dtype: The argument whose dtype the result must have, or one of :data:`DTYPES`; empty where it does not matter.
        shapes: Type and shape, in words, of each argument and of what is returned ("returns"); empty where not said.
        dimensions: Argument → the names of its axes, such as ``["n_keys", "d_head"]``.
        accepted: Names of the other correct solutions.
        mistakes: Known mistake → the sentence that the student should read.
        figure: Code that draws what the student looks at, or empty.
        explanation: What the student reads after the exercise was passed, or empty.
        points: What a full answer earns when it is graded.
        seconds: How long an answer may run when it is graded, in all cases together.
        forbidden: Functions that an answer must do without, such as "torch.softmax".
        tolerance: ``rtol`` and ``atol`` for grading.
        probes: Probe → what it shows, in words for the student.
    """

    folder: Path
    source: str
    title: str
    function: str
    statement: str
    hints: list[str]
    shapes: dict[str, str]
    dimensions: dict[str, list[str]]
    accepted: list[str]
    mistakes: dict[str, str]
    points: float
    checked: bool
    items: list[str] = field(default_factory=list)
    difficulty: int = 0
    importance: int = 0
    minutes: int = 0
    core: bool = True
    kind: str = "write"
    dtype: str = ""
    figure: str = ""
    explanation: str = ""
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
    def stub(self) -> str:
        """What the student gets: the solution's signature and docstring or, to be mended, the function ``broken``."""
        functions = _functions(parsed(self.source))
        if self.kind == "debug":
            code = written(self.source, functions["broken"])
            return re.sub(r"\bbroken\b", self.function, code, count=1)
        node = functions[self.function]
        first, *others = node.body
        if ast.get_docstring(node) and all(other.lineno > (first.end_lineno or 0) for other in others):
            lines = self.source.splitlines()[node.lineno - 1 : first.end_lineno]
            return "\n".join([*lines, "    raise NotImplementedError"])
        bare = copy.copy(node)
        bare.body, bare.decorator_list = ast.parse("raise NotImplementedError").body, []
        return ast.unparse(bare)

    @property
    def code(self) -> str:
        """Its cell in the student's notebook: the stub and its check, if it has one."""
        return f'{self.stub}\n\n\ncheck("{self.id}", {self.function})' if self.checked else self.stub

    @property
    def imports(self) -> list[ast.stmt]:
        """The imports that the student's code may need: those of the solution and of the code to mend."""
        return [node for node in parsed(self.solution).body if is_import(node)]

    @property
    def arguments(self) -> list[str]:
        return [name for name in self.shapes if name != "returns"]

    # The parts of exercise.py, each with all that it needs and nothing else

    @property
    def solution(self) -> str:
        return part(self.source, {self.function, "broken"})

    @property
    def checks(self) -> str:
        """The part that is shipped: properties and ``observe``."""
        return part(self.source, _names_of(self.source, "property_") | {"observe"})

    @property
    def hidden(self) -> str:
        return part(self.source, {"hidden_cases"})

    @property
    def probing(self) -> str:
        return part(self.source, _names_of(self.source, "probe_") | {"call"})

    @property
    def catalogue(self) -> str:
        """The known mistakes as source, which may be empty."""
        path = self.folder / "mistakes.py"
        return read(path) if self.mistakes else ""

    @property
    def hash(self) -> str:
        """A hash of everything that the public checks are made from."""
        statement, cases = read(self.folder / "exercise.md"), part(self.source, {"cases"})
        texts = (str(CHECKED_AGAIN), statement, self.solution, self.checks, cases, self.catalogue)
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]

    def run(self, source: str | None = None) -> dict:
        """Run a part of ``exercise.py``, all of it by default, and return what it defines."""
        return _run(self.folder / "exercise.py", source or self.source)

    def right(self) -> dict[str, Callable]:
        """The solution and the other correct solutions, as functions."""
        namespace = self.run()
        return {name: namespace[name] for name in (self.function, *self.accepted)}

    def given(self) -> Callable:
        """The code that the student is given, as a function."""
        needed = self.run(self.solution)
        exec(compile(self.stub, "stub", "exec"), needed)
        return needed[self.function]

    def wrong(self) -> dict[str, Callable]:
        """The known mistakes, as functions."""
        namespace = _run(self.folder / "mistakes.py", self.catalogue)
        return {name: namespace[name] for name in self.mistakes}

    def cases(self, name: str = "cases", seed: int = 0) -> list[dict]:
        """The cases, or the ``hidden_cases``; for one seed the same on each call."""
        import torch

        path, draw = self.folder / "exercise.py", self.run()[name]
        try:
            return draw(torch.Generator().manual_seed(seed))
        except Exception as e:
            raise defect(path, f"{name} raises {type(e).__name__}: {e}") from e


def _run(path: Path, source: str) -> dict:
    namespace = {"__name__": path.stem}
    try:
        exec(_compiled(source, str(path)), namespace)
    except Exception as e:
        raise defect(path, f"it cannot be run: {type(e).__name__}: {e}") from e
    return namespace


@lru_cache(maxsize=64)
def _compiled(source: str, path: str) -> CodeType:
    return compile(source, path, "exec")


@lru_cache(maxsize=64)
def parsed(source: str) -> ast.Module:
    """The syntax tree of a module, which nobody changes: a master is asked for several parts of the same text."""
    return ast.parse(source)


def part(source: str, names: set[str]) -> str:
    """The statements of a module that define these names and everything that they use, in their order."""
    return _part(source, frozenset(names))


@lru_cache(maxsize=256)
def _part(source: str, names: frozenset[str]) -> str:
    tree = parsed(source)
    definitions = {name: node for node in tree.body for name in bound(node)}
    needed, ahead = set(), [name for name in definitions if name in names]
    while ahead:
        name = ahead.pop()
        if name not in needed:
            needed.add(name)
            used = {node.id for node in ast.walk(definitions[name]) if isinstance(node, ast.Name)}
            ahead += used & definitions.keys()
    imports, others = [], []
    for node in tree.body:
        if is_import(node):
            kept = copy.copy(node)
            kept.names = [alias for alias in node.names if (alias.asname or alias.name).partition(".")[0] in needed]
            imports += [ast.unparse(kept)] if kept.names else []
        elif needed.intersection(bound(node)):
            others.append(written(source, node))
    texts = (["\n".join(imports)] if imports else []) + others
    return "\n\n\n".join(texts) + "\n" if texts else ""


def bound(node: ast.stmt) -> list[str]:
    """The names that a statement at the top level binds."""
    if is_import(node):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]


def written(source: str, node: ast.stmt) -> str:
    """The lines of a statement as they stand in the source, with its decorators."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def _names_of(source: str, prefix: str) -> set[str]:
    return {name for name in _functions(parsed(source)) if name.startswith(prefix)}


def load(folder: Path, core: bool = True, private: bool = False) -> Master:
    """The master in a folder.

    Args:
        private: Whether it is one of a course's own, which needs less than the book's.

    Raises:
        Refusal: It is incomplete or contradicts itself; the message names the file and what is wrong in it.
    """
    header, sections = _statement(folder / "exercise.md", private)
    path, function = folder / "exercise.py", header["function"]
    tree, kind = _parse(path), header.get("kind", "write")
    functions = _functions(tree)
    solution = _function(path, functions, function, documented=not private, typed=not private)
    if len(arguments := [argument.arg for argument in solution.args.args]) < len(_all_arguments(solution)):
        raise defect(path, f"{function} must take plain arguments, without * and /")
    accepted = [name for name in functions if name.startswith("accepted_")]
    for name in ("hidden_cases",) if private else ("cases", "hidden_cases"):
        if name not in functions:
            raise defect(path, f"the function {name}(generator) is missing")
    for name in functions.keys() & {"cases", "hidden_cases"}:
        if len(_all_arguments(functions[name])) != 1:
            raise defect(path, f"{name} must take one argument, the generator from which it draws")
    if len(accepted) < FEWEST_ACCEPTED and not private:
        words = "accepted_…, other correct solutions, are needed"
        raise defect(path, f"{len(accepted)} functions {words}; at least {FEWEST_ACCEPTED}")
    for name in (*accepted, *(["broken"] if kind == "debug" else [])):
        _check_arguments(path, _function(path, functions, name, documented=not private), arguments)
    if not any(name.startswith("property_") for name in functions) and kind == "write" and not private:
        raise defect(path, "a function property_…(answer, generator) is missing")
    if observe := functions.get("observe"):
        _check_arguments(path, observe, ["returned", *arguments])
        if not ast.get_docstring(observe):
            raise defect(path, "observe has no docstring, which names what is compared")
    if (dtype := header.get("dtype", "")) and dtype not in (allowed := [*arguments, *DTYPES]):
        raise defect(folder / "exercise.md", f"the field dtype is {dtype!r}; it must be one of {', '.join(allowed)}")
    master = Master(
        folder,
        read(path),
        **{"points": header.get("difficulty", 1), "core": core} | header,
        statement=sections["Statement"],
        hints=[sections[title] for title in HINTS if title in sections],
        figure=_code(sections.get("Figure", "")),
        explanation=" ".join(sections.get("Explanation", "").split()),
        shapes=_shapes(solution, dtype),
        dimensions=_dimensions(solution),
        accepted=accepted,
        checked="cases" in functions,
        mistakes=_mistakes(folder / "mistakes.py", arguments, private),
        tolerance=_tolerance(path, tree),
        probes=_probes(path, functions, arguments),
    )
    if dtype and f"`{dtype}`" not in (stated := master.shapes["returns"].replace("torch.", "")):
        raise defect(folder / "exercise.md", f"the field dtype is {dtype!r}, but no result can have it: {stated}")
    if kind == "figure" and (arguments or observe is None) and not private:
        words = "reads a figure, so it takes no arguments and needs a function observe, which judges each part"
        raise defect(path, f"{function} {words}")
    kept_back = {function, "broken", "hidden_cases", *accepted, *_names_of(master.source, "probe_"), "call"}
    if shipped := kept_back.intersection(_functions(parsed(master.checks))):
        raise defect(path, f"what is shipped, properties and observe, uses {', '.join(sorted(shipped))}, which is not")
    return master


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
    "function": (lambda value: _text(value) and value.isidentifier(), "the name of the function to write"),
}
FIELDS_OF_BOOK = {  # may be missing in a private master
    "items": (_texts, "a list of items of the lectures, such as [UCL-17]"),
    "difficulty": (lambda value: value in (1, 2, 3), "1, 2 or 3"),
    "importance": (lambda value: value in (1, 2, 3), "1, 2 or 3"),
    "minutes": (lambda value: isinstance(value, int) and value > 0, "a whole number above 0"),
}
MORE_FIELDS = {  # may be missing everywhere
    "kind": (lambda value: value in WORK, f"one of {', '.join(WORK)}"),
    "dtype": (_text, "the argument whose dtype the result must have, or float32 or int64"),
    "points": (_above_zero, "a number above 0"),
    "seconds": (_above_zero, "a number above 0"),
    "forbidden": (_names, "a list of names, such as [torch.softmax]"),
}
FIELDS_OF_CHAPTER = {"title": (_text, "a text")}
CORE_OF_CHAPTER = {"core": (_texts, "the list of the exercises that most readers should do, in their order")}
MORE_FIELDS_OF_CHAPTER = {"optional": (_texts, "the list of the others, in their order")}


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


def _statement(path: Path, private: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Header and sections of an exercise.md."""
    text = read(path)
    if not text.startswith("---\n"):
        raise defect(path, "a header between two lines of --- is missing")
    header, sections = myst.header(text, shown(path)), myst.sections(text)
    needed, optional = (FIELDS, FIELDS_OF_BOOK) if private else (FIELDS | FIELDS_OF_BOOK, {})
    _check_fields(path, header, needed, optional | MORE_FIELDS)
    for item in header.get("items", []):
        if not private and item not in rows(ROOT, "syllabus_items.csv"):
            raise defect(path, f"{item} is not an item of the lectures")
    for title in (*(SECTIONS[:1] if private else SECTIONS), *sections):
        if title not in SECTIONS + MORE_SECTIONS:
            raise defect(path, f"the section “{title}” is not one of {', '.join(SECTIONS + MORE_SECTIONS)}")
        if not sections.get(title):
            raise defect(path, f"the section “{title}” is missing or empty")
    return header, sections


def _parse(path: Path) -> ast.Module:
    try:
        return parsed(read(path))
    except SyntaxError as e:
        raise defect(path, f"line {e.lineno} is not Python: {e.msg}") from e


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _all_arguments(function: ast.FunctionDef) -> list[ast.arg]:
    """The arguments of every kind."""
    return [node for node in ast.walk(function.args) if isinstance(node, ast.arg)]


def _function(
    path: Path, functions: dict[str, ast.FunctionDef], name: str, documented: bool = True, typed: bool = False
) -> ast.FunctionDef:
    node = functions.get(name)
    if node is None:
        raise defect(path, f"the function {name} is missing")
    if documented and not ast.get_docstring(node):
        raise defect(path, f"{name} has no docstring")
    for argument in node.args.args if typed else []:
        if argument.annotation is None:
            raise defect(path, f"the argument {argument.arg} of {name} has no type with its shape")
    if typed and node.returns is None:
        raise defect(path, f"{name} has no return type with its shape")
    return node


COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}
TENSOR = re.compile(rf"({'|'.join(KINDS)})\[Tensor, '([^']*)'\]")


def _shapes(solution: ast.FunctionDef, dtype: str) -> dict[str, str]:
    """In words: Float[Tensor, "n_keys d_head"] is "floats, (n_keys, d_head)".

    The dtype is said of each result that can have it: of a tensor, and of none whose numbers are of another kind.
    """
    kinds = {argument.arg: TENSOR.fullmatch(_typed(argument.annotation)) for argument in solution.args.args}
    kind = {"float32": "Float", "int64": "Int"}.get(dtype) or (match[1] if (match := kinds.get(dtype)) else "")
    stated = f", `torch.{dtype}`" if dtype in DTYPES else f", in the dtype of `{dtype}`" if dtype else ""

    def words(annotation: ast.expr | None, stated: str = "") -> str:
        match annotation:
            case ast.Subscript(ast.Name("tuple"), ast.Tuple(parts)) if len(parts) in COUNTS:
                return f"{COUNTS[len(parts)]} results: {'; '.join(words(part, stated) for part in parts)}"

        def shape(match: re.Match) -> str:
            sizes = match[2].split()
            axes = f"{KINDS[match[1]]}, ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
            return (axes if sizes else SCALARS[match[1]]) + (stated if kind in ("", match[1]) else "")

        if (typed := _typed(annotation)) in PLAIN:
            return PLAIN[typed] + (stated if "Tensor" in typed else "")
        return TENSOR.sub(shape, typed) if typed else stated.removeprefix(", ")

    arguments = {argument.arg: words(argument.annotation) for argument in solution.args.args}
    return arguments | {"returns": words(solution.returns, stated)}


def _typed(annotation: ast.expr | None) -> str:
    return ast.unparse(annotation) if annotation else ""


def _dimensions(solution: ast.FunctionDef) -> dict[str, list[str]]:
    """Argument → names of its axes, for the arguments that are tensors of a fixed number of axes."""
    found = {a.arg: TENSOR.fullmatch(ast.unparse(a.annotation)) for a in solution.args.args if a.annotation}
    named = {name: match[2].split() for name, match in found.items() if match}
    return {name: axes for name, axes in named.items() if all(axis.isidentifier() for axis in axes)}


def _code(section: str) -> str:
    """The code of a section that holds a block of code."""
    return next((node.content.rstrip() for node in myst.nodes(section) if node.type == "fence"), "")


def _check_arguments(path: Path, function: ast.FunctionDef, names: list[str]) -> None:
    if [argument.arg for argument in function.args.args] != names:
        raise defect(path, f"{function.name} must take the arguments {', '.join(names)}")


def _sentences(path: Path, functions: Iterable[ast.FunctionDef]) -> dict[str, str]:
    """The docstrings of functions, which the student reads."""
    for function in functions:
        if not ast.get_docstring(function):
            raise defect(path, f"{function.name} has no sentence for the student, which is its docstring")
    return {function.name: " ".join(ast.get_docstring(function).split()) for function in functions}


def _mistakes(path: Path, arguments: list[str], private: bool) -> dict[str, str]:
    if private and not path.exists():
        return {}
    functions = [function for name, function in _functions(_parse(path)).items() if not name.startswith("_")]
    for function in functions:
        _check_arguments(path, function, arguments)
    mistakes = _sentences(path, functions)
    if len(mistakes) < FEWEST_MISTAKES and not private:
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


def _probes(path: Path, functions: dict[str, ast.FunctionDef], arguments: list[str]) -> dict[str, str]:
    """The probes, each with its sentence."""
    probes = [function for name, function in functions.items() if name.startswith("probe_")]
    for function in [*probes, *([functions["call"]] if "call" in functions else [])]:
        _check_arguments(path, function, ["answer", *arguments])
    return _sentences(path, probes)


def chapter_header(folder: Path, private: bool = False) -> dict[str, Any]:
    """What a chapter's chapter.yml holds: the title, and which exercises are core and which are optional."""
    path = folder / "chapter.yml"
    header = myst.header(f"---\n{read(path)}\n---\n", shown(path))
    needed, optional = (FIELDS_OF_CHAPTER, CORE_OF_CHAPTER) if private else (FIELDS_OF_CHAPTER | CORE_OF_CHAPTER, {})
    _check_fields(path, header, needed, optional | MORE_FIELDS_OF_CHAPTER)
    return header


def load_chapter(folder: Path, private: bool = False) -> tuple[str, list[Master]]:
    """Title and masters of a chapter's folder, in the order that its chapter.yml gives: the core, then the others.

    The core of a private course that names none is all that is not optional, in the order of the names.
    """
    path, header = folder / "chapter.yml", chapter_header(folder, private)
    found = sorted(
        child.name for child in folder.iterdir() if child.is_dir() and not child.name.startswith((".", "__"))
    )
    if "data" in found and not (folder / "data" / "exercise.md").exists():
        found.remove("data")  # files for students' code, see llm_grader.provisions
    optional = header.get("optional", [])
    core = header.get("core") or [name for name in found if name not in optional]
    if sorted(order := [*core, *optional]) != found:
        raise defect(path, f"core and optional list {order}, but the folders here are {found}")
    if not found:
        raise defect(path, "there is no exercise, which is a folder beside this file")
    for name in (folder.name, *found):  # they become parts of ids and tags
        if not NAME.fullmatch(name):
            raise defect(path, f"the folder name {name!r} must be up to 50 letters, digits, - and _")
    masters = [load(folder / name, name in core, private) for name in order]
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
