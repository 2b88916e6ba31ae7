"""Prove that a machine can grade: attack its sandbox, and grade a class whose marks are known."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from groundwork import Refusal
from llm_grader import classrun, key, sandbox
from llm_grader.records import GRADED, Key

CHAPTER = "attention"  # its first exercise is the whole assignment
HINT = "on Debian and Ubuntu, `apt install bubblewrap` installs the sandbox that is tried first"
ATTACK = """
def {function}({arguments}):
    import json
    with open({path!r}) as file:
        (question,) = json.load(file)["questions"]
    found = {{}}
    exec(question["solution"], found)
    return found["{function}"]({arguments})
"""


def prove(log: Callable[[str], None]) -> str:
    """Set up a class of three in a temporary folder, and grade it in the sandbox that this machine will use.

    The class hands in the reference, the untouched stub, and an answer that reads the solution from the key.

    Args:
        log: called with a line for each attack, and with what to install.

    Returns:
        A sentence that says that the machine is fit to grade.

    Raises:
        Refusal: it is not; the sentence says why.
    """
    if not sys.platform.startswith("linux"):
        raise Refusal("This machine is not fit to grade: the grader needs Linux, WSL2 or Gradescope.")
    if not which("bwrap"):
        log(f"bubblewrap is missing: {HINT}.")
    with TemporaryDirectory(prefix="grader-") as folder:
        try:
            return _prove(Path(folder), log)
        except Refusal as e:
            advice = "" if which("bwrap") else f" {HINT[0].upper()}{HINT[1:]}."
            raise Refusal(f"This machine is not fit to grade: {e}{advice}") from e


def _prove(folder: Path, log: Callable[[str], None]) -> str:
    assignment = key.load(CHAPTER)
    assignment = replace(assignment, questions=assignment.questions[:1])
    expected = _hand_in(folder, assignment)
    private = [folder / name for name in ("class", "private", "marks")]
    chosen, findings = sandbox.choose(private)
    for finding in findings:
        log(str(finding))
    records = classrun.grade(private[0], assignment, private[2], chosen, findings, log=lambda text: None)
    for record in records:
        if record.status != GRADED:
            raise Refusal(f"{record.student} is {record.status}. {record.reason}")
        if record.points != expected[record.student]:
            raise Refusal(f"{record.student} earned {record.points:g} points in place of {expected[record.student]:g}.")
    mine = [finding for finding in findings if finding.sandbox == chosen.name]
    return (
        f"This machine is fit to grade: the sandbox {chosen.name} blocked {sum(each.blocked for each in mine)} of "
        f"{len(mine)} attacks, and a class of three had the right marks."
    )


def _hand_in(folder: Path, assignment: Key) -> dict[str, float]:
    """Write the key and the submissions, and return the points that each of them must earn."""
    for name in ("class", "private", "marks"):
        (folder / name).mkdir(mode=0o700)
    path = folder / "private" / "key.json"
    path.write_text(key.to_json(assignment), encoding="utf-8")
    (question,) = assignment.questions
    names = {"function": question.function, "arguments": ", ".join(question.arguments)}
    submissions = {
        "the reference": (question.solution, question.points),
        "the untouched stub": ("def {function}({arguments}):\n    raise NotImplementedError\n".format(**names), 0.0),
        "an attack on the key": (ATTACK.format(path=str(path), **names), 0.0),
    }
    for student, (source, _) in submissions.items():
        cell = {"id": "answer", "cell_type": "code", "source": source, "metadata": {}, "outputs": []}
        notebook = {"cells": [cell | {"execution_count": None}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (folder / "class" / f"{student}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return {student: points for student, (_, points) in submissions.items()}
