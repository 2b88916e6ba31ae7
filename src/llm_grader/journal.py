"""A journal of all records of a class in an SQLite file, which survives a kill at any moment.

Rows are added and never changed or deleted. :meth:`Journal.record` writes and syncs one row before it returns. The
newest row of a student counts; the older ones are the history, which :meth:`Journal.history` lists.
"""

import fcntl
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from groundwork import Refusal
from llm_grader.records import GRADED, NEEDS_ATTENTION, NOT_GRADED, Mark, SubmissionResult

APPLICATION_ID = 0x4C4C4D47  # tells this SQLite file apart from those of other programs
EARLIER_SECONDS = 10.0  # the default, for marks that do not say what they had
FORMAT_VERSION = 2  # rows of format 1 have no time
# Names of students are stored as JSON, since they may hold what is not valid Unicode, and SQLite's text may not.
TABLES = """
CREATE TABLE seed (seed TEXT NOT NULL);
CREATE TABLE records (
    number INTEGER PRIMARY KEY, student TEXT NOT NULL, digest TEXT NOT NULL, reader TEXT NOT NULL,
    record TEXT NOT NULL, versions TEXT NOT NULL, time TEXT NOT NULL DEFAULT ''
);
CREATE INDEX of_student ON records (student);
"""
FROM_FORMAT_1 = "ALTER TABLE records ADD COLUMN time TEXT NOT NULL DEFAULT ''"


@dataclass(frozen=True)
class Entry:
    """One row of the journal.

    Args:
        number: number of the row; later rows have larger numbers.
        time: when the record was stored, in ISO 8601 with the offset from UTC; empty if a journal of format 1 did not
            keep it.
        record: the record. Its marks say which version of the grader made them.
        versions: question id → version of the question.
    """

    number: int
    time: str
    record: SubmissionResult
    versions: dict[str, str]


def key_version(versions: dict[str, str]) -> str:
    """Return the version of a key, which is a hash of the versions of its questions."""
    return hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest()[:16]


