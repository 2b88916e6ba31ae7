"""Control groups: where this process may create them, the kernel itself counts and limits what a worker uses.

It then also counts memory that no process owns, such as the buffers of sockets, and the time of every process that has
ended. Root has them on most machines, and an ordinary user on a desktop of systemd; elsewhere workers do without.
"""

import contextlib
import functools
import itertools
import math
import os
import subprocess
from pathlib import Path

import psutil

PREFIX = "llm_grader"
_numbers = itertools.count()


class ControlGroup:
    """The control groups of one worker, as far as there are any.

    Args:
        memory: limit of its memory in bytes, files in memory and the kernel's own memory included.

    Attributes:
        entries: the files in which a process writes 0 in order to enter.
    """

    def __init__(self, memory: int) -> None:
        name = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._folders: list[Path] = []
        for parent in _parents():
            with contextlib.suppress(OSError):
                (parent / name).mkdir()
                self._folders.append(parent / name)
        self.entries = [folder / "cgroup.procs" for folder in self._folders]
        # version 2; then version 1, in which processes that need more wait until the watchdog comes
        for file, value in {
            "memory.max": memory,
            "memory.swap.max": 0,
            "memory.oom.group": 1,
            "memory.limit_in_bytes": memory,
            "memory.memsw.limit_in_bytes": memory,
            "memory.oom_control": 1,
        }.items():
            self._write(file, value)

    def out_of_memory(self) -> bool:
        """Return whether a process has needed more memory than the limit and was killed, or waits for that."""
        events = {**self._read("memory.events"), **self._read("memory.oom_control")}
        return any(events.get(name, 0) for name in ("oom_kill", "under_oom"))

    def reached_limit(self) -> bool:
        """Return whether the memory has ever been at its limit, where system calls may fail."""
        if self._read("memory.events").get("max", 0) or self._read("memory.failcnt").get("", 0):
            return True
        most, limit = self._read("memory.max_usage_in_bytes"), self._read("memory.limit_in_bytes")
        return bool(most) and most.get("", 0) >= limit.get("", math.inf)  # failures of threads that wait do not count

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of all processes that have been in the group, or None if it is not known."""
        microseconds = self._read("cpu.stat").get("usage_usec")
        return None if microseconds is None else microseconds / 1e6

    def remove(self) -> None:
        """Remove the groups, in which no process may be left."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _write(self, name: str, value: int) -> None:
        for folder in self._folders:
            with contextlib.suppress(OSError):
                (folder / name).write_text(str(value))

    def _read(self, name: str) -> dict[str, int]:
        """Return the numbers of a file under their names, or a single number under none."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                lines = (folder / name).read_text().splitlines()
                return {key.strip(): int(value) for key, _, value in (line.rpartition(" ") for line in lines)}
        return {}


def memory_for_this_process() -> int:
    """Return the bytes of the machine's memory, or of what the container of this process may use."""
    found = [psutil.virtual_memory().total]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # the file does not exist, or it says "max"
            found.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="utf-8")))
    return min(found)


def cpus_for_this_process() -> int:
    """Return how many CPUs this process may use, which is part of the machine's in a container."""
    found = [len(os.sched_getaffinity(0))]
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
        found.append(int(quota) // int(period))
    return max(1, min(found))


@functools.cache
def _parents() -> list[Path]:
    """Return the folders of control groups in which this process can create others and start processes.

    There is one of version 2, with a limit of memory if possible, and one of version 1 if only that limits memory.
    """
    version_1, version_2 = [], []
    for mount in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, folder, kind, options, *_ = mount.split()
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, own = line.split(":", 2)
            path = Path(folder + own)
            if kind == "cgroup2" and not controllers:
                version_2 += [each for each in (path, *path.parents) if each.is_relative_to(folder)]
            elif kind == "cgroup" and "memory" in controllers.split(",") and "memory" in options.split(","):
                version_1.append(path)
    # memory is limited where the parent says so
    version_2.sort(key=lambda path: "memory" not in _first_line(path / "cgroup.subtree_control").split())
    found = [path for path in version_2 if _usable(path)][:1]
    limited = any("memory" in _first_line(path / "cgroup.subtree_control").split() for path in found)
    return found + ([] if limited else [path for path in version_1 if _usable(path)][:1])


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return ""


def _usable(parent: Path) -> bool:
    """Return whether a process of this user can enter a new group there, and remove what killed graders left."""
    folder = parent / f"{PREFIX}-{os.getpid()}-test"
    try:
        for leftover in parent.glob(f"{PREFIX}-*"):
            if not psutil.pid_exists(int(leftover.name.split("-")[1])):
                with contextlib.suppress(OSError):
                    leftover.rmdir()
        folder.mkdir()
    except OSError:
        return False
    try:
        command = ["sh", "-c", 'echo 0 > "$1"', "sh", folder / "cgroup.procs"]
        return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
