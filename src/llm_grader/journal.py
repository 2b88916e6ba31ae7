"""What is known so far: every record as soon as it exists, in one SQLite file that survives a kill at any moment.

Nothing is ever changed or deleted there. A record is one row, written and synced before :meth:`Journal.record` returns;
the newest row of a student counts, the older ones are the history.
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
from llm_grader.records import ATTENTION, NOT_GRADED, Record

MARK = 0x4C4C4D47  # tells SQLite's file apart from another program's
FORMAT = 1
# Names of students stand as JSON: they may hold what is not Unicode, and SQLite's text may not.
TABLES = """
CREATE TABLE seed (seed TEXT NOT NULL);
CREATE TABLE records (
    number INTEGER PRIMARY KEY, student TEXT NOT NULL, digest TEXT NOT NULL, reader TEXT NOT NULL,
    record TEXT NOT NULL, versions TEXT NOT NULL
);
CREATE INDEX of_student ON records (student);
"""


class Journal:
    """The journal of a folder of marks, for one process at a time and any number of its threads.

    Args:
        path: its file; made, with mode 0600, where there is none.
        reader: version of what reads submissions. What another reader has seen is graded again.

    Attributes:
        seed: 64 hexadecimal digits, drawn when the file was made. Hidden inputs come from it, so it is secret, and a
            resumed run and a regrade see the same inputs.

    Raises:
        Refusal: the file is in use, damaged or not a journal, or it cannot be read or written. It stays as it is.
    """

    seed: str

    def __init__(self, path: Path, reader: str) -> None:
        self.path, self.reader = path, reader
        with self._refusing(), ExitStack() as opened:
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            opened.callback(os.close, self._lock)  # last of all: closing a descriptor drops SQLite's locks on the file
            self._take_lock()
            # In autocommit, each statement is a transaction of its own; SQLite lets threads share the connection.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            opened.callback(self._db.close)
            self.seed = self._seed()
            self.close = opened.pop_all().close

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, record: Record, versions: dict[str, str]) -> None:
        """Keeps a record for good, as its student's newest; one that says what the newest says already adds nothing.

        Args:
            versions: question id → version of the key's question that the record was graded with.
        """
        row = (
            json.dumps(record.student),
            record.digest,
            self.reader,
            json.dumps(record.plain()),
            json.dumps(versions, sort_keys=True),
        )
        with self._refusing("; what was recorded before is safe"):
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
        """What need not be done again for a student's file: a record whose marks are those that still hold.

        A mark holds as long as file, reader and version of its question are the same; "needs attention" as long as
        file, reader and all versions are. "Not graded" is always tried again.

        Args:
            versions: question id → version now.

        Returns:
            The record, with marks for some or all of the questions, in their order; None where nothing is known.
        """
        rows = self._rows(
            "SELECT record, versions FROM records WHERE student = ? AND digest = ? AND reader = ? ORDER BY number DESC",
            (json.dumps(student), digest, self.reader),
        )
        seen = [(record, then) for record, then in rows if record.status != NOT_GRADED]
        if not seen:
            return None
        newest, then = seen[0]
        if newest.status == ATTENTION:
            return newest if then == versions else None
        marks = {}
        for record, then in seen:
            for mark in record.marks:
                if versions.get(mark.question) == then.get(mark.question) is not None:
                    marks.setdefault(mark.question, mark)
        return replace(newest, marks=[marks[name] for name in versions if name in marks]) if marks else None

    def records(self, students: Iterable[str]) -> list[Record]:
        """The newest record of each of these students who has one, in their order."""
        newest = "SELECT record, versions FROM records WHERE student = ? ORDER BY number DESC LIMIT 1"
        return [record for student in students for record, _ in self._rows(newest, (json.dumps(student),))]

    def _rows(self, query: str, values: tuple[str, ...]) -> list[tuple[Record, dict[str, str]]]:
        with self._refusing():
            rows = self._db.execute(query, values).fetchall()
            return [(Record.of(json.loads(record)), json.loads(versions)) for record, versions in rows]

    def _take_lock(self) -> None:
        """Waits for nobody. The kernel lets go of the lock when the process ends, however it ends."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise Refusal(f"{self.path} is in use by another run of the grader; wait for its end or stop it") from e

    def _seed(self) -> str:
        """The seed, after the file has been found to be a whole journal, or made one."""
        self._db.execute("PRAGMA synchronous = EXTRA")  # a confirmed record survives a power cut, too
        if self._value("SELECT count(*) FROM sqlite_master") == 0:
            self._make()
        if self._value("PRAGMA application_id") != MARK:
            raise Refusal(f"{self.path} is not a journal of the grader; move it away or name another folder")
        if (found := self._value("PRAGMA user_version")) != FORMAT:
            raise Refusal(f"{self.path} has format {found}; this grader knows format {FORMAT} only")
        if (found := self._value("PRAGMA quick_check(1)")) != "ok":
            raise sqlite3.DatabaseError(found)
        os.fchmod(self._lock, 0o600)  # a copy of the file may have lost it
        return self._value("SELECT seed FROM seed")

    def _make(self) -> None:
        """All or nothing: a process killed in between leaves a file without tables, which the next one takes up."""
        pragmas = f"PRAGMA application_id = {MARK}; PRAGMA user_version = {FORMAT};"
        for statement in f"BEGIN; {pragmas} {TABLES}".split(";")[:-1]:
            self._db.execute(statement)
        self._db.execute("INSERT INTO seed VALUES (?)", (secrets.token_hex(32),))
        self._db.execute("COMMIT")

    def _value(self, query: str) -> Any:
        return self._db.execute(query).fetchone()[0]

    @contextmanager
    def _refusing(self, comfort: str = "") -> Iterator[None]:
        """Whatever goes wrong with the file is one sentence."""
        try:
            yield
        except OSError as e:
            raise Refusal(f"{self.path} cannot be opened: {e.strerror}") from e
        except sqlite3.OperationalError as e:  # a full disk, or one that fails
            raise Refusal(f"{self.path} cannot be read or written: {e}{comfort}") from e
        except (sqlite3.Error, ValueError, TypeError, KeyError) as e:
            raise Refusal(
                f"{self.path} is damaged or not a journal of the grader; move it away or name another folder"
            ) from e
