"""The table of processes, the CPU time of workers, and the thread that kills those which exceed a limit.

The table is read ten times a second while workers run. It is therefore read by hand, one file for each process, which
takes half as long as with psutil; psutil also knows neither sessions nor the memory of a process whose first thread has
ended. It measures everything that is asked of a worker's own processes only.
"""

import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import psutil

WATCH_INTERVAL_SECONDS = 0.1


class Process(NamedTuple):
    """One row of the process table."""

    parent: int
    session: int
    uids: frozenset[int]
    resident: int  # bytes, shared pages counted in full
    threads: int


ProcessTable = dict[int, Process]


def process_table() -> ProcessTable:
    """Return all visible processes of the machine that are still running."""
    return {int(name): process for name in os.listdir("/proc") if name.isdigit() and (process := _process(name))}


def _process(pid: str) -> Process | None:
    """Return the current state of a process, or None if it has ended."""
    with contextlib.suppress(OSError, KeyError):
        if fields := _live_status(f"/proc/{pid}"):
            return Process(
                parent=int(fields[b"PPid"]),
                session=int(fields[b"NSsid"].split()[0]),
                uids=frozenset(map(int, fields[b"Uid"].split())),
                resident=int(fields.get(b"VmRSS", b"0").split()[0]) * 1024,
                threads=int(fields[b"Threads"]),
            )
    return None


def _live_status(folder: str) -> dict[bytes, bytes]:
    """Return the kernel's status fields of a process, or an empty dictionary if the process is a zombie."""
    fields = _status(folder)
    if not fields[b"State"].strip().startswith(b"Z"):
        return fields
    # its first thread has ended and no longer reports the memory; other threads may still run
    for thread in os.listdir(f"{folder}/task"):
        with contextlib.suppress(OSError):
            others = _status(f"{folder}/task/{thread}")
            if not others[b"State"].strip().startswith(b"Z"):
                return others
    return {}


def _status(folder: str) -> dict[bytes, bytes]:
    with open(f"{folder}/status", "rb") as file:
        return dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)


def threads_of_users() -> Counter[int]:
    """Return how many threads the kernel counts for each user id, with the processes that nobody has waited for."""
    threads: Counter[int] = Counter()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, KeyError):
            fields = _status(f"/proc/{name}")
            threads[int(fields[b"Uid"].split()[0])] += max(1, int(fields[b"Threads"]))  # a zombie has no thread
    return threads


def related_processes(roots: set[int], uid: int | None, processes: ProcessTable) -> set[int]:
    """Return the running processes among ``roots``, their sessions and descendants, and all processes of a user id."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    pending = [pid for pid, p in processes.items() if pid in roots or p.session in roots or uid in p.uids]
    members = set()
    while pending:
        pid = pending.pop()
        if pid not in members:
            members.add(pid)
            pending += children.get(pid, [])
    return members


def proportional_set_size(pid: int) -> int:
    """Return the memory of a process in bytes, each shared page divided by the number of processes that share it."""
    with contextlib.suppress(psutil.Error):
        if size := psutil.Process(pid).memory_full_info().pss:
            return size
    process = _process(str(pid))  # its first thread has ended, or all of it by now
    return process.resident if process else 0


class CpuMeter:
    """The CPU time of a group of processes, of those that have ended as well, measured from one look to the next.

    The kernel adds the time of an ended process to its parent when the parent waits for it. Where nobody waits, the
    time up to the last look counts. No time counts twice.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running: dict[psutil.Process, tuple[float, float]] = {}  # own time, and that of ended children
        self._already_counted = 0.0  # time of processes that have ended, which parents may report a second time

    def look(self, pids: Iterable[int]) -> float:
        """Return the time up to now. These processes are all that run."""
        before, self._running = self._running, {}
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                times = process.cpu_times()
                self._running[process] = (times.user + times.system, times.children_user + times.children_system)
        self._already_counted += sum(sum(times) for process, times in before.items() if process not in self._running)
        reported = 0.0
        for process, (own, of_children) in self._running.items():
            own_before, of_children_before = before.get(process, (0.0, 0.0))
            self.seconds += own - own_before
            reported += of_children - of_children_before
        repeated = min(reported, self._already_counted)
        self._already_counted -= repeated
        self.seconds += reported - repeated
        return self.seconds


class Watched(Protocol):
    """A worker whose memory and CPU time the watchdog limits."""

    def enforce_limits(self, processes: ProcessTable) -> None: ...


class Watchdog:
    """Thread that limits memory and CPU time of all workers of this process. It starts with the first worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: set[Watched] = set()
        self._thread: threading.Thread | None = None

    def add(self, worker: Watched) -> None:
        with self._lock:
            self._watched.add(worker)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
                self._thread.start()

    def remove(self, worker: Watched) -> None:
        with self._lock:
            self._watched.discard(worker)

    def _watch(self) -> None:
        while True:
            time.sleep(WATCH_INTERVAL_SECONDS * random.uniform(0.5, 1.5))  # so that nobody can hide between two looks
            with self._lock:
                watched = list(self._watched)
            if watched:
                processes = process_table()
                for worker in watched:
                    with contextlib.suppress(OSError, psutil.Error):  # the next round tries again
                        worker.enforce_limits(processes)
