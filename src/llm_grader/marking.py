"""The comparator: what a student's answer returned beside what is right, in NumPy; and what it earns.

A question's points are split: a part for the values, and the rest in equal shares for the other criteria, each of which
earns nothing unless all plain values are right (zeros, too, do not look ahead).

Values earn by the case. A case that an answer without knowledge gets right (zeros, ones, random values, an argument as
it is) earns nothing by itself, but to get it wrong costs as much as any other.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_grader.records import Mark, Outcome, PreparedQuestion
from llm_grader.wire import Tensor

VALUES_WEIGHT = 0.6
GRADIENT_TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
CATEGORIES = {
    "right": "Right.",
    "not found": "No answer was found in the notebook.",
    "not attempted": "Not attempted: the code still raises NotImplementedError.",
    "no answer": "After the cells had run, there was no function to call.",
    "raised an error": "The code raises an error.",
    "returned nothing": "The code returns nothing (None): a `return` may be missing.",
    "returned something else": "The code returns something of another kind than is asked for.",
    "wrong shape": "What is returned has the wrong shape.",
    "not finite": "NaN or infinity is returned where every number should be finite.",
    "off by a constant": "All numbers are off by one and the same amount.",
    "off by a factor": "All numbers are off by one and the same factor.",
    "wrong values": "The values are wrong.",
    "timed out": "The code did not end in the time allowed.",
    "too much memory": "The code took more memory than is allowed.",
    "crashed": "The code ended its process.",
    "wrong dtype": "The values are right, but have the wrong dtype.",
    "changed its arguments": "The values are right, but the code changes what it is given.",
    "wrong gradients": "The values are right, but PyTorch cannot follow them back to the inputs, or wrongly.",
    "property missing": "The values are right, but something else that is asked for does not hold.",
}
"""All that a student is told of an answer, but for the sentences of known mistakes and of the exercise's own probes."""

REPORTABLE_ERRORS = {
    *("ArithmeticError", "AssertionError", "AttributeError", "EinopsError", "ImportError", "IndexError", "KeyError"),
    *("ModuleNotFoundError", "NameError", "NotImplementedError", "RecursionError", "RuntimeError", "SystemExit"),
    *("TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError"),
}
"""The names of exceptions that are repeated to the student; others could carry a message."""

CRITERION_FEEDBACK = {
    "shape": ("wrong shape", "The values are right, but not their shape: axes of size 1 are missing or too many."),
    "dtype": ("wrong dtype", CATEGORIES["wrong dtype"]),
    "arguments left alone": ("changed its arguments", CATEGORIES["changed its arguments"]),
    "gradients": ("wrong gradients", CATEGORIES["wrong gradients"]),
}


@dataclass(frozen=True)
class Agreement:
    """Of a found value with the right one: of its numbers, whatever their dtype; of its shape; of its dtype."""

    values: bool
    shape: bool = True
    dtype: bool = True

    @classmethod
    def of_all(cls, parts: Iterable["Agreement"]) -> "Agreement":
        parts = list(parts)
        return cls(*(all(getattr(part, name) for part in parts) for name in ("values", "shape", "dtype")))


NO_AGREEMENT = Agreement(False, False, False)


def agreement(found: Any, right: dict, tolerance: dict[str, float]) -> Agreement:
    """Compare two values as the worker encodes them; the found one may be anything that JSON can hold."""
    if not isinstance(found, dict):
        return NO_AGREEMENT
    if right["type"] in ("list", "dict"):
        items = found.get("items")
        if found.get("type") != right["type"] or not isinstance(items, list) or len(items) != len(right["items"]):
            return NO_AGREEMENT
        if right["type"] == "list":
            return Agreement.of_all(agreement(f, r, tolerance) for f, r in zip(items, right["items"], strict=True))
        return _dict_agreement(items, right["items"], tolerance)
    if right["type"] in ("str", "none", "other"):
        return Agreement(right["type"] != "other" and found == right)
    (ours, dtype), (theirs, right_dtype) = _array(found), _array(right)
    if ours is None or ours.squeeze().shape != theirs.squeeze().shape:
        return NO_AGREEMENT
    close = _all_close(ours.squeeze(), theirs.squeeze(), tolerance)
    return Agreement(close, ours.shape == theirs.shape, dtype == right_dtype)


def _dict_agreement(found: list, right: list, tolerance: dict[str, float]) -> Agreement:
    """Of dictionaries, whatever the order of their keys."""
    try:
        entries = {key["value"]: value for key, value in found if isinstance(key["value"], str | int)}
    except (TypeError, ValueError, KeyError):
        return NO_AGREEMENT
    if entries.keys() != {key["value"] for key, _ in right}:
        return NO_AGREEMENT
    return Agreement.of_all(agreement(entries[key["value"]], value, tolerance) for key, value in right)


