"""A sandbox of user ids, resource limits and a system call filter, for containers that do not allow namespaces.

Also :class:`Unconfined`, which is no sandbox.
"""

import os
import shutil
import sys
from pathlib import Path

from llm_grader.sandbox.base import Limits, Sandbox
from llm_grader.sandbox.environment import closed_folder, links_and_target, setpriv_prefix
from llm_grader.sandbox.workdir import add_file, workdir


class SetuidSandbox(Sandbox):
    """Sandbox in which each worker runs under a user id of its own. It sees all files that every user may read.

    Where the kernel has Landlock, a worker changes no file outside its folder. Elsewhere it can write where every user
    may: its files are removed when it ends, and until then other workers can read them.
    """

    name = "setuid"
    advice = "close the folder to other users with chmod 700"
    known_gaps = frozenset(
        {"see other processes", "fill the disk", "write in shared folders", "be spared when memory runs out"}
    )

    def unavailable_reason(self) -> str:
        if not self.changes_user:
            return "only root can give a worker another user id"
        if not shutil.which("setpriv"):
            return "setpriv cannot be found"
        return python_unreadable_reason()

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        prefix = setpriv_prefix(uid)
        # workers end with a grader that is killed
        return [prefix[0], "--pdeathsig=KILL", *prefix[1:], *python_command(program, extra)]


class Unconfined(Sandbox):
    """Run workers with the grader's own rights, for authors who grade only their own notebooks."""

    name = "none"

    @property
    def changes_user(self) -> bool:
        return False

    def unavailable_reason(self) -> str:
        return ""

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        return python_command(program, extra)


def python_command(program: list[str], extra: Path | None) -> list[str]:
    """Return the command that runs a program in the grader's work folder, to which one more file may be added."""
    if extra:
        add_file(extra)
    name, *arguments = program
    return [sys.executable, "-I", "-B", f"{workdir()}/grader/{name}", *arguments]


def python_unreadable_reason() -> str:
    """Return why other users cannot run this Python, or an empty string."""
    for path in (*links_and_target(Path(sys.executable)), Path(os.__file__)):
        if closed := closed_folder(path):
            return f"the running Python is below {closed}, which other users cannot enter"
    return ""
