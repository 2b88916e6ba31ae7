"""Student notebooks for tests: the real one of the attention chapter, filled in and made untidy.

What takes a notebook and makes one changes what it is given, so that calls can be chained:
``data(without_metadata(filled()))``. Cells are named by their exercise, such as "hard_lookup".
"""

import copy
import json
from functools import cache

from bookbinder import ROOT
from bookbinder.masters import load_chapter
from llm_grader.records import Key, Question

CHAPTER = "attention"


@cache
def key() -> Key:
    """The chapter's questions, with points, times and forbidden names as they might be."""
    title, masters = load_chapter(ROOT / "exercises" / CHAPTER)
    ids = {tag: cell["id"] for cell in blank()["cells"] for tag in cell["metadata"].get("tags", [])}
    questions = []
    for master in masters:
        tag = f"exercise-{master.folder.name}"
        questions.append(
            Question(
                id=master.id,
                title=master.title,
                function=master.function,
                arguments=master.arguments,
                points=float(master.difficulty),
                seconds=2.0,
                tag=tag,
                cell=ids[tag],
                forbidden=["torch.softmax", "softmax"] if master.function == "stable_softmax" else [],
                tolerance={"rtol": 1e-4, "atol": 1e-5},
                dtype=master.dtype,
                given=master.stub if master.kind == "debug" else "",
                solution=master.solution,
                hidden=master.hidden,
                mistakes=(master.folder / "mistakes.py").read_text(encoding="utf-8"),
                sentences=master.mistakes,
                checks=master.checks,
                probes="",
                observed="def observe(" in master.checks,
                calls=False,
                gradients="def property_gradient(" in master.checks,
                version="1",
            )
        )
    return Key(CHAPTER, title, questions)


def blank() -> dict:
    """The notebook as a student gets it."""
    return json.loads((ROOT / "book" / CHAPTER / "exercises.ipynb").read_text(encoding="utf-8"))


def data(notebook: dict) -> bytes:
    """As Jupyter saves it."""
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def solution(exercise: str) -> str:
    """The reference's function, as a student might have written it: without the imports above it."""
    question = next(q for q in key().questions if q.function == exercise)
    return question.solution[question.solution.index(f"def {exercise}") :].strip()


def filled(*exercises: str) -> dict:
    """The notebook with these exercises solved; without names, with all."""
    notebook = blank()
    for question in key().questions:
        if not exercises or question.function in exercises:
            answer(notebook, question.function, solution(question.function))
    return notebook


def position(notebook: dict, exercise: str) -> int:
    """Index of an exercise's own cell among all cells."""
    tag = f"exercise-{exercise}"
    return next(i for i, cell in enumerate(notebook["cells"]) if tag in cell["metadata"].get("tags", []))


def number(notebook: dict, exercise: str) -> int:
    """Which code cell an exercise's own is, counted from 1."""
    cells = notebook["cells"][: position(notebook, exercise) + 1]
    return sum(cell["cell_type"] == "code" for cell in cells)


def own(notebook: dict, exercise: str) -> dict:
    """An exercise's own cell, to be changed in place."""
    return notebook["cells"][position(notebook, exercise)]


def answer(notebook: dict, exercise: str, code: str) -> dict:
    """Write code into an exercise's cell, in place of what is there, above the check."""
    own(notebook, exercise)["source"] = f'{code}\n\n\ncheck("{CHAPTER}/{exercise}", {exercise})'
    return notebook


def edit(notebook: dict, exercise: str, old: str, new: str) -> dict:
    """Replace text in an exercise's cell."""
    cell = own(notebook, exercise)
    text = "".join(cell["source"])
    assert old in text
    cell["source"] = text.replace(old, new)
    return notebook


def add(notebook: dict, code: str, at: int | None = None, cell_type: str = "code") -> dict:
    """Insert a cell that belongs to no exercise; without ``at``, as the last."""
    cell = {"cell_type": cell_type, "id": f"new-{len(notebook['cells'])}", "metadata": {}, "source": code}
    if cell_type == "code":
        cell |= {"execution_count": None, "outputs": []}
    notebook["cells"].insert(len(notebook["cells"]) if at is None else at, cell)
    return notebook


def duplicated(notebook: dict, exercise: str) -> dict:
    """Copy an exercise's cell below itself, with id and tag, as some editors do."""
    i = position(notebook, exercise)
    notebook["cells"].insert(i + 1, copy.deepcopy(notebook["cells"][i]))
    return notebook


def renamed(notebook: dict, exercise: str, new: str) -> dict:
    """Give the function of an exercise another name, in its cell alone."""
    return edit(notebook, exercise, f"def {exercise}(", f"def {new}(")


def moved(notebook: dict, exercise: str, to: int) -> dict:
    """Move an exercise's cell to another position."""
    notebook["cells"].insert(to, notebook["cells"].pop(position(notebook, exercise)))
    return notebook


def split(notebook: dict, exercise: str) -> dict:
    """Put the function into a cell of its own above; id and tag stay with the check."""
    i = position(notebook, exercise)
    function, check = "".join(notebook["cells"][i]["source"]).rsplit("\n\n\n", 1)
    notebook["cells"][i]["source"] = check
    return add(notebook, function, at=i)


def merged(notebook: dict) -> dict:
    """Put all exercises' cells into the last one, which keeps its id and tag alone."""
    positions = [position(notebook, question.function) for question in key().questions]
    cells = [notebook["cells"][i] for i in positions]
    cells[-1]["source"] = "\n\n".join("".join(cell["source"]) for cell in cells)
    notebook["cells"] = [cell for cell in notebook["cells"] if cell not in cells[:-1]]
    return notebook


def without_metadata(notebook: dict) -> dict:
    """Strip metadata and ids, as some editors do."""
    notebook["metadata"], notebook["nbformat_minor"] = {}, 4
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    return notebook


def as_text(notebook: dict, exercise: str, cell_type: str = "markdown") -> dict:
    """Turn an exercise's cell into one of text."""
    cell = own(notebook, exercise)
    cell["cell_type"] = cell_type
    cell.pop("outputs", None)
    cell.pop("execution_count", None)
    return notebook


def as_version_3(notebook: dict) -> dict:
    """The notebook in the format of 2013. Tags stay, ids are not known there."""
    cells = []
    for cell in notebook["cells"]:
        old = {"cell_type": cell["cell_type"], "metadata": cell["metadata"]}
        if cell["cell_type"] == "code":
            old |= {"input": cell["source"], "language": "python", "outputs": [], "collapsed": False}
        else:
            old |= {"source": cell["source"]}
        cells.append(old)
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}
