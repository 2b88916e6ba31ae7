"""Where students' code runs: a worker that sees no file of the grader and no network, and whose use of the machine ends
with it. :func:`choose` takes the first sandbox that holds here when it is attacked."""

from pathlib import Path

from groundwork import Refusal
from llm_grader.sandbox.base import Finding, Limits, Sandbox, Worker
from llm_grader.sandbox.bubblewrap import Bubblewrap
from llm_grader.sandbox.lowered import Lowered, Unconfined
from llm_grader.sandbox.probing import probe
from llm_grader.sandbox.sandlock import Sandlock

__all__ = ["Finding", "Limits", "Sandbox", "Worker", "choose"]
KINDS = (Bubblewrap, Sandlock, Lowered)


def choose(private: list[Path], name: str | None = None, unsafe: bool = False) -> tuple[Sandbox, list[Finding]]:
    """The first sandbox that holds, and what came of all attacks.

    Args:
        private: folders that no worker may see: keys, submissions, marks.
        name: the only one to try.
        unsafe: take none at all where no other holds.

    Raises:
        Refusal: none holds; the message says what failed in each.
    """
    kinds = {kind.name: kind for kind in KINDS}
    if name is not None and name not in kinds:
        raise Refusal(f"there is no sandbox {name!r}; there are {', '.join(kinds)}.")
    findings: list[Finding] = []
    for kind in KINDS if name is None else [kinds[name]]:
        sandbox = kind()
        found = probe(sandbox, private)
        findings += found
        if all(finding.held or finding.attack in sandbox.concedes for finding in found):
            return sandbox, findings
    if unsafe:
        return Unconfined(), [
            *findings,
            Finding(Unconfined.name, "all of these", False, "students' code is not confined"),
        ]
    broken = [f for f in findings if not f.held and f.attack not in kinds[f.sandbox].concedes]
    raise Refusal(f"no sandbox holds here, so nothing is graded. {'; '.join(map(str, broken))}.")
