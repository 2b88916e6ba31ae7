"""Grade a class: read a folder of submissions and write a folder of marks.

A run that was stopped or killed at any moment can be continued by starting it again.
"""

import hashlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from groundwork import Refusal, write_whole
from llm_grader import attempts, missing_modules, provisions, reading, reports, students, submissions
from llm_grader.context import GradingContext
from llm_grader.journal import Journal, key_version
from llm_grader.layouts import NOTEBOOK, printable
from llm_grader.preflight import preflight
from llm_grader.records import (
    GRADED,
    NEEDS_ATTENTION,
    NOT_GRADED,
    Key,
    NeedsAttention,
    SubmissionFile,
    SubmissionResult,
)
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.sandbox import Finding, Limits, Sandbox, workers_that_fit
from llm_grader.sandbox.workdir import provide
from llm_grader.session import WorkerPool
from llm_grader.shares import Share

SECONDS = 10.0
LIMITS = Limits(memory=3 * 2**29, address_space=4 * 2**30, processes=24, open_files=64, disk=64 * 2**20)
PREPARING_WORKERS = 2  # the reference worker, and the one of the preflight


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
    share: Share | None = None,
    seed: str = "",
    log: Callable[[str], None] = print,
    student_list: Path | None = None,
    regrade: bool = False,
) -> list[SubmissionResult]:
    """Grade a class and write its marks.

    Args:
        folder: folder of the submissions, see :mod:`llm_grader.submissions`.
        key: key of the assignment.
        out: folder for the journal and the reports.
        sandbox: sandbox for the workers, chosen by :func:`llm_grader.sandbox.choose`.
        findings: findings of the attacks on the sandbox, for the report.
        workers: number of submissions that are graded at once; by default, as many as CPUs and memory allow.
        seconds: CPU time of one submission, see :mod:`llm_grader.session`.
        command: command that repeats this run, for the report.
        share: the share of the class that is graded; by default all of it.
        seed: seed of the hidden inputs that a share must use.
        log: called with each progress message.
        student_list: the instructor's list of students, see :mod:`llm_grader.students`.
        regrade: whether marks that an earlier version of the grader made are made again.

    Returns:
        One record for each student.
    """
    from tqdm import tqdm

    started, start = datetime.now(UTC).astimezone(), time.monotonic()
    everyone, layout = submissions.find_with_layout(folder, key.name)
    who, absent = students.identify(everyone, student_list)
    files = [submissions.choose(each, key) for each in everyone if not share or share.holds(each.student)]
    versions = {question.id: question.version for question in key.questions}
    workers = workers or workers_that_fit(LIMITS)
    out.mkdir(parents=True, exist_ok=True)
    uncounted: list[str] = []
    with Journal(out / "journal.sqlite", grader_version(), seed, regrade) as journal:
        plan = [(each, *find_record(each, journal, versions, out)) for each in files]
        todo = [(each, known) for each, known, missing in plan if missing]
        for _, known, missing in plan:
            if known and not missing:
                journal.record(known, versions)  # a student may have handed in an older file again, which then counts
        if len(todo) < len(plan):
            log(f"{len(plan) - len(todo)} of {len(plan)} submissions are already graded; {len(todo)} are left.")
        if todo:
            provisions.check_installed(key.requirements)
            provide(key.data)
            n_workers = PREPARING_WORKERS + bool(key.requirements) + len(todo)
            with WorkerPool(sandbox, LIMITS, workers, n_workers) as pool, ReferenceWorker(pool) as reference_worker:
                log("Drawing hidden inputs, and checking that the reference earns full marks and a stub earns none.")
                prepared = reference_worker.prepare(key, journal.seed)
                context = GradingContext(prepared, pool, reference_worker, seconds)
                uncounted = preflight(context)
                for sentence in [*uncounted, *missing_modules.check_imports(context, key.requirements)]:
                    log(sentence)
                log(f"Grading {len(todo)} submissions, {workers} at a time.")
                with ThreadPoolExecutor(workers) as threads, tqdm(total=len(todo), unit=" submissions") as bar:
                    tasks = {
                        threads.submit(grade_submission, each, folder, key, context, known, out): each
                        for each, known in todo
                    }
                    try:
                        unsure = []
                        for task in as_completed(tasks):
                            record = task.result()
                            if any(mark.unsure for mark in record.marks):
                                unsure.append((tasks[task], record))
                                continue
                            journal.record(record, versions)
                            bar.update()
                        for file, record in unsure:  # while no other submission runs
                            for _ in range(2):  # twice if the file was replaced meanwhile, of which nothing is known
                                if any(mark.unsure for mark in record.marks):
                                    record = grade_submission(file, folder, key, context, record, out)
                            journal.record(record, versions)
                            bar.update()
                    except BaseException:
                        threads.shutdown(cancel_futures=True, wait=False)
                        raise
        records, history = journal.records([each.student for each in files]), journal.history()
    facts = reports.RunInfo(
        command=command,
        key=key_version(versions),
        grader=journal.grader_version,
        started=started,
        seconds=time.monotonic() - start,
        workers=workers,
        sandbox=sandbox.name,
        findings=[(finding.attack, finding.blocked, finding.detail) for finding in findings],
        layout=layout,
        uncounted=uncounted,
        absent=absent,
    )
    reports.write(out, key.title, key.questions, records, facts, who, history)
    if share and todo:
        write_whole(out / "run.json", json.dumps(asdict(facts), default=str).encode())
    return records


