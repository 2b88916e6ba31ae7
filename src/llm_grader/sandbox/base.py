"""Base class of all sandboxes, and the worker processes that they start."""

import contextlib
import json
import math
import os
import select
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from groundwork import Refusal
from llm_grader.sandbox.cgroups import ControlGroup, cpus_for_this_process, memory_for_this_process
from llm_grader.sandbox.environment import environment_variables
from llm_grader.sandbox.processes import (
    CpuMeter,
    ProcessTable,
    Watchdog,
    process_table,
    proportional_set_size,
    related_processes,
    threads_of_users,
)
from llm_grader.sandbox.uids import Uid
from llm_grader.sandbox.workdir import remove_trees, workdir

MAX_ERROR_OUTPUT = 4096
SOCKET_BYTES = 2**18  # kernel memory that an open file takes if it is a socket whose buffer is full
INODE_BYTES = 1024  # kernel memory that an empty file takes
WORLD_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")
KILL_SECONDS = 10.0  # how long killed processes may take to disappear
EXIT_SECONDS = 2.0  # how long the first process of a worker may take to end after the others
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the second where another process passes it on
READY_WORKER_BYTES = 2**28  # memory of a worker that waits for a submission
# The kernel kills a worker when the thread that started it ends, so one thread that never ends starts all workers.
_start_thread = ThreadPoolExecutor(1, "worker-starter")
_watchdog = Watchdog()


@dataclass(frozen=True)
class Limits:
    """Resources that a worker may use. Its caller limits the time, see :meth:`Worker.limit_cpu`.

    Args:
        memory: bytes that all its processes may hold together, including files in a memory file system.
        address_space: bytes of address space of each process; PyTorch needs about 1 GiB.
        processes: number of processes and threads.
        open_files: number of open files of each process.
        disk: bytes that it may write; without a file system of its own, the largest size of each file in bytes.
    """

    memory: int
    address_space: int
    processes: int
    open_files: int
    disk: int


@dataclass(frozen=True)
class Finding:
    """Result of one attack on a sandbox: whether it was blocked, and what it managed to do if not."""

    sandbox: str
    attack: str
    blocked: bool
    detail: str = ""

    def __str__(self) -> str:
        return (
            f"{self.sandbox}: {self.attack}: {'blocked' if self.blocked else 'NOT blocked'}"
            + f" ({self.detail})" * bool(self.detail)
        )


class Sandbox:
    """Base class of the ways to confine a worker.

    Attributes:
        name: name on the command line and in reports.
        advice: what a person can do if a worker can read a private folder.
        has_namespaces: whether a worker has file systems and process ids of its own, which end with its first process.
        known_gaps: names of the attacks that this sandbox is known not to block.
    """

    name = ""
    advice = ""
    has_namespaces = False
    known_gaps: frozenset[str] = frozenset()

    @property
    def changes_user(self) -> bool:
        """Whether each worker runs under a user id of its own."""
        return os.geteuid() == 0

    def unavailable_reason(self) -> str:
        """Return why this sandbox cannot be used on this machine, or an empty string."""
        raise NotImplementedError

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        """Return the command that runs a Python program in the sandbox.

        Args:
            program: path of the program among :func:`~llm_grader.sandbox.environment.worker_files`, and its arguments.
            extra: one more file that the worker sees among them.
            limits: limits of the worker.
            uid: user id of the worker, or None if it has none of its own.
            tmp: the folder in which the worker may write.
        """
        raise NotImplementedError

    def start(self, limits: Limits, program: Path | None = None) -> "Worker":
        """Start a worker that runs ``program``, by default :mod:`llm_grader.worker`."""
        return Worker(self, limits, program)


