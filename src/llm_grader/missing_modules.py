"""Modules that could not be imported when a submission ran: a person has to look at what they cost.

A right answer that imports a package which the grader lacks would otherwise earn a zero like a wrong one. A worker says
which imports failed, and what it says may be forged. So the instructor reads names from it, but the student only reads
names that the notebook's own source imports, and no hidden input can leave the sandbox in the name of a module.
"""

import importlib.util
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from groundwork import Refusal
from llm_grader import provisions, source
from llm_grader.context import GradingContext
from llm_grader.records import Answer, Mark, Outcome, PreparedQuestion, Submission
from llm_grader.session import Session

FLAG = "Imports failed: "
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")
MAX_NAMES = 8
MAX_SOURCE = 200_000  # characters of a notebook that are searched
ONLY_ON_COLAB = "google"  # of google.colab, which notebooks import to mount a drive, and which no machine can install


def names_in(messages: Iterable[Any]) -> set[str]:
    """Return the names of the packages whose imports failed, by the messages of a worker, which may be malformed."""
    listed = [message.get("missing") for message in messages if isinstance(message, dict)]
    named = [
        each.partition(".")[0] for names in listed if isinstance(names, list) for each in names if type(each) is str
    ]
    return {name for name in named if NAME.fullmatch(name)} - {ONLY_ON_COLAB}


@dataclass(frozen=True)
class WatchingContext(GradingContext):
    """Context for one submission that collects which imports fail while it is run."""

    names: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, context: GradingContext) -> "WatchingContext":
        """Return a context that shares everything with the given one."""
        return cls(**{each.name: getattr(context, each.name) for each in fields(context)})

    def session(self, submission: Submission) -> Session:
        session = super().session(submission)
        run = session.run

        def watched(*args: Any, **more: Any) -> Iterator[tuple[PreparedQuestion, Outcome]]:
            for each, outcome in run(*args, **more):
                self.names.update(names_in(outcome.messages))
                yield each, outcome

        session.run = watched
        return session

    def remarks(self, submission: Submission, marks: Iterable[Mark]) -> tuple[list[str], list[str]]:
        """Return notes for student and instructor and flags for the instructor, if failed imports may have cost points.

        Args:
            submission: the submission.
            marks: its marks.
        """
        if not self.names or all(mark.points == mark.possible for mark in marks):
            return [], []
        names = sorted(self.names)
        shown = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
        flags = [
            f"{FLAG}{shown}. This may have cost points. If students may import it, name the package in the "
            "assignment's requirements.txt, install it, and grade again."
        ]
        notes = []
        if absent := absent_imports(submission.cells):
            notes = [
                f"The notebook imports {', '.join(absent[:MAX_NAMES])}, which is not installed where it was graded."
            ]
        return notes, flags


def absent_imports(cells: list[str]) -> list[str]:
    """Return the packages that these sources import and that this Python does not have."""
    left, read = MAX_SOURCE, []
    for cell in cells:
        left -= len(cell)
        read += [cell] if left > 0 else []
    full = {name for cell in read for name in source.read(cell, []).imported.values()}
    return sorted(
        name for name in {each.partition(".")[0] for each in full} if NAME.fullmatch(name) and not _is_present(name)
    )


def _is_present(module: str) -> bool:
    try:
        return module == ONLY_ON_COLAB or importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):  # such as __main__
        return True


def check_imports(context: GradingContext, requirements: list[str]) -> list[str]:
    """Check in the sandbox that students' code can import what the assignment names.

    Args:
        context: what grades the class.
        requirements: installed requirements.

    Returns:
        A sentence for the instructor if the imports take more time than the cells of a notebook have.

    Raises:
        Refusal: a package cannot be imported there.
    """
    modules = {line: found for line in requirements if (found := provisions.modules_of(line))}
    if not modules:
        return []
    each = context.prepared[0]
    cells = [f"import {name}" for found in modules.values() for name in found]
    cells.append(f"def {each.question.function}(*given):\n    raise NotImplementedError")
    watching = WatchingContext.of(replace(context, prepared=[each]))
    submission = Submission(cells, {each.question.id: Answer(len(cells) - 1, each.question.function, True)})
    with watching.session(submission) as session:
        deque(session.run([each]), maxlen=0)
        slow = bool(session.notes)
    for line, found in modules.items():
        if watching.names.issuperset(found):
            raise Refusal(
                f"{line} is installed, but students' code cannot import {found[0]} in the sandbox, so nothing is "
                "graded."
            )
    if slow:
        return [
            "Importing all packages of requirements.txt takes more CPU time than the cells of a notebook have; "
            "give them more with --seconds."
        ]
    return []
