"""From the folder that a learning platform gives to one file per student.

Names and files are the students' own: links are not followed, nothing but a regular file is opened.
"""

import os
import re
import stat
import unicodedata
from dataclasses import replace
from pathlib import Path

from groundwork import Refusal
from llm_grader.reading import too_large
from llm_grader.records import Found, NeedsAttention

IGNORED = {"__macosx", "thumbs.db", "desktop.ini"}  # and all that is hidden, such as .ipynb_checkpoints
DEEPEST = 3  # folders below a student's, as when an archive was unpacked there
NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)  # some browsers add an ending of their own


def find(folder: Path, name: str = "") -> list[Found]:
    """One entry per student, in the order of their names.

    Args:
        folder: holds a folder per student, or their files.
        name: the assignment's, by which a notebook is preferred where a student hands in several.

    Raises:
        Refusal: there is no such folder, or nothing in it.
    """
    if folder.is_file():
        unpack = ": unpack it first" if folder.suffix.lower() in (".zip", ".gz", ".tar", ".7z", ".rar") else ""
        raise Refusal(f"{folder} is a file, where a folder of submissions is expected{unpack}")
    if not folder.is_dir():
        raise Refusal(f"{folder}: there is no such folder of submissions")
    try:
        entries = _entries(folder)
    except OSError as e:
        raise Refusal(f"{folder}: the folder cannot be read: {os.strerror(e.errno)}") from e
    if not entries:
        raise Refusal(f"{folder}: the folder holds no submissions")
    return _distinct([_found(entry, name) for entry in entries])


def load(found: Found, limit: int) -> bytes:
    """The bytes of a student's file.

    Raises:
        NeedsAttention: there is none, it is larger than ``limit`` bytes, or it cannot be read.
    """
    if found.path is None:
        raise NeedsAttention(found.problem)
    try:  # the file may have been replaced since it was found: by a link, or by what would block
        descriptor = os.open(found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        raise NeedsAttention(f"The file cannot be opened: {os.strerror(e.errno)}.") from e
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NeedsAttention(f"What was handed in is {_kind(status.st_mode)}, not a file.")
        if status.st_size > limit:
            raise too_large(limit)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError as e:
        raise NeedsAttention(f"The file cannot be read: {os.strerror(e.errno)}.") from e
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise too_large(limit)
    return data


def _entries(folder: Path) -> list[os.DirEntry]:
    """What is in a folder, sorted by name, without what systems and editors leave there."""
    with os.scandir(folder) as entries:
        kept = [entry for entry in entries if entry.name[0] != "." and entry.name.lower() not in IGNORED]
    return sorted(kept, key=lambda entry: entry.name)


def _found(entry: os.DirEntry, name: str) -> Found:
    student = _student(NOTEBOOK.sub("", entry.name))
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            return in_folder(Path(entry.path), name)
    except OSError as e:
        return Found(student, None, f"What was handed in cannot be read: {os.strerror(e.errno)}.")
    if not stat.S_ISREG(mode):
        return Found(student, None, f"What was handed in is {_kind(mode)}, not a file.")
    if not NOTEBOOK.search(entry.name):
        return Found(_student(Path(entry.name).stem), None, "The file is not a notebook, whose name ends in .ipynb.")
    return Found(student, Path(entry.path))


def in_folder(folder: Path, name: str) -> Found:
    student = _student(folder.name)
    notebooks, others, waiting = [], set(), [(folder, 0)]
    while waiting:
        inner, depth = waiting.pop()
        for entry in _entries(inner):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and depth < DEEPEST:
                waiting.append((Path(entry.path), depth + 1))
            elif NOTEBOOK.search(entry.name) and stat.S_ISREG(status.st_mode):
                notebooks.append((_is_named(entry.name, name), status.st_mtime_ns, Path(entry.path)))
            elif not stat.S_ISREG(status.st_mode):
                others.add(_kind(status.st_mode))
    if not notebooks:
        besides = f", only {' and '.join(sorted(others))}" if others else ""
        return Found(student, None, f"There is no notebook in the folder{besides}.")
    named, _, path = max(notebooks)
    if len(notebooks) == 1:
        return Found(student, path)
    alone = named and sum(entry[0] for entry in notebooks) == 1
    why = "the one named for the assignment" if alone else "the one changed last"
    return Found(student, path, notes=[f"There are {len(notebooks)} notebooks in the folder; {why} counts."])


def _is_named(file: str, name: str) -> bool:
    """Whether a file is called as the assignment, give or take what platforms and browsers put around it."""
    around = rf"(.*[_ ])?{re.escape(name)}[-_ ]*(\(?\d{{1,3}}\)?)?"
    return bool(name) and bool(re.fullmatch(around, NOTEBOOK.sub("", file), re.IGNORECASE | re.DOTALL))


def _student(name: str) -> str:
    """A name that can be stored and printed: undecodable bytes are spelled out, control characters are replaced."""
    text = unicodedata.normalize("NFC", name.encode("utf-8", "backslashreplace").decode())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _distinct(found: list[Found]) -> list[Found]:
    """The same entries with a number behind each name that was there before."""
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


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")
