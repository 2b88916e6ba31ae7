"""How learning platforms name what students have handed in.

A student chooses the last part of a name at most, so each form is read from its beginning, and what the student wrote
never says whose work it is. A folder has a platform's layout if at least half of the names in it have its form.

- Moodle (``mod/assign/classes/downloader.php``): ``Ada Lovelace_123_assignsubmission_file``, a folder or the beginning
  of a file's name, up to Moodle 4.0 with another underscore; 123 is the number of the participant, and underscores in
  a name have become spaces. With anonymous submissions, the name is ``Participant``. The work of a team bears the name
  and the number of the team, and that of the default team no number.
- Canvas (``lib/content_zipper.rb``): ``lovelaceada_123_456_attention.ipynb`` or, if late,
  ``lovelaceada_LATE_123_456_attention.ipynb``; 123 is the user ID and 456 the ID of the file, which grows with each
  upload. Texts and links have no ID: ``lovelaceada_123_text.html``. Anonymous: ``anon_x1Y2z_456_attention.ipynb``.
- Blackboard: ``Homework 1_lovelace_attempt_2026-10-25-16-30-12_attention.ipynb``, and a file with the same beginning
  and ``.txt`` for each attempt, whose first line holds the name and the login of the student.
- Gradescope's export: folders ``submission_456``, and a file ``submission_metadata.yml`` that says whose they are.
- nbgrader: ``submitted/ada/attention/attention.ipynb``, where ``ada`` is the ID of the student.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

MOODLE = re.compile(r"(?P<name>[^_]+)(?:_(?P<number>\d+))?_assignsubmission_(?:file|onlinetext)(?:_.*)?", re.DOTALL)
# Canvas leaves only letters, digits and underscores of a name
CANVAS = re.compile(
    r"(?P<name>[^\s!-/:-@\[-^`{-~]+?)(?P<late>_LATE)?_(?P<number>\d+)_(?:(?P<file>\d+)_.+|(?:text|link)\.html)",
    re.DOTALL,
)
CANVAS_ANONYMOUS = re.compile(
    r"(?P<late>LATE_)?(?P<name>anon_[0-9A-Za-z]+)_(?:(?P<file>\d+)_.+|(?:text|link)\.html)", re.DOTALL
)
# the word for "attempt" is that of the language of the course
BLACKBOARD = re.compile(r"(?P<head>.+?)_[^\W\d_]+_(?P<date>\d{4}(?:-\d\d){5})(?P<text>\.txt)?(?(text)|_.+)", re.DOTALL)
METADATA = "submission_metadata.yml"
MAX_METADATA = 20 * 2**20
LONGEST_LINE = 1000


@dataclass(frozen=True)
class Owner:
    """What the name of a folder or file says about its student.

    Args:
        key: name under which the journal keeps the student; the same for all files of the student.
        name: name of the student for people.
        number: number or ID of the student on the platform, or an empty string.
        order: later uploads of the student have larger numbers; 0 if the platform does not say.
        notes: sentences for student and instructor.
    """

    key: str
    name: str
    number: str
    order: int = 0
    notes: list[str] = field(default_factory=list)


class Layout(NamedTuple):
    """How a folder was read.

    Args:
        platform: name of the platform, or an empty string.
        owners: name in the folder → its owner; others belong to nobody whom the platform knows.
        sentence: says what was read.
    """

    platform: str
    owners: dict[str, Owner]
    sentence: str


AS_THEY_ARE = "The name of each folder or file was taken as the name of a student."


def recognise(folder: Path, names: list[str]) -> Layout:
    """Find out which platform the names in a folder have the form of.

    Args:
        folder: folder of the submissions.
        names: the names of its files and folders.
    """
    sentence = AS_THEY_ARE
    for platform, (read_owners, what) in PLATFORMS.items():
        owners = read_owners(folder, names)
        if len(owners) * 2 >= len(names):
            sentence = f"The names in the folder are those of {platform}: {what} were read from them."
            return Layout(platform, owners, sentence)
        if owners:
            other = printable(next(name for name in names if name not in owners))
            sentence += f" {len(owners)} of {len(names)} names look like those of {platform}, but {other} does not."
    return Layout("", {}, sentence)


def printable(name: str) -> str:
    """Return a name that can be stored and printed, with escaped undecodable bytes and replaced control characters."""
    text = unicodedata.normalize("NFC", name.encode("utf-8", "backslashreplace").decode())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _by_name(read: Callable[[str], Owner | None]) -> Callable[[Path, list[str]], dict[str, Owner]]:
    """For a platform of which each name says all."""
    return lambda _, names: {name: owner for name in names if (owner := read(name))}


def _moodle_owner(entry: str) -> Owner | None:
    if not (match := MOODLE.fullmatch(entry)):
        return None
    name, number = printable(match["name"]), match["number"] or ""
    return Owner(f"{name}_{number}_assignsubmission_file_" if number else name, name, number)


def _canvas_owner(entry: str) -> Owner | None:
    anonymous = CANVAS_ANONYMOUS.fullmatch(entry)
    if not (match := anonymous or CANVAS.fullmatch(entry)) or not anonymous and match["name"] != match["name"].lower():
        return None
    name, number = printable(match["name"]), "" if anonymous else match["number"]
    notes = ["Canvas marks this file as late."] if match["late"] else []
    return Owner(f"{name}_{number}" if number else name, name, number, int(match["file"] or 0), notes)


def _blackboard_owners(folder: Path, names: list[str]) -> dict[str, Owner]:
    """The first line of the text that Blackboard writes for an attempt says where the student's part of a name begins.
    Without it, that part is what remains after the beginning that all names share."""
    found = {name: match for name in names if (match := BLACKBOARD.fullmatch(name))}
    people = {
        match["head"]: person for name, match in found.items() if match["text"] and (person := _person(folder / name))
    }
    heads = {match["head"] for match in found.values()}
    shared = os.path.commonprefix(sorted(heads)).rpartition("_")[0] if len(heads) > 1 else ""
    owners = {}
    for entry, match in found.items():
        head = match["head"]
        name, login = people.get(head, ("", ""))
        if not login or not head.endswith(f"_{login}"):
            login = printable(head.removeprefix(f"{shared}_") if shared else head.rpartition("_")[2])
            name = login
        owners[entry] = Owner(login, name, login, int(match["date"].replace("-", "")))
    return owners


def _person(path: Path) -> tuple[str, str] | None:
    """The name and the login in the first line of a text of Blackboard, such as ``Name: Ada Lovelace (lovelace)``."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            line = file.readline(LONGEST_LINE).decode("utf-8-sig", "replace").strip()
    except OSError:
        return None
    match = re.fullmatch(r"[^:：]+[:：]\s*(?P<name>.+) \((?P<login>[^()]+)\)", line)
    return (printable(match["name"]), printable(match["login"])) if match else None


