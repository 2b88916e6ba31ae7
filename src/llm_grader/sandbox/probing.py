"""Whether a sandbox holds on this machine, found out by attacking from inside it."""

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from groundwork import Refusal
from llm_grader import wire
from llm_grader.sandbox.base import WRITABLE, Finding, Limits, Sandbox
from llm_grader.sandbox.processes import table

ATTACKS = Path(__file__).with_name("attacks.py")
MIB = 2**20
LIMITS = Limits(memory=192 * MIB, address_space=1024 * MIB, processes=24, open_files=128, disk=8 * MIB)
SECONDS = 10.0  # for all attacks together; they take less than one


def probe(sandbox: Sandbox, private: list[Path]) -> list[Finding]:
    """What came of each attack; a single finding where the sandbox cannot be used at all.

    Args:
        sandbox: that is tried.
        private: folders that its workers must not see.
    """
    if missing := sandbox.missing():
        return [Finding(sandbox.name, "start", False, missing)]
    name = f"probe-{secrets.token_hex(4)}"
    left = [f"{place}/{name}" for place in WRITABLE]
    try:
        with _bait(name, private) as bait:
            report = _run(sandbox, bait | {"name": name, "left": left, "hold": False})
        outcomes = {attack: str(done) for attack, done in report.items()}
        if sandbox.advice and outcomes["read the key"]:
            outcomes["read the key"] += f": {sandbox.advice}"
        outcomes["leave a process behind"] = "it lives on" if _lives(name) else ""
        outcomes["leave a file behind"] = next(filter(os.path.exists, left), "")
        outcomes["hold too much memory"] = _hold(sandbox)
    except (wire.WireError, OSError, Refusal) as e:
        return [Finding(sandbox.name, "start", False, str(e))]
    return [Finding(sandbox.name, attack, not done, done) for attack, done in outcomes.items()]


def _run(sandbox: Sandbox, told: dict) -> dict[str, str]:
    worker = sandbox.start(LIMITS, ATTACKS)
    try:
        latest = time.monotonic() + SECONDS
        wire.send(worker.to, told | {"processes": LIMITS.processes, "disk": LIMITS.disk}, latest)
        return wire.receive(worker.source, latest)
    except wire.WireError as e:
        raise wire.WireError(worker.complaint() or f"a worker does not answer: {e}") from e
    finally:
        worker.end()


def _hold(sandbox: Sandbox) -> str:
    worker = sandbox.start(LIMITS, ATTACKS)
    try:
        latest = time.monotonic() + SECONDS
        wire.send(worker.to, {"hold": True, "memory": LIMITS.memory}, latest)
        with contextlib.suppress(wire.Closed):
            wire.receive(worker.source, latest)
    except wire.TooLate:
        return f"{LIMITS.memory * 4 // 3 // MIB} MiB under a limit of {LIMITS.memory // MIB} MiB"
    finally:
        why = worker.end()
    return "" if why == "memory" else f"it ended otherwise: {worker.complaint() or why}"


@contextlib.contextmanager
def _bait(name: str, private: list[Path]) -> Iterator[dict]:
    """A file in each private folder, readable as a careless author leaves it, and doors of this process to knock at."""
    with contextlib.ExitStack() as stack:
        files = []
        for folder in private:
            path = folder.resolve() / f".{name}"  # hidden: should it ever be left there, it is no submission
            with contextlib.suppress(PermissionError):
                stack.callback(path.unlink, missing_ok=True)
                path.write_text("key")
                path.chmod(0o644)
                files.append(str(path))
        inet = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        local.bind("\0" + name)
        local.listen()
        yield {
            "files": files,
            "folders": [str(folder.resolve()) for folder in private],
            "port": inet.getsockname()[1],
            "socket": name,
            "pid": os.getpid(),
        }


def _lives(name: str) -> bool:
    for pid in table():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
            if file.read().strip() == name:
                return True
    return False
