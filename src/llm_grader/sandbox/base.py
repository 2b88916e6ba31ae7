"""What all sandboxes share: a worker's pipes, its environment, how it is watched and how it ends."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from groundwork import Refusal
from llm_grader.sandbox.processes import Table, Watchdog, family, proportional, table
from llm_grader.sandbox.room import remove, room
from llm_grader.sandbox.surroundings import environment
from llm_grader.sandbox.uids import Uid

COMPLAINT = 4096
INODE = 1024  # bytes that a file of no length costs the kernel
WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")
PATIENCE = 10.0  # seconds for killed processes to go
# A worker dies with the thread that started it: this one lives as long as the process.
_starter = ThreadPoolExecutor(1, "starts workers")
_watchdog = Watchdog()


@dataclass(frozen=True)
class Limits:
    """What a worker may use. Time is its caller's business.

    Args:
        memory: bytes of all its processes together, files in a memory file system included.
        address_space: bytes of each process; PyTorch needs about 1 GiB.
        processes: processes and threads.
        open_files: of each process.
        disk: bytes it may write; where no file system of its own can cap the sum, bytes of each file.
    """

    memory: int
    address_space: int
    processes: int
    open_files: int
    disk: int


@dataclass(frozen=True)
class Finding:
    """What came of an attack that was run in a sandbox."""

    sandbox: str
    attack: str
    held: bool
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.sandbox}: {self.attack}: {'held' if self.held else 'NOT held'}" + f" ({self.detail})" * bool(
            self.detail
        )


class Sandbox:
    """Starts workers in one way of confining them.

    ``namespaces`` says whether a worker has file systems and process ids of its own, which go with its first process;
    ``concedes`` names the attacks that this sandbox is known not to hold against, and ``advice`` says what to do where
    a private folder can be read.
    """

    name = ""
    advice = ""
    namespaces = False
    concedes: frozenset[str] = frozenset()

    @property
    def lowers(self) -> bool:
        """Whether each worker gets a user id of its own."""
        return os.geteuid() == 0

    def missing(self) -> str:
        """Why this sandbox cannot be tried here, or ""."""
        raise NotImplementedError

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        """The command that runs Python confined.

        Args:
            program: a file of the folder of :func:`parts` and its arguments.
            extra: one more file that is to stand in that folder.
            limits: of the worker.
            uid: its user id, where it has one of its own.
            tmp: the folder that it may write in.
        """
        raise NotImplementedError

    def start(self, limits: Limits, program: Path | None = None) -> "Worker":
        """A worker with these limits, running ``program`` in place of the worker's own where one is given."""
        return Worker(self, limits, program)