def _array(value: dict) -> tuple[np.ndarray | None, str]:
    """A tensor or a number as an array, and its dtype or kind."""
    inner = value.get("value")
    if value.get("type") == "tensor" and isinstance(inner, Tensor):
        return inner.array, inner.dtype
    if value.get("type") in ("bool", "int", "float") and type(inner) in (bool, int, float) and abs(inner) < 2**63:
        return np.asarray(inner), value["type"]
    if value.get("type") == "float" and type(inner) is float:  # infinity and NaN
        return np.asarray(inner), "float"
    return None, ""


def _all_close(found: np.ndarray, right: np.ndarray, tolerance: dict[str, float]) -> bool:
    if right.dtype.kind != "f":  # exactly, also where the student's are floats
        return bool(np.array_equal(found, right))
    return bool(np.isclose(found.astype(float), right.astype(float), **tolerance, equal_nan=True).all())


# From messages to a mark


def messages_by_case(found: list[Any], cases: list[dict]) -> dict[tuple[str, int], dict]:
    """A worker's messages by pass and case, the first of each; what is none is dropped."""
    passes: dict[tuple[str, int], dict] = {}
    for message in found:
        if not isinstance(message, dict) or not isinstance(message.get("pass"), str):
            continue
        if type(message.get("case")) is int and 0 <= message["case"] < len(cases):
            passes.setdefault((message["pass"], message["case"]), message)
    return passes


def arguments_changed(message: dict, case: dict) -> bool:
    """Whether the arguments came back other than they were sent."""
    if "changed" in message and "arguments" not in message:  # of a known mistake, see worker/examine.py
        return bool(message["changed"])
    left = message.get("arguments")
    exact = {"rtol": 0.0, "atol": 0.0}
    if not isinstance(left, dict) or left.keys() != case.keys():
        return True
    return any(agreement(left[name], case[name], exact) != Agreement(True) for name in case)


def agreements(outcome_found: list[Any], prepared: PreparedQuestion) -> list[Agreement]:
    """Of the plain values, case by case."""
    cases, passes = prepared.request["cases"], messages_by_case(outcome_found, prepared.request["cases"])
    right = messages_by_case(prepared.reference, cases)
    tolerance = prepared.question.tolerance
    return [
        agreement(passes.get(("values", i), {}).get("returned"), right["values", i]["returned"], tolerance)
        for i in range(len(cases))
    ]


def informative_cases(prepared: PreparedQuestion) -> list[bool]:
    """For each case, whether it tells an answer from one without knowledge."""
    tries = [agreements(found, prepared) for found in prepared.trivial.values()]
    return [not any(tried[i].values for tried in tries) for i in range(len(prepared.request["cases"]))]


def values_share(right: list[bool], informative: list[bool]) -> float:
    """The part of the points for values that an answer earns which gets these cases right."""
    earned = sum(r for r, t in zip(right, informative, strict=True) if t)
    missed = sum(not r for r, t in zip(right, informative, strict=True) if not t)
    return max(0, earned - missed) / sum(informative)


def criteria(outcome: Outcome, prepared: PreparedQuestion) -> dict[str, float]:
    """Criterion → share of it that an answer earns; "values" first."""
    cases, passes = prepared.request["cases"], messages_by_case(outcome.messages, prepared.request["cases"])
    agree = agreements(outcome.messages, prepared)
    share = values_share([each.values for each in agree], informative_cases(prepared))
    others = {
        "shape": all(each.shape for each in agree),
        "dtype": all(each.dtype for each in agree),
        "arguments left alone": not any(
            arguments_changed(passes.get(("values", i), {}), case) for i, case in enumerate(cases)
        ),
    }
    for message in prepared.reference:
        name = message["pass"]
        if name != "values":
            tolerance = GRADIENT_TOLERANCE if name == "gradients" else prepared.question.tolerance
            found = passes.get((name, message["case"]), {}).get("returned")
            holds = agreement(found, message["returned"], tolerance).values
            others[name] = others.get(name, True) and holds
    return {"values": share} | {name: float(holds and share == 1) for name, holds in others.items()}


def points(shares: dict[str, float], possible: float) -> float:
    """What the shares of the criteria come to."""
    if all(share == 1 for share in shares.values()):
        return possible
    others = [share for name, share in shares.items() if name != "values"]
    return round(possible * (VALUES_WEIGHT * shares["values"] + (1 - VALUES_WEIGHT) * sum(others) / len(others)), 2)


