"""Sandboxes in which students' code runs.

A worker in a sandbox sees neither the grader's files nor the network, and nothing that it starts outlives it.
:func:`choose` attacks each kind of sandbox on this machine and returns the first one that blocks the attacks.
"""

from pathlib import Path

from groundwork import Refusal
from llm_grader.sandbox.base import Finding, Limits, Sandbox, Worker, workers_that_fit
from llm_grader.sandbox.bubblewrap import Bubblewrap
from llm_grader.sandbox.probing import probe
from llm_grader.sandbox.sandlock import Sandlock
from llm_grader.sandbox.setuid import SetuidSandbox, Unconfined

__all__ = ["Finding", "Limits", "Sandbox", "Worker", "choose", "workers_that_fit"]
SANDBOXES = (Bubblewrap, Sandlock, SetuidSandbox)


def choose(private: list[Path], name: str | None = None, unsafe: bool = False) -> tuple[Sandbox, list[Finding]]:
    """Choose the first sandbox that blocks all attacks but its known gaps.

    Args:
        private: folders that no worker may see: keys, submissions and marks.
        name: name of the only sandbox to try; all are tried by default.
        unsafe: whether to run students' code without a sandbox if none works.

    Returns:
        The sandbox, and the findings of all attacks that were tried.

    Raises:
        Refusal: there is no sandbox of that name, or none works here; the message says what failed in each.
    """
    classes = {sandbox.name: sandbox for sandbox in SANDBOXES}
    if name is not None and name not in classes:
        raise Refusal(f"There is no sandbox {name!r}; the sandboxes are {', '.join(classes)}.")
    findings: list[Finding] = []
    for sandbox_class in SANDBOXES if name is None else [classes[name]]:
        sandbox = sandbox_class()
        found = probe(sandbox, private)
        findings += found
        if all(finding.blocked or finding.attack in sandbox.known_gaps for finding in found):
            return sandbox, findings
    if unsafe:
        return Unconfined(), [
            *findings,
            Finding(Unconfined.name, "all attacks", False, "students' code is not confined"),
        ]
    failures = [f for f in findings if not f.blocked and f.attack not in classes[f.sandbox].known_gaps]
    raise Refusal(f"No sandbox works on this machine, so nothing is graded. {'; '.join(map(str, failures))}.")
