"""Run one submission in workers: first its cells, then one question after another.

If an answer or a cell ends its worker, the submission continues in a new one.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator

from groundwork import Refusal
from llm_grader import wire
from llm_grader.records import Outcome, PreparedQuestion, Submission
from llm_grader.sandbox import Limits, Sandbox, Worker

STARTUP_SECONDS = 60.0  # time in which a worker must be ready, on a busy machine
# Beside other workers of this grader, a worker needs this many times its CPU time until it is ready. If it takes
# longer, the machine is busy with other things and time limits are scaled up. No student's code has run by then.
USUAL_STARTUP_RATIO, MAX_TIME_SCALE = 2.0, 6.0
GRACE_SECONDS = 1.0  # time by which the grader's limits exceed those that a worker enforces itself
MAX_WORKERS = 4  # for one submission, which needs a new one whenever a cell or an answer ends its worker
CELL_TIME_SHARE = 0.5  # share of a submission's time for its cells
DEFAULT_QUESTION_SECONDS = 2.0  # time of a question that declares none
MIN_QUESTION_SECONDS = 0.2  # time of a question when the others have used up the submission's time
END_STATUSES = ("done", "timed out", "crashed")
FULL, SKIPPED = 0, 2  # modes of running a cell, see worker/cells.py


class WorkerStartError(Refusal):
    """Raised if no worker could be started, which is a failure of the grader and not of the student."""


class WorkerPool:
    """Pool of workers that start before they are needed. Each worker serves one submission and is not used again.

    Args:
        sandbox: sandbox of the workers.
        limits: limits of each worker.
        n_spares: number of workers to keep ready.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, n_spares: int = 1) -> None:
        self.sandbox, self.limits, self.n_spares = sandbox, limits, n_spares
        self._spare_workers: deque[Worker] = deque()
        self._lock = threading.Lock()

    def acquire(self) -> tuple[Worker, float]:
        """Return a worker that is ready, and the factor by which to scale its time limits on a busy machine.

        The caller stops the worker.

        Raises:
            WorkerStartError: no worker could be started; the message holds its error output.
        """
        error = ""
        for _ in range(2):
            with self._lock:
                worker = self._spare_workers.popleft() if self._spare_workers else self.sandbox.start(self.limits)
                self._refill()
            try:
                startup_ratio = wire.receive(worker.reply_fd, time.monotonic() + STARTUP_SECONDS)["ready"]
                return worker, min(MAX_TIME_SCALE, max(1.0, startup_ratio / USUAL_STARTUP_RATIO))
            except wire.WireError as e:
                error = str(e)
            end_reason = worker.stop()
            error = worker.error_output() or end_reason or error
        raise WorkerStartError(f"No worker could be started: {error}")

    def _refill(self) -> None:
        while len(self._spare_workers) < self.n_spares:
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


def run_submission(
    submission: Submission, prepared: list[PreparedQuestion], pool: WorkerPool, seconds: float
) -> Iterator[tuple[PreparedQuestion, Outcome]]:
    """Run a submission and yield the outcome of each question, in their order.

    Args:
        submission: the submission.
        prepared: the questions; those without an attempted answer are omitted.
        pool: the pool of workers.
        seconds: time limit of the submission, without the time for starting workers. Each question may take its share
            of the remaining time, so an endless loop does not use up the time of the others. Time that questions
            declare beyond ``DEFAULT_QUESTION_SECONDS`` is added.

    Raises:
        WorkerStartError: no worker could be started.
    """
    remaining = seconds + sum(max(0.0, each.question.seconds - DEFAULT_QUESTION_SECONDS) for each in prepared)
    pending = [each for each in prepared if (a := submission.answers.get(each.question.id)) and a.attempted]
    cell_modes = dict.fromkeys(range(len(submission.cells)), FULL)
    status = "crashed"
    for _ in range(MAX_WORKERS):
        if not pending:
            return
        worker, time_scale = pool.acquire()
        start, lost, n_run = time.monotonic(), None, 0
        try:
            defined, status = _run_cells(
                worker, submission, pending, cell_modes, remaining * time_scale * CELL_TIME_SHARE
            )
            remaining = max(MIN_QUESTION_SECONDS, remaining - (time.monotonic() - start) / time_scale)
            while defined is not None and pending and not lost:
                start, share = time.monotonic(), remaining * time_scale / sum(each.question.seconds for each in pending)
                each = pending.pop(0)
                n_run += 1
                outcome = Outcome("no answer")
                if each.question.id in defined:
                    outcome, is_lost = _run_question(worker, each, share * each.question.seconds)
                    lost = (each, outcome) if is_lost else None
                remaining = max(MIN_QUESTION_SECONDS, remaining - (time.monotonic() - start) / time_scale)
                if not lost:
                    yield each, outcome
        finally:
            end_reason = worker.stop()
        if lost and end_reason == "memory" and n_run > 1:
            pending.insert(0, lost[0])  # perhaps the previous answer used the memory, which was measured too late
        elif lost:
            yield lost[0], Outcome(end_reason, lost[1].messages) if end_reason == "memory" else lost[1]
    for each in pending:
        yield each, Outcome(status)


def _run_cells(
    worker: Worker, submission: Submission, pending: list[PreparedQuestion], cell_modes: dict[int, int], seconds: float
) -> tuple[set[str] | None, str]:
    """Run the cells.

    Returns:
        The ids of the questions whose functions are defined after the cells have run, and an empty string. If the
        worker is lost, None and how it ended; ``cell_modes`` then says that the failing cell is run more carefully.
    """
    cell, deadline = None, time.monotonic() + seconds + GRACE_SECONDS
    answers = [(each.question.id, submission.answers[each.question.id]) for each in pending]
    request = {
        "command": "cells",
        "cells": submission.cells,
        "modes": list(cell_modes.items()),
        "seconds": seconds,
        "answers": [[question, answer.cell, answer.name] for question, answer in answers],
    }
    status = "crashed"
    try:
        wire.send(worker.request_fd, request, deadline)
        while "found" not in (reply := wire.receive(worker.reply_fd, deadline, wire.FrameLimits(tensor_bytes=0))):
            cell = reply["cell"]
        return {question for question in reply["found"] if isinstance(question, str)}, ""
    except wire.Timeout:
        status = "timed out"
    except (wire.WireError, TypeError, KeyError):
        pass
    if isinstance(cell, int) and cell in cell_modes:
        cell_modes[cell] = min(cell_modes[cell] + 1, SKIPPED)
    return None, status


def _run_question(worker: Worker, prepared: PreparedQuestion, seconds: float) -> tuple[Outcome, bool]:
    """Run one answer, and return its outcome and whether the worker is lost."""
    messages, deadline = [], time.monotonic() + seconds + GRACE_SECONDS
    n_messages = len(prepared.reference)
    # enough for the right answer in twice the precision
    limits = wire.FrameLimits(tensor_bytes=2**16 + 2 * prepared.max_message_bytes)
    request = prepared.request | {
        "command": "question",
        "question": prepared.question.id,
        "seconds": seconds,
        "messages": n_messages,
        "max_bytes": limits.tensor_bytes,
    }
    try:
        wire.send(worker.request_fd, request, deadline)
        for _ in range(n_messages + 1):
            reply = wire.receive(worker.reply_fd, deadline, limits)
            if "status" in reply:
                return Outcome(reply["status"] if reply["status"] in END_STATUSES else "crashed", messages), False
            messages.append(reply)
        return Outcome("crashed", messages), True  # more messages than were requested
    except wire.Timeout:
        return Outcome("timed out", messages), True
    except (wire.WireError, TypeError):
        return Outcome("crashed", messages), True
