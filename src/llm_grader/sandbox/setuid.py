"""Workers without namespaces, for containers that allow none: another user, limits, and the system call filter."""

import os
import shutil
import sys
from pathlib import Path

from llm_grader.sandbox.base import Limits, Sandbox
from llm_grader.sandbox.environment import setpriv_prefix
from llm_grader.sandbox.workdir import add_file, workdir


class SetuidSandbox(Sandbox):
    """What a worker here sees of the machine is what every user of it sees: private folders have to be closed."""

    name = "setuid"
    advice = "close the folder to other users with chmod 700"
    known_gaps = frozenset({"see other processes", "fill the disk"})

    def unavailable_reason(self) -> str:
        if not self.changes_user:
            return "only root can give a worker another user id"
        if not shutil.which("setpriv"):
            return "setpriv cannot be found"
        return python_unreadable_reason()

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        prefix = setpriv_prefix(uid)
        # a grader that is killed takes its workers along
        return [prefix[0], "--pdeathsig=KILL", *prefix[1:], *python_command(program, extra)]


class Unconfined(Sandbox):
    """Workers with the grader's own rights. For authors who grade nobody but themselves."""

    name = "none"

    @property
    def changes_user(self) -> bool:
        return False

    def unavailable_reason(self) -> str:
        return ""

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        return python_command(program, extra)


def python_command(program: list[str], extra: Path | None) -> list[str]:
    """The command that runs a program from this grader's room, after one more file has been put there."""
    if extra:
        add_file(extra)
    name, *arguments = program
    return [sys.executable, "-I", "-B", f"{workdir()}/grader/{name}", *arguments]


def python_unreadable_reason() -> str:
    """Why other users cannot run this Python, or ""."""
    for path in (Path(sys.executable), Path(sys.executable).resolve(), Path(os.__file__)):
        closed = [folder for folder in path.parents if not folder.stat().st_mode & 0o001]
        if closed:
            return f"the running Python is below {closed[-1]}, which other users cannot enter"
    return ""
