"""What the parts of the grader hand to one another: a key with its questions, a submission as read, outcomes, marks."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

GRADED, NEEDS_ATTENTION, NOT_GRADED = "graded", "needs attention", "not graded"
"""Every submission has one of these; the second is for a person to look at, the third is our failure, never a zero."""


@dataclass(frozen=True)
class Question:
    """One exercise as the grader knows it. All sources are private but ``checks``.

    Args:
        id: chapter and name, such as "attention/hard_lookup".
        title: for people.
        function: the function that the student writes.
        arguments: its arguments' names, in their order.
        points: what a full answer earns.
        seconds: how long its answer may run, in all cases together, before others' shares are touched.
        tag: the tag of its cell in the student notebook.
        cell: the id of that cell, or "".
        forbidden: names that are reported to a person when an answer uses them, such as "torch.softmax".
        tolerance: ``rtol`` and ``atol``, of floating-point numbers.
        solution: source of the reference.
        hidden: source of ``cases(generator)``, the recipe for inputs.
        mistakes: source of the known mistakes.
        sentences: known mistake → the sentence that the student should read.
        checks: source of the public checks, for ``observe`` where there is one.
        probes: source of ``call`` and ``probe_…``, or "".
        version: changes when anything changes that can change a mark.
    """

    id: str
    title: str
    function: str
    arguments: list[str]
    points: float
    seconds: float
    tag: str
    cell: str
    forbidden: list[str]
    tolerance: dict[str, float]
    solution: str
    hidden: str
    mistakes: str
    sentences: dict[str, str]
    checks: str
    probes: str
    version: str


@dataclass(frozen=True)
class Key:
    """The private part of an assignment: its name, such as "attention", its title and its questions in order."""

    name: str
    title: str
    questions: list[Question]


@dataclass(frozen=True)
class Answer:
    """Where an answer stands: the cell (its index among those that run), the name it has there, and whether it is the
    untouched stub."""

    cell: int
    name: str
    attempted: bool


@dataclass(frozen=True)
class Submission:
    """A notebook as read.

    Args:
        cells: sources of the code cells, in their order.
        answers: question id → where it is answered; a question without an answer is absent.
        notes: what was unusual and how it was taken, for student and instructor: plain sentences of ours.
        flags: what a person should look at, such as a forbidden shortcut.
    """

    cells: list[str]
    answers: dict[str, Answer]
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)


class NeedsAttention(Exception):
    """A submission that cannot be read; the message is one sentence for instructor and student."""


@dataclass(frozen=True)
class PreparedQuestion:
    """A question with this run's hidden inputs and what is right for them; lists of messages as the worker sends them.

    Args:
        question: from the key.
        request: ``cases``, ``cotangents`` and ``probes``, as they go to the student's worker.
        size: bytes of the reference's longest message, arguments included.
        reference: what it answers.
        shown: probe → what it shows, in words.
        mistakes: known mistake → what it answers.
        trivial: an answer that knows nothing → what it answers.
    """

    question: Question
    request: dict
    max_message_bytes: int
    reference: list[dict]
    probe_descriptions: dict[str, str]
    mistakes: dict[str, list[dict]]
    trivial: dict[str, list[dict]]


@dataclass
class Outcome:
    """What came of one question: how it ended ("done", "timed out", "crashed", "memory" or "no answer") and the
    messages of its cases."""

    status: str
    messages: list[dict] = field(default_factory=list)


@dataclass(frozen=True)
class Mark:
    """What one question earned.

    Args:
        question: its id.
        points: earned.
        possible: what a full answer earns.
        category: a key of :data:`llm_grader.marking.CATEGORIES`.
        criteria: criterion, such as "values" or "dtype" → share of it that was earned, from 0 to 1.
        mistake: name of the known mistake that was recognised, or None.
        feedback: sentences for the student, ours alone.
    """

    question: str
    points: float
    possible: float
    category: str
    criteria: dict[str, float] = field(default_factory=dict)
    mistake: str | None = None
    feedback: str = ""


@dataclass(frozen=True)
class Record:
    """All that is known of one submission after grading.

    Args:
        student: as the submission's folder or file calls them.
        file: path within the submissions' folder, or "".
        digest: SHA-256 of the file, or "".
        status: "graded", "needs attention" or "not graded".
        reason: one sentence where the status is not "graded".
        marks: one for each question, in the order of the key; empty unless graded.
        notes: how unusual things were taken, for student and instructor.
        flags: for a person only.
        seconds: how long it took.
    """

    student: str
    file: str
    digest: str
    status: str
    reason: str = ""
    marks: list[Mark] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; :meth:`of` is the way back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Record":
        return cls(**values | {"marks": [Mark(**mark) for mark in values["marks"]]})


@dataclass(frozen=True)
class SubmissionFile:
    """A student's file, or why there is none to read: then ``path`` is None and ``problem`` a sentence."""

    student: str
    path: Path | None
    problem: str = ""
    notes: list[str] = field(default_factory=list)
