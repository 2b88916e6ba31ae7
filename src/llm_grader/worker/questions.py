"""Prepare questions: draw hidden inputs and run the reference, known mistakes and answers without knowledge on them."""

from collections.abc import Callable
from typing import Any

import torch

from llm_grader import wire
from llm_grader.worker import calls
from llm_grader.worker.values import OTHER, decode, encode


def prepare(question: dict, seed: int) -> dict:
    """Prepare a question and return the fields of :class:`llm_grader.records.PreparedQuestion`.

    Args:
        question: fields of :class:`llm_grader.records.Question`.
        seed: seed of the hidden inputs, and of the cotangents of gradients.
    """
    generator = torch.Generator().manual_seed(seed)
    cases = calls.run_source(question["hidden"], "hidden")["hidden_cases"](generator)
    encoded = [{name: encode(value) for name, value in case.items()} for case in cases]
    solution = calls.run_source(question["solution"], "solution")[question["function"]]
    cotangents = [
        _cotangents(solution, question, case, generator) if question["gradients"] else None for case in encoded
    ]
    request = {"cases": encoded, "cotangents": cotangents, "probes": question["probes"]}
    mistakes = calls.run_source(question["mistakes"], "mistakes")

    def try_answer(answer: Callable) -> list[dict]:
        return observe(
            question,
            encoded,
            [_without_arguments(outcome, encoded) for outcome in calls.evaluate_values(answer, request)],
        )

    full = list(calls.evaluate(solution, request))
    for outcome in full:
        if "raised" in outcome:
            where = f"hidden case {outcome['case'] + 1} ({outcome['pass']})"
            raise ValueError(f"the reference raises {outcome['raised']} in {where}")
    size = max(len(wire.pack(outcome)) for outcome in full)
    reference = [_without_arguments(outcome, encoded) for outcome in full]
    plain = [decode(outcome["returned"]) for outcome in reference if outcome["pass"] == "values"]
    trivial = _trivial_answers(plain, len(question["arguments"]), generator)
    _, probes = calls.load_probes(question["probes"])
    return {
        **request,
        "max_message_bytes": size,
        "reference": observe(question, encoded, reference),
        "probe_descriptions": {name: " ".join((probe.__doc__ or name).split()) for name, probe in probes.items()},
        "mistakes": {name: try_answer(mistakes[name]) for name in question["sentences"]},
        "trivial": {name: try_answer(answer) for name, answer in trivial.items()},
    }


def _without_arguments(outcome: dict, cases: list[dict]) -> dict:
    """Replace the arguments after a call by whether the call changed them."""
    arguments = outcome.pop("arguments", None)
    return outcome | {"changed": arguments is not None and wire.pack(arguments) != wire.pack(cases[outcome["case"]])}


def _cotangents(solution: Callable, question: dict, case: dict, generator: torch.Generator) -> list | None:
    """Return random cotangents of the outputs, or None if the reference has no gradient."""
    call, _ = calls.load_probes(question["probes"])
    arguments = {name: decode(value) for name, value in case.items()}
    for leaf in calls.float_tensors(list(arguments.values())):
        leaf.requires_grad_()
    outputs = calls.float_tensors(call(solution, **arguments))
    if not outputs or not all(output.requires_grad for output in outputs):
        return None
    return [encode(torch.randn(o.shape, generator=generator).to(o.dtype)) for o in outputs]


def _trivial_answers(returned: list[Any], n_arguments: int, generator: torch.Generator) -> dict[str, Callable]:
    """Return answers without knowledge as functions, each to be called on all cases in their order."""

    def like(value: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        if isinstance(value, torch.Tensor):
            return make(value)
        if isinstance(value, dict):
            return {key: like(entry, make) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [like(entry, make) for entry in value]
        if isinstance(value, bool | int | float):
            return type(value)(make(torch.tensor(float(value), dtype=torch.float64)).nan_to_num().item())
        return value if value is None else type(value)()

    def nan(tensor: torch.Tensor) -> torch.Tensor:
        return torch.full_like(tensor, torch.nan) if tensor.is_floating_point() else torch.zeros_like(tensor)

    def random(tensor: torch.Tensor) -> torch.Tensor:
        return (torch.randn(tensor.shape, generator=generator, dtype=torch.float64) * 2).to(tensor.dtype)

    def constant(make: Callable) -> Callable:
        rest = iter([like(value, make) for value in returned])
        return lambda *arguments, **more: next(rest)

    def identity(index: int) -> Callable:
        return lambda *arguments: arguments[index]

    makers = {"zeros": torch.zeros_like, "ones": torch.ones_like, "NaN": nan, "random values": random}
    return {name: constant(make) for name, make in makers.items()} | {
        f"argument {index + 1} as it is": identity(index) for index in range(n_arguments)
    }


def observe(question: dict, cases: list[dict], found: list[dict]) -> list[dict]:
    """Return the messages with the values that are compared.

    An exercise with many right answers defines ``observe`` in its public checks, and the result of that function
    replaces the returned values. If its probes define ``call``, the result of ``call`` is compared as it is.
    """
    if not question["observed"] or question["calls"]:
        return found
    observe_value = calls.run_source(question["checks"], "checks")["observe"]
    return [_observed(observe_value, cases[each["case"]], each) if each["pass"] == "values" else each for each in found]


def _observed(observe_value: Callable, case: dict, outcome: dict) -> dict:
    if "returned" not in outcome or outcome["returned"] == {"type": "none"}:
        return outcome
    try:
        seen = observe_value(decode(outcome["returned"]), **{name: decode(value) for name, value in case.items()})
    except Exception:  # a failed assertion, or an unexpected form of answer
        return outcome | {"returned": OTHER}
    return outcome | {"returned": encode(seen)}