def mark(outcome: Outcome | None, prepared: PreparedQuestion, found: bool = True) -> Mark:
    """What one question earned, and what its student is told.

    Args:
        outcome: what came of it, None if it was not asked.
        prepared: the question.
        found: whether the notebook holds the question's cell, the untouched stub counted.
    """
    question = prepared.question
    if outcome is None:
        category = "not attempted" if found else "not found"
        return Mark(question.id, 0.0, question.points, category, {"values": 0.0}, None, CATEGORIES[category])
    shares = criteria(outcome, prepared)
    right = [each.values for each in agreements(outcome.messages, prepared)]
    earned = points(shares, question.points)
    if earned == question.points:
        return Mark(question.id, earned, question.points, "right", shares, None, CATEGORIES["right"])
    if all(right) and outcome.status == "done":
        reasons = [
            CRITERION_FEEDBACK.get(
                name, ("property missing", f"It does not hold: {prepared.probe_descriptions.get(name, name)}")
            )
            for name, share in shares.items()
            if share < 1
        ]
        category, parts = reasons[0][0], [sentence for _, sentence in reasons]
    else:
        category, error = _category(outcome, prepared, right)
        parts = [f"The code raises {'an' if error[0] in 'AEIOU' else 'a'} {error}." if error else CATEGORIES[category]]
        parts += [f"{sum(right)} of {len(right)} hidden cases come out right."] if any(right) else []
    if known := recognised_mistake(outcome, prepared):
        parts.append(f"Known mistake, {known.replace('_', ' ')}: {question.sentences[known]}")
    return Mark(question.id, earned, question.points, category, shares, known, " ".join(parts))


def recognised_mistake(outcome: Outcome, prepared: PreparedQuestion) -> str | None:
    """The known mistake that answers every case as this answer does, if it is one alone."""
    cases, passes = prepared.request["cases"], messages_by_case(outcome.messages, prepared.request["cases"])
    tolerance = prepared.question.tolerance

    def same_message(ours: dict, theirs: dict, case: dict) -> bool:
        if "raised" in ours or "raised" in theirs:
            return "raised" in ours and "raised" in theirs and ours["raised"] == theirs["raised"]
        same = agreement(ours.get("returned"), theirs["returned"], tolerance) == Agreement(True)
        return same and arguments_changed(ours, case) == arguments_changed(theirs, case)

    def matches(theirs: dict[tuple[str, int], dict]) -> bool:
        return all(
            same_message(passes.get(("values", i), {}), theirs["values", i], case) for i, case in enumerate(cases)
        )

    known = [name for name, found in prepared.mistakes.items() if matches(messages_by_case(found, cases))]
    return known[0] if len(known) == 1 else None


def _category(outcome: Outcome, prepared: PreparedQuestion, right: list[bool]) -> tuple[str, str]:
    """What is wrong in the first case that is, or how it ended after the last one; and the name of an exception."""
    cases, passes = prepared.request["cases"], messages_by_case(outcome.messages, prepared.request["cases"])
    i = [*right, False].index(False)
    message = passes.get(("values", i))
    if message is None:
        ends = {"no answer": "no answer", "timed out": "timed out", "memory": "too much memory"}
        return ends.get(outcome.status, "crashed"), ""
    if "raised" in message:
        if message["raised"] == "NotImplementedError" and message.get("untouched") is True:
            return "not attempted", ""
        return "raised an error", message["raised"] if message["raised"] in list(REPORTABLE_ERRORS) else ""
    expected = messages_by_case(prepared.reference, cases)["values", i]["returned"]
    return _difference(message.get("returned"), expected, prepared.question.tolerance), ""


def _difference(found: Any, right: dict, tolerance: dict[str, float]) -> str:
    if not isinstance(found, dict):
        return "crashed"
    if found.get("type") == "none" and right["type"] != "none":
        return "returned nothing"
    if right["type"] == "list" and found.get("type") == "list" and isinstance(found.get("items"), list):
        pairs = zip(found["items"], right["items"], strict=False)
        kinds = [_difference(f, r, tolerance) for f, r in pairs if not agreement(f, r, tolerance).values]
        return kinds[0] if kinds and len(found["items"]) == len(right["items"]) else "returned something else"
    if right["type"] in ("str", "none", "dict", "other"):
        return "wrong values" if found.get("type") == right["type"] else "returned something else"
    (ours, _), (theirs, _) = _array(found), _array(right)
    if ours is None:
        return "returned something else"
    if ours.shape != theirs.shape:
        return "wrong shape"
    a, b = ours.astype(float), theirs.astype(float)
    if not np.isfinite(a[np.isfinite(b)]).all():
        return "not finite"
    with np.errstate(all="ignore"):
        if a.size > 2 and np.ptp(b) > 1e-6 and np.isfinite(a).all() and np.isfinite(b).all():
            if np.allclose(a - b, (a - b).mean(), rtol=1e-4, atol=1e-5):
                return "off by a constant"
            factor = (a * b).sum() / (b * b).sum()
            if abs(factor) > 1e-3 and np.allclose(a, factor * b, rtol=1e-4, atol=1e-5):
                return "off by a factor"
    return "wrong values"
