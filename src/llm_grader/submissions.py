"""Find one notebook for each student in the folder that a learning platform gives.

Students choose the names and the files, so links are not followed and only regular files are opened. The platform's
form of a name, see :mod:`llm_grader.layouts`, says who the student is; a name that has none is that of a student.
A zip archive that a student has handed in is read without being unpacked.

If a student has handed in several notebooks, the one with answers counts, and of several with answers the one that the
platform received last. Names and times of files, which students can edit, decide nothing.
"""

import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from groundwork import Refusal
from llm_grader import reading, source
from llm_grader.layouts import NOTEBOOK, Owner, printable, recognise
from llm_grader.reading import file_too_large
from llm_grader.records import AnotherNotebook, Key, NeedsAttention, SubmissionFile

IGNORED = {"__macosx", "thumbs.db", "desktop.ini"}  # and hidden files, such as .ipynb_checkpoints
MAX_DEPTH = 3  # levels of folders below a student's, such as an unpacked archive
MAX_CANDIDATES = 20
MAX_NAMED = 5
ARCHIVE = re.compile(r"\.zip$", re.IGNORECASE)
MAX_ARCHIVE, MAX_FILES = 50 * 2**20, 10_000  # bytes and files of a zip archive
ENTRY = b"PK\1\2"  # with which each entry in its list of files begins
UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError)
UNREADABLE += (OverflowError, OSError)
NO_NOTEBOOK = "The file is not a notebook: its name does not end in .ipynb."


def find(folder: Path, name: str = "") -> list[SubmissionFile]:
    """Return the files that :func:`find_with_layout` finds."""
    return find_with_layout(folder, name)[0]


def find_with_layout(folder: Path, name: str = "") -> tuple[list[SubmissionFile], str]:
    """Find the notebooks of each student.

    Args:
        folder: folder with a folder or a file for each student.
        name: name of the assignment, for nbgrader's folders.

    Returns:
        The files sorted by the names of the students, where :func:`choose` has to choose among several notebooks, and
        sentences that say how the folder was read.

    Raises:
        Refusal: there is no such folder, it cannot be read, it is empty, or it holds several assignments of nbgrader
            and none has this name.
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
    if assignment := _nbgrader_assignment(folder, entries, name):
        files = [_nbgrader_file(entry, assignment) for entry in entries]
        layout = f"The folder has nbgrader's layout: the ID of each student and the folder {assignment} were read."
        return _with_unique_names(files), layout
    platform, owners, sentence = recognise(folder, [entry.name for entry in entries])
    groups, own, left = defaultdict(list), [], []
    for entry in entries:
        owner = owners.get(entry.name)
        if owner:
            groups[owner.key].append((owner, entry))
        elif not platform or entry.is_dir(follow_symlinks=False) or _may_hold_one(entry.name):
            own.append(entry)
        else:
            left.append(entry)
    groups.pop("", None)  # the platform's own files
    files = [replace(_file_of_owner(members), platform=platform) for members in groups.values()]
    files += [replace(_submission_file(entry), platform=platform) for entry in own]
    if platform and own:
        sentence += f" Graded under their own names: {_enumerated(own)}."
    if left:
        sentence += f" Left over, and not graded: {_enumerated(left)}."
    return _with_unique_names(files), sentence


def choose(file: SubmissionFile, key: Key) -> SubmissionFile:
    """Choose one of several notebooks of a student by what they contain.

    Args:
        file: of a student.
        key: key of the assignment.

    Returns:
        The file with the path of the notebook and a note on the choice. If nobody but a person can choose, there is no
        path, and the problem says why.
    """
    if not file.candidates:
        return file
    if len(file.candidates) > MAX_CANDIDATES:
        return replace(file, problem=f"There are more than {MAX_CANDIDATES} notebooks of this student.")
    read, lost, others = [], [], []
    for each in file.candidates:
        try:
            read.append((each, reading.read(load(each, reading.SIZE_LIMIT), key)))
        except AnotherNotebook:
            others.append(each)
        except NeedsAttention as e:
            lost.append((each, str(e)))
    begun = [(each, content) for each, content in read if any(a.attempted for a in content.answers.values())]
    newest = max((each.order for each, _ in begun), default=-1)
    if unread := [why for each, why in lost if each.order >= newest]:  # it may be the one that counts
        return replace(
            file, problem=f"One of {len(file.candidates)} notebooks of this student cannot be read: {unread[0]}"
        )
    what = "with answers" if begun else "of this assignment" if read else ""
    among = [each for each, _ in begun or read] or others
    last = [each for each in among if each.order == max(each.order for each in among)]
    contents = {_what_counts(content.cells) for each, content in begun if each in last}
    if len(contents) > 1:
        names = ", ".join(printable(each.member or each.path.name) for each in last if each.path)
        problem = (
            f"There are {len(last)} notebooks with different answers, and nothing says which one counts: {names}. "
            "Keep one of them and remove the others."
        )
        return replace(file, problem=problem)
    chosen = last[0]
    why = (
        f"the only one {what}"
        if len(among) == 1
        else "the one handed in last"
        if len(last) == 1
        else "one of those alike"
    )
    note = f"There are {len(file.candidates)} notebooks of this student; {why} counts."
    notes = list(dict.fromkeys([*file.notes, *chosen.notes, note]))
    return replace(file, path=chosen.path, member=chosen.member, notes=notes)


def _what_counts(cells: list[str]) -> tuple[str, ...]:
    """The cells that define something; others, such as one that is empty, change no answer."""
    parsed = ((cell.strip(), source.read(cell, [])) for cell in cells)
    return tuple(cell for cell, found in parsed if cell and (found.bindings or found.problem))


def load(found: SubmissionFile, limit: int) -> bytes:
    """Return the bytes of a student's notebook.

    Args:
        found: the file, of which :func:`choose` has chosen one.
        limit: largest size in bytes.

    Raises:
        NeedsAttention: there is no file, it is larger than ``limit`` bytes, or it cannot be read.
    """
    if found.path is None:
        raise NeedsAttention(found.problem or "It is not known which notebook counts.")
    with _opened(found.path) as file:
        if found.member:
            return _member(file, found.member, limit)
        try:
            if os.fstat(file.fileno()).st_size > limit:
                raise file_too_large(limit)
            data = file.read(limit + 1)
        except OSError as e:
            raise NeedsAttention(f"The file cannot be read: {_reason(e)}.") from e
    if len(data) > limit:
        raise file_too_large(limit)
    return data


def _opened(path: Path) -> BinaryIO:
    """Open a regular file, which may have been replaced by a link or a named pipe since it was found."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        raise NeedsAttention(f"The file cannot be opened: {_reason(e)}.") from e
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NeedsAttention(f"The submission is {_file_type(mode)}, not a file.")
    return open(descriptor, "rb")


