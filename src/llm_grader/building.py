"""What ``build`` checks before students have a notebook, so that ``grade`` does not refuse it afterwards.

This runs the course's own code, in this process.
"""

import contextlib
import re
import time
from dataclasses import asdict
from pathlib import Path

from groundwork import Refusal
from llm_grader import hidden_cases, marking
from llm_grader.journal import graded_questions
from llm_grader.preflight import check_hidden_cases
from llm_grader.records import Key, Outcome, PreparedQuestion, Question

SEEDS = ("build", "build again", "and again")
SLOW_SECONDS = 2.0  # a question that takes longer is drawn once
EXAMPLE_ADDRESS = re.compile(r"github\.com/(example-org|example|you|owner|organi[sz]ation)/", re.IGNORECASE)


def check_questions(key: Key, folder: Path) -> list[str]:
    """Check that hidden cases tell right answers from wrong ones, and that the reference earns full marks.

    Args:
        key: key of the assignment.
        folder: folder of the questions, in which ``data`` is found.

    Returns:
        A sentence for each question with hidden cases that earn nothing.

    Raises:
        Refusal: a question cannot be graded; the sentence names it.
    """
    uncounted: list[str] = []
    with contextlib.chdir(folder):
        for question in key.questions:
            start = time.monotonic()
            for seed in SEEDS:
                found = _check(question, seed)
                uncounted += found if seed == SEEDS[0] else []
                if time.monotonic() - start > SLOW_SECONDS:
                    break
    return uncounted


def _check(question: Question, seed: str) -> list[str]:
    from llm_grader.worker import calls, questions

    def prepare(number: int) -> PreparedQuestion:
        try:
            known = questions.prepare(asdict(question), number)
        except Exception as e:
            what = str(e) if str(e).startswith("the reference raises") else f"{type(e).__name__}: {e}"
            raise Refusal(f"{question.id}: {what}.") from e
        request = {name: known.pop(name) for name in ("cases", "cotangents", "probes")}
        return PreparedQuestion(question, request, **known)

    prepared = hidden_cases.draw(question.id, seed, prepare)
    uncounted = check_hidden_cases([prepared])
    reference = calls.run_source(question.solution, "solution")[question.function]
    messages = questions.observe(
        asdict(question), prepared.request["cases"], list(calls.evaluate(reference, prepared.request))
    )
    result = marking.mark(Outcome("done", messages), prepared)
    if result.points != result.possible:
        raise Refusal(
            f"{question.id}: the reference earns {result.points:g} of {result.possible:g} points "
            f"({result.feedback.rstrip('.')})."
        )
    return uncounted


def check_folder(out: Path, key: Key) -> None:
    """Check that a folder for an assignment, or for its marks, holds nothing of another assignment.

    Raises:
        Refusal: it does.
    """
    built = sorted(path.name.removesuffix(".key.json") for path in (out / "private").glob("*.key.json"))
    if built and key.name not in built:
        raise Refusal(f"{out} holds the assignment {', '.join(built)}, not {key.name}; choose another folder.")
    asked = {question.id for question in key.questions}
    for path in [out / "journal.sqlite", *sorted(out.glob("tasks/*/journal.sqlite"))]:
        marked = graded_questions(path)
        if marked and not marked & asked:
            others = ", ".join(sorted({name.rpartition("/")[0] or name for name in marked}))
            raise Refusal(f"{out} holds the marks of {others}, not of {key.name}; choose another folder.")


def address_warning(notebook: Path) -> str:
    """Return a sentence if a notebook installs the package from an address that is only an example, or nothing."""
    if found := EXAMPLE_ADDRESS.search(notebook.read_text(encoding="utf-8")):
        return (
            f"Warning: the notebook installs the package from {found[0].rstrip('/')}, which is only an example, so it "
            "cannot be run on Colab: say where your fork is with `make address URL=…`, or use --install-from."
        )
    return ""