class Worker:
    """A confined process and whatever it starts; ``to`` and ``source`` are the grader's ends of its two pipes."""

    def __init__(self, sandbox: Sandbox, limits: Limits, program: Path | None) -> None:
        if not sandbox.lowers and not sandbox.namespaces:  # the kernel counts what else this user runs
            others = sum(process.threads for process in table().values() if os.getuid() in process.uids)
            limits = replace(limits, processes=limits.processes + others)
        self._sandbox, self._limits = sandbox, limits
        self._over = False
        self._why: str | None = None
        self._said = b""
        self._lock = threading.Lock()
        self._uid: int | None = None
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as passed:
            tmp = "/tmp"
            if sandbox.lowers:
                uid = Uid()
                kept.callback(uid.free)
                self._uid = uid.number
                self._vanish(set())  # what a grader that was killed has left behind
            if not sandbox.namespaces:
                tmp = tempfile.mkdtemp(dir=room())
                kept.callback(remove, tmp)
                if self._uid:
                    os.chown(tmp, self._uid, self._uid)
            ends = [*os.pipe(), *os.pipe()[::-1], *os.pipe()[::-1]]
            for theirs, ours in zip(ends[::2], ends[1::2], strict=True):
                passed.callback(os.close, theirs)
                kept.callback(os.close, ours)
                os.set_blocking(ours, False)
            source, self.to, to, self.source, complaints, self._complaints = ends
            name = program.name if program else "llm_grader/worker/__main__.py"
            arguments = [name, str(source), str(to), json.dumps(asdict(limits))]
            self._process = _starter.submit(
                subprocess.Popen,
                sandbox.command(arguments, program, limits, self._uid, tmp),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                pass_fds=(source, to),
                env=environment(tmp),
                cwd=tmp,
                start_new_session=True,
            ).result()
            self._release = kept.pop_all()
        _watchdog.add(self)

    def look(self, processes: Table) -> None:
        """Called by the watchdog: end what holds too much memory."""
        members = family({self._process.pid}, self._uid, processes)
        files = self._files(members)
        if sum(processes[pid].resident for pid in members) + files <= self._limits.memory:
            return
        if sum(map(proportional, members)) + files <= self._limits.memory:
            return
        if self._lock.acquire(blocking=False):  # whoever has it is ending this worker
            try:
                if self._why is None and self._process.poll() is None:
                    self._over = True
                    self._signal(members, signal.SIGKILL)
            finally:
                self._lock.release()

    def _files(self, members: set[int]) -> int:
        """Bytes in the memory file system of a worker that has one."""
        if not self._sandbox.namespaces:
            return 0
        for pid in members - {self._process.pid}:
            with contextlib.suppress(OSError):
                found = os.statvfs(f"/proc/{pid}/root/tmp")
                # before the sandbox is complete, that folder is still the machine's
                if found.f_blocks * found.f_frsize <= self._limits.disk + found.f_frsize:
                    return (found.f_blocks - found.f_bfree) * found.f_frsize + (found.f_files - found.f_ffree) * INODE
        return 0

    def complaint(self) -> str:
        """The last line that it wrote to the standard error it was started with, or ""."""
        with self._lock:
            if self._why is None:
                self._listen()
        lines = self._said.decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        return "".join(c if c.isprintable() else " " for c in last).strip()

    def _listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):  # as much as a pipe holds; one that is being filled is not followed further
                said = os.read(self._complaints, COMPLAINT)
                if not said:
                    break
                self._said = (self._said + said)[-COMPLAINT:]

    def end(self) -> str:
        """Kill all that belongs to it, wait until it is gone, and remove what it left.

        Returns:
            Why it had ended before: "" where it had not, "memory", or "ended".
        """
        _watchdog.drop(self)
        with self._lock:
            if self._why is None:
                self._why = "memory" if self._over else "ended" if self._gone() else ""
                self._vanish({self._process.pid})
                self._process.wait()
                self._listen()
                self._release.close()
            return self._why

    def _gone(self) -> bool:
        """Whether nobody is left to answer; the pipe tells before the process is quite gone."""
        poll = select.poll()
        poll.register(self.source, 0)
        return self._process.poll() is not None or bool(poll.poll(0))

    def _vanish(self, roots: set[int]) -> None:
        """Kill processes, their kin and what has the worker's user id; return when there is none."""
        latest, members, before = time.monotonic() + PATIENCE, roots, None
        while members := family(roots | members, self._uid, table()):
            if time.monotonic() > latest:
                raise Refusal(f"processes {sorted(members)} of a worker cannot be ended.")
            # where they can only be killed one by one they are all stopped first: a look at processes that fork
            # misses the newest, which go on
            together = self._uid or self._sandbox.namespaces or members == before
            self._signal(members, signal.SIGKILL if together else signal.SIGSTOP)
            before = members
            time.sleep(0.005)
        if self._uid and not self._sandbox.namespaces:
            remove(*_owned(self._uid))

    def _signal(self, members: set[int], number: signal.Signals) -> None:
        if self._uid and not self._sandbox.namespaces:
            # all at once: one that forks while the others are killed could always be a step ahead
            everything = [sys.executable, "-I", "-S", "-c", "import os; os.kill(-1, 9)"]
            subprocess.run(everything, user=self._uid, group=self._uid, extra_groups=[], cwd="/", env={}, check=False)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _owned(uid: int) -> list[str]:
    """What a user has left in the places where every user may."""
    found = []
    for place in WRITABLE:
        with contextlib.suppress(FileNotFoundError):
            for entry in list(os.scandir(place)):
                with contextlib.suppress(FileNotFoundError):  # someone else's, gone meanwhile
                    if entry.stat(follow_symlinks=False).st_uid == uid:
                        found.append(entry.path)
    return found
