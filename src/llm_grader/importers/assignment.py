"""What both readers make of an assignment: its questions, and its cells in the order in which they run."""

import ast
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from bookbinder import masters, myst
from groundwork import Refusal


@dataclass
class Test:
    """A test of a question.

    Args:
        points: what it is worth.
        visible: the part that students see, as code.
    """

    points: float
    visible: str = ""


@dataclass
class Question:
    """A question of an assignment.

    Args:
        name: its name in the assignment.
        statement: the Markdown that asks for it.
        given: names that its solution binds and that students are given.
        tests: its tests.
        reason: why it cannot be carried over, if the reader knows already.
        points: its points; by default the sum of those of its tests.
    """

    name: str
    statement: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    tests: list[Test] = field(default_factory=list)
    reason: str = ""
    points: float = 0


@dataclass
class Cell:
    """A code cell.

    Args:
        role: "given", "solution" or "test".
        source: its code, without what only concerns the tool.
        question: index of its question; -1 for a given cell.
        test: index of the test in its question.
        hidden: numbers of the lines that students do not see.
        shows: whether the test compares what the cell displays, and not only whether it raises an error.
    """

    role: str
    source: str
    question: int = -1
    test: int = -1
    hidden: list[int] = field(default_factory=list)
    shows: bool = False


@dataclass
class Notebook:
    """A notebook of an assignment."""

    path: Path
    questions: list[Question] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)

    def add_test(self, question: int, cell: Cell, test: Test) -> None:
        """Add a test of a question and the cell that runs it."""
        cell.question, cell.test = question, len(self.questions[question].tests)
        self.questions[question].tests.append(test)
        self.cells.append(cell)


@dataclass
class Assignment:
    """An assignment, and how it is called."""

    title: str
    notebooks: list[Notebook]


def find_notebooks(folder: Path) -> Iterator[tuple[Path, nbformat.NotebookNode]]:
    """Yield the Python notebooks in a folder, or the notebook itself.

    Raises:
        Refusal: there is no such folder, or a notebook in it cannot be read.
    """
    if not folder.exists():
        raise Refusal(f"There is no folder {folder}.")
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*.ipynb"))
    for path in paths:
        if ".ipynb_checkpoints" in path.parts:
            continue
        try:
            notebook = nbformat.read(path, as_version=4)
            sources = [cell.source for cell in notebook.cells]
        except Exception as e:  # the library raises many kinds
            raise Refusal(f"{path} is not a notebook that can be read ({type(e).__name__}).") from e
        if notebook.metadata.get("kernelspec", {}).get("language", "python").lower() == "python" and any(sources):
            yield path, notebook


def without_magics(source: str) -> str:
    """Return the code of a cell without the lines that only IPython understands."""
    if re.match(r"\s*%%", source):
        first, _, rest = source.lstrip().partition("\n")
        return rest if first.split()[0] in ("%%time", "%%timeit", "%%capture") else ""
    return re.sub(r"^(\s*)([%!?].*)$", r"\1pass  # \2", source, flags=re.MULTILINE)


def bound(source: str) -> set[str]:
    """Return the names that the statements at the top level of some code bind."""
    return {name for node in statements(source) for name in masters.bound(node)}


def given_names(complete: str, student: str) -> set[str]:
    """Return the names that a solution binds only by statements that students are given unchanged."""
    kept = {ast.dump(node) for node in statements(student)}
    names = {True: set(), False: set()}
    for node in statements(complete):
        names[ast.dump(node) in kept].update(masters.bound(node))
    return names[True] - names[False]


def needed(source: str, name: str) -> str:
    """Return the part of some code that defines a name and all that it needs.

    Unlike :func:`bookbinder.masters.part`, this tells a global name from an argument or a local variable of that name.
    """
    nodes = statements(source)
    wanted, ahead = set(), [name]
    while ahead:
        wanted.add(current := ahead.pop())
        for node in nodes:
            if current in masters.bound(node) and not masters.is_import(node):
                ahead += _global_names(node) - wanted
    kept = [node for node in nodes if masters.is_import(node) or wanted.intersection(masters.bound(node))]
    return masters.part("\n".join(masters.written(source, node) for node in kept), wanted)


def _global_names(node: ast.stmt) -> set[str]:
    top = symtable.symtable(ast.unparse(node), "code", "exec")
    found, ahead = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}, top.get_children()
    while ahead:
        table = ahead.pop()
        found |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        ahead += table.get_children()
    return found


def statements(source: str) -> list[ast.stmt]:
    """Return the statements at the top level of some code, and none if it is not Python."""
    try:
        return ast.parse(source).body
    except SyntaxError:
        return []


def plain_markdown(cells: list[str]) -> tuple[str, str, list[str]]:
    """Return the heading of some Markdown cells, their text as a statement, and the pictures it lacks.

    A statement has no headings of its own, so they become bold lines; rules between cells and pictures that lie beside
    the notebook are left out.
    """
    title, texts = "", []
    for text in cells:
        lines, first_heading = text.split("\n"), ""
        for node in reversed(list(myst.nodes(text))):
            if node.level or not node.map:
                continue
            first, last = node.map
            if node.type == "heading":
                words = myst.source(node).strip()
                first_heading = words or first_heading
                lines[first:last] = [f"**{words.replace('**', '')}**", ""] if words else [""]
            elif node.type in ("hr", "myst_block_break"):
                lines[first:last] = [""]
        texts.append("\n".join(lines).strip())
        title = first_heading or title
    statement = "\n\n".join(filter(None, texts))
    local = re.compile(r"!\[[^\]]*\]\((?!https?:)([^)\s]*)[^)]*\)")
    pictures = [match[1].removeprefix("attachment:") for match in local.finditer(statement)]
    return title, local.sub("", statement).replace("![](", "![picture](").strip(), pictures
