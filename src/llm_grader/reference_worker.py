"""The examiner: a worker without students' code, which draws the hidden inputs and runs the reference on them."""

import hashlib
import time
from dataclasses import asdict
from typing import Any

from llm_grader import Refusal, wire
from llm_grader.marking import messages_by_case
from llm_grader.records import Key, Outcome, PreparedQuestion
from llm_grader.sandbox import Worker
from llm_grader.session import WorkerPool

PREPARE_SECONDS = 120.0  # seconds for one question's reference and mistakes
OBSERVE_SECONDS = 20.0  # seconds for looking at what one student's answer returned


class ReferenceWorker:
    """Prepares questions and, where many answers are right, says what is to be compared. Not for several threads."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._worker: Worker | None = None

    def prepare(self, key: Key, seed: str) -> list[PreparedQuestion]:
        """The questions with this run's inputs. Refuses a key whose own parts fail."""
        prepared = []
        for question in key.questions:
            digest = hashlib.sha256(f"{seed} {question.id}".encode()).digest()
            request = {"command": "prepare", "question": asdict(question), "seed": int.from_bytes(digest[:7])}
            try:
                known = self._ask(request, PREPARE_SECONDS)
            except wire.WireError as e:
                why = self.stop() or str(e)
                raise Refusal(f"{question.id}: its reference cannot be run here: {why}.") from e
            if "failed" in known:
                raise Refusal(f"{question.id}: its key is not in order: {known['failed']}.")
            request = {name: known.pop(name) for name in ("cases", "cotangents", "probes")}
            prepared.append(PreparedQuestion(question, request, **known))
        return prepared

    def observe(self, outcome: Outcome, prepared: PreparedQuestion) -> Outcome:
        """The outcome as it is to be compared."""
        if "def observe(" not in prepared.question.checks or "def call(" in prepared.question.probes:
            return outcome
        found = list(messages_by_case(outcome.messages, prepared.request["cases"]).values())
        question = asdict(prepared.question)
        try:
            cases = prepared.request["cases"]
            seen = self._ask(
                {"command": "observe", "question": question, "cases": cases, "found": found}, OBSERVE_SECONDS
            )
        except wire.WireError:  # values that the examiner does not survive
            self.stop()
            seen = []
        return Outcome(outcome.status, seen if isinstance(seen, list) else [])

    def _ask(self, request: dict, seconds: float) -> Any:
        if self._worker is None:
            self._worker, _ = self._pool.acquire()
        end = time.monotonic() + seconds
        wire.send(self._worker.request_fd, request, end)
        return wire.receive(self._worker.reply_fd, end)

    def stop(self) -> str:
        """End its worker; returns what that complained of."""
        worker, self._worker = self._worker, None
        if worker is None:
            return ""
        why = worker.stop()
        return worker.error_output() or why

    def __enter__(self) -> "ReferenceWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
