"""Find one file for each student in the folder that a learning platform gives.

Students choose the names and the files, so links are not followed and only regular files are opened.

If all names in the folder are those of one platform, the name of each student and the platform's number are read from
them:

- Moodle: ``Ada Lovelace_123_assignsubmission_file_``, a folder or the beginning of a file's name; 123 is the number of
  the participant in the assignment.
- Canvas: ``lovelaceada_123_456_attention.ipynb`` or, if late, ``lovelaceada_LATE_123_456_attention.ipynb``; 123 is the
  user ID and 456 the ID of the file, which grows with each upload. Anonymous: ``anon_x1Y2z_456_attention.ipynb``.
- nbgrader: ``submitted/ada/attention/attention.ipynb``, where ``ada`` is the ID of the student.

Otherwise the name of each folder or file is the name of a student.
"""

import os
import re
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from groundwork import Refusal
from llm_grader.reading import file_too_large
from llm_grader.records import NeedsAttention, SubmissionFile

IGNORED = {"__macosx", "thumbs.db", "desktop.ini"}  # and hidden files, such as .ipynb_checkpoints
MAX_DEPTH = 3  # levels of folders below a student's, such as an unpacked archive
NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)  # some browsers append a suffix
MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)_.*", re.DOTALL)
# Canvas leaves only letters, digits and underscores of a name
CANVAS = re.compile(r"(?P<name>[^\s!-/:-@\[-^`{-~]+?)(?P<late>_LATE)?_(?P<number>\d+)_(?P<file>\d+)_.+", re.DOTALL)
CANVAS_ANONYMOUS = re.compile(r"(?P<late>LATE_)?(?P<name>anon_[0-9A-Za-z]+)_(?P<file>\d+)_.+", re.DOTALL)


@dataclass(frozen=True)
class Owner:
    """What the name of a folder or file says about its student.

    Args:
        key: name under which the journal keeps the student; the same for all files of the student.
        name: name of the student for people.
        number: number or ID of the student on the platform, or an empty string.
        order: later uploads of the student have larger numbers.
        notes: sentences for student and instructor.
    """

    key: str
    name: str
    number: str
    order: int = 0
    notes: list[str] = field(default_factory=list)


def find(folder: Path, name: str = "") -> list[SubmissionFile]:
    """Return the files that :func:`find_with_layout` finds."""
    return find_with_layout(folder, name)[0]


