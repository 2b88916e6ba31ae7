"""Workers without namespaces, for containers that allow none: another user, limits, and the system call filter."""

import os
import shutil
import sys
from pathlib import Path

from llm_grader.sandbox.base import Limits, Sandbox
from llm_grader.sandbox.room import put, room
from llm_grader.sandbox.surroundings import lowered


class Lowered(Sandbox):
    """What a worker here sees of the machine is what every user of it sees: private folders have to be closed."""

    name = "lowered"
    advice = "close the folder to other users with chmod 700"
    concedes = frozenset({"see other processes", "fill the disk"})

    def missing(self) -> str:
        if not self.lowers:
            return "only root can give a worker another user id"
        if not shutil.which("setpriv"):
            return "setpriv cannot be found"
        return unreadable()

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        lower = lowered(uid)
        # a grader that is killed takes its workers along
        return [lower[0], "--pdeathsig=KILL", *lower[1:], *python(program, extra)]


class Unconfined(Sandbox):
    """Workers with the grader's own rights. For authors who grade nobody but themselves."""

    name = "none"

    @property
    def lowers(self) -> bool:
        return False

    def missing(self) -> str:
        return ""

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        return python(program, extra)


def python(program: list[str], extra: Path | None) -> list[str]:
    """The command that runs a program from this grader's room, after one more file has been put there."""
    if extra:
        put(extra)
    name, *arguments = program
    return [sys.executable, "-I", "-B", f"{room()}/grader/{name}", *arguments]


def unreadable() -> str:
    """Why other users cannot run this Python, or ""."""
    for path in (Path(sys.executable), Path(sys.executable).resolve(), Path(os.__file__)):
        closed = [folder for folder in path.parents if not folder.stat().st_mode & 0o001]
        if closed:
            return f"the running Python is below {closed[-1]}, which other users cannot enter"
    return ""
