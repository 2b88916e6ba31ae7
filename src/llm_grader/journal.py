"""A journal of all records of a class in an SQLite file, which survives a kill at any moment.

Rows are added and never changed or deleted. :meth:`Journal.record` writes and syncs one row before it returns. The
newest row of a student counts; the older ones are the history.
"""

import fcntl
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from groundwork import Refusal
from llm_grader.records import NEEDS_ATTENTION, NOT_GRADED, Record

APPLICATION_ID = 0x4C4C4D47  # tells this SQLite file apart from those of other programs
FORMAT_VERSION = 1
# Names of students are stored as JSON, since they may hold what is not valid Unicode, and SQLite's text may not.
TABLES = """
CREATE TABLE seed (seed TEXT NOT NULL);
CREATE TABLE records (
    number INTEGER PRIMARY KEY, student TEXT NOT NULL, digest TEXT NOT NULL, reader TEXT NOT NULL,
    record TEXT NOT NULL, versions TEXT NOT NULL
);
CREATE INDEX of_student ON records (student);
"""


class Journal:
    """Journal of a class, for one process at a time and any number of its threads.

    Args:
        path: path of the file; it is created with mode 0600 if it does not exist.
        grader_version: version of the grader; records of another version are graded again.

    Attributes:
        seed: 64 hexadecimal digits, drawn when the file was created. The hidden inputs are drawn from this secret seed,
            so a run that is continued or repeated uses the same inputs.

    Raises:
        Refusal: the file is in use, damaged or not a journal, or it cannot be read or written. It is left unchanged.
    """

    seed: str

    def __init__(self, path: Path, grader_version: str) -> None:
        self.path, self.grader_version = path, grader_version
        with self._database_errors_as_refusals(), ExitStack() as opened:
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            opened.callback(
                os.close, self._lock
            )  # closed last, since closing any descriptor of the file drops SQLite's locks
            self._acquire_lock()
            # In autocommit, each statement is a transaction of its own; SQLite lets threads share the connection.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            opened.callback(self._db.close)
            self.seed = self._open_database()
            self.close = opened.pop_all().close

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, record: Record, versions: dict[str, str]) -> None:
        """Store a record as the newest one of its student, unless it equals the newest one.

        Args:
            record: the record.
            versions: question id → version of the question with which the record was graded.
        """
        row = (
            json.dumps(record.student),
            record.digest,
            self.grader_version,
            json.dumps(record.to_dict()),
            json.dumps(versions, sort_keys=True),
        )
        with self._database_errors_as_refusals("; all earlier records are safe"):
            newest = self._db.execute(
                "SELECT student, digest, reader, record, versions FROM records WHERE student = ? "
                "ORDER BY number DESC LIMIT 1",
                row[:1],
            ).fetchone()
            if newest != row:
                self._db.execute(
                    "INSERT INTO records (student, digest, reader, record, versions) VALUES (?, ?, ?, ?, ?)", row
                )

    def known(self, student: str, digest: str, versions: dict[str, str]) -> Record | None:
        """Return the record of a student's file with the marks that are still valid.

        A mark is valid as long as the file, the grader and the version of the question are unchanged. The status "needs
        attention" is valid as long as the file, the grader and all versions are unchanged. A file that was "not graded"
        is always graded again.

        Args:
            student: name of the student.
            digest: hash of the file.
            versions: question id → current version of the question.

        Returns:
            The record with marks for some or all of the questions, in their order, or None if no mark is valid.
        """
        rows = self._rows(
            "SELECT record, versions FROM records WHERE student = ? AND digest = ? AND reader = ? ORDER BY number DESC",
            (json.dumps(student), digest, self.grader_version),
        )
        seen = [(record, then) for record, then in rows if record.status != NOT_GRADED]
        if not seen:
            return None
        newest, then = seen[0]
        if newest.status == NEEDS_ATTENTION:
            return newest if then == versions else None
        marks = {}
        for record, then in seen:
            for mark in record.marks:
                if versions.get(mark.question) == then.get(mark.question) is not None:
                    marks.setdefault(mark.question, mark)
        return replace(newest, marks=[marks[name] for name in versions if name in marks]) if marks else None

    def records(self, students: Iterable[str]) -> list[Record]:
        """Return the newest record of each of these students, in their order, without those who have no record."""
        newest = "SELECT record, versions FROM records WHERE student = ? ORDER BY number DESC LIMIT 1"
        return [record for student in students for record, _ in self._rows(newest, (json.dumps(student),))]

    def _rows(self, query: str, values: tuple[str, ...]) -> list[tuple[Record, dict[str, str]]]:
        with self._database_errors_as_refusals():
            rows = self._db.execute(query, values).fetchall()
            return [(Record.from_dict(json.loads(record)), json.loads(versions)) for record, versions in rows]

    def _acquire_lock(self) -> None:
        """Lock the file without waiting. The kernel releases the lock when this process ends, for whatever reason."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise Refusal(
                f"{self.path} is in use by another run of the grader; wait until that run ends, or stop it."
            ) from e

    def _open_database(self) -> str:
        """Check the database, or create it in an empty file, and return the seed."""
        self._db.execute("PRAGMA synchronous = EXTRA")  # a stored record also survives a power cut
        if self._query_value("SELECT count(*) FROM sqlite_master") == 0:
            self._create_tables()
        if self._query_value("PRAGMA application_id") != APPLICATION_ID:
            raise Refusal(f"{self.path} is not a journal of the grader; move it away or choose another folder.")
        if (found := self._query_value("PRAGMA user_version")) != FORMAT_VERSION:
            raise Refusal(
                f"{self.path} has format {found}, and this version of the grader reads only format {FORMAT_VERSION}."
            )
        if (found := self._query_value("PRAGMA quick_check(1)")) != "ok":
            raise sqlite3.DatabaseError(found)
        os.fchmod(self._lock, 0o600)  # a copy of the file may have another mode
        return self._query_value("SELECT seed FROM seed")

    def _create_tables(self) -> None:
        """Create the tables in one transaction. A process that is killed meanwhile leaves a file without tables."""
        pragmas = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};"
        for statement in f"BEGIN; {pragmas} {TABLES}".split(";")[:-1]:
            self._db.execute(statement)
        self._db.execute("INSERT INTO seed VALUES (?)", (secrets.token_hex(32),))
        self._db.execute("COMMIT")

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