def find_record(
    file: SubmissionFile, journal: Journal, versions: dict[str, str], out: Path
) -> tuple[SubmissionResult | None, bool]:
    """Return the journal's record of a student's file, and whether some of its questions are still to be graded."""
    data, problem = _read_file(file)
    earlier = dict.fromkeys([*file.entries, *(NOTEBOOK.sub("", entry) for entry in file.entries)])  # before a layout
    found = (journal.known(name, _digest(data, problem), versions) for name in [file.student, *earlier])
    known = next(filter(None, found), None)
    known = replace(known, student=file.student) if known else None
    if known and not problem:
        attempts.keep(out, data)  # earlier versions of the grader did not
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
    file: SubmissionFile, folder: Path, key: Key, context: GradingContext, known: SubmissionResult | None, out: Path
) -> SubmissionResult:
    """Grade the questions of a submission that have no mark yet, or an unsure one, and keep its file.

    Errors are stored in the record and not raised. If the grader fails, the marks that it had given are kept, and the
    next run tries the other questions again.

    Args:
        file: the submission.
        folder: folder of all submissions.
        key: key of the assignment.
        context: what all threads share.
        known: what is known of the same file. If the file has changed since, nothing is.
        out: folder of the marks, in which the file is kept, see :mod:`llm_grader.attempts`.

    Returns:
        The record.
    """
    start, (data, problem) = time.monotonic(), _read_file(file)
    path = "/".join(filter(None, (str(file.path.relative_to(folder)), printable(file.member)))) if file.path else ""
    record = SubmissionResult(file.student, path, _digest(data, problem), NOT_GRADED, notes=list(file.notes))
    if known is not None and known.digest != record.digest:
        known = None
    marks = {mark.question: mark for mark in known.marks} if known else {}
    watching, submission = missing_modules.WatchingContext.of(context), None
    try:
        if problem:
            raise NeedsAttention(problem)
        attempts.keep(out, data)
        submission = reading.read(data, key)
        record = replace(record, notes=[*file.notes, *submission.notes], flags=submission.flags)
        record = replace(record, notes=[*record.notes, *watching.complete(submission, marks)], status=GRADED)
    except NeedsAttention as e:
        record = replace(record, status=NEEDS_ATTENTION, reason=str(e))
    except Exception as e:  # an error of the grader: the class goes on, and the next run tries again
        error = str(e) if isinstance(e, Refusal) else f"{type(e).__name__}: {e}"
        record = replace(record, reason=f"The grader failed: {error}")
    if record.status != NEEDS_ATTENTION:
        record = replace(record, marks=[marks[question.id] for question in key.questions if question.id in marks])
    if submission is not None:
        notes, flags = watching.remarks(submission, record.marks)
        earlier = [flag for flag in known.flags if flag.startswith(missing_modules.FLAG)] if known else []
        record = replace(record, notes=[*record.notes, *notes], flags=[*record.flags, *(flags or earlier)])
    return replace(record, seconds=time.monotonic() - start)
