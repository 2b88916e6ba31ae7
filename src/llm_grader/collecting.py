"""Put the shares of a class together: one journal and one set of reports. No student's code is run."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from groundwork import Refusal
from llm_grader import attempts, classrun, reports, shares, students, submissions
from llm_grader.journal import Journal, key_version
from llm_grader.records import NOT_GRADED, Key, SubmissionResult


def collect(
    folder: Path, key: Key, out: Path, command: str = "", student_list: Path | None = None
) -> tuple[list[SubmissionResult], list[str]]:
    """Merge the journals of all shares into that of the class, and write the reports of the class.

    It can be repeated, also while shares are being graded.

    Args:
        folder: folder of the submissions.
        key: key of the assignment.
        out: folder of the marks, in which the shares are.
        command: command that repeats this, for the report.
        student_list: the instructor's list of students, see :mod:`llm_grader.students`.

    Returns:
        One record for each student, and a sentence for each share that is not complete.
    """
    started, start = datetime.now(UTC).astimezone(), time.monotonic()
    files, layout = submissions.find_with_layout(folder, key.name)
    who, absent = students.identify(files, student_list)
    files = [submissions.choose(each, key) for each in files]
    versions = {question.id: question.version for question in key.questions}
    if not (found := shares.present(out)):
        raise Refusal(f"{out} holds no tasks; grade them first, with the option --task.")
    count, unread, missing = found[0].count, {}, {}
    with Journal(out / "journal.sqlite", classrun.grader_version(), seed=shares.shared_seed(out)) as journal:
        for share in found:
            path = share.folder(out) / "journal.sqlite"
            try:
                if path.exists():
                    with Journal(path, classrun.grader_version(), seed=journal.seed) as other:
                        journal.merge(other)
                for kept in (share.folder(out) / attempts.FOLDER).glob("*.ipynb"):
                    attempts.keep(out, kept.read_bytes())
            except Refusal as e:  # such as: it is in use
                unread[share.number] = str(e)
        records = []
        for file in files:
            known, incomplete = classrun.find_record(file, journal, versions, out)
            if known and not incomplete:
                journal.record(known, versions)
                records.append(known)
                continue
            number = shares.number_of(file.student, count)
            missing[number] = missing.get(number, 0) + 1
            failed = [each.reason for each in journal.records([file.student]) if each.status == NOT_GRADED]
            why = f"Task {number}/{count} has not graded this submission. {' '.join(failed)}".strip()
            relative = str(file.path.relative_to(folder)) if file.path else ""
            records.append(SubmissionResult(file.student, relative, "", NOT_GRADED, why, notes=list(file.notes)))
        history = journal.history()
    facts = reports.RunInfo(
        command=command,
        key=key_version(versions),
        grader=journal.grader_version,
        started=started,
        layout=layout,
        absent=absent,
        **_runs(out, found, time.monotonic() - start),
    )
    reports.write(out, key.title, key.questions, records, facts, who, history)
    return records, [
        f"Task {number}/{count} has not graded {n} submission{'s' if n > 1 else ''}: "
        f"{unread.get(number, 'run it again, and then collect again.')}"
        for number, n in sorted(missing.items())
    ]


def _runs(out: Path, found: list[shares.Share], seconds: float) -> dict[str, Any]:
    """Return what the summary says about the run, from what the shares say about theirs."""
    runs = [json.loads(path.read_text()) for share in found if (path := share.folder(out) / "run.json").exists()]
    findings = {tuple(finding): None for run in runs for finding in run["findings"]}
    return {
        "seconds": sum((run["seconds"] for run in runs), seconds),
        "workers": sum(run["workers"] for run in runs),
        "sandbox": ", ".join(sorted({run["sandbox"] for run in runs})),
        "findings": list(findings),
        "uncounted": list(dict.fromkeys(sentence for run in runs for sentence in run["uncounted"])),
    }
