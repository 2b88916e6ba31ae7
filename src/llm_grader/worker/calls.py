"""Calling an answer: on every case, for its gradients, and through the probes of the exercise."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from llm_grader import wire
from llm_grader.worker.values import OTHER, decode, encode


def run_source(source: str, name: str) -> dict:
    """What a source of the key defines."""
    made = {"__name__": name}
    exec(compile(source, f"<{name}>", "exec"), made)
    return made


def load_probes(source: str) -> tuple[Callable, dict[str, Callable]]:
    """How an exercise calls an answer, and its probes."""
    defined = run_source(source, "probes")
    call = defined.get("call", lambda answer, **arguments: answer(*arguments.values()))
    return call, {name: thing for name, thing in defined.items() if name.startswith("probe_")}


def evaluate(answer: Callable, request: dict) -> Iterator[dict]:
    """One message for each case, then for each case's gradients, then for each probe on each case.

    Args:
        answer: the function.
        request: ``cases``, a list of name → value; ``cotangents``, for each case None or the values that the output is
            multiplied with before its gradients are taken; ``probes``, source or "".
    """
    yield from evaluate_values(answer, request)
    call, probes = load_probes(request["probes"])
    for i, (case, cotangents) in enumerate(zip(request["cases"], request["cotangents"], strict=True)):
        if cotangents is not None:
            yield {"case": i, "pass": "gradients"} | _gradients(call, answer, case, cotangents)
    for name, probe in probes.items():
        for i, case in enumerate(request["cases"]):
            yield {"case": i, "pass": name} | _call(probe, answer, case)


def evaluate_values(answer: Callable, request: dict) -> Iterator[dict]:
    """The first part of :func:`outcomes`: one message for each case."""
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
    untouched = type(error) is NotImplementedError and not error.args  # PyTorch's own come with a message
    return {"raised": type(error).__name__, "untouched": untouched}


def _gradients(call: Callable, answer: Callable, case: dict, cotangents: list) -> dict:
    arguments = {name: decode(value) for name, value in case.items()}
    leaves = float_tensors(list(arguments.values()))
    for leaf in leaves:
        leaf.requires_grad_()
    try:
        outputs = float_tensors(call(answer, **arguments))
        # one sum to go back from: given several, PyTorch first loads what takes longer than most answers
        whole = sum((output * decode(value)).sum() for output, value in zip(outputs, cotangents, strict=True))
        found = torch.autograd.grad(whole, leaves, allow_unused=True)
    except BaseException as e:
        return error_message(e)
    return {"returned": encode([torch.zeros_like(a) if g is None else g for a, g in zip(leaves, found, strict=True)])}


def float_tensors(value: Any) -> list[torch.Tensor]:
    """The floating-point tensors in a value, in order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in float_tensors(item)] if isinstance(value, list | tuple) else []


def evaluate_in_child(answer: Callable, request: dict, send: Callable[[Any], None]) -> str:
    """Call an answer in a process of its own and hand on what it sends, message by message.

    Returns:
        "done", "timed out" or "crashed".
    """
    end = time.monotonic() + request["seconds"]
    source, to = os.pipe()
    child = os.fork()
    if child == 0:
        _child_main(answer, request, source, to)
    os.close(to)
    os.set_blocking(source, False)
    try:
        for _ in range(request["messages"]):
            send(wire.receive(source, end))
        return "done"
    except wire.Timeout:
        return "timed out"
    except wire.WireError:
        return "crashed"
    finally:
        os.close(source)
        with contextlib.suppress(ProcessLookupError):  # it may not have got so far as to have a group
            os.killpg(child, signal.SIGKILL)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _child_main(answer: Callable, request: dict, source: int, to: int) -> None:
    try:
        os.setpgid(0, 0)  # a group that ends with it: what it starts must not take time from the next question
        os.close(source)
        signal.setitimer(signal.ITIMER_REAL, 0)
        torch.set_num_threads(1)  # a pool of threads does not survive the fork
        torch.set_grad_enabled(True)  # cells may have changed this and the next two for good
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        for message in evaluate(answer, request):
            if len(wire.pack(message)) > request["max_bytes"]:  # the grader would not read it
                message = {"case": message["case"], "pass": message["pass"], "returned": OTHER}
            wire.send(to, message)
        select.select([], [], [], request["seconds"])  # the other end reads to the last message and then kills
    finally:
        os._exit(0)
