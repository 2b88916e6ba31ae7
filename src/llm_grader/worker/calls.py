"""Call an answer on every hidden case, compute its gradients, and run the probes of the exercise on it."""

import contextlib
import functools
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from llm_anatomy.notebook.outcomes import on_cpu
from llm_grader import wire
from llm_grader.worker.cells import failed_imports
from llm_grader.worker.values import OTHER, decode, encode

NO_CUDA = (  # what PyTorch says where there is no GPU
    *("Torch not compiled with CUDA enabled", "No CUDA GPUs are available", "Found no NVIDIA driver"),
    "Attempting to deserialize object on a CUDA device",
)
FIRST_LOOK_SECONDS = 0.5
STALL_SECONDS = 3.0  # an answer that uses no CPU time for as long waits for what never comes


def run_source(source: str, name: str) -> dict:
    """Run a source of the key and return its namespace."""
    made = {"__name__": name}
    exec(compile(source, f"<{name}>", "exec"), made)
    return made


def load_probes(source: str) -> tuple[Callable, dict[str, Callable]]:
    """Return the function with which an exercise calls an answer, and its probes."""
    defined = run_source(source, "probes")
    call = defined.get("call", lambda answer, **arguments: answer(*arguments.values()))
    return call, {name: thing for name, thing in defined.items() if name.startswith("probe_")}


def evaluate(answer: Callable, request: dict) -> Iterator[dict]:
    """Yield one message for the values of each case, for the gradients of each case, and for each probe on each case.

    Args:
        answer: the function to evaluate.
        request: ``cases``, a list of dictionaries of encoded arguments; ``cotangents``, for each case None or the
            values by which outputs are multiplied before gradients are computed; and ``probes``, the source of the
            probes.
    """
    yield from evaluate_values(answer, request)
    call, probes = load_probes(request["probes"])
    for i, (case, cotangents) in enumerate(zip(request["cases"], request["cotangents"], strict=True)):
        if cotangents is not None:
            yield {"case": i, "pass": "gradients"} | _gradients(call, answer, case, cotangents)
    for name, probe in probes.items():
        for i, case in enumerate(request["cases"]):
            yield {"case": i, "pass": name} | _call(probe, lambda *given: on_cpu(answer(*given)), case)


def evaluate_values(answer: Callable, request: dict) -> Iterator[dict]:
    """Yield the first part of :func:`evaluate`: one message for the values of each case."""
    call, _ = load_probes(request["probes"])
    for i, case in enumerate(request["cases"]):
        yield {"case": i, "pass": "values"} | _call(call, answer, case)


def _call(call: Callable, answer: Callable, case: dict) -> dict:
    arguments = {name: decode(value) for name, value in case.items()}
    try:
        found = {"returned": encode(call(answer, **arguments))}
    except BaseException as e:
        found = error_message(e)
    return found | {"arguments": {name: encode(value) for name, value in arguments.items()}}


def error_message(error: BaseException) -> dict:
    """Return the message for a call that raised an error."""
    untouched = type(error) is NotImplementedError and not error.args  # PyTorch's own errors have a message
    message = {"raised": type(error).__name__, "untouched": untouched} | ({"cuda": True} if _lacks_cuda(error) else {})
    return message | ({"missing": names} if (names := failed_imports(error)) else {})


def _lacks_cuda(error: BaseException) -> bool:
    """Return whether PyTorch raised the error since there is no GPU. An error of another class may be a student's."""
    text = error.args[0] if type(error) in (AssertionError, RuntimeError) and error.args else ""
    return type(text) is str and any(words in text for words in NO_CUDA)


def _gradients(call: Callable, answer: Callable, case: dict, cotangents: list) -> dict:
    arguments = {name: decode(value) for name, value in case.items()}
    leaves = float_tensors(list(arguments.values()))
    for leaf in leaves:
        leaf.requires_grad_()
    try:
        outputs = float_tensors(call(answer, **arguments))
        # a single sum: for several outputs, PyTorch first imports a module, which takes longer than most answers
        products = [(output * decode(value)).sum() for output, value in zip(outputs, cotangents, strict=True)]
        whole = functools.reduce(torch.add, products)
        found = torch.autograd.grad(whole, leaves, allow_unused=True)
    except BaseException as e:
        return error_message(e)
    return {"returned": encode([torch.zeros_like(a) if g is None else g for a, g in zip(leaves, found, strict=True)])}


def float_tensors(value: Any) -> list[torch.Tensor]:
    """Return the floating-point tensors in a value, in order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in float_tensors(item)] if isinstance(value, list | tuple) else []


def evaluate_in_child(answer: Callable, request: dict, send: Callable[[Any], None]) -> str:
    """Evaluate an answer in a child process and forward its messages.

    Args:
        answer: the function to evaluate.
        request: as for :func:`evaluate`, with the number of ``messages``, and ``cpu_seconds`` and ``wall_seconds``, the
            limits of CPU time and of time by the clock.
        send: called with each message.

    Returns:
        "done", "timed out", "crashed", or "killed" if something killed the child that was not this worker.
    """
    deadline = time.monotonic() + request["wall_seconds"]
    read_fd, write_fd = os.pipe()
    child = os.fork()
    if child == 0:
        _child_main(answer, request, read_fd, write_fd)
    os.close(write_fd)
    os.set_blocking(read_fd, False)
    try:
        for _ in range(request["messages"]):
            wire.wait_while_busy(read_fd, lambda: _cpu_ticks(child), 1, (FIRST_LOOK_SECONDS, STALL_SECONDS))
            send(wire.receive(read_fd, deadline))
        return "done"
    except wire.Timeout:
        return "timed out"
    except wire.WireError:
        return _how_it_ended(child)
    finally:
        os.close(read_fd)
        with contextlib.suppress(ProcessLookupError):  # the child may not have created its process group yet
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError, ProcessLookupError):  # its end may have been seen already
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _cpu_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _how_it_ended(child: int) -> str:
    """Return how a child ended that closed its pipe."""
    ended, status = 0, 0
    for _ in range(100):  # the pipe closes a little before the process is gone
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    by_signal = os.WTERMSIG(status) if ended and os.WIFSIGNALED(status) else 0
    if by_signal == signal.SIGPROF:
        return "timed out"
    return "killed" if by_signal == signal.SIGKILL else "crashed"


def _child_main(answer: Callable, request: dict, read_fd: int, write_fd: int) -> None:
    try:
        os.setpgid(0, 0)  # a process group, so that its children can be killed and take no time from the next question
        os.close(read_fd)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process when its CPU time is used up
        signal.setitimer(signal.ITIMER_PROF, request["cpu_seconds"])
        torch.set_num_threads(1)  # a pool of threads does not survive the fork
        torch.set_grad_enabled(True)  # cells may have changed these defaults
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        for message in evaluate(answer, request):
            if len(wire.pack(message)) > request["max_bytes"]:  # longer than the grader accepts
                message = {"case": message["case"], "pass": message["pass"], "returned": OTHER}
            wire.send(write_fd, message)
        select.select([], [], [], request["wall_seconds"])  # the parent reads the last message, then kills this process
    finally:
        os._exit(0)
