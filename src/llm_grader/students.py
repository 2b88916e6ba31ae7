"""Who the students are: what the names of their files say, and a list of students from the instructor.

The list is a CSV file with a header. Its column ``folder`` holds the name of each student's folder or file, or the
number that the learning platform put into it; the column ``id`` holds what the platform calls the student. The columns
``name`` and ``login`` may be absent.
"""

import csv
import io
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from groundwork import Refusal
from llm_grader.records import SubmissionFile

REQUIRED, OPTIONAL = ("folder", "id"), ("name", "login")
MAX_SIZE = 10 * 2**20
MAX_NAMED = 5


@dataclass(frozen=True)
class Student:
    """What is known of a student.

    Args:
        name: name for people; no two students of a class have the same one.
        platform: the platform whose form the name of the folder or file has, or an empty string.
        number: the platform's number or ID in that name, or an empty string.
        id: the ID from the instructor's list, or an empty string.
        login: the login from the instructor's list, or an empty string.
    """

    name: str
    platform: str = ""
    number: str = ""
    id: str = ""
    login: str = ""


def read_list(path: Path) -> dict[str, dict[str, str]]:
    """Return the instructor's list: folder → its row, as a dictionary from column to text.

    Raises:
        Refusal: the file cannot be read, a column is missing or unknown, a row is incomplete, or a folder or an ID
            occurs twice.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_SIZE).decode("utf-8-sig")
    except OSError as e:
        raise Refusal(f"The list of students {path} cannot be read: {e.strerror}.") from e
    except UnicodeDecodeError as e:
        raise Refusal(f"The list of students {path} is not in UTF-8; save it again as “CSV UTF-8”.") from e
    first = text.partition("\n")[0]
    delimiter = ";" if ";" in first and "," not in first else ","
    try:
        rows = [
            (n, row) for n, row in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 1) if row
        ]
    except csv.Error as e:
        raise Refusal(f"The list of students {path} is not a CSV file: {e}.") from e
    columns = [name.strip().lower() for name in rows[0][1]] if rows else []
    _check_columns(path, columns)
    listed: dict[str, dict[str, str]] = {}
    ids: dict[str, str] = {}
    for n, cells in rows[1:]:
        if len(cells) != len(columns):
            raise Refusal(f"{path}, row {n}: there are {len(cells)} cells, but the header has {len(columns)} columns.")
        row = {column: _normal(cell) for column, cell in zip(columns, cells, strict=True)}
        if missing := [column for column in REQUIRED if not row[column]]:
            raise Refusal(f"{path}, row {n}: the cell {missing[0]} is empty.")
        if row["folder"] in listed:
            raise Refusal(f"{path}, row {n}: the folder {row['folder']} has a row already.")
        if row["id"] in ids:
            raise Refusal(f"{path}, row {n}: the ID {row['id']} belongs to {ids[row['id']]} already.")
        listed[row["folder"]], ids[row["id"]] = row, row["folder"]
    return listed


def _check_columns(path: Path, columns: list[str]) -> None:
    known = f"it must begin with a header that has the columns {' and '.join(REQUIRED)}, and may have "
    known += f"{' and '.join(OPTIONAL)}"
    if missing := [name for name in REQUIRED if name not in columns]:
        raise Refusal(f"The list of students {path} has no column {missing[0]}; {known}.")
    if unknown := [name for name in columns if name not in REQUIRED + OPTIONAL]:
        raise Refusal(f"The list of students {path} has an unknown column {unknown[0]!r}; {known}.")
    if double := [name for name, count in Counter(columns).items() if count > 1]:
        raise Refusal(f"The list of students {path} has two columns {double[0]}.")


def identify(files: Iterable[SubmissionFile], path: Path | None = None) -> tuple[dict[str, Student], list[str]]:
    """Return who the students are: name of the student in the journal → student.

    Args:
        files: the files of the class.
        path: the instructor's list, or None.

    Returns:
        The students, and the folders of the list that are not among the submissions.

    Raises:
        Refusal: the list cannot be used, see :func:`read_list`, or a submission is not in it, or two are the same row
            there or on the platform.
    """
    files = list(files)
    _check_rows(files)
    listed = read_list(path) if path else {}
    found = {file.student: _folder_in_list(file, listed) for file in files}
    if path and (missing := [student for student, folder in found.items() if folder is None]):
        others = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        raise Refusal(f"The list of students {path} has no row for {', '.join(missing[:MAX_NAMED])}{others}.")
    counts = Counter(folder for folder in found.values() if folder is not None)
    if double := [folder for folder, count in counts.items() if count > 1]:
        raise Refusal(f"In the list of students {path}, the row of {double[0]} fits more than one submission.")
    rows = {student: listed.get(folder or "", {}) for student, folder in found.items()}
    names = {file.student: rows[file.student].get("name") or file.name or file.student for file in files}
    repeated = {name for name, count in Counter(names.values()).items() if count > 1}
    students = {}
    for file in files:
        row, name = rows[file.student], names[file.student]
        if name in repeated:
            name = f"{name} ({row.get('id') or file.number or file.student})"
        students[file.student] = Student(name, file.platform, file.number, row.get("id", ""), row.get("login", ""))
    return students, [folder for folder in listed if folder not in counts]


def _check_rows(files: list[SubmissionFile]) -> None:
    """Two submissions that claim one row of the platform would overwrite each other's marks there."""
    claims: dict[tuple[str, str], list[str]] = {}
    for file in files:
        if file.platform and file.number:
            claims.setdefault((file.platform, file.number), []).append(file.student)
    for (platform, number), claimed in claims.items():
        if len(claimed) > 1:
            raise Refusal(
                f"{len(claimed)} submissions claim the row of {platform}'s number {number}: {', '.join(claimed)}. "
                "Remove those that are not this student's."
            )


def _folder_in_list(file: SubmissionFile, listed: dict[str, dict[str, str]]) -> str | None:
    """Return the folder of the list that is this submission, or None. Names of files may lack their suffix."""
    for name in (*file.entries, *(entry.rpartition(".")[0] for entry in file.entries), file.student, file.number):
        if name and _normal(name) in listed:
            return _normal(name)
    return None


def _normal(text: str) -> str:
    """Return a text without spaces around it, in the form in which equal letters are equal."""
    return unicodedata.normalize("NFC", text.encode("utf-8", "backslashreplace").decode()).strip()