# Zip archives


def _archive(file: BinaryIO) -> zipfile.ZipFile:
    """Open an archive whose list of files is so short that it can be read."""
    content = file.read(MAX_ARCHIVE + 1)
    if len(content) > MAX_ARCHIVE:
        raise NeedsAttention(f"The zip archive is larger than {MAX_ARCHIVE // 2**20} MB; hand in the notebook alone.")
    if content.count(ENTRY) > MAX_FILES:
        raise NeedsAttention(f"The zip archive holds more than {MAX_FILES:,} files; hand in the notebook alone.")
    return zipfile.ZipFile(io.BytesIO(content))


def _members(path: Path) -> list[str]:
    """Return the names of the notebooks in an archive."""
    try:
        with _opened(path) as file, _archive(file) as archive:
            return [name for name in archive.namelist() if _is_notebook_in_archive(name)]
    except UNREADABLE as e:
        raise NeedsAttention("The zip archive cannot be read; hand in the notebook alone.") from e


def _is_notebook_in_archive(name: str) -> bool:
    *folders, last = name.split("/")
    hidden = any(part.lower() in IGNORED or part.startswith(".") for part in [*folders, last] if part)
    return not hidden and len(folders) <= MAX_DEPTH + 1 and bool(NOTEBOOK.search(last))


def _member(file: BinaryIO, name: str, limit: int) -> bytes:
    try:
        with _archive(file) as archive:
            found = archive.getinfo(name)
            if found.flag_bits & 1:
                raise NeedsAttention("The zip archive has a password; hand in the notebook alone.")
            if found.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others take any memory
                raise NeedsAttention("The zip archive is compressed in an unusual way; hand in the notebook alone.")
            with archive.open(found) as opened:
                data = opened.read(limit + 1)
    except (*UNREADABLE, KeyError) as e:
        raise NeedsAttention("The zip archive cannot be read; hand in the notebook alone.") from e
    if len(data) > limit:
        raise file_too_large(limit)
    return data


# The layouts that need more than names


