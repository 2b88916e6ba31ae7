"""Run one submission in workers: first its cells, then one question after another.

If an answer or a cell ends the process in which it runs, the submission continues in a fresh one.

Time is limited so that a mark does not depend on what else the machine does. Limits are CPU seconds, which the kernel
counts for each process; limits by the clock are generous, and only end what waits.

| what | CPU time | time by the clock |
| --- | --- | --- |
| a worker until it is ready | – | ``STARTUP_SECONDS`` |
| all cells, each time they are run | ``CELL_TIME_SHARE`` of ``--seconds``; each cell may use half of what remains | \
``CELL_WALL_FACTOR`` times as long |
| what PyTorch imports before cells that use ``LATE_IMPORTS`` | ``IMPORT_SECONDS``, in addition | \
the same |
| an answer that declares more than ``DEFAULT_QUESTION_SECONDS`` | what it declares | ``WALL_FACTOR`` times as long, \
and ``WALL_SECONDS`` |
| any other answer | its share of ``--seconds`` among all questions of the assignment | the same |
| an answer that uses no CPU time | – | ``worker.calls.STALL_SECONDS`` |
| a worker that uses none while it answers a question | – | ``STALL_SECONDS`` |
| all processes of a worker together, in each step | ``GROUP_FACTOR`` times the step's limit, and \
``GRACE_SECONDS`` | the step's limit and ``GRACE_SECONDS`` |
| the whole submission, each time the grader runs it | – | ``SUBMISSION_FACTOR`` times the CPU time of its cells and \
answers |

An outcome that may be the machine's fault ("timed out", "killed" or "memory") is unsure: the grader runs the submission
again when no other runs, unless the answer returned a value for everything that it was asked for: then that counts.
"""

import contextlib
import math
import re
import threading
import time
from collections import deque
from collections.abc import Iterator

from groundwork import Refusal
from llm_grader import marking, wire
from llm_grader.records import Outcome, PreparedQuestion, Question, Submission
from llm_grader.sandbox import Limits, Sandbox, Worker

STARTUP_SECONDS, RESTART_SECONDS = 120.0, 10.0
CELL_TIME_SHARE, CELL_WALL_FACTOR = 0.5, 4.0
DEFAULT_QUESTION_SECONDS, MIN_QUESTION_SECONDS = 2.0, 0.5
WALL_FACTOR, WALL_SECONDS = 8.0, 4.0
GROUP_FACTOR, GRACE_SECONDS = 2.0, 1.0
# PyTorch's first optimizer, torch.func or checkpoint imports 800 modules, which takes longer than many an answer may.
# Where cells use one of these, the modules are imported before they run, and have seconds of their own.
LATE_IMPORTS, IMPORT_SECONDS = re.compile(r"\b(optim|torch\.func|functorch|checkpoint|training)\b"), 10.0
FIRST_LOOK_SECONDS, STALL_SECONDS = 1.0, 4.0  # longer than a worker waits before it says so itself
SUBMISSION_FACTOR = 6.0
MAX_WORKERS = 4  # for one submission, which needs a new one whenever students' code breaks the connection to its worker
MAX_RUNS = 24  # of the cells of one submission, which are run again when a cell or an answer ends its process
MAX_CELL_TIME = 3.0  # all these runs together may take so many times the CPU time of one
END_STATUSES = ("done", "timed out", "crashed", "killed", "no answer")
UNSURE = ("timed out", "killed", "memory")
FULL, DEFINITIONS, SKIPPED = 0, 1, 2  # modes of running a cell, see worker/cells.py


class WorkerStartError(Refusal):
    """Raised if no worker could be started, which is a failure of the grader and not of the student."""


class WorkerPool:
    """Pool of workers that start before they are needed. Each worker serves one submission and is not used again.

    Args:
        sandbox: sandbox of the workers.
        limits: limits of each worker.
        n_spares: number of workers to keep ready.
        n_expected: number of workers that will be acquired if none breaks; no spare is started beyond it.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, n_spares: int = 1, n_expected: float = math.inf) -> None:
        self.sandbox, self.limits, self.n_spares, self.n_expected = sandbox, limits, n_spares, n_expected
        self._spare_workers: deque[Worker] = deque()
        self._lock = threading.Lock()

    def acquire(self) -> Worker:
        """Return a worker that is ready. The caller stops it.

        Raises:
            WorkerStartError: no worker could be started; the message holds its error output.
        """
        error = ""
        for _ in range(2):
            with self._lock:
                worker = self._spare_workers.popleft() if self._spare_workers else self.sandbox.start(self.limits)
                self.n_expected -= 1
                self._refill()
            try:
                wire.receive(worker.reply_fd, time.monotonic() + STARTUP_SECONDS)
                return worker
            except wire.WireError as e:
                error = str(e)
            end_reason = worker.stop()
            error = worker.error_output() or end_reason or error
        raise WorkerStartError(f"No worker could be started: {error}")

    def _refill(self) -> None:
        while len(self._spare_workers) < min(self.n_spares, self.n_expected):
            self._spare_workers.append(self.sandbox.start(self.limits))

    def close(self) -> None:
        """Stop all spare workers."""
        with self._lock:
            self.n_spares = 0
            while self._spare_workers:
                self._spare_workers.pop().stop()

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def question_seconds(questions: list[Question], seconds: float) -> dict[str, float]:
    """Return question id → CPU seconds that an answer may use, for all questions of an assignment.

    Args:
        questions: the questions.
        seconds: CPU seconds of all questions together that declare no longer time.
    """
    total = sum(each.seconds for each in questions if each.seconds <= DEFAULT_QUESTION_SECONDS)

    def share(each: Question) -> float:
        if each.seconds > DEFAULT_QUESTION_SECONDS:
            return each.seconds
        return max(MIN_QUESTION_SECONDS, seconds * each.seconds / total)

    return {each.id: share(each) for each in questions}


class RunnerEnded(Exception):
    """Raised if the process in which students' code ran has ended, though its worker has another one ready."""


