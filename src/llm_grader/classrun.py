"""A class: a folder of submissions in, a folder of marks out. Killed at any moment and run again, it does the rest."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from groundwork import Refusal
from llm_grader import marking, reading, reports, submissions
from llm_grader.examiner import Examiner
from llm_grader.journal import Journal
from llm_grader.preflight import preflight
from llm_grader.records import (
    ATTENTION,
    GRADED,
    NOT_GRADED,
    Found,
    Key,
    Mark,
    NeedsAttention,
    Prepared,
    Question,
    Record,
    Submission,
)
from llm_grader.sandbox import Finding, Limits, Sandbox
from llm_grader.session import Pool, run

SECONDS = 10.0
LIMITS = Limits(memory=3 * 2**29, address_space=4 * 2**30, processes=64, open_files=256, disk=64 * 2**20)


@dataclass(frozen=True)
class Desk:
    """What grading one submission takes, shared by all threads of a run."""

    prepared: list[Prepared]
    pool: Pool
    examiner: Examiner
    seconds: float
    alone: threading.Lock = field(default_factory=threading.Lock)

    def marks(self, submission: Submission, questions: list[Question]) -> Iterator[Mark]:
        """The marks of some questions of a submission, each as soon as it is known.

        Raises:
            NotReady: no worker could be started.
        """
        asked = {each.question.id: each for each in self.prepared if each.question in questions}
        for each, outcome in run(submission, list(asked.values()), self.pool, self.seconds):
            with self.alone:
                outcome = self.examiner.observe(outcome, each)
            yield marking.mark(outcome, asked.pop(each.question.id))
        for each in asked.values():
            yield marking.mark(None, each, each.question.id in submission.answers)


def version() -> str:
    """Changes when the grader itself changes."""
    here = Path(__file__).parent
    texts = [path.read_bytes() for path in sorted(here.rglob("*.py"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def grade(
    folder: Path,
    key: Key,
    out: Path,
    sandbox: Sandbox,
    findings: list[Finding],
    workers: int = 0,
    seconds: float = SECONDS,
    command: str = "",
    say: Callable[[str], None] = print,
) -> list[Record]:
    """Grade a class and write its marks.

    Args:
        folder: of the submissions, see :mod:`llm_grader.submissions`.
        key: of the assignment.
        out: where the journal and the reports go.
        sandbox: chosen by :func:`llm_grader.sandbox.choose`, with its findings.
        workers: how many submissions at once; as many as there are processors by default.
        seconds: of a submission's own time.
        command: what repeats this run, for the report.
        say: takes what a person should read meanwhile.

    Returns:
        One record for each student.
    """
    from tqdm import tqdm

    started, begin = datetime.now(UTC).astimezone(), time.monotonic()
    found = submissions.find(folder, key.name)
    versions = {question.id: question.version for question in key.questions}
    workers = workers or os.cpu_count() or 1
    out.mkdir(parents=True, exist_ok=True)
    uncounted: list[str] = []
    with Journal(out / "journal.sqlite", version()) as journal:
        plan = [(each, *_known(each, journal, versions)) for each in found]
        todo = [(each, known) for each, known, missing in plan if missing]
        for _, known, missing in plan:
            if not missing:
                journal.record(known, versions)  # where an older file was handed in again, it counts
        if len(todo) < len(plan):
            say(f"{len(plan) - len(todo)} of {len(plan)} submissions are graded already; {len(todo)} to go.")
        if todo:
            with Pool(sandbox, LIMITS, workers) as pool, Examiner(pool) as examiner:
                say("Drawing inputs, running the reference, checking that it earns full marks and a stub none.")
                prepared = examiner.prepare(key, journal.seed)
                uncounted = preflight(prepared, pool, examiner, seconds)
                say(f"Grading {len(todo)} with {workers} at once.")
                desk = Desk(prepared, pool, examiner, seconds)
                with ThreadPoolExecutor(workers) as threads, tqdm(total=len(todo), unit=" submissions") as bar:
                    tasks = [threads.submit(one, each, folder, key, desk, known) for each, known in todo]
                    try:
                        for task in as_completed(tasks):
                            journal.record(task.result(), versions)
                            bar.update()
                    except BaseException:
                        threads.shutdown(cancel_futures=True, wait=False)
                        raise
        records = journal.records([each.student for each in found])
    facts = reports.RunFacts(
        command=command,
        key=hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest()[:16],
        started=started,
        seconds=time.monotonic() - begin,
        workers=workers,
        sandbox=sandbox.name,
        findings=[(finding.attack, finding.held, finding.detail) for finding in findings],
        uncounted=uncounted,
    )
    reports.write(out, key.title, key.questions, records, facts)
    return records


def _known(found: Found, journal: Journal, versions: dict[str, str]) -> tuple[Record | None, bool]:
    """What the journal knows of a student's file, and whether something is missing."""
    known = journal.known(found.student, _digest(*_content(found)), versions)
    return known, known is None or known.status == GRADED and len(known.marks) < len(versions)


def _content(found: Found) -> tuple[bytes, str]:
    """The bytes of a student's file, or none and why."""
    try:
        return submissions.load(found, reading.SIZE_LIMIT), ""
    except NeedsAttention as e:
        return b"", str(e)


def _digest(data: bytes, problem: str) -> str:
    return hashlib.sha256(data or problem.encode()).hexdigest()


def one(found: Found, folder: Path, key: Key, desk: Desk, known: Record | None = None) -> Record:
    """Grade one submission, or those of its questions that are not known yet. Whatever it is, a record comes back."""
    begin, (data, problem) = time.monotonic(), _content(found)
    file = str(found.path.relative_to(folder)) if found.path else ""
    record = Record(found.student, file, _digest(data, problem), NOT_GRADED, notes=list(found.notes))
    have = {mark.question: mark for mark in known.marks} if known else {}
    try:
        if problem:
            raise NeedsAttention(problem)
        submission = reading.read(data, key)
        missing = [question for question in key.questions if question.id not in have]
        have |= {mark.question: mark for mark in desk.marks(submission, missing)}
        record = replace(
            record,
            status=GRADED,
            marks=[have[question.id] for question in key.questions],
            notes=[*found.notes, *submission.notes],
            flags=submission.flags,
        )
    except NeedsAttention as e:
        record = replace(record, status=ATTENTION, reason=str(e))
    except Exception as e:  # ours, whatever it is: the class goes on, and the next run tries again
        what = str(e) if isinstance(e, Refusal) else f"{type(e).__name__}: {e}"
        record = replace(record, reason=f"The grader failed here: {what}")
    return replace(record, seconds=time.monotonic() - begin)
