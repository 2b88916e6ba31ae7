"""Main program of a worker: it confines itself and then answers the requests on its pipe until the pipe is closed."""

import json
import os
import sys
import time
from pathlib import Path


def main(request_fd: int, reply_fd: int, limits: dict) -> None:
    start = time.monotonic() - time.process_time()
    from llm_grader import wire
    from llm_grader.worker import confine

    confine.confine(limits)
    import torch

    torch.set_num_threads(1)
    from llm_grader.worker import calls, cells, questions

    shell = cells.make_shell()
    _disable_notebook_helpers()
    wire.send(reply_fd, {"ready": (time.monotonic() - start) / time.process_time()})
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(devnull, stream)
    answers: dict = {}

    def send(message: object) -> None:
        wire.send(reply_fd, message)

    while True:
        request = wire.receive(request_fd)
        if request["command"] == "cells":
            wanted = {question: (cell, name) for question, cell, name in request["answers"]}
            modes = {cell: mode for cell, mode in request["modes"]}
            with cells.memory_limit(limits["memory"] // 2):
                found = cells.run_cells(
                    shell,
                    request["cells"],
                    modes,
                    set(wanted.values()),
                    request["seconds"],
                    lambda i: send({"cell": i}),
                )
            for question, (cell, name) in wanted.items():
                answers[question] = found.get((cell, name), found.get((-1, name)))
            send({"found": [question for question, answer in answers.items() if answer is not None]})
        elif request["command"] == "question":
            send({"status": calls.evaluate_in_child(answers[request["question"]], request, send)})
        elif request["command"] == "prepare":
            try:
                send(questions.prepare(request["question"], request["seed"]))
            except Exception as e:  # an error in the key, for its author
                send({"failed": f"{type(e).__name__}: {e}"})
        elif request["command"] == "observe":
            send(questions.observe(request["question"], request["cases"], request["found"]))


def _disable_notebook_helpers() -> None:
    """Replace the checks and the set-up of notebooks by functions that do nothing, since both take time."""
    import llm_anatomy.notebook as notebook
    from llm_anatomy.notebook import checks

    notebook.check = notebook.setup = checks.use_checks = lambda *args, **kwargs: None


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    try:
        main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
    except Exception as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        sys.exit(1)
