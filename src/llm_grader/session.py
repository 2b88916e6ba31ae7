"""One submission through its workers: its cells, then question after question, whatever it does to them."""

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from llm_grader import wire
from llm_grader.records import Question, Submission
from llm_grader.sandbox import Limits, Sandbox, Worker

START = 60.0  # seconds that a worker may take to get ready, on a busy machine
GRACE = 1.0  # seconds between the time that a worker keeps itself and the time that it is given up
MOST_WORKERS = 4  # for one submission, which loses one whenever a cell or an answer ends it
SHARE_OF_CELLS = 0.5  # of a submission's time
ORDINARY = 2.0  # seconds that a question has without saying so
LEAST = 0.2  # seconds that a question has when the rest has used up the submission's time
ENDS = ("done", "timed out", "crashed")
FULL, SKIPPED = 0, 2  # how a cell is run, see worker/cells.py


class NotReady(Exception):
    """No worker could be started: our failure, not a student's."""


class Pool:
    """Workers that have started before they are needed; each serves one submission and is not used again."""

    def __init__(self, sandbox: Sandbox, limits: Limits, spares: int = 1) -> None:
        self.sandbox, self.limits, self.spares = sandbox, limits, spares
        self._started: deque[Worker] = deque()
        self._lock = threading.Lock()

    def take(self) -> Worker:
        """A worker that is ready. It is the caller's to end.

        Raises:
            NotReady: with what the worker complained of.
        """
        complaint = ""
        for _ in range(2):
            with self._lock:
                worker = self._started.popleft() if self._started else self.sandbox.start(self.limits)
                self._refill()
            try:
                if wire.receive(worker.source, time.monotonic() + START) == {"ready": True}:
                    return worker
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


@dataclass(frozen=True)
class Prepared:
    """A question with this run's hidden inputs and what is right for them; lists of messages as the worker sends them.

    Args:
        question: from the key.
        request: ``cases``, ``cotangents`` and ``probes``, as they go to the student's worker.
        size: bytes of the reference's longest message.
        reference: what it answers.
        mistakes: known mistake → what it answers.
        trivial: an answer that knows nothing → what it answers.
    """

    question: Question
    request: dict
    size: int
    reference: list[dict]
    mistakes: dict[str, list[dict]]
    trivial: dict[str, list[dict]]


@dataclass
class Outcome:
    """What came of one question: how it ended ("done", "timed out", "crashed", "memory" or "no answer") and the
    messages of its cases."""

    end: str
    found: list[dict] = field(default_factory=list)


def run(submission: Submission, prepared: list[Prepared], pool: Pool, seconds: float) -> dict[str, Outcome]:
    """What a submission answers.

    Args:
        submission: as read.
        prepared: the questions to be asked; those without an attempted answer are left out of the result.
        pool: gives the workers.
        seconds: for the submission's own time, the starting of workers apart; questions that declare more than
            ORDINARY have that on top.

    Raises:
        NotReady: no worker could be started.
    """
    left = seconds + sum(max(0.0, p.question.seconds - ORDINARY) for p in prepared)
    pending = [p for p in prepared if (a := submission.answers.get(p.question.id)) and a.attempted]
    outcomes: dict[str, Outcome] = {}
    how = {i: FULL for i in range(len(submission.cells))}
    for _ in range(MOST_WORKERS):
        if not pending:
            break
        worker, begin = pool.take(), time.monotonic()
        outcome, lost = Outcome("crashed"), False
        try:
            found = _cells(worker, submission, pending, how, left * SHARE_OF_CELLS)
            left = max(LEAST, left - (time.monotonic() - begin))
            while found is not None and pending:
                now = pending.pop(0)
                share = left * now.question.seconds / sum(p.question.seconds for p in [now, *pending])
                begin = time.monotonic()
                answered = now.question.id in found
                outcome, lost = _ask(worker, now, share) if answered else (Outcome("no answer"), False)
                left = max(LEAST, left - (time.monotonic() - begin))
                outcomes[now.question.id] = outcome
                if lost:
                    break
        finally:
            why = worker.end()
        if lost and why == "memory":
            outcome.end = why
    return {p.question.id: Outcome("crashed") for p in pending} | outcomes


def _cells(worker: Worker, submission: Submission, pending: list[Prepared], how: dict[int, int], seconds: float):
    """Run the cells and return the ids of the questions for which there is a function; None if the worker is lost, and
    then the cell at fault is run more carefully next time."""
    at, end = None, time.monotonic() + seconds + GRACE
    answers = [(p.question.id, submission.answers[p.question.id]) for p in pending]
    request = {
        "do": "cells",
        "cells": submission.cells,
        "how": list(how.items()),
        "seconds": seconds,
        "answers": [[question, answer.cell, answer.name] for question, answer in answers],
    }
    try:
        wire.send(worker.to, request, end)
        while "found" not in (reply := wire.receive(worker.source, end, wire.Caps(tensors=0))):
            at = reply["cell"]
        return {question for question in reply["found"] if isinstance(question, str)}
    except (wire.WireError, TypeError, KeyError, AttributeError):
        if isinstance(at, int) and at in how:
            how[at] = min(how[at] + 1, SKIPPED)
        return None


def _ask(worker: Worker, prepared: Prepared, seconds: float) -> tuple[Outcome, bool]:
    """Ask one question; also whether the worker is lost with it."""
    found, end = [], time.monotonic() + seconds + GRACE
    n_messages = len(prepared.reference)
    caps = wire.Caps(tensors=min(wire.Caps.tensors, 2**16 + 8 * prepared.size))  # far more than a right answer has
    request = prepared.request | {
        "do": "question",
        "question": prepared.question.id,
        "seconds": seconds,
        "messages": n_messages,
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