def find_with_layout(folder: Path, name: str = "") -> tuple[list[SubmissionFile], str]:
    """Find the file of each student.

    Args:
        folder: folder with a folder or a file for each student.
        name: name of the assignment; of several notebooks of a student, the one with this name is preferred.

    Returns:
        The files sorted by the names of the students, and a sentence that says how the folder was read.

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
        files = [_nbgrader_file(entry, assignment, name) for entry in entries]
        layout = f"The folder has nbgrader's layout: the ID of each student and the folder {assignment} were read."
        return _with_unique_names(files), layout
    layout = AS_THEY_ARE
    for platform, (read_owner, what) in PLATFORMS.items():
        owners = [read_owner(entry.name) for entry in entries]
        if known := [owner for owner in owners if owner]:
            if len(known) == len(owners):
                layout = f"The names in the folder are those of {platform}: {what} were read from them."
                files = _files_by_owner(entries, known, name)
                return _with_unique_names([replace(file, platform=platform) for file in files]), layout
            other = _student_name(entries[owners.index(None)].name)
            layout += f" {len(known)} of {len(owners)} names look like those of {platform}, but {other} does not."
    return _with_unique_names([_submission_file(entry, name) for entry in entries]), layout


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


# Layouts of platforms

AS_THEY_ARE = "The name of each folder or file was taken as the name of a student."


def _moodle_owner(entry: str) -> Owner | None:
    if not (match := MOODLE.fullmatch(entry)):
        return None
    name, number = _student_name(match["name"]), match["number"]
    return Owner(f"{name}_{number}_assignsubmission_file_", name, number)


def _canvas_owner(entry: str) -> Owner | None:
    anonymous = CANVAS_ANONYMOUS.fullmatch(entry)
    if not (match := anonymous or CANVAS.fullmatch(entry)) or not anonymous and match["name"] != match["name"].lower():
        return None
    name, number = _student_name(match["name"]), "" if anonymous else match["number"]
    notes = ["Canvas marks this file as late."] if match["late"] else []
    return Owner(f"{name}_{number}" if number else name, name, number, int(match["file"]), notes)


PLATFORMS: dict[str, tuple[Callable[[str], Owner | None], str]] = {
    "Moodle": (_moodle_owner, "the name and the participant number of each student"),
    "Canvas": (_canvas_owner, "the name, the user ID and the late mark of each student"),
}


def _files_by_owner(entries: list[os.DirEntry], owners: list[Owner], name: str) -> list[SubmissionFile]:
    """Return one file for each student, although a platform may give several folders and files of a student."""
    groups = defaultdict(list)
    for entry, owner in zip(entries, owners, strict=True):
        groups[owner.key].append((owner, entry))
    return [_file_of_owner(members, name) for members in groups.values()]


def _file_of_owner(members: list[tuple[Owner, os.DirEntry]], name: str) -> SubmissionFile:
    found = [(owner, _submission_file(entry, name)) for owner, entry in members]
    readable = [(owner, file) for owner, file in found if file.path]
    named = [(owner, file) for owner, file in readable if file.path and _matches_assignment(file.path.name, name)]
    owner, file = max(named or readable or found, key=lambda pair: (pair[0].order, *_age(pair[1].path)))
    notes = [*owner.notes, *file.notes]
    if len(readable) > 1:
        why = "the one named for the assignment" if len(named) == 1 else "the one handed in last"
        notes.append(f"There are {len(readable)} notebooks of this student; {why} counts.")
    names = [entry.name for _, entry in members]
    return replace(file, student=owner.key, name=owner.name, number=owner.number, notes=notes, entries=names)


def _age(path: Path | None) -> tuple[int, str]:
    """Return the time at which a file was changed and its name, which decide between files without an upload number."""
    try:
        return (os.lstat(path).st_mtime_ns if path else 0), str(path)
    except OSError:
        return 0, str(path)


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


def _nbgrader_file(entry: os.DirEntry, assignment: str, name: str) -> SubmissionFile:
    student = _student_name(entry.name)
    about = {"student": student, "platform": "nbgrader", "number": student, "entries": [entry.name]}
    folder = Path(entry.path) / assignment
    try:
        if folder.is_symlink() or not folder.is_dir():
            return SubmissionFile(**about, path=None, problem=f"The student has no folder {assignment}.")
        return replace(find_in_folder(folder, name), **about)
    except OSError as e:
        return SubmissionFile(**about, path=None, problem=f"The submission cannot be read: {_reason(e)}.")


# Folders and files


def _entries(folder: Path) -> list[os.DirEntry]:
    """Return the entries of a folder sorted by name, without the files that systems and editors leave there."""
    with os.scandir(folder) as entries:
        kept = [entry for entry in entries if entry.name[0] != "." and entry.name.lower() not in IGNORED]
    return sorted(kept, key=lambda entry: entry.name)


def _submission_file(entry: os.DirEntry, name: str) -> SubmissionFile:
    found = SubmissionFile(_student_name(NOTEBOOK.sub("", entry.name)), None, entries=[entry.name])
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            return replace(find_in_folder(Path(entry.path), name), entries=[entry.name])
    except OSError as e:
        return replace(found, problem=f"The submission cannot be read: {_reason(e)}.")
    if not stat.S_ISREG(mode):
        return replace(found, problem=f"The submission is {_file_type(mode)}, not a file.")
    if not NOTEBOOK.search(entry.name):
        problem = "The file is not a notebook: its name does not end in .ipynb."
        return replace(found, student=_student_name(Path(entry.name).stem), problem=problem)
    return replace(found, path=Path(entry.path))


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
