"""Data classes that the parts of the grader exchange: keys, questions, submissions, outcomes, marks and results."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

GRADED, NEEDS_ATTENTION, NOT_GRADED = "graded", "needs attention", "not graded"
"""Status of a submission. The second needs a person; the third is a failure of the grader and never a zero."""


@dataclass(frozen=True)
class Question:
    """One exercise of a key. All sources except ``checks`` are private.

    Args:
        id: chapter and name, such as "attention/hard_lookup".
        title: title for people.
        function: name of the function that the student writes.
        arguments: names of its arguments, in their order.
        points: points for a full answer.
        seconds: time that an answer may take in all cases together without using the time of other questions.
        tag: tag of the question's cell in the student notebook.
        cell: id of that cell, or an empty string.
        forbidden: names that are reported to the instructor if an answer uses them, such as "torch.softmax".
        tolerance: ``rtol`` and ``atol`` for floating-point numbers.
        dtype: what the exercise says of the result's dtype, or empty: then its kind (floats, integers) is enough.
        given: source of the code that the student is to mend, or empty if the student is given a stub.
        solution: source of the reference.
        hidden: source of ``hidden_cases(generator)``, which draws the hidden inputs.
        mistakes: source of the known mistakes.
        sentences: known mistake → the sentence that the student should read.
        checks: source of the public checks, in which ``observe`` may be defined.
        probes: source of the probes and of ``call``, or an empty string.
        observed: whether the checks define ``observe``, whose result is compared in place of what an answer returns.
        calls: whether the probes define ``call``, which calls the answer and whose result is compared as it is.
        gradients: whether the gradients of the results with respect to the arguments are graded.
        version: hash of everything that can change a mark.
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
    dtype: str
    given: str
    solution: str
    hidden: str
    mistakes: str
    sentences: dict[str, str]
    checks: str
    probes: str
    observed: bool
    calls: bool
    gradients: bool
    version: str


@dataclass(frozen=True)
class Key:
    """The private part of an assignment.

    Args:
        name: its name, such as "attention".
        title: its title.
        questions: its questions in order.
        requirements: packages that students' code may import besides the grader's own, as pip reads them.
        data: path of a data file, which students' code finds below the folder ``data`` → its content.
    """

    name: str
    title: str
    questions: list[Question]
    requirements: list[str] = field(default_factory=list)
    data: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """The position of an answer in a submission.

    Args:
        cell: index of its cell among the cells of the submission.
        name: name of the function in that cell.
        attempted: whether it is more than the untouched stub.
    """

    cell: int
    name: str
    attempted: bool


@dataclass(frozen=True)
class Submission:
    """The content of a notebook.

    Args:
        cells: sources of the code cells, in their order.
        answers: question id → position of its answer; questions without an answer are absent.
        notes: sentences for student and instructor about what was unusual and how the grader read it.
        flags: sentences for the instructor, such as the use of a forbidden function.
    """

    cells: list[str]
    answers: dict[str, Answer]
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)


class NeedsAttention(Exception):
    """Raised for a submission that cannot be read. The message is a sentence for student and instructor."""


class AnotherNotebook(NeedsAttention):
    """Raised for a notebook of another assignment."""


@dataclass(frozen=True)
class PreparedQuestion:
    """A question with the hidden inputs of this run and the messages that a worker sends for the reference.

    Args:
        question: the question.
        request: ``cases``, ``cotangents`` and ``probes``, which are sent to the student's worker.
        max_message_bytes: size of the reference's longest message in bytes, including arguments.
        reference: messages of the reference.
        probe_descriptions: probe → the property that it tests, in words.
        mistakes: known mistake → its messages.
        trivial: answer without knowledge, such as "zeros" → its messages.
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
    """The result of running one answer.

    Args:
        status: "done", "timed out", "crashed", "killed", "memory" or "no answer".
        messages: messages of the worker, one for each case and criterion.
    """

    status: str
    messages: list[dict] = field(default_factory=list)


@dataclass(frozen=True)
class Mark:
    """The mark of one question.

    Args:
        question: id of the question.
        points: points that the answer earned.
        possible: points for a full answer.
        category: a key of :data:`llm_grader.marking.CATEGORIES`.
        criteria: criterion, such as "values" or "dtype" → share of it that was earned, from 0 to 1.
        mistake: name of the known mistake that was recognised, or None.
        feedback: sentences for the student.
        grader: version of the grader that made the mark. The journal fills it in; it does not count in comparisons.
        unsure: whether what went wrong may be the machine's fault, so that the answer is to be run again alone.
        n_returned: number of values that the answer returned: of each case, its gradients, and each probe.
        seconds: CPU time of the submission if it was not enough for the answer or a cell, or 0.
    """

    question: str
    points: float
    possible: float
    category: str
    criteria: dict[str, float] = field(default_factory=dict)
    mistake: str | None = None
    feedback: str = ""
    grader: str = field(default="", compare=False)
    unsure: bool = False
    n_returned: int = field(default=0, compare=False)
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class SubmissionResult:
    """The result of grading one submission.

    Args:
        student: name under which the journal keeps the student, from the name of the folder or file.
        file: path of the file in the folder of submissions, or an empty string.
        digest: SHA-256 hash of the file, or an empty string.
        status: "graded", "needs attention" or "not graded".
        reason: a sentence that explains a status other than "graded".
        marks: one mark for each question, in the order of the key; of a submission that is "not graded", only those
            that were given before the grader failed, and none of one that "needs attention".
        notes: sentences for student and instructor about how the file was read.
        flags: sentences for the instructor only.
        seconds: time that grading took.
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
        """Sum of the points of all questions."""
        return sum(mark.points for mark in self.marks)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary for JSON; :meth:`from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "SubmissionResult":
        """Return the result that :meth:`to_dict` turned into a dictionary. Fields that it lacks get their defaults."""
        marks = [Mark(**mark) for mark in values["marks"]]
        return cls(**{**values, "marks": marks})


@dataclass(frozen=True)
class SubmissionFile:
    """A student's file.

    Args:
        student: name under which the journal keeps the student.
        path: path of the file, or None if there is none to read.
        problem: a sentence that says why there is no file.
        notes: sentences for student and instructor about how the file was chosen.
        name: name of the student for people, or empty if it is ``student``.
        platform: such as "Moodle" if the name of the folder or file has its form, or an empty string.
        number: what this platform calls the student there, such as Canvas's user ID, or an empty string.
        entries: names of the student's files and folders in the folder of submissions.
        member: name of the notebook in the zip archive ``path``, or an empty string if ``path`` is the notebook.
        order: later uploads of the student have larger numbers; 0 if the platform does not say.
        candidates: the notebooks of the student if there are several, of which one has to be chosen.
    """

    student: str
    path: Path | None
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    name: str = ""
    platform: str = ""
    number: str = ""
    entries: list[str] = field(default_factory=list, compare=False)
    member: str = ""
    order: int = field(default=0, compare=False)
    candidates: list["SubmissionFile"] = field(default_factory=list, compare=False)
