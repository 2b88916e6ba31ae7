"""Find one file for each student in the folder that a learning platform gives.

Students choose the names and the files, so links are not followed and only regular files are opened.
"""

import os
import re
import stat
import unicodedata
from dataclasses import replace
from pathlib import Path

from groundwork import Refusal
from llm_grader.reading import file_too_large
from llm_grader.records import NeedsAttention, SubmissionFile

IGNORED = {"__macosx", "thumbs.db", "desktop.ini"}  # and hidden files, such as .ipynb_checkpoints
MAX_DEPTH = 3  # levels of folders below a student's, such as an unpacked archive
NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)  # some browsers append a suffix


def find(folder: Path, name: str = "") -> list[SubmissionFile]:
    """Find the file of each student and return them sorted by the names of the students.

    Args:
        folder: folder with a folder or a file for each student.
        name: name of the assignment; of several notebooks of a student, the one with this name is preferred.

    Raises:
        Refusal: there is no such folder, it cannot be read, or it is empty.
    """
    if folder.is_file():
        unpack = "; unpack it first" if folder.suffix.lower() in (".zip", ".gz", ".tar", ".7z", ".rar") else ""
        raise Refusal(f"{folder} is a file, but a folder of submissions is expected{unpack}.")
    if not folder.is_dir():
        raise Refusal(f"The folder of submissions {folder} does not exist.")
    try:
        entries = _entries(folder)
    except OSError as e:
        raise Refusal(f"The folder {folder} cannot be read: {_reason(e)}.") from e
    if not entries:
        raise Refusal(f"The folder {folder} holds no submissions.")
    return _with_unique_names([_submission_file(entry, name) for entry in entries])


def load(found: SubmissionFile, limit: int) -> bytes:
    """Return the bytes of a student's file.

    Args:
        found: the file.
        limit: largest size in bytes.

    Raises:
        NeedsAttention: there is no file, it is larger than ``limit`` bytes, or it cannot be read.
    """
    if found.path is None:
        raise NeedsAttention(found.problem)
    try:  # the file may have been replaced by a link or a named pipe since it was found
        descriptor = os.open(found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        raise NeedsAttention(f"The file cannot be opened: {_reason(e)}.") from e
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NeedsAttention(f"The submission is {_file_type(status.st_mode)}, not a file.")
        if status.st_size > limit:
            raise file_too_large(limit)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError as e:
        raise NeedsAttention(f"The file cannot be read: {_reason(e)}.") from e
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise file_too_large(limit)
    return data


def _entries(folder: Path) -> list[os.DirEntry]:
    """Return the entries of a folder sorted by name, without the files that systems and editors leave there."""
    with os.scandir(folder) as entries:
        kept = [entry for entry in entries if entry.name[0] != "." and entry.name.lower() not in IGNORED]
    return sorted(kept, key=lambda entry: entry.name)


def _submission_file(entry: os.DirEntry, name: str) -> SubmissionFile:
    student = _student_name(NOTEBOOK.sub("", entry.name))
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            return find_in_folder(Path(entry.path), name)
    except OSError as e:
        return SubmissionFile(student, None, f"The submission cannot be read: {_reason(e)}.")
    if not stat.S_ISREG(mode):
        return SubmissionFile(student, None, f"The submission is {_file_type(mode)}, not a file.")
    if not NOTEBOOK.search(entry.name):
        return SubmissionFile(
            _student_name(Path(entry.name).stem), None, "The file is not a notebook: its name does not end in .ipynb."
        )
    return SubmissionFile(student, Path(entry.path))


def find_in_folder(folder: Path, name: str) -> SubmissionFile:
    """Find the notebook of one student.

    Args:
        folder: folder of the student.
        name: name of the assignment; of several notebooks, the one with this name is preferred.
    """
    student = _student_name(folder.name)
    notebooks, others, pending = [], set(), [(folder, 0)]
    while pending:
        inner, depth = pending.pop()
        for entry in _entries(inner):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                pending.append((Path(entry.path), depth + 1))
            elif NOTEBOOK.search(entry.name) and stat.S_ISREG(status.st_mode):
                notebooks.append((_matches_assignment(entry.name, name), status.st_mtime_ns, Path(entry.path)))
            elif not stat.S_ISREG(status.st_mode):
                others.add(_file_type(status.st_mode))
    if not notebooks:
        others_found = f", only {' and '.join(sorted(others))}" if others else ""
        return SubmissionFile(student, None, f"There is no notebook in the folder{others_found}.")
    named, _, path = max(notebooks)
    if len(notebooks) == 1:
        return SubmissionFile(student, path)
    alone = named and sum(entry[0] for entry in notebooks) == 1
    why = "the one named for the assignment" if alone else "the one changed last"
    return SubmissionFile(student, path, notes=[f"There are {len(notebooks)} notebooks in the folder; {why} counts."])


def _matches_assignment(file: str, name: str) -> bool:
    """Return whether a file has the name of the assignment, apart from what platforms and browsers add to it."""
    around = rf"(.*[_ ])?{re.escape(name)}[-_ ]*(\(?\d{{1,3}}\)?)?"
    return bool(name) and bool(re.fullmatch(around, NOTEBOOK.sub("", file), re.IGNORECASE | re.DOTALL))


def _student_name(name: str) -> str:
    """Return a name that can be stored and printed, with escaped undecodable bytes and replaced control characters."""
    text = unicodedata.normalize("NFC", name.encode("utf-8", "backslashreplace").decode())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _with_unique_names(found: list[SubmissionFile]) -> list[SubmissionFile]:
    """Return the same files with unique names of students: a number is appended to repeated names."""
    taken = {entry.student for entry in found}
    seen: set[str] = set()
    distinct = []
    for entry in found:
        student, n = entry.student, 1
        while student in seen or n > 1 and student in taken:
            n += 1
            student = f"{entry.student} ({n})"
        seen.add(student)
        distinct.append(replace(entry, student=student))
    return sorted(distinct, key=lambda entry: entry.student)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno is not None else str(error)


def _file_type(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")
