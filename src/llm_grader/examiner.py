"""The examiner: a worker without students' code, which draws the hidden inputs and runs the reference on them."""

import hashlib
import time
from dataclasses import asdict
from typing import Any

from groundwork import Refusal
from llm_grader import wire
from llm_grader.marking import sorted_out
from llm_grader.records import Key, Outcome, Prepared
from llm_grader.sandbox import Worker
from llm_grader.session import Pool

PATIENCE = 120.0  # seconds for one question's reference and mistakes
BRIEF = 20.0  # seconds for looking at what one student's answer returned


class Examiner:
    """Prepares questions and, where many answers are right, says what is to be compared. Not for several threads."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._worker: Worker | None = None

    def prepare(self, key: Key, seed: str) -> list[Prepared]:
        """The questions with this run's inputs. Refuses a key whose own parts fail."""
        prepared = []
        for question in key.questions:
            digest = hashlib.sha256(f"{seed} {question.id}".encode()).digest()
            request = {"do": "prepare", "question": asdict(question), "seed": int.from_bytes(digest[:7])}
            try:
                known = self._ask(request, PATIENCE)
            except wire.WireError as e:
                why = self.end() or str(e)
                raise Refusal(f"{question.id}: its reference cannot be run here: {why}.") from e
            if "failed" in known:
                raise Refusal(f"{question.id}: its key is not in order: {known['failed']}.")
            request = {name: known.pop(name) for name in ("cases", "cotangents", "probes")}
            prepared.append(Prepared(question, request, **known))
        return prepared

    def observe(self, outcome: Outcome, prepared: Prepared) -> Outcome:
        """The outcome as it is to be compared."""
        if "def observe(" not in prepared.question.checks or "def call(" in prepared.question.probes:
            return outcome
        found = list(sorted_out(outcome.found, prepared.request["cases"]).values())
        question = asdict(prepared.question)
        try:
            cases = prepared.request["cases"]
            seen = self._ask({"do": "observe", "question": question, "cases": cases, "found": found}, BRIEF)
        except wire.WireError:  # values that the examiner does not survive
            self.end()
            seen = []
        return Outcome(outcome.end, seen if isinstance(seen, list) else [])

    def _ask(self, request: dict, seconds: float) -> Any:
        if self._worker is None:
            self._worker, _ = self._pool.take()
        end = time.monotonic() + seconds
        wire.send(self._worker.to, request, end)
        return wire.receive(self._worker.source, end)

    def end(self) -> str:
        """End its worker; returns what that complained of."""
        worker, self._worker = self._worker, None
        if worker is None:
            return ""
        why = worker.end()
        return worker.complaint() or why

    def __enter__(self) -> "Examiner":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
