"""Shares of a class, for machines that grade it together and have nothing in common but the folder of the marks.

A share is a run of its own, in the folder ``tasks/I-of-N`` with a journal of its own, since machines cannot share an
SQLite file. All shares draw the hidden inputs from the same secret seed, and :mod:`llm_grader.collecting` puts the
shares together.
"""

import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from groundwork import Refusal, write_whole

MAX_SHARES = 10_000


@dataclass(frozen=True)
class Share:
    """Share ``number`` of ``count``, counted from 1. The name of a student alone decides in which share she is."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, student: str) -> bool:
        """Return whether a student belongs to this share."""
        return self.number == number_of(student, self.count)

    def folder(self, out: Path) -> Path:
        """Return the folder of this share in the folder of the marks."""
        return out / "tasks" / f"{self.number}-of-{self.count}"


def number_of(student: str, count: int) -> int:
    """Return the number of the share in which a student is."""
    digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) % count + 1


def parse(text: str) -> Share:
    """Return the share that is written as I/N."""
    match = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text)
    number, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= count <= MAX_SHARES:
        raise Refusal(f"--task is {text}; it must be I/N, such as 1/8 for the first of eight tasks.")
    return Share(number, count)


def present(out: Path) -> list[Share]:
    """Return the shares that have a folder in the folder of the marks, in their order."""
    found = [re.fullmatch(r"([0-9]+)-of-([0-9]+)", path.name) for path in (out / "tasks").glob("*")]
    return sorted((Share(int(match[1]), int(match[2])) for match in found if match), key=lambda share: share.number)


def shared_seed(out: Path) -> str:
    """Return the seed of the shares in the folder of the marks, or an empty string if there is none yet."""
    path = out / "seed"
    if not path.exists():
        return ""
    seed = path.read_text(encoding="utf-8").strip()
    if not re.fullmatch("[0-9a-f]{64}", seed):
        raise Refusal(f"{path} does not hold the seed of this folder's tasks; choose another folder.")
    return seed


def prepare(out: Path, share: Share) -> tuple[Path, str]:
    """Make the folder of a share, and draw the seed if no other share has done so.

    Returns:
        The folder and the seed.

    Raises:
        Refusal: the class was divided into another number of shares, or was graded on one machine.
    """
    if other := next((each for each in present(out) if each.count != share.count), None):
        raise Refusal(
            f"{out} holds tasks of a class that is divided by {other.count}, not by {share.count}; "
            f"use the number {other.count} again, or choose another folder."
        )
    if (out / "journal.sqlite").exists() and not (out / "seed").exists():
        raise Refusal(f"{out} holds the journal of a run without --task; choose another folder.")
    folder = share.folder(out)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (out / "seed").exists():
        drawn = out / f".seed.{secrets.token_hex(8)}"  # machines may have processes of the same number
        write_whole(drawn, secrets.token_hex(32).encode(), 0o600)
        try:
            os.link(drawn, out / "seed")  # unlike renaming, this fails if another machine was first
        except FileExistsError:
            pass
        finally:
            drawn.unlink()
    return folder, shared_seed(out)
