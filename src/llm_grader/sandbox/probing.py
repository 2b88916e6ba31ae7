"""Find out whether a sandbox works on this machine by attacking it from inside."""

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from groundwork import Refusal
from llm_grader import wire
from llm_grader.sandbox.base import WORLD_WRITABLE, Finding, Limits, Sandbox
from llm_grader.sandbox.processes import process_table

ATTACKS = Path(__file__).with_name("attacks.py")
MIB = 2**20
LIMITS = Limits(memory=192 * MIB, address_space=1024 * MIB, processes=24, open_files=64, disk=8 * MIB)
SECONDS = 90.0  # for all attacks together; they take less than one second if the machine is not busy


def probe(sandbox: Sandbox, private: list[Path]) -> list[Finding]:
    """Attack a sandbox and return one finding for each attack, or a single one if the sandbox cannot be used at all.

    Args:
        sandbox: the sandbox.
        private: folders that its workers must not see.
    """
    if missing := sandbox.unavailable_reason():
        return [Finding(sandbox.name, "start", False, missing)]
    name = f"probe-{secrets.token_hex(4)}"
    left = [f"{folder}/{name}" for folder in WORLD_WRITABLE]
    try:
        with _targets(name, private) as targets:
            report = _run_attacks(sandbox, targets | {"name": name, "left": left, "hold": ""})
        outcomes = {attack: str(success) for attack, success in report.items()}
        if sandbox.advice and outcomes["read the key"]:
            outcomes["read the key"] += f": {sandbox.advice}"
        outcomes["leave a process behind"] = "it is still running" if _process_exists(name) else ""
        outcomes["leave a file behind"] = next(filter(os.path.exists, left), "")
        outcomes["hold too much memory"] = _probe_memory_limit(sandbox, "memory")
        outcomes["hold too much of the kernel's memory"] = _probe_memory_limit(sandbox, "buffers")
    except (wire.WireError, OSError, Refusal) as e:
        return [Finding(sandbox.name, "start", False, str(e))]
    return [Finding(sandbox.name, attack, not success, success) for attack, success in outcomes.items()]


def _run_attacks(sandbox: Sandbox, target: dict) -> dict[str, str]:
    worker = sandbox.start(LIMITS, ATTACKS)
    try:
        deadline = time.monotonic() + SECONDS
        wire.send(worker.request_fd, target | {"processes": LIMITS.processes, "disk": LIMITS.disk}, deadline)
        return wire.receive(worker.reply_fd, deadline)
    except wire.WireError as e:
        raise wire.WireError(worker.error_output() or f"the worker does not answer: {e}") from e
    finally:
        worker.stop()


def _probe_memory_limit(sandbox: Sandbox, kind: str) -> str:
    worker = sandbox.start(LIMITS, ATTACKS)
    try:
        deadline = time.monotonic() + SECONDS
        wire.send(worker.request_fd, {"hold": kind, "memory": LIMITS.memory}, deadline)
        with contextlib.suppress(wire.Closed):
            wire.receive(worker.reply_fd, deadline)
            return ""  # the kernel did not give it that much
    except wire.Timeout:
        return f"more than {LIMITS.memory // MIB} MiB"
    finally:
        why = worker.stop()
    return "" if why == "memory" else f"it ended for another reason: {worker.error_output() or why}"


@contextlib.contextmanager
def _targets(name: str, private: list[Path]) -> Iterator[dict]:
    """Yield the targets of the attacks: a readable file in each private folder, and sockets of this process."""
    with contextlib.ExitStack() as stack:
        files = []
        for folder in private:
            path = (
                folder.resolve() / f".{name}"
            )  # hidden, so that a file that stays behind is not taken for a submission
            with contextlib.suppress(PermissionError):
                stack.callback(path.unlink, missing_ok=True)
                path.write_text("key")
                path.chmod(0o644)
                files.append(str(path))
        history = [path for repository in repositories(private) for path in (repository, *repository.glob("*"))]
        inet = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        local.bind("\0" + name)
        local.listen()
        yield {
            "files": [*files, *(str(path) for path in history if not path.is_dir())],
            "folders": [
                *(str(folder.resolve()) for folder in private),
                *(str(path) for path in history if path.is_dir()),
            ],
            "port": inet.getsockname()[1],
            "socket": name,
            "pid": os.getpid(),
        }


def repositories(private: list[Path]) -> list[Path]:
    """Return the folders of the git repositories that can hold the history of private folders."""
    found = []
    for path in dict.fromkeys(above / ".git" for folder in private for above in (folder.resolve() / "_").parents):
        if path.is_file():  # in a worktree or submodule, the repository is elsewhere
            path = path.parent / path.read_text().removeprefix("gitdir:").strip()
        if path.is_dir():
            found.append(path.resolve())
            for name, base in (("commondir", path), ("objects/info/alternates", path / "objects")):
                with contextlib.suppress(OSError):
                    found += [(base / line).resolve() for line in (path / name).read_text().splitlines()]
    return list(dict.fromkeys(found))


def _process_exists(name: str) -> bool:
    for pid in process_table():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            if file.read().strip() == name:
                return True
    return False
