"""Read the source version of an nbgrader assignment: notebooks whose cells have metadata ``nbgrader``.

Answers are the cells with ``solution``; the tests are the cells with ``grade`` that are no answers. A cell with both,
or with ``task``, is graded by hand.
"""

import re
from pathlib import Path

from groundwork import Refusal
from llm_grader.importers.assignment import (
    Assignment,
    Cell,
    Notebook,
    Question,
    Test,
    find_notebooks,
    given_names,
    without_magics,
)

NEWEST_SCHEMA = 3
NOT_SOURCES = {"release", "submitted", "autograded", "feedback", "downloaded"}
MARKER = re.compile(r"^\s*###? *(BEGIN|END) (SOLUTION|HIDDEN TESTS)\s*$")
AUTOTEST = re.compile(r"^(\s*)###? *(?:HASHED )?AUTOTEST (.*?);*\s*$")


def read(folder: Path) -> Assignment:
    """Read an assignment.

    Args:
        folder: the assignment's folder, such as ``source/ps1``, a notebook, or a course that has one assignment.

    Raises:
        Refusal: there is no assignment, there are several, or a notebook cannot be read.
    """
    if (folder / "source").is_dir():
        folder = folder / "source"
    notebooks = []
    for path, found in find_notebooks(folder):
        inside = path.relative_to(folder).parts[:-1] if folder.is_dir() else ()
        if not NOT_SOURCES.intersection(inside) and any("nbgrader" in cell.metadata for cell in found.cells):
            notebooks.append(_read_notebook(path, found.cells))
    if not notebooks:
        raise Refusal(f"{folder} holds no notebook with cells of nbgrader.")
    parents = sorted({notebook.path.parent for notebook in notebooks})
    if len(parents) > 1:
        raise Refusal(f"{folder} holds several assignments; name one of {', '.join(map(str, parents))}.")
    return Assignment(parents[0].name if folder.is_dir() else folder.stem, notebooks)


def _read_notebook(path: Path, cells: list) -> Notebook:
    notebook, markdown, tested = Notebook(path), [], True
    for number, cell in enumerate(cells, 1):
        about = cell.metadata.get("nbgrader", {})
        if (version := about.get("schema_version", 0)) > NEWEST_SCHEMA or (about and version < 1):
            raise Refusal(
                f"{path}: cell {number} has schema version {version} of nbgrader; versions 1 to {NEWEST_SCHEMA} can be "
                "read. The command `nbgrader update` renews older ones."
            )
        name, points = about.get("grade_id") or f"cell {number}", float(about.get("points") or 0)
        if about.get("task") or (about.get("solution") and about.get("grade")):
            statement = [*markdown, cell.source] if about.get("task") else markdown
            by_hand = Question(name, statement, reason="it is graded by hand", points=points)
            notebook.questions.append(by_hand)
            if cell.cell_type == "code":  # later cells may use what it defines
                complete, _ = _versions(cell.source)
                notebook.cells.append(Cell("solution", complete, len(notebook.questions) - 1))
            markdown, tested = [], True
        elif cell.cell_type == "markdown":
            markdown.append(cell.source)
        elif cell.cell_type != "code":
            continue
        elif about.get("solution"):
            complete, student = _versions(cell.source)
            if tested or markdown:  # otherwise a second cell of the same answer
                notebook.questions.append(Question(name, markdown))
            notebook.questions[-1].given |= given_names(complete, student)
            notebook.cells.append(Cell("solution", complete, len(notebook.questions) - 1))
            markdown, tested = [], False
        elif about.get("grade"):
            if not notebook.questions:
                notebook.questions.append(Question(name, reason="it has no cell for an answer"))
            notebook.add_test(len(notebook.questions) - 1, *_test(cell.source, points))
            notebook.questions[-1].points += points
            notebook.questions[-1].statement += markdown  # what stands between an answer and its tests
            markdown, tested = [], True
        else:
            notebook.cells.append(Cell("given", without_magics(cell.source)))
    return notebook


def _versions(source: str) -> tuple[str, str]:
    """Return an answer's cell as the instructor wrote it, without marks, and as students get it."""
    complete, student, inside = [], [], False
    for line in without_magics(source).split("\n"):
        if marker := MARKER.match(line):
            inside = marker[1] == "BEGIN"
            student += [re.sub(r"\S.*", "raise NotImplementedError", line)] if inside else []
        else:
            complete.append(line)
            student += [] if inside else [line]
    # without marks, the whole cell is the solution
    return "\n".join(complete), "\n".join(student) if len(complete) != len(source.split("\n")) else ""


def _test(source: str, points: float) -> tuple[Cell, Test]:
    lines, visible, hidden, inside, shows = [], [], [], False, False
    for line in without_magics(source).split("\n"):
        if marker := MARKER.match(line):
            inside = marker[1] == "BEGIN"
            continue
        if found := AUTOTEST.match(line):
            line, shows = f"{found[1]}{found[2]}", True
        lines.append(line)
        if inside:
            hidden.append(len(lines))
        else:
            visible.append(line)
    return Cell("test", "\n".join(lines), hidden=hidden, shows=shows), Test(points, "\n".join(visible).strip())