def _gradescope_owners(folder: Path, names: list[str]) -> dict[str, Owner]:
    """Several submitters of one submission are a group."""
    owners = {}
    for name, entry in _metadata(folder / METADATA).items() if METADATA in names else ():
        people = [person for person in _list(_of(entry, "submitters")) if isinstance(person, dict)]
        if name in names and people:
            known = [[str(_of(person, what) or "") for what in ("name", "sid", "email")] for person in people]
            keys = [sid or email or person for person, sid, email in known]
            number = known[0][1] if len(known) == 1 else ""
            whole = ", ".join(person or key for (person, *_), key in zip(known, keys, strict=True))
            owners[name] = Owner(printable(", ".join(keys)), printable(whole), printable(number), _number(name))
    return owners | ({METADATA: Owner("", "", "")} if owners else {})


def _metadata(path: Path) -> dict[str, Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Ruby's tags are plain values; nothing is made of them."""

    def plain(loader: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        return loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else str(node.value)

    Loader.add_multi_constructor("!", plain)
    Loader.add_multi_constructor("tag:", plain)
    try:
        with open(path, "rb") as file:
            content = yaml.load(file.read(MAX_METADATA), Loader)  # noqa: S506
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


def _of(fields: Any, name: str) -> Any:
    """The value of a key, which Ruby writes with a colon before it."""
    return fields.get(f":{name}", fields.get(name)) if isinstance(fields, dict) else None


def _list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdecimal() and len(digits) < 20 else 0


PLATFORMS: dict[str, tuple[Callable[[Path, list[str]], dict[str, Owner]], str]] = {
    "Gradescope's export": (_gradescope_owners, f"the names and IDs of the submitters in {METADATA}"),
    "Moodle": (_by_name(_moodle_owner), "the name and the participant number of each student"),
    "Blackboard": (_blackboard_owners, "the login of each student and the time of each attempt"),
    "Canvas": (_by_name(_canvas_owner), "the name, the user ID and the late mark of each student"),
}