class Session:
    """One submission that is run in workers.

    Args:
        submission: the submission.
        pool: the pool of workers.
        seconds: CPU seconds of the submission, as for :func:`question_seconds`.
        budgets: question id → CPU seconds of its answer.

    Attributes:
        unsure: whether cells lacked time or memory, which may be the machine's fault.
        out_of_time: whether cells lacked time.
    """

    def __init__(self, submission: Submission, pool: WorkerPool, seconds: float, budgets: dict[str, float]) -> None:
        self.submission, self.pool, self.budgets = submission, pool, budgets
        self.unsure = self.out_of_time = False
        self._cell_seconds = CELL_TIME_SHARE * seconds
        self._total_cell_seconds = MAX_CELL_TIME * self._cell_seconds
        self._wall_seconds = SUBMISSION_FACTOR * (self._cell_seconds + sum(budgets.values()))
        self._ends_at = math.inf  # by the clock; known when the first worker is there
        self._cell_modes = dict.fromkeys(range(len(submission.cells)), FULL)
        self._interrupted: set[int] = set()
        self._worker: Worker | None = None
        self._runner_is_fresh = False
        self._n_run: int | None = None  # cells that have run, or None if a fresh runner is needed
        self._n_workers = self._n_runs = self._n_asked = 0

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    @property
    def notes(self) -> list[str]:
        """Sentences about cells that were interrupted or that ended their process."""
        sentences = {
            i: "was interrupted, since its time was used up; the rest of it is missing" for i in self._interrupted
        }
        for i, mode in self._cell_modes.items():
            if mode != FULL:
                rest = "only its definitions were run" if mode == DEFINITIONS else "it was left out"
                sentences[i] = f"ended its process, so {rest}"
        return [f"Code cell {i + 1} of {len(self._cell_modes)} {sentences[i]}." for i in sorted(sentences)]

    def run(
        self, questions: list[PreparedQuestion], after_own_cell: bool = False
    ) -> Iterator[tuple[PreparedQuestion, Outcome]]:
        """Run the answers to these questions and yield the outcome of each.

        Args:
            questions: the questions, each with an attempted answer.
            after_own_cell: whether each answer is called just after its own cell instead of after all cells.

        Raises:
            WorkerStartError: no worker could be started.
        """

        def n_cells(each: PreparedQuestion) -> int:
            everything = len(self.submission.cells)
            return self.submission.answers[each.question.id].cell + 1 if after_own_cell else everything

        pending, status, self._n_run = deque(sorted(questions, key=n_cells)), "crashed", None
        while pending and self._n_runs < MAX_RUNS and (self._worker is not None or self._n_workers < MAX_WORKERS):
            if time.monotonic() >= self._ends_at:
                status = "timed out"
                break
            try:
                self._run_cells(n_cells(pending[0]))
            except (RunnerEnded, wire.WireError) as e:
                status = self._end(e)
                self.unsure |= status in UNSURE
                self.out_of_time |= status == "timed out"
                continue
            each, messages = pending.popleft(), []
            try:
                self._n_asked += 1
                status = self._run_question(each, messages)
            except (RunnerEnded, wire.WireError) as e:
                others, status = self._n_asked > 1, self._end(e)
                # perhaps the previous answer used it, and was measured too late
                if status == "memory" and others and not marking.is_complete(messages, each):
                    pending.appendleft(each)
                    continue
            yield each, Outcome(status, messages)
        for each in pending:
            yield each, Outcome(status)

    def _run_cells(self, n_cells: int) -> None:
        """Run the cells up to the given number of them. If one ends its process, it is run more carefully next time."""
        if self._n_run is None:
            self._begin()
        worker, first = self._worker, self._n_run
        assert worker is not None and first is not None
        if first >= n_cells:
            return
        seconds = max(0.0, min(self._cell_seconds, self._total_cell_seconds))
        wall = CELL_WALL_FACTOR * seconds + WALL_SECONDS
        cells = self.submission.cells[first:n_cells]
        imports = any(map(LATE_IMPORTS.search, cells))
        spare = GRACE_SECONDS + (IMPORT_SECONDS if imports else 0.0)
        before, cell, deadline = worker.cpu_seconds(), None, self._deadline(wall + spare)
        worker.limit_cpu(GROUP_FACTOR * seconds + spare)
        request = {
            "command": "cells",
            "imports": imports,
            "first": first,
            "cells": cells,
            "modes": list(self._cell_modes.items()),
            "wanted": [[answer.cell, answer.name] for answer in self.submission.answers.values()],
            "cpu_seconds": seconds,
            "wall_seconds": wall,
        }
        self._runner_is_fresh = False
        try:
            wire.send(worker.request_fd, request, deadline)
            while "interrupted" not in (reply := self._receive(worker, deadline, wire.FrameLimits(tensor_bytes=0))):
                if not isinstance(cell := reply.get("cell"), int):
                    raise wire.WireError("a malformed reply")
        except (RunnerEnded, wire.WireError):
            if isinstance(cell, int) and cell in self._cell_modes:
                self._cell_modes[cell] = min(self._cell_modes[cell] + 1, SKIPPED)
            raise
        finally:
            self._total_cell_seconds -= worker.cpu_seconds() - before
        listed = reply["interrupted"] if isinstance(reply["interrupted"], list) else []
        interrupted = {i for i in self._cell_modes if i in listed}
        self._interrupted |= interrupted
        self.unsure |= bool(interrupted)
        self.out_of_time |= bool(interrupted)
        self._n_run = n_cells

    def _begin(self) -> None:
        """Get a fresh runner: of the same worker if there is one, otherwise of a new one."""
        self._n_runs += 1
        self._n_run = self._n_asked = 0
        if self._worker is None:
            self._n_workers += 1
            self._worker = self.pool.acquire()
            self._ends_at = min(self._ends_at, time.monotonic() + self._wall_seconds)
        elif not self._runner_is_fresh:
            deadline = self._deadline(RESTART_SECONDS)
            wire.send(self._worker.request_fd, {"command": "restart"}, deadline)
            with contextlib.suppress(RunnerEnded):
                while True:
                    self._receive(self._worker, deadline, wire.FrameLimits(tensor_bytes=0))
        self._runner_is_fresh = True

    def _run_question(self, each: PreparedQuestion, messages: list[dict]) -> str:
        """Run one answer, append its messages, and return how it ended."""
        worker, answer = self._worker, self.submission.answers[each.question.id]
        assert worker is not None
        seconds, n_messages = self.budgets[each.question.id], len(each.reference)
        wall = WALL_FACTOR * seconds + WALL_SECONDS
        deadline = self._deadline(wall + GRACE_SECONDS)
        worker.limit_cpu(GROUP_FACTOR * seconds + GRACE_SECONDS)
        # enough for the right answer in twice the precision
        limits = wire.FrameLimits(tensor_bytes=2**16 + 2 * each.max_message_bytes)
        request = each.request | {
            "command": "question",
            "answer": [answer.cell, answer.name],
            "cpu_seconds": seconds,
            "wall_seconds": wall,
            "messages": n_messages,
            "max_bytes": limits.tensor_bytes,
        }
        wire.send(worker.request_fd, request, deadline)
        for _ in range(n_messages + 1):
            waits = FIRST_LOOK_SECONDS, STALL_SECONDS
            wire.wait_while_busy(worker.reply_fd, worker.cpu_seconds, 0.01, waits, deadline)
            reply = self._receive(worker, deadline, limits)
            if "status" in reply:
                return reply["status"] if reply["status"] in END_STATUSES else "crashed"
            messages.append(reply)
        raise wire.WireError("more messages than were requested")

    def _deadline(self, seconds: float) -> float:
        return min(self._ends_at, time.monotonic() + seconds)

    def _receive(self, worker: Worker, deadline: float, limits: wire.FrameLimits) -> dict:
        reply = wire.receive(worker.reply_fd, deadline, limits)
        if not isinstance(reply, dict):
            raise wire.WireError("a malformed reply")
        if "ended" in reply:
            raise RunnerEnded("killed" if reply["ended"] == "killed" else "crashed")
        return reply

    def _end(self, error: Exception) -> str:
        """Note that the runner, and perhaps its worker, has ended, and return how."""
        self._n_run = None
        if isinstance(error, RunnerEnded):
            self._runner_is_fresh = True
            return str(error)
        assert self._worker is not None
        worker, self._worker = self._worker, None
        reason = worker.stop()
        if reason in ("memory", "killed"):
            return reason
        return "timed out" if reason == "cpu" or isinstance(error, wire.Timeout) else "crashed"
