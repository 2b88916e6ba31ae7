"""Importers: make masters from the assignments of nbgrader and Otter-Grader.

One reader for each tool (:mod:`.nbgrader`, :mod:`.otter`) turns an assignment into the same
:class:`~llm_grader.importers.assignment.Assignment`. :mod:`.recording` runs its notebooks in a process of their own and
records how the tests call the functions that the students write, and :mod:`.writing` makes a master of each of these
functions, tries it as the grader would, and says what could not be carried over.

This runs the instructor's own code with the instructor's own rights. Nothing that grades imports it.
"""

from pathlib import Path


def import_assignment(tool: str, folder: Path, out: Path) -> str:
    """Write masters of an assignment to a new folder, and return a report.

    Args:
        tool: "nbgrader" or "otter".
        folder: the assignment.
        out: the folder of masters.
    """
    from llm_grader.importers import nbgrader, otter, writing

    writing.check_folder(out)
    return writing.write({"nbgrader": nbgrader, "otter": otter}[tool].read(folder), out)