def _nbgrader_assignment(folder: Path, entries: list[os.DirEntry], name: str) -> str:
    """Return the name of the assignment's folders if the folder has nbgrader's layout, or an empty string."""
    assignments = set()
    try:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                return ""
            for inner in _entries(Path(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    assignments.add(inner.name)
                elif NOTEBOOK.search(inner.name):
                    return ""
    except OSError:
        return ""
    if name in assignments:
        return name
    if folder.name != "submitted" or not assignments:
        return ""
    if len(assignments) > 1:
        raise Refusal(
            f"The folder {folder} has nbgrader's layout and holds {', '.join(sorted(assignments)[:5])}, but no "
            f"assignment {name}; give a folder that holds one assignment only."
        )
    return assignments.pop()


def _nbgrader_file(entry: os.DirEntry, assignment: str) -> SubmissionFile:
    student = printable(entry.name)
    about = {"student": student, "platform": "nbgrader", "number": student, "entries": [entry.name]}
    folder = Path(entry.path) / assignment
    try:
        if folder.is_symlink() or not folder.is_dir():
            return SubmissionFile(**about, path=None, problem=f"The student has no folder {assignment}.")
        return replace(find_in_folder(folder), **about)
    except OSError as e:
        return SubmissionFile(**about, path=None, problem=f"The submission cannot be read: {_reason(e)}.")


def _file_of_owner(members: list[tuple[Owner, os.DirEntry]]) -> SubmissionFile:
    """Return one entry for a student, of whom a platform may give several folders and files."""
    found = [(owner, _submission_file(entry)) for owner, entry in members]
    notebooks = [
        replace(each, order=owner.order, notes=owner.notes)
        for owner, file in found
        for each in file.candidates or ([file] if file.path or ARCHIVE.search(file.entries[0]) else [])
    ]
    file = replace(found[-1][1], notes=list(dict.fromkeys(note for owner, _ in found for note in owner.notes)))
    owner, names = members[0][0], [entry.name for _, entry in members]
    about = {"student": owner.key, "name": owner.name, "number": owner.number, "entries": names}
    return replace(_one_or_several(file, notebooks), **about)


def _one_or_several(file: SubmissionFile, notebooks: list[SubmissionFile]) -> SubmissionFile:
    """Return the file with its notebook, or with its notebooks among which one has to be chosen."""
    if not notebooks:
        return file
    if len(notebooks) == 1:
        only = notebooks[0]
        notes = list(dict.fromkeys([*file.notes, *only.notes]))
        return replace(file, path=only.path, member=only.member, problem=only.problem, notes=notes)
    return replace(file, path=None, problem="", candidates=notebooks)


# Folders and files


def _entries(folder: Path) -> list[os.DirEntry]:
    """Return the entries of a folder sorted by name, without the files that systems and editors leave there."""
    with os.scandir(folder) as entries:
        kept = [entry for entry in entries if entry.name[0] != "." and entry.name.lower() not in IGNORED]
    return sorted(kept, key=lambda entry: entry.name)


def _may_hold_one(name: str) -> bool:
    return bool(NOTEBOOK.search(name) or ARCHIVE.search(name))


def _submission_file(entry: os.DirEntry) -> SubmissionFile:
    student = NOTEBOOK.sub("", ARCHIVE.sub("", entry.name))
    found = SubmissionFile(printable(student), None, entries=[entry.name])
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            return replace(find_in_folder(Path(entry.path)), entries=[entry.name])
        if not stat.S_ISREG(mode):
            return replace(found, problem=f"The submission is {_file_type(mode)}, not a file.")
        if not _may_hold_one(entry.name):
            return replace(found, student=printable(Path(entry.name).stem), problem=NO_NOTEBOOK)
        notebooks = list(_notebooks(Path(entry.path)))
    except OSError as e:
        return replace(found, problem=f"The submission cannot be read: {_reason(e)}.")
    except NeedsAttention as e:
        return replace(found, problem=str(e))
    return _one_or_several(replace(found, problem="There is no notebook in the zip archive."), notebooks)


def _notebooks(path: Path) -> Iterator[SubmissionFile]:
    """Yield the notebook that a file is, or those in an archive."""
    if not ARCHIVE.search(path.name):
        yield SubmissionFile("", path)
        return
    for name in _members(path):
        yield SubmissionFile("", path, member=name)


def find_in_folder(folder: Path) -> SubmissionFile:
    """Find the notebook of one student, or the notebooks among which :func:`choose` has to choose.

    Args:
        folder: folder of the student.
    """
    file = SubmissionFile(printable(folder.name), None)
    notebooks, others, pending = [], set(), [(folder, 0)]
    while pending:
        inner, depth = pending.pop()
        for entry in _entries(inner):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) and depth < MAX_DEPTH:
                pending.append((Path(entry.path), depth + 1))
            elif _may_hold_one(entry.name) and stat.S_ISREG(mode):
                try:
                    notebooks += _notebooks(Path(entry.path))
                except NeedsAttention as e:
                    notebooks.append(SubmissionFile("", None, str(e)))
            elif not stat.S_ISREG(mode):
                others.add(_file_type(mode))
    others_found = f", only {' and '.join(sorted(others))}" if others else ""
    return _one_or_several(replace(file, problem=f"There is no notebook in the folder{others_found}."), notebooks)


def _enumerated(entries: list[os.DirEntry]) -> str:
    more = f" and {len(entries) - MAX_NAMED} more" if len(entries) > MAX_NAMED else ""
    return ", ".join(printable(entry.name) for entry in entries[:MAX_NAMED]) + more


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
