"""One submission through its workers: its cells, then question after question, whatever it does to them."""

import threading
import time
from collections import deque
from collections.abc import Iterator

from groundwork import Refusal
from llm_grader import wire
from llm_grader.records import Outcome, Prepared, Submission
from llm_grader.sandbox import Limits, Sandbox, Worker

START = 60.0  # seconds that a worker may take to get ready, on a busy machine
# A worker takes USUAL times its processor time to get ready, beside others of this grader. Where it takes longer, the
# machine does other things, and limits are stretched; no student's code has run by then.
USUAL, MOST_STRETCHED = 2.0, 6.0
GRACE = 1.0  # seconds between the time that a worker keeps itself and the time that it is given up
MOST_WORKERS = 4  # for one submission, which loses one whenever a cell or an answer ends it
SHARE_OF_CELLS = 0.5  # of a submission's time
ORDINARY = 2.0  # seconds that a question has without saying so
LEAST = 0.2  # seconds that a question has when the rest has used up the submission's time
ENDS = ("done", "timed out", "crashed")
FULL, SKIPPED = 0, 2  # how a cell is run, see worker/cells.py


class NotReady(Refusal):
    """No worker could be started: our failure, not a student's."""


class Pool:
    """Workers that have started before they are needed; each serves one submission and is not used again."""

    def __init__(self, sandbox: Sandbox, limits: Limits, spares: int = 1) -> None:
        self.sandbox, self.limits, self.spares = sandbox, limits, spares
        self._started: deque[Worker] = deque()
        self._lock = threading.Lock()

    def take(self) -> tuple[Worker, float]:
        """A worker that is ready, and how far its time is to be stretched because the machine is busy. The worker is
        the caller's to end.

        Raises:
            NotReady: with what the worker complained of.
        """
        complaint = ""
        for _ in range(2):
            with self._lock:
                worker = self._started.popleft() if self._started else self.sandbox.start(self.limits)
                self._refill()
            try:
                slowness = wire.receive(worker.source, time.monotonic() + START)["ready"]
                return worker, min(MOST_STRETCHED, max(1.0, slowness / USUAL))
            except wire.WireError as e:
                complaint = str(e)
            why = worker.end()
            complaint = worker.complaint() or why or complaint
        raise NotReady(f"no worker got ready: {complaint}")

    def _refill(self) -> None:
        while len(self._started) < self.spares:
            self._started.append(self.sandbox.start(self.limits))

    def close(self) -> None:
        with self._lock:
            self.spares = 0
            while self._started:
                self._started.pop().end()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(
    submission: Submission, prepared: list[Prepared], pool: Pool, seconds: float
) -> Iterator[tuple[Prepared, Outcome]]:
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
    left = seconds + sum(max(0.0, each.question.seconds - ORDINARY) for each in prepared)
    pending = [each for each in prepared if (a := submission.answers.get(each.question.id)) and a.attempted]
    how = dict.fromkeys(range(len(submission.cells)), FULL)
    end = "crashed"
    for _ in range(MOST_WORKERS):
        if not pending:
            return
        worker, stretch = pool.take()
        begin, lost, n_asked = time.monotonic(), None, 0
        try:
            found, end = _cells(worker, submission, pending, how, left * stretch * SHARE_OF_CELLS)
            left = max(LEAST, left - (time.monotonic() - begin) / stretch)
            while found is not None and pending and not lost:
                begin, share = time.monotonic(), left * stretch / sum(each.question.seconds for each in pending)
                each = pending.pop(0)
                n_asked += 1
                outcome = Outcome("no answer")
                if each.question.id in found:
                    outcome, gone = _ask(worker, each, share * each.question.seconds)
                    lost = (each, outcome) if gone else None
                left = max(LEAST, left - (time.monotonic() - begin) / stretch)
                if not lost:
                    yield each, outcome
        finally:
            why = worker.end()
        if lost and why == "memory" and n_asked > 1:
            pending.insert(0, lost[0])  # it may have been the memory of the answer before, which ended meanwhile
        elif lost:
            yield lost[0], Outcome(why, lost[1].found) if why == "memory" else lost[1]
    for each in pending:
        yield each, Outcome(end)


def _cells(
    worker: Worker, submission: Submission, pending: list[Prepared], how: dict[int, int], seconds: float
) -> tuple[set[str] | None, str]:
    """Run the cells.

    Returns:
        The ids of the questions for which there is a function then; or None and how it ended, where the worker is
        lost: the cell at fault is run more carefully next time.
    """
    at, end = None, time.monotonic() + seconds + GRACE
    answers = [(each.question.id, submission.answers[each.question.id]) for each in pending]
    request = {
        "do": "cells",
        "cells": submission.cells,
        "how": list(how.items()),
        "seconds": seconds,
        "answers": [[question, answer.cell, answer.name] for question, answer in answers],
    }
    lost = "crashed"
    try:
        wire.send(worker.to, request, end)
        while "found" not in (reply := wire.receive(worker.source, end, wire.Caps(tensors=0))):
            at = reply["cell"]
        return {question for question in reply["found"] if isinstance(question, str)}, ""
    except wire.TooLate:
        lost = "timed out"
    except (wire.WireError, TypeError, KeyError):
        pass
    if isinstance(at, int) and at in how:
        how[at] = min(how[at] + 1, SKIPPED)
    return None, lost


def _ask(worker: Worker, prepared: Prepared, seconds: float) -> tuple[Outcome, bool]:
    """Ask one question; also whether the worker is lost with it."""
    found, end = [], time.monotonic() + seconds + GRACE
    n_messages = len(prepared.reference)
    caps = wire.Caps(tensors=2**16 + 2 * prepared.size)  # enough for the right answer in twice the precision
    request = prepared.request | {
        "do": "question",
        "question": prepared.question.id,
        "seconds": seconds,
        "messages": n_messages,
        "cap": caps.tensors,
    }
    try:
        wire.send(worker.to, request, end)
        for _ in range(n_messages + 1):
            reply = wire.receive(worker.source, end, caps)
            if "end" in reply:
                return Outcome(reply["end"] if reply["end"] in ENDS else "crashed", found), False
            found.append(reply)
        return Outcome("crashed", found), True  # more messages than were asked for
    except wire.TooLate:
        return Outcome("timed out", found), True
    except (wire.WireError, TypeError):
        return Outcome("crashed", found), True
