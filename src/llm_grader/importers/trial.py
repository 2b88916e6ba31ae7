"""Try new masters: build each, and run its reference and answers without knowledge as the grader does.

This is a process of its own, ``python -m llm_grader.importers.trial REQUEST REPLY``, because it runs the instructor's
code. The reply gets a line for each master, so that those before one that never ends are known.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from groundwork import Refusal
from llm_grader import key
from llm_grader.importers.writing import GUESSED
from llm_grader.marking import agreement
from llm_grader.preflight import check_hidden_cases
from llm_grader.records import PreparedQuestion
from llm_grader.worker import calls, questions
from llm_grader.worker.values import encode


def fault(folder: Path, expected: str) -> str:
    """Return what is wrong with the only master of a chapter, or an empty string.

    Args:
        folder: the chapter's folder.
        expected: Python code of the list of what the reference returned in the notebook.
    """
    import numpy as np
    import torch

    with tempfile.TemporaryDirectory() as out:
        key.build(folder, Path(out))
    (question,) = key.load(folder).questions
    known = questions.prepare(asdict(question), seed=1)
    request = {name: known.pop(name) for name in ("cases", "cotangents", "probes")}
    prepared = PreparedQuestion(question, request, **known)
    try:
        check_hidden_cases([prepared])
    except Refusal:
        return GUESSED
    found = [message for message in prepared.reference if message["pass"] == "values"]
    if any(message["changed"] for message in found):
        return "its solution changes its arguments"
    as_compared = calls.run_source(question.probes, "probes").get("_compared", lambda value: value)
    for message, value in zip(found, eval(expected, {"np": np, "torch": torch}), strict=True):
        if not agreement(message["returned"], encode(as_compared(value)), question.tolerance).values:
            return "its solution alone returns something else than in the notebook, such as random numbers"
    if any(
        m["pass"] not in ("values", "gradients") and m["returned"].get("value") is not True for m in prepared.reference
    ):
        return "its solution alone does not raise the errors that it raises in the notebook"
    return ""


def main(request_path: str, reply_path: str) -> None:
    """Try masters."""
    with Path(reply_path).open("w", encoding="utf-8") as reply:
        for folder, expected in json.loads(Path(request_path).read_text(encoding="utf-8")):
            try:
                found = fault(Path(folder), expected)
            except Refusal as e:
                found = f"the grader refuses it ({str(e).rstrip('.')})"
            except Exception as e:
                found = f"its solution cannot be run alone ({type(e).__name__}: {e})"
            reply.write(json.dumps(" ".join(found.split())[:300]) + "\n")
            reply.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
