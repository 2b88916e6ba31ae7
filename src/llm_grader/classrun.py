"""Grade a class: read a folder of submissions and write a folder of marks.

A run that was stopped or killed at any moment can be continued by starting it again.
"""

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
from llm_grader.journal import Journal
from llm_grader.preflight import preflight
from llm_grader.records import (
    GRADED,
    NEEDS_ATTENTION,
    NOT_GRADED,
    Key,
    Mark,
    NeedsAttention,
    PreparedQuestion,
    Question,
    Record,
    Submission,
    SubmissionFile,
)
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.sandbox import Finding, Limits, Sandbox
from llm_grader.session import WorkerPool, run_submission

SECONDS = 10.0
LIMITS = Limits(memory=3 * 2**29, address_space=4 * 2**30, processes=64, open_files=256, disk=64 * 2**20)


@dataclass(frozen=True)
class GradingContext:
    """What all threads of a run need in order to grade a submission.

    Args:
        prepared: the questions with their hidden inputs and reference outputs.
        pool: workers for students' code.
        reference_worker: worker for the reference.
        seconds: time limit of one submission.
    """

    prepared: list[PreparedQuestion]
    pool: WorkerPool
    reference_worker: ReferenceWorker
    seconds: float
    _reference_lock: threading.Lock = field(default_factory=threading.Lock)

    def marks(self, submission: Submission, questions: list[Question]) -> Iterator[Mark]:
        """Yield the mark of each of these questions as soon as it is known.

        Raises:
            WorkerStartError: no worker could be started.
        """
        pending = {each.question.id: each for each in self.prepared if each.question in questions}
        for each, outcome in run_submission(submission, list(pending.values()), self.pool, self.seconds):
            with self._reference_lock:
                outcome = self.reference_worker.observe(outcome, each)
            yield marking.mark(outcome, pending.pop(each.question.id))
        for each in pending.values():
            yield marking.mark(None, each, each.question.id in submission.answers)


def grader_version() -> str:
    """Return a hash of the grader's source code."""
    package = Path(__file__).parent
    texts = [path.read_bytes() for path in sorted(package.rglob("*.py"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def grade(
    folder: Path,
    key: Key,
    out: Path,
    sandbox: Sandbox,
    findings: list[Finding],
    workers: int | None = None,
    seconds: float = SECONDS,
    command: str = "",
    log: Callable[[str], None] = print,
) -> list[Record]:
    """Grade a class and write its marks.

    Args:
        folder: folder of the submissions, see :mod:`llm_grader.submissions`.
        key: key of the assignment.
        out: folder for the journal and the reports.
        sandbox: sandbox for the workers, chosen by :func:`llm_grader.sandbox.choose`.
        findings: findings of the attacks on the sandbox, for the report.
        workers: number of submissions that are graded at once; the number of CPUs by default.
        seconds: time limit of one submission.
        command: command that repeats this run, for the report.
        log: called with each progress message.

    Returns:
        One record for each student.
    """
    from tqdm import tqdm

    started, start = datetime.now(UTC).astimezone(), time.monotonic()
    files = submissions.find(folder, key.name)
    versions = {question.id: question.version for question in key.questions}
    workers = workers or os.cpu_count() or 1
    out.mkdir(parents=True, exist_ok=True)
    uncounted: list[str] = []
    with Journal(out / "journal.sqlite", grader_version()) as journal:
        plan = [(each, *_find_record(each, journal, versions)) for each in files]
        todo = [(each, known) for each, known, missing in plan if missing]
        for _, known, missing in plan:
            if known and not missing:
                journal.record(known, versions)  # a student may have handed in an older file again, which then counts
        if len(todo) < len(plan):
            log(f"{len(plan) - len(todo)} of {len(plan)} submissions are already graded; {len(todo)} are left.")
        if todo:
            with WorkerPool(sandbox, LIMITS, workers) as pool, ReferenceWorker(pool) as reference_worker:
                log("Drawing hidden inputs, and checking that the reference earns full marks and a stub earns none.")
                prepared = reference_worker.prepare(key, journal.seed)
                uncounted = preflight(prepared, pool, reference_worker, seconds)
                log(f"Grading {len(todo)} submissions, {workers} at a time.")
                context = GradingContext(prepared, pool, reference_worker, seconds)
                with ThreadPoolExecutor(workers) as threads, tqdm(total=len(todo), unit=" submissions") as bar:
                    tasks = [
                        threads.submit(grade_submission, each, folder, key, context, known) for each, known in todo
                    ]
                    try:
                        for task in as_completed(tasks):
                            journal.record(task.result(), versions)
                            bar.update()
                    except BaseException:
                        threads.shutdown(cancel_futures=True, wait=False)
                        raise
        records = journal.records([each.student for each in files])
    facts = reports.RunInfo(
        command=command,
        key=hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest()[:16],
        started=started,
        seconds=time.monotonic() - start,
        workers=workers,
        sandbox=sandbox.name,
        findings=[(finding.attack, finding.blocked, finding.detail) for finding in findings],
        uncounted=uncounted,
    )
    reports.write(out, key.title, key.questions, records, facts)
    return records


def _find_record(file: SubmissionFile, journal: Journal, versions: dict[str, str]) -> tuple[Record | None, bool]:
    """Return the journal's record of a student's file, and whether some of its questions are still to be graded."""
    known = journal.known(file.student, _digest(*_read_file(file)), versions)
    return known, known is None or known.status == GRADED and len(known.marks) < len(versions)


def _read_file(file: SubmissionFile) -> tuple[bytes, str]:
    """Return the bytes of a student's file and an empty string, or no bytes and the reason."""
    try:
        return submissions.load(file, reading.SIZE_LIMIT), ""
    except NeedsAttention as e:
        return b"", str(e)


def _digest(data: bytes, problem: str) -> str:
    return hashlib.sha256(data or problem.encode()).hexdigest()


def grade_submission(
    file: SubmissionFile, folder: Path, key: Key, context: GradingContext, known: Record | None = None
) -> Record:
    """Grade the questions of a submission that are not graded yet. Errors are stored in the record and not raised."""
    start, (data, problem) = time.monotonic(), _read_file(file)
    path = str(file.path.relative_to(folder)) if file.path else ""
    record = Record(file.student, path, _digest(data, problem), NOT_GRADED, notes=list(file.notes))
    marks = {mark.question: mark for mark in known.marks} if known else {}
    try:
        if problem:
            raise NeedsAttention(problem)
        submission = reading.read(data, key)
        missing = [question for question in key.questions if question.id not in marks]
        marks |= {mark.question: mark for mark in context.marks(submission, missing)}
        record = replace(
            record,
            status=GRADED,
            marks=[marks[question.id] for question in key.questions],
            notes=[*file.notes, *submission.notes],
            flags=submission.flags,
        )
    except NeedsAttention as e:
        record = replace(record, status=NEEDS_ATTENTION, reason=str(e))
    except Exception as e:  # an error of the grader: the class goes on, and the next run tries again
        error = str(e) if isinstance(e, Refusal) else f"{type(e).__name__}: {e}"
        record = replace(record, reason=f"The grader failed: {error}")
    return replace(record, seconds=time.monotonic() - start)