def graded_questions(path: Path) -> set[str]:
    """Return the ids of all questions in a journal, which may be in use; none of a file that cannot be read."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT DISTINCT versions FROM records").fetchall()
        return {name for (versions,) in rows for name in json.loads(versions)}
    except (sqlite3.Error, ValueError, TypeError):  # Journal says what is wrong, or creates the file
        return set()


class Journal:
    """Journal of a class, for one process at a time and any number of its threads.

    Args:
        path: path of the file; it is created with mode 0600 if it does not exist.
        grader_version: version of the grader.
        seed: seed that the journal must have; by default, a new journal draws one.
        regrade: whether marks of another version of the grader are no longer valid, so that they are made again.

    Attributes:
        seed: 64 hexadecimal digits, drawn when the file was created. The hidden inputs are drawn from this secret seed,
            so a run that is continued or repeated uses the same inputs.

    Raises:
        Refusal: the file is in use, damaged or not a journal, or it cannot be read or written. It is left unchanged.
    """

    seed: str

    def __init__(self, path: Path, grader_version: str, seed: str = "", regrade: bool = False) -> None:
        self.path, self.grader_version, self.regrade = path, grader_version, regrade
        with self._database_errors_as_refusals(), ExitStack() as opened:
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            opened.callback(
                os.close, self._lock
            )  # closed last, since closing any descriptor of the file drops SQLite's locks
            self._acquire_lock()
            # In autocommit, each statement is a transaction of its own; SQLite lets threads share the connection.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            opened.callback(self._db.close)
            self.seed = self._open_database(seed)
            self.close = opened.pop_all().close

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, record: SubmissionResult, versions: dict[str, str]) -> None:
        """Store a record as the newest one of its student, unless it equals the newest one.

        Args:
            record: the record.
            versions: question id → version of the question with which the record was graded.
        """
        record = _with_grader(record, self.grader_version)
        for entry, reader in self._rows("WHERE student = ? ORDER BY number DESC LIMIT 1", json.dumps(record.student)):
            same_grader = bool(record.marks) or reader == self.grader_version  # marks say themselves which made them
            if same_grader and (entry.record.to_dict(), entry.versions) == (record.to_dict(), versions):
                return
        row = (
            json.dumps(record.student),
            record.digest,
            self.grader_version,
            json.dumps(record.to_dict()),
            json.dumps(versions, sort_keys=True),
            datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        )
        with self._database_errors_as_refusals("; all earlier records are safe"):
            self._db.execute(
                "INSERT INTO records (student, digest, reader, record, versions, time) VALUES (?, ?, ?, ?, ?, ?)", row
            )

    def merge(self, other: "Journal") -> None:
        """Add the rows of another journal that this one does not have yet, in their order."""
        columns = "student, digest, reader, record, versions, time"
        with self._database_errors_as_refusals("; all earlier records are safe"):
            self._db.execute("BEGIN")
            self._db.executemany(
                f"INSERT INTO records ({columns}) SELECT ?1, ?2, ?3, ?4, ?5, ?6 "
                f"WHERE (?1, ?2, ?3, ?4, ?5, ?6) NOT IN (SELECT {columns} FROM records WHERE student = ?1)",
                other._db.execute(f"SELECT {columns} FROM records ORDER BY number").fetchall(),
            )
            self._db.execute("COMMIT")

    def known(self, student: str, digest: str, versions: dict[str, str]) -> SubmissionResult | None:
        """Return the record of a student's file with the marks that are still valid.

        A mark is valid as long as the file and the version of the question are unchanged; if the journal was opened
        with ``regrade``, it must also come from this version of the grader. The status "needs attention" is valid as
        long as the file, the grader and all versions are unchanged. Questions without a mark of a file that was "not
        graded" are always graded again, as are those whose newest mark is unsure.

        Args:
            student: name of the student.
            digest: hash of the file.
            versions: question id → current version of the question.

        Returns:
            The record with marks for some or all of the questions, in their order, or None if no mark is valid.
        """
        rows = self._rows("WHERE student = ? AND digest = ? ORDER BY number DESC", json.dumps(student), digest)
        seen = [(entry, reader) for entry, reader in rows if entry.record.status != NOT_GRADED or entry.record.marks]
        if not seen:
            return None
        newest, reader = seen[0][0].record, seen[0][1]
        if newest.status == NEEDS_ATTENTION:
            return newest if seen[0][0].versions == versions and reader == self.grader_version else None
        marks, unsure = {}, set()
        for entry, _ in seen:
            for mark in entry.record.marks:
                if not versions.get(mark.question) == entry.versions.get(mark.question) is not None:
                    continue
                if mark.unsure and mark.question not in marks:
                    unsure.add(mark.question)
                elif mark.question not in unsure and not (self.regrade and mark.grader != self.grader_version):
                    marks.setdefault(mark.question, mark)
        if not marks:
            return None
        return replace(newest, status=GRADED, reason="", marks=[marks[name] for name in versions if name in marks])

    def give_more_time(self, seconds: float) -> int:
        """Make marks unsure that were short of time in a run with less of it, so that they are made again.

        Args:
            seconds: CPU time that a submission has now, see :mod:`llm_grader.session`.

        Returns:
            The number of these marks.
        """
        newest = {entry.record.student: entry for entry in self.history()}
        n_marks = 0
        for record, versions in [(entry.record, entry.versions) for entry in newest.values()]:
            marks = [replace(mark, unsure=mark.unsure or 0 < _seconds(mark) < seconds) for mark in record.marks]
            if n := sum(after.unsure > mark.unsure for after, mark in zip(marks, record.marks, strict=True)):
                reason = record.reason or f"Time ran out; to be graded again with {seconds:g} seconds."
                self.record(replace(record, marks=marks, reason=reason), versions)
                n_marks += n
        return n_marks

    def records(self, students: Iterable[str]) -> list[SubmissionResult]:
        """Return the newest record of each of these students, in their order, without those who have no record."""
        newest = "WHERE student = ? ORDER BY number DESC LIMIT 1"
        return [entry.record for student in students for entry, _ in self._rows(newest, json.dumps(student))]

    def history(self) -> list[Entry]:
        """Return all rows of all students, the oldest first."""
        return [entry for entry, _ in self._rows("ORDER BY number")]

    def _rows(self, condition: str, *values: str) -> list[tuple[Entry, str]]:
        """Return rows, each with the version of the grader that stored it."""
        with self._database_errors_as_refusals():
            query = f"SELECT number, time, record, versions, reader FROM records {condition}"
            found = []
            for number, time, record, versions, reader in self._db.execute(query, values).fetchall():
                graded = _with_grader(SubmissionResult.from_dict(json.loads(record)), reader)
                found.append((Entry(number, time, graded, json.loads(versions)), reader))
            return found

    def _acquire_lock(self) -> None:
        """Lock the file without waiting. The kernel releases the lock when this process ends, for whatever reason."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise Refusal(
                f"{self.path} is in use by another run of the grader; wait until that run ends, or stop it."
            ) from e

    def _open_database(self, seed: str) -> str:
        """Check the database, or create it in an empty file, and return the seed."""
        self._db.execute("PRAGMA synchronous = EXTRA")  # a stored record also survives a power cut
        if self._query_value("SELECT count(*) FROM sqlite_master") == 0:
            self._create_tables(seed or secrets.token_hex(32))
        if self._query_value("PRAGMA application_id") != APPLICATION_ID:
            raise Refusal(f"{self.path} is not a journal of the grader; move it away or choose another folder.")
        if (version := self._query_value("PRAGMA user_version")) not in (1, FORMAT_VERSION):
            raise Refusal(
                f"{self.path} has format {version}, and this version of the grader reads formats 1 to {FORMAT_VERSION}."
            )
        if (found := self._query_value("PRAGMA quick_check(1)")) != "ok":
            raise sqlite3.DatabaseError(found)
        if version == 1:
            self._run_in_transaction(FROM_FORMAT_1, f"PRAGMA user_version = {FORMAT_VERSION}")
        os.fchmod(self._lock, 0o600)  # a copy of the file may have another mode
        if (found := self._query_value("SELECT seed FROM seed")) != (seed or found):
            raise Refusal(f"{self.path} has another seed than the tasks in its folder; choose another folder.")
        return found

    def _create_tables(self, seed: str) -> None:
        """Create the tables in one transaction. A process that is killed meanwhile leaves a file without tables."""
        pragmas = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};"
        self._run_in_transaction(
            *f"{pragmas} {TABLES}".split(";")[:-1], f"INSERT INTO seed VALUES ('{bytes.fromhex(seed).hex()}')"
        )

    def _run_in_transaction(self, *statements: str) -> None:
        for statement in ("BEGIN", *statements, "COMMIT"):
            self._db.execute(statement)

    def _query_value(self, query: str) -> Any:
        return self._db.execute(query).fetchone()[0]

    @contextmanager
    def _database_errors_as_refusals(self, suffix: str = "") -> Iterator[None]:
        """Turn every error of the file or the database into a refusal."""
        try:
            yield
        except OSError as e:
            raise Refusal(f"{self.path} cannot be opened: {e.strerror}.") from e
        except sqlite3.OperationalError as e:  # such as a full or failing disk
            raise Refusal(f"{self.path} cannot be read or written: {e}{suffix}.") from e
        except (sqlite3.Error, ValueError, TypeError, KeyError) as e:
            raise Refusal(
                f"{self.path} is damaged or not a journal of the grader; move it away or choose another folder."
            ) from e


def _seconds(mark: Mark) -> float:
    """Return the CPU time that was not enough, or 0. Earlier versions of the grader stored only the category."""
    return mark.seconds or EARLIER_SECONDS * (mark.category == "timed out")


def _with_grader(record: SubmissionResult, grader: str) -> SubmissionResult:
    """Return the record with this version of the grader in all marks that name none."""
    return replace(record, marks=[mark if mark.grader else replace(mark, grader=grader) for mark in record.marks])
