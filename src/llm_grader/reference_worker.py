"""A worker that runs no students' code: it draws the hidden inputs and runs the reference on them."""

import time
from dataclasses import asdict
from functools import partial
from typing import Any

from groundwork import Refusal
from llm_grader import hidden_cases, wire
from llm_grader.marking import messages_by_case
from llm_grader.records import Key, Outcome, PreparedQuestion, Question
from llm_grader.sandbox import Worker
from llm_grader.session import WorkerPool

PREPARE_SECONDS = 120.0  # for the reference and the known mistakes of one question
OBSERVE_SECONDS = 20.0  # for calling ``observe`` on what one student's answer returned


class ReferenceWorker:
    """Worker that prepares questions, and calls ``observe`` for questions that have many right answers.

    It is not thread-safe.

    Args:
        pool: the pool that starts the worker.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._worker: Worker | None = None

    def prepare(self, key: Key, seed: str) -> list[PreparedQuestion]:
        """Draw hidden inputs for all questions of a key and run the reference on them.

        Args:
            key: key of the assignment.
            seed: seed of the hidden inputs, see :func:`llm_grader.hidden_cases.draw`.

        Raises:
            Refusal: the reference or another part of the key fails.
        """
        return [hidden_cases.draw(each.id, seed, partial(self._prepare, each)) for each in key.questions]

    def _prepare(self, question: Question, seed: int) -> PreparedQuestion:
        request = {"command": "prepare", "question": asdict(question), "seed": seed}
        try:
            known = self._ask(request, PREPARE_SECONDS)
        except wire.WireError as e:
            why = self.stop() or str(e)
            raise Refusal(f"{question.id}: the reference cannot be run: {why}.") from e
        if "failed" in known:
            raise Refusal(f"{question.id}: the key has an error: {known['failed']}.")
        request = {name: known.pop(name) for name in ("cases", "cotangents", "probes")}
        return PreparedQuestion(question, request, **known)

    def observe(self, outcome: Outcome, prepared: PreparedQuestion) -> Outcome:
        """Return the outcome with the values that are compared: those of the key's ``observe`` where there is one."""
        if not prepared.question.observed or prepared.question.calls:
            return outcome
        found = list(messages_by_case(outcome.messages, prepared.request["cases"]).values())
        question = asdict(prepared.question)
        try:
            cases = prepared.request["cases"]
            seen = self._ask(
                {"command": "observe", "question": question, "cases": cases, "found": found}, OBSERVE_SECONDS
            )
        except wire.WireError:  # values that make ``observe`` crash
            self.stop()
            seen = []
        return Outcome(outcome.status, seen if isinstance(seen, list) else [])

    def _ask(self, request: dict, seconds: float) -> Any:
        if self._worker is None:
            self._worker = self._pool.acquire()
        end = time.monotonic() + seconds
        wire.send(self._worker.request_fd, request, end)
        reply = wire.receive(self._worker.reply_fd, end)
        if isinstance(reply, dict) and "ended" in reply:
            raise wire.Closed("it ended its process")
        return reply

    def stop(self) -> str:
        """Stop the worker and return its error output, or an empty string."""
        worker, self._worker = self._worker, None
        if worker is None:
            return ""
        why = worker.stop()
        return worker.error_output() or why

    def __enter__(self) -> "ReferenceWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