class Worker:
    """A confined process and all processes that it starts.

    Attributes:
        request_fd: file descriptor of the pipe on which the grader sends requests.
        reply_fd: file descriptor of the pipe on which the worker answers.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, program: Path | None) -> None:
        self._sandbox = sandbox
        self._cpu_meter, self._cpu_seconds, self._cpu_limit = CpuMeter(), 0.0, math.inf
        self._exceeded = ""  # the limit for which the watchdog has killed this worker
        self._end_reason: str | None = None
        self._stderr_tail = b""
        self._lock = threading.Lock()
        self._uid: int | None = None
        with contextlib.ExitStack() as cleanup, contextlib.ExitStack() as child_ends:
            tmp = "/tmp"
            if sandbox.changes_user:
                uid = Uid()
                cleanup.callback(uid.release)
                self._uid = uid.number
                self._kill_all(set())  # processes and files that a killed grader left under this user id
                limits = replace(limits, processes=limits.processes + threads_of_users()[uid.number])
            elif not sandbox.has_namespaces:  # the kernel also counts this user's other processes
                others = sum(process.threads for process in process_table().values() if os.getuid() in process.uids)
                limits = replace(limits, processes=limits.processes + others)
            if not sandbox.has_namespaces:
                tmp = tempfile.mkdtemp(dir=workdir())
                cleanup.callback(remove_trees, tmp)
                if self._uid:
                    os.chown(tmp, self._uid, self._uid)
            self._limits = limits
            self._group = ControlGroup(limits.memory)
            cleanup.callback(self._group.remove)
            ends = [*os.pipe(), *os.pipe()[::-1], *os.pipe()[::-1]]
            for child_end, own_end in zip(ends[::2], ends[1::2], strict=True):
                child_ends.callback(os.close, child_end)
                cleanup.callback(os.close, own_end)
                os.set_blocking(own_end, False)
            child_request_fd, self.request_fd, child_reply_fd, self.reply_fd, child_stderr_fd, self._stderr_fd = ends
            name = program.name if program else "llm_grader/worker/__main__.py"
            arguments = [name, str(child_request_fd), str(child_reply_fd), json.dumps(asdict(limits))]
            self._process = _start_thread.submit(
                subprocess.Popen,
                self._entry() + sandbox.command(arguments, program, limits, self._uid, tmp),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=child_stderr_fd,
                pass_fds=(child_request_fd, child_reply_fd),
                env=environment_variables(tmp),
                cwd=tmp,
                start_new_session=True,
            ).result()
            self._cleanup = cleanup.pop_all()
        _watchdog.add(self)

    def _entry(self) -> list[str]:
        """Return the words before a command that start it in its control group, as the first to go for memory."""
        files = [f"echo 0 > {shlex.quote(str(path))};" for path in self._group.entries]
        return ["sh", "-c", f'echo 1000 > /proc/self/oom_score_adj; {" ".join(files)} exec "$@"', "sh"]

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes of the worker so far, of those that have ended as well."""
        with self._lock:
            if self._end_reason is None:
                self._measure_cpu()
            return self._cpu_seconds

    def limit_cpu(self, seconds: float) -> None:
        """Let all processes of the worker together use this many more CPU seconds. Then the watchdog kills them."""
        self._cpu_limit = self.cpu_seconds() + seconds

    def enforce_limits(self, processes: ProcessTable) -> None:
        """Kill the worker if it exceeds a limit, and what has outlived its first process.

        The watchdog calls this at regular intervals.
        """
        members = self._members(processes)
        exceeded = self._over_memory(members, processes)
        if self._lock.acquire(blocking=False):  # if it is taken, another thread is stopping this worker
            try:
                if self._end_reason is None:
                    has_ended = self._process.poll() is not None
                    if not has_ended and not self._exceeded:
                        self._measure_cpu(processes)
                        self._exceeded = "memory" if exceeded else "cpu" if self._cpu_seconds > self._cpu_limit else ""
                    if has_ended and self._process.pid in processes:  # by now, another process may have this number
                        return
                    if members and (has_ended or self._exceeded):  # at each look: a process forked meanwhile lives on
                        self._signal(members, signal.SIGKILL)
            finally:
                self._lock.release()

    def _members(self, processes: ProcessTable) -> set[int]:
        return related_processes({self._process.pid}, self._uid, processes)

    def _measure_cpu(self, processes: ProcessTable | None = None) -> None:
        seconds = self._group.cpu_seconds()
        if seconds is None:
            seconds = self._cpu_meter.look(self._members(process_table() if processes is None else processes))
        self._cpu_seconds = seconds

    def _over_memory(self, members: set[int], processes: ProcessTable) -> bool:
        if self._group.out_of_memory():
            return True
        outside = self._tmpfs_bytes(members) + SOCKET_BYTES * sum(map(self._n_open_files, members))
        if sum(processes[pid].resident for pid in members) + outside <= self._limits.memory:
            return False
        return sum(map(proportional_set_size, members)) + outside > self._limits.memory

    def _n_open_files(self, pid: int) -> int:
        with contextlib.suppress(psutil.NoSuchProcess):
            try:
                return psutil.Process(pid).num_fds()
            except psutil.AccessDenied:  # it has hidden itself
                return self._limits.open_files
        return 0

    def _tmpfs_bytes(self, members: set[int]) -> int:
        """Return how many bytes the worker's memory file system holds, if it has one."""
        if not self._sandbox.has_namespaces:
            return 0
        for pid in members - {self._process.pid}:
            with contextlib.suppress(OSError):
                stats = os.statvfs(f"/proc/{pid}/root/tmp")
                # until the sandbox is complete, that path is still the machine's own /tmp
                if stats.f_blocks * stats.f_frsize <= self._limits.disk + stats.f_frsize:
                    content = (stats.f_blocks - stats.f_bfree) * stats.f_frsize
                    return content + (stats.f_files - stats.f_ffree) * INODE_BYTES
        return 0

    def error_output(self) -> str:
        """Return the last line that the worker wrote to its standard error, or an empty string."""
        with self._lock:
            if self._end_reason is None:
                self._read_stderr()
        lines = self._stderr_tail.decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        return "".join(c if c.isprintable() else " " for c in last).strip()

    def _read_stderr(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):  # as much as a pipe holds; what is written meanwhile is left unread
                chunk = os.read(self._stderr_fd, MAX_ERROR_OUTPUT)
                if not chunk:
                    break
                self._stderr_tail = (self._stderr_tail + chunk)[-MAX_ERROR_OUTPUT:]

    def stop(self) -> str:
        """Kill all processes of the worker, wait until they are gone, and remove the files that they left.

        Returns:
            Why the worker had ended before this call: "memory" or "cpu", a limit for which the watchdog has killed it;
            "killed", by the kernel or by somebody, as when the machine runs out of memory; "ended", by itself; or an
            empty string if it was still running.
        """
        _watchdog.remove(self)
        with self._lock:
            if self._end_reason is None:
                self._end_reason = self._why_it_ended()
                self._kill_all({self._process.pid})
                self._process.wait()
                self._read_stderr()
                self._cleanup.close()
            return self._end_reason

    def _why_it_ended(self) -> str:
        if self._exceeded or self._group.out_of_memory():
            return self._exceeded or "memory"
        poll = select.poll()
        poll.register(self.reply_fd, 0)
        # its pipe closes a little before the process is gone
        if self._process.poll() is None and not poll.poll(0):
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_SECONDS)
        if self._group.reached_limit():
            return "memory"
        return "killed" if self._process.returncode in KILLED else "ended"

    def _kill_all(self, roots: set[int]) -> None:
        """Kill these processes, their relatives and all processes of the worker's user id, and wait for their end."""
        deadline, members, previous = time.monotonic() + KILL_SECONDS, roots, None
        while members := related_processes(roots | members, self._uid, process_table()):
            if time.monotonic() > deadline:
                raise Refusal(f"The processes {sorted(members)} of a worker cannot be killed.")
            # processes that have to be killed one by one are all stopped first: a list of processes that fork misses
            # the newest ones, which would go on forking
            together = self._uid or self._sandbox.has_namespaces or members == previous
            self._signal(members, signal.SIGKILL if together else signal.SIGSTOP)
            previous = members
            time.sleep(0.005)
        if self._uid and not self._sandbox.has_namespaces:
            remove_trees(*_files_of_user(self._uid))

    def _signal(self, members: set[int], number: signal.Signals) -> None:
        if self._uid and not self._sandbox.has_namespaces:
            # kill them all at once: a process that forks while the others are killed could stay a step ahead
            kill_everything = [sys.executable, "-I", "-S", "-c", "import os; os.kill(-1, 9)"]
            subprocess.run(
                kill_everything, user=self._uid, group=self._uid, extra_groups=[], cwd="/", env={}, check=False
            )
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def workers_that_fit(limits: Limits) -> int:
    """Return how many workers may be busy at once: as many as there are CPUs, if their memory is there."""
    memory = min(memory_for_this_process(), psutil.virtual_memory().available)
    # for each one at work, another one waits for the next submission
    return max(1, min(cpus_for_this_process(), memory // (limits.memory + READY_WORKER_BYTES)))


def _files_of_user(uid: int) -> list[str]:
    """Return the paths of a user's files in the world-writable folders, and in world-writable folders below them."""
    mounts = psutil.disk_partitions(all=True)
    # not those of other machines, which may not answer
    local = [each.mountpoint for each in mounts if each.fstype == "tmpfs" or each.device.startswith("/dev/")]
    found, pending = [], [*WORLD_WRITABLE, *local]
    while pending:
        folder = pending.pop()
        with contextlib.suppress(OSError):  # it is gone by now
            if not os.stat(folder).st_mode & stat.S_IWOTH:
                continue
            for entry in list(os.scandir(folder)):
                with contextlib.suppress(FileNotFoundError):  # another user's file, which is gone by now
                    if entry.stat(follow_symlinks=False).st_uid == uid:
                        found.append(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
    return found
