"""A process that has imported PyTorch and has no threads. It calls functions of tests in processes that it forks.

Starting Python and importing PyTorch would take seconds for each of these processes.
"""

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT_S = 300
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


class Failure(Exception):
    """A process has ended with an exception, by a signal or not at all."""


class Forks:
    """Calls functions by way of the process that forks."""

    def __init__(self, process: subprocess.Popen):
        self.process = process

    def __call__(self, function: Callable, *arguments: Any, n_ranks: int | None = None) -> Any:
        """What a function of a module returns in another process; from several ranks, a list. JSON must hold it."""
        assert self.process.stdin and self.process.stdout
        call = [function.__module__, function.__qualname__, arguments, n_ranks]
        self.process.stdin.write(json.dumps(call, default=str) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise Failure(f"the process that forks has ended with status {self.process.wait()}")
        error, values = json.loads(answer)
        if error:
            raise Failure(error)
        return values[0] if n_ranks is None else values


@contextmanager
def forking() -> Iterator[Forks]:
    """Start the process. At the end, it and what it has started are killed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    words = [sys.executable, __file__, str(os.getpid())]
    with subprocess.Popen(words, env=environment, start_new_session=True, **pipes) as process:
        try:
            yield Forks(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before
        os._exit(1)


def call_in_child(path: Path, module: str, name: str, arguments: list, rank: int, n_ranks: int | None) -> None:
    """Write what the function returns, or the exception."""
    import torch

    value, error = None, None
    try:
        if n_ranks:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n_ranks))
            store = f"file://{path.with_name('store')}"
            torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=n_ranks)
        value = getattr(sys.modules[module], name)(*arguments)
        if n_ranks:
            torch.distributed.destroy_process_group()
    except BaseException:
        error = f"rank {rank}: {traceback.format_exc()}"
    path.write_text(json.dumps([error, value]))


def answer(module: str, name: str, arguments: list, n_ranks: int | None) -> tuple[str | None, list]:
    """Fork, wait, and kill the others if one process fails or if there is no end."""
    importlib.import_module(module)
    with tempfile.TemporaryDirectory() as folder:
        paths, living, parent = [Path(folder, str(rank)) for rank in range(n_ranks or 1)], {}, os.getpid()
        for rank, path in enumerate(paths):
            if (pid := os.fork()) == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                die_with(parent)
                call_in_child(path, module, name, arguments, rank, n_ranks)
                os._exit(0)
            living[pid] = path
        errors = []

        def kill(*_: Any) -> None:
            for pid in living:
                os.kill(pid, signal.SIGKILL)

        signal.signal(signal.SIGALRM, kill)
        signal.alarm(TIMEOUT_S)
        values = {}
        while living:
            pid, status = os.wait()
            path = living.pop(pid)
            error, values[path] = json.loads(path.read_text()) if path.exists() else (f"status {status}", None)
            if error:
                errors.append(error)
                kill()
        signal.alarm(0)
        return errors[0] if errors else None, [values[path] for path in paths]


def main() -> None:
    die_with(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the functions print is none
    import torch
    import torch._dynamo  # which optimizers import
    import torch.distributed.fsdp  # noqa: F401

    torch.set_num_threads(1)
    for line in sys.stdin:
        answers.write(json.dumps(answer(*json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
