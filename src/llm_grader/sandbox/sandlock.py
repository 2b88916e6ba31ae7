"""Workers under Landlock and system call supervision, through the package sandlock: no namespaces, no root needed."""

import json
from importlib.util import find_spec
from pathlib import Path

from llm_grader.sandbox.base import Limits, Sandbox
from llm_grader.sandbox.lowered import python, unreadable
from llm_grader.sandbox.room import put, room
from llm_grader.sandbox.surroundings import DEVICES, lowered, visible

SUPERVISOR = Path(__file__).with_name("supervisor.py")


class Sandlock(Sandbox):
    name = "sandlock"
    concedes = frozenset({"see other processes", "fill the disk"})

    def missing(self) -> str:
        if not find_spec("sandlock"):
            return "the package sandlock is not installed"
        import sandlock

        if sandlock.landlock_abi_version() < sandlock.min_landlock_abi():
            return f"the kernel's Landlock is older than version {sandlock.min_landlock_abi()}"
        return unreadable() if self.lowers else ""

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        put(SUPERVISOR)
        # not its own limit of processes, which goes on counting those that were killed: the kernel's is enough
        policy = {
            "fs_readable": [*map(str, visible()), str(room() / "grader"), "/proc", *DEVICES],
            "fs_writable": [tmp, "/dev/null"],
            "cwd": tmp,
        }
        pipes = program[1:3]
        supervisor = python([SUPERVISOR.name, json.dumps(policy), *pipes], None)
        return [*lowered(uid), *supervisor, *python(program, extra)]
