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
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MOODLE = re.compile(r"(?P<name>[^_]+)(?:_(?P<number>\d+))?_assignsubmission_(?:file|onlinetext)(?:_.*)?", re.DOTALL)
# Canvas leaves only letters, digits and underscores of a name
CANVAS_NAME = re.compile(r"[^\s!-/:-@\[-^`{-~]+")
CANVAS_REST = re.compile(r"_(?:(?P<file>\d+)_.+|(?:text|link)\.html)", re.DOTALL)
CANVAS_ANONYMOUS = re.compile(
    r"(?P<late>LATE_)?(?P<name>anon_[0-9A-Za-z]+)_(?:(?P<file>\d+)_.+|(?:text|link)\.html)", re.DOTALL
)
# the word for "attempt" is that of the language of the course
BLACKBOARD = re.compile(r"(?P<head>.+?)_[^\W\d_]+_(?P<date>\d{4}(?:-\d\d){5})(?P<text>\.txt)?(?(text)|_.+)", re.DOTALL)
METADATA = "submission_metadata.yml"
LATE = "Canvas marks this file as late."
NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)  # some browsers append a suffix
MAX_METADATA = 50 * 2**20
SUBMITTERS = re.compile(r"^(submission_\d{1,18}):\n(?:  .*\n)*?  :submitters:\n((?:  - .*\n|    .*\n)+)", re.MULTILINE)
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
    found = {platform: read_owners(folder, names) for platform, (read_owners, _) in PLATFORMS.items()}
    platform, owners = max(found.items(), key=lambda each: len(each[1]))  # of equal numbers, the first
    if len(owners) * 2 >= len(names):
        what = PLATFORMS[platform][1]
        return Layout(platform, owners, f"The names in the folder are those of {platform}: {what} were read from them.")
    sentence = AS_THEY_ARE
    for platform, owners in found.items():
        if owners:
            other = printable(next(name for name in names if name not in owners))
            sentence += f" {len(owners)} of {len(names)} names look like those of {platform}, but {other} does not."
    return Layout("", {}, sentence)


def printable(name: str) -> str:
    """Return a name that can be stored and printed, with escaped undecodable bytes and replaced control characters."""
    text = unicodedata.normalize("NFC", name.encode("utf-8", "backslashreplace").decode())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _moodle_owners(_: Path, names: list[str]) -> dict[str, Owner]:
    owners = {}
    for entry in names:
        if match := MOODLE.fullmatch(entry):
            name, number = printable(match["name"]), match["number"] or ""
            owners[entry] = Owner(f"{name}_{number}_assignsubmission_file_" if number else name, name, number)
    return owners


def _canvas_owners(_: Path, names: list[str]) -> dict[str, Owner]:
    """The name of a student or group may end with a number as well, so that the numbers after it can be read in two
    ways. Then the ID of the file, which has as many digits as those of other files, shows where the name ends; if it
    does not, nobody's row is written."""
    readings = {name: found for name in names if (found := list(_canvas_readings(name)))}
    known = [owner.order for found in readings.values() if len(found) == 1 for owner in found if owner.order]
    owners = {}
    for name, found in readings.items():
        fitting = [each for each in found if known and min(known) <= 10 * each.order and each.order <= 10 * max(known)]
        unclear = len(found) > 1 and len(fitting) != 1
        note = "Canvas's name of this file can be read in two ways, so it is not known whose it is."
        own = printable(NOTEBOOK.sub("", name))
        owners[name] = Owner(own, own, "", 0, [note]) if unclear else (fitting if len(found) > 1 else found)[0]
    return owners


def _canvas_readings(entry: str) -> Iterator[Owner]:
    if match := CANVAS_ANONYMOUS.fullmatch(entry):
        name = printable(match["name"])
        yield Owner(name, name, "", int(match["file"] or 0), [LATE] if match["late"] else [])
        return
    for end in re.finditer(r"(?<=.)(?P<late>_LATE)?_(?P<number>\d+)(?=_)", entry):
        name, rest = entry[: end.start()], CANVAS_REST.fullmatch(entry, end.end())
        if rest and CANVAS_NAME.fullmatch(name) and name == name.lower():
            name, number = printable(name), end["number"]
            notes = [LATE] if end["late"] else []
            yield Owner(f"{name}_{number}", name, number, int(rest["file"] or 0), notes)
        if not rest or not CANVAS_NAME.fullmatch(name):
            break


def _blackboard_owners(folder: Path, names: list[str]) -> dict[str, Owner]:
    """The first line of the text that Blackboard writes for an attempt says where the student's part of a name begins.
    Without it, nobody knows, and the name of the assignment stays in that of the student."""
    found = {name: match for name in names if (match := BLACKBOARD.fullmatch(name))}
    people = {
        match["head"]: person for name, match in found.items() if match["text"] and (person := _person(folder / name))
    }
    owners = {}
    for entry, match in found.items():
        head, order = printable(match["head"]), int(match["date"].replace("-", ""))
        name, login = people.get(match["head"], ("", ""))
        is_known = bool(login) and head.endswith(f"_{login}")
        owners[entry] = Owner(login, name, login, order) if is_known else Owner(head, head, "", order)
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
    submitters = {name: people for name, people in _metadata(folder / METADATA) if name in names}
    emails = defaultdict(set)
    for people in submitters.values():
        for person in people:
            emails[person["sid"]].add(person["email"])
    owners = {}
    for name, people in submitters.items():
        sids = [person["sid"] if len(emails[person["sid"]]) == 1 else "" for person in people]
        keys = [sid or person["email"] or person["name"] for sid, person in zip(sids, people, strict=True)]
        if people and all(keys):
            whole = ", ".join(person["name"] or key for person, key in zip(people, keys, strict=True))
            number = sids[0] if len(people) == 1 else ""
            owners[name] = Owner(", ".join(keys), whole, number, int(name.rpartition("_")[2]))
    return owners | ({METADATA: Owner("", "", "")} if owners else {})


def _metadata(path: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The submitters of each submission. Ruby writes the file in a form of which each part is found by its lines; the
    rest, which holds what students' code has printed, is not parsed."""
    import yaml

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            text = file.read(MAX_METADATA).decode("utf-8", "replace")
    except OSError:
        return
    for name, lines in SUBMITTERS.findall(text):
        try:
            listed = yaml.safe_load(lines[:LONGEST_LINE])
        except Exception:  # a scalar of YAML can raise whatever its type raises
            continue
        people = [person for person in listed if isinstance(person, dict)] if isinstance(listed, list) else []
        fields = [{key: person.get(f":{key}") for key in ("name", "sid", "email")} for person in people]
        yield (
            name,
            [
                {key: printable(str(value)) if isinstance(value, str | int) else "" for key, value in person.items()}
                for person in fields
            ],
        )


PLATFORMS: dict[str, tuple[Callable[[Path, list[str]], dict[str, Owner]], str]] = {
    "Gradescope's export": (_gradescope_owners, f"the names and IDs of the submitters in {METADATA}"),
    "Moodle": (_moodle_owners, "the name and the participant number of each student"),
    "Blackboard": (_blackboard_owners, "the login of each student and the time of each attempt"),
    "Canvas": (_canvas_owners, "the name, the user ID and the late mark of each student"),
}
