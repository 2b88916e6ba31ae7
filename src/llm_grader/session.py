"""One submission through its workers: its cells, then question after question, whatever it does to them."""

import threading
import time
from collections import deque
from collections.abc import Iterator

from llm_grader import Refusal, wire
from llm_grader.records import Outcome, PreparedQuestion, Submission
from llm_grader.sandbox import Limits, Sandbox, Worker

STARTUP_SECONDS = 60.0  # seconds that a worker may take to get ready, on a busy machine
# A worker takes USUAL times its processor time to get ready, beside others of this grader. Where it takes longer, the
# machine does other things, and limits are stretched; no student's code has run by then.
USUAL_STARTUP_RATIO, MAX_TIME_SCALE = 2.0, 6.0
GRACE_SECONDS = 1.0  # seconds between the time that a worker keeps itself and the time that it is given up
MAX_WORKERS = 4  # for one submission, which loses one whenever a cell or an answer ends it
CELL_TIME_SHARE = 0.5  # of a submission's time
DEFAULT_QUESTION_SECONDS = 2.0  # seconds that a question has without saying so
MIN_QUESTION_SECONDS = 0.2  # seconds that a question has when the rest has used up the submission's time
END_STATUSES = ("done", "timed out", "crashed")
FULL, SKIPPED = 0, 2  # how a cell is run, see worker/cells.py


class WorkerStartError(Refusal):
    """No worker could be started: our failure, not a student's."""


class WorkerPool:
    """Workers that have started before they are needed; each serves one submission and is not used again."""

    def __init__(self, sandbox: Sandbox, limits: Limits, n_spares: int = 1) -> None:
        self.sandbox, self.limits, self.n_spares = sandbox, limits, n_spares
        self._spare_workers: deque[Worker] = deque()
        self._lock = threading.Lock()

    def acquire(self) -> tuple[Worker, float]:
        """A worker that is ready, and how far its time is to be stretched because the machine is busy. The worker is
        the caller's to end.

        Raises:
            NotReady: with what the worker complained of.
        """
        error_output = ""
        for _ in range(2):
            with self._lock:
                worker = self._spare_workers.popleft() if self._spare_workers else self.sandbox.start(self.limits)
                self._refill()
            try:
                startup_ratio = wire.receive(worker.reply_fd, time.monotonic() + STARTUP_SECONDS)["ready"]
                return worker, min(MAX_TIME_SCALE, max(1.0, startup_ratio / USUAL_STARTUP_RATIO))
            except wire.WireError as e:
                error_output = str(e)
            why = worker.stop()
            error_output = worker.error_output() or why or error_output
        raise WorkerStartError(f"no worker got ready: {error_output}")

    def _refill(self) -> None:
        while len(self._spare_workers) < self.n_spares:
            self._spare_workers.append(self.sandbox.start(self.limits))

    def close(self) -> None:
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
    """Find out what a submission answers, question by question, in their order.

    Args:
        submission: as read.
        prepared: the questions; those without an attempted answer are left out.
        pool: gives the workers.
        seconds: for the submission's own time, the starting of workers apart. A question may take its share of what is
            left then, so that those which loop do not use up the time of others; what questions declare beyond ORDINARY
            comes on top.

    Raises:
        NotReady: no worker could be started.
    """
    left = seconds + sum(max(0.0, each.question.seconds - DEFAULT_QUESTION_SECONDS) for each in prepared)
    pending = [each for each in prepared if (a := submission.answers.get(each.question.id)) and a.attempted]
    cell_modes = dict.fromkeys(range(len(submission.cells)), FULL)
    end = "crashed"
    for _ in range(MAX_WORKERS):
        if not pending:
            return
        worker, time_scale = pool.acquire()
        begin, lost, n_asked = time.monotonic(), None, 0
        try:
            found, end = _run_cells(worker, submission, pending, cell_modes, left * time_scale * CELL_TIME_SHARE)
            left = max(MIN_QUESTION_SECONDS, left - (time.monotonic() - begin) / time_scale)
            while found is not None and pending and not lost:
                begin, share = time.monotonic(), left * time_scale / sum(each.question.seconds for each in pending)
                each = pending.pop(0)
                n_asked += 1
                outcome = Outcome("no answer")
                if each.question.id in found:
                    outcome, gone = _run_question(worker, each, share * each.question.seconds)
                    lost = (each, outcome) if gone else None
                left = max(MIN_QUESTION_SECONDS, left - (time.monotonic() - begin) / time_scale)
                if not lost:
                    yield each, outcome
        finally:
            why = worker.stop()
        if lost and why == "memory" and n_asked > 1:
            pending.insert(0, lost[0])  # it may have been the memory of the answer before, which ended meanwhile
        elif lost:
            yield lost[0], Outcome(why, lost[1].messages) if why == "memory" else lost[1]
    for each in pending:
        yield each, Outcome(end)


def _run_cells(
    worker: Worker, submission: Submission, pending: list[PreparedQuestion], cell_modes: dict[int, int], seconds: float
) -> tuple[set[str] | None, str]:
    """Run the cells.

    Returns:
        The ids of the questions for which there is a function then; or None and how it ended, where the worker is
        lost: the cell at fault is run more carefully next time.
    """
    at, end = None, time.monotonic() + seconds + GRACE_SECONDS
    answers = [(each.question.id, submission.answers[each.question.id]) for each in pending]
    request = {
        "command": "cells",
        "cells": submission.cells,
        "modes": list(cell_modes.items()),
        "seconds": seconds,
        "answers": [[question, answer.cell, answer.name] for question, answer in answers],
    }
    lost = "crashed"
    try:
        wire.send(worker.request_fd, request, end)
        while "found" not in (reply := wire.receive(worker.reply_fd, end, wire.FrameLimits(tensor_bytes=0))):
            at = reply["cell"]
        return {question for question in reply["found"] if isinstance(question, str)}, ""
    except wire.Timeout:
        lost = "timed out"
    except (wire.WireError, TypeError, KeyError):
        pass
    if isinstance(at, int) and at in cell_modes:
        cell_modes[at] = min(cell_modes[at] + 1, SKIPPED)
    return None, lost


def _run_question(worker: Worker, prepared: PreparedQuestion, seconds: float) -> tuple[Outcome, bool]:
    """Ask one question; also whether the worker is lost with it."""
    found, end = [], time.monotonic() + seconds + GRACE_SECONDS
    n_messages = len(prepared.reference)
    limits = wire.FrameLimits(
        tensor_bytes=2**16 + 2 * prepared.max_message_bytes
    )  # enough for the right answer in twice the precision
    request = prepared.request | {
        "command": "question",
        "question": prepared.question.id,
        "seconds": seconds,
        "messages": n_messages,
        "max_bytes": limits.tensor_bytes,
    }
    try:
        wire.send(worker.request_fd, request, end)
        for _ in range(n_messages + 1):
            reply = wire.receive(worker.reply_fd, end, limits)
            if "status" in reply:
                return Outcome(reply["status"] if reply["status"] in END_STATUSES else "crashed", found), False
            found.append(reply)
        return Outcome("crashed", found), True  # more messages than were asked for
    except wire.Timeout:
        return Outcome("timed out", found), True
    except (wire.WireError, TypeError):
        return Outcome("crashed", found), True
