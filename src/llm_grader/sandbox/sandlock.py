"""A sandbox of the kernel's Landlock rules, set up by the package sandlock. It needs neither namespaces nor root."""

import json
from importlib.util import find_spec
from pathlib import Path

from llm_grader.sandbox.base import Limits, Sandbox
from llm_grader.sandbox.environment import DEVICES, readable_paths, setpriv_prefix
from llm_grader.sandbox.setuid import python_command, python_unreadable_reason
from llm_grader.sandbox.workdir import add_file, workdir

SUPERVISOR = Path(__file__).with_name("supervisor.py")


class Sandlock(Sandbox):
    """Sandbox in which Landlock and supervised system calls restrict the files and sockets of a worker."""

    name = "sandlock"
    known_gaps = frozenset({"see other processes", "fill the disk"})

    def unavailable_reason(self) -> str:
        if not find_spec("sandlock"):
            return "the package sandlock is not installed"
        import sandlock

        if sandlock.landlock_abi_version() < sandlock.min_landlock_abi():
            return f"the kernel's Landlock is older than version {sandlock.min_landlock_abi()}"
        return python_unreadable_reason() if self.changes_user else ""

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        add_file(SUPERVISOR)
        # a link needs no rule: one for it would hold for all that it leads to
        readable = [str(path) for path in readable_paths() if not path.is_symlink()]
        # sandlock's own limit of processes still counts those that were killed, so the kernel's limit is used alone
        policy = {
            "fs_readable": [*readable, str(workdir() / "grader"), "/proc", *DEVICES],
            "fs_writable": [tmp, "/dev/null"],
            "cwd": tmp,
        }
        pipes = program[1:3]
        supervisor = python_command([SUPERVISOR.name, json.dumps(policy), *pipes], None)
        return [*setpriv_prefix(uid), *supervisor, *python_command(program, extra)]
