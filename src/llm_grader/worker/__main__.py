"""Main program of a worker: it confines itself, imports PyTorch, and lets copies of itself answer the requests.

A copy, the *runner*, runs a notebook's cells and answers. When it ends, because the grader asks for a fresh one or
because a cell ended its process, the next copy starts from the same state within milliseconds. The worker itself runs
no students' code.
"""

import contextlib
import gc
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def main(request_fd: int, reply_fd: int, limits: dict) -> None:
    start = time.monotonic() - time.process_time()
    from llm_grader import wire
    from llm_grader.worker import cells, confine

    if (data := Path(__file__).resolve().parents[2] / "data-files").is_dir():
        os.symlink(data, "data")
    confine.confine(limits)
    gc.disable()  # what is imported is no garbage, and looking through it again and again takes a tenth of the time
    import torch

    torch.set_num_threads(1)
    shell = cells.make_shell()
    _replace_what_takes_time()
    gc.freeze()  # so that copies do not look through it either
    gc.enable()
    wire.send(reply_fd, {"ready": (time.monotonic() - start) / time.process_time()})
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(devnull, stream)
    while True:
        runner = os.fork()
        if runner == 0:
            _run(shell, request_fd, reply_fd, limits["memory"])
        _, status = os.waitpid(runner, 0)
        with contextlib.suppress(ProcessLookupError):  # what it started
            os.killpg(runner, signal.SIGKILL)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        wire.send(reply_fd, {"ended": "killed" if killed else "crashed"})


def _run(shell: "InteractiveShell", request_fd: int, reply_fd: int, memory: int) -> None:
    """Answer requests until the pipe is closed, the grader asks for a fresh runner, or students' code ends this one."""
    from llm_grader import wire
    from llm_grader.worker import calls, cells, questions

    def send(message: object) -> None:
        wire.send(reply_fd, message)

    found: dict = {}
    missing: list[str] = []  # modules that cells could not import

    def send_result(message: object) -> None:
        if missing and isinstance(message, dict):
            own = message.get("missing")
            message = message | {"missing": [*missing, *(own if isinstance(own, list) else [])]}
        send(message)

    sys.path.append("")  # as in Jupyter, for modules that a notebook writes
    try:
        os.setpgid(0, 0)
        while (request := wire.receive(request_fd))["command"] != "restart":
            if request["command"] == "cells":
                if request["imports"]:
                    import torch._dynamo  # noqa: F401
                with cells.memory_limit(memory // 2):
                    interrupted = cells.run_cells(shell, request, found, missing, lambda i: send({"cell": i}))
                send({"interrupted": interrupted})
            elif request["command"] == "question":
                cell, name = request["answer"]
                answer = found.get((cell, name), found.get((-1, name)))
                status = "no answer" if answer is None else calls.evaluate_in_child(answer, request, send_result)
                if status != "done" and missing:  # then there is no message yet, or there are fewer than were asked for
                    send_result({})
                send({"status": status})
            elif request["command"] == "prepare":
                try:
                    send(questions.prepare(request["question"], request["seed"]))
                except Exception as e:  # an error in the key, for its author
                    send({"failed": f"{type(e).__name__}: {e}"})
            elif request["command"] == "observe":
                send(questions.observe(request["question"], request["cases"], request["found"]))
    finally:
        os._exit(0)


def _replace_what_takes_time() -> None:
    """Let the notebooks' checks and set-up do nothing, and ``torch.compile`` return what it is given."""
    import torch

    import llm_anatomy.notebook as notebook
    from llm_anatomy.notebook import checks

    notebook.check = notebook.setup = checks.use_checks = lambda *args, **kwargs: None
    torch.compile = lambda model=None, **options: (lambda same: same) if model is None else model


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    try:
        main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
    except Exception as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        sys.exit(1)
