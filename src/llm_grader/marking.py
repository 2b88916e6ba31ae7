"""Compare what a student's answer returned with the reference, in NumPy, and compute its points.

Part of a question's points are for the values. The rest is divided equally among the other criteria, which earn nothing
unless all values are right: zeros, too, do not depend on later tokens.

The points for values are divided among the hidden cases. A case that an answer without knowledge gets right (zeros,
ones, random values, an unchanged argument) earns nothing, but getting it wrong costs as much as any other case.
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
    "no answer": "There was no function to call after the cells had run.",
    "raised an error": "The code raises an error.",
    "asks for a GPU": "The code asks for 'cuda', and it was graded on a CPU: use the device of the arguments instead.",
    "returned nothing": "The code returns nothing (None): a `return` may be missing.",
    "returned something else": "The code returns a value of the wrong type.",
    "wrong shape": "The returned value has the wrong shape.",
    "not finite": "The code returns NaN or infinity where every number should be finite.",
    "off by a constant": "All numbers are off by the same constant.",
    "off by a factor": "All numbers are off by the same factor.",
    "wrong values": "The values are wrong.",
    "timed out": "The code did not finish in the time allowed.",
    "too much memory": "The code used more memory than is allowed.",
    "crashed": "The code ended its process, as a crash or `os._exit` does.",
    "wrong dtype": "The values are right, but they have the wrong dtype.",
    "changed its arguments": "The values are right, but the code changes its arguments.",
    "wrong gradients": "The values are right, but the gradients with respect to the inputs are missing or wrong.",
    "property missing": "The values are right, but a property that the exercise asks for does not hold.",
}
"""Category of an answer → feedback for the student, to which known mistakes and the exercise's probes add sentences."""

REPORTABLE_ERRORS = {
    *("ArithmeticError", "AssertionError", "AttributeError", "EinopsError", "ImportError", "IndexError", "KeyError"),
    *("ModuleNotFoundError", "NameError", "NotImplementedError", "RecursionError", "RuntimeError", "SystemExit"),
    *("TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError"),
}
"""Names of exceptions that the feedback may mention; other names could carry a message out of the sandbox."""

GUESSED = "cases that can be guessed do not count"

CRITERION_FEEDBACK = {
    "shape": ("wrong shape", "The values are right, but their shape is not: axes of size 1 are missing or added."),
    "dtype": ("wrong dtype", CATEGORIES["wrong dtype"]),
    "arguments left alone": ("changed its arguments", CATEGORIES["changed its arguments"]),
    "gradients": ("wrong gradients", CATEGORIES["wrong gradients"]),
}


@dataclass(frozen=True)
class Agreement:
    """Whether a value agrees with the expected one in its numbers (of any dtype), its shape, its dtype, and its kind.

    Kinds of dtypes are floats, integers and booleans. A number agrees with a tensor without axes, of any dtype.
    """

    values: bool
    shape: bool = True
    dtype: bool = True
    kind: bool = True

    @classmethod
    def of_all(cls, parts: Iterable["Agreement"]) -> "Agreement":
        """Return the agreement of a list or dictionary whose entries agree like this."""
        parts = list(parts)
        return cls(*(all(getattr(part, name) for part in parts) for name in ("values", "shape", "dtype", "kind")))


NO_AGREEMENT = Agreement(False, False, False, False)
SEQUENCES = ("list", "tuple")  # a list will do for a tuple


def agreement(actual: Any, expected: dict, tolerance: dict[str, float]) -> Agreement:
    """Compare two values as the worker encodes them.

    Args:
        actual: what a worker sent, which may be anything that JSON can hold.
        expected: the encoded reference value.
        tolerance: ``rtol`` and ``atol`` for floating-point numbers.
    """
    if not isinstance(actual, dict):
        return NO_AGREEMENT
    if expected["type"] in (*SEQUENCES, "dict"):
        pairs = _pairs(actual, expected)
        return NO_AGREEMENT if pairs is None else Agreement.of_all(agreement(a, e, tolerance) for a, e in pairs)
    if expected["type"] in ("str", "none", "other"):
        return Agreement(expected["type"] != "other" and actual == expected)
    a, b = _as_array(actual), _as_array(expected)
    if a is None or b is None or a.squeeze().shape != b.squeeze().shape:
        return NO_AGREEMENT
    dtypes = [each["value"].dtype for each in (actual, expected) if each["type"] == "tensor"]
    dtype, kind = (len(dtypes) < 2 or f(dtypes[0]) == f(dtypes[1]) for f in (str, _kind))  # numbers have no dtype
    return Agreement(_all_close(a.squeeze(), b.squeeze(), tolerance), a.shape == b.shape, dtype, kind)


def _kind(dtype: str) -> str:
    return next((kind for kind in ("float", "bool") if kind in dtype), "int")


def _pairs(actual: dict, expected: dict) -> list[tuple[Any, dict]] | None:
    """Return the entries of a list or dictionary, each with the expected one, or None if the values differ in form."""
    items, expected_items = actual.get("items"), expected["items"]
    alike = actual.get("type") in (SEQUENCES if expected["type"] in SEQUENCES else ("dict",))
    if not alike or not isinstance(items, list) or len(items) != len(expected_items):
        return None
    if expected["type"] in SEQUENCES:
        return list(zip(items, expected_items, strict=True))
    try:
        entries = {_key(key): value for key, value in items}
    except (TypeError, ValueError, KeyError):  # a key that was not encoded by our worker
        return None
    wanted = {_key(key): value for key, value in expected_items}
    return [(entries[key], value) for key, value in wanted.items()] if entries.keys() == wanted.keys() else None


def _key(value: dict) -> Any:
    """Return an encoded key of a dictionary as Python's own.

    Raises:
        TypeError, KeyError: it is not a key, or it is malformed.
    """
    if value["type"] in SEQUENCES:
        return tuple(map(_key, value["items"]))
    if value["type"] != "none" and not isinstance(value["value"], str | int | float):
        raise TypeError(value["type"])
    return value.get("value")


def _as_array(value: dict) -> np.ndarray | None:
    """Return an encoded tensor or number as an array, or None for other values."""
    content = value.get("value")
    if value.get("type") == "tensor" and isinstance(content, Tensor):
        return content.array
    if value.get("type") not in ("bool", "int", "float") or not isinstance(content, bool | int | float):
        return None
    if abs(content) < 2**63 or value["type"] == "float" and isinstance(content, float):  # also infinity and NaN
        return np.asarray(content)
    return None


def _all_close(actual: np.ndarray, expected: np.ndarray, tolerance: dict[str, float]) -> bool:
    if expected.dtype.kind != "f":  # integers and booleans must be equal, also to floating-point numbers
        return bool(np.array_equal(actual, expected))
    close = np.isclose(
        actual.astype(float), expected.astype(float), rtol=tolerance["rtol"], atol=tolerance["atol"], equal_nan=True
    )
    return bool(close.all())


# From messages to a mark


def messages_by_case(messages: list[Any], cases: list[dict]) -> dict[tuple[str, int], dict]:
    """Return the first message of each (pass, case), without malformed messages."""
    first: dict[tuple[str, int], dict] = {}
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("pass"), str):
            continue
        if type(message.get("case")) is int and 0 <= message["case"] < len(cases):
            first.setdefault((message["pass"], message["case"]), message)
    return first


def n_returned(messages: list[Any], prepared: PreparedQuestion) -> int:
    """Return how many values an answer returned, right or wrong, of those that it is asked for; None is no value."""
    nothing, first = {"type": "none"}, messages_by_case(messages, prepared.request["cases"])
    pairs = [(first.get((each["pass"], each["case"]), {}), each["returned"]) for each in prepared.reference]
    return sum(
        found.get("returned", nothing) != nothing or found.get("returned") == expected for found, expected in pairs
    )


def is_complete(messages: list[Any], prepared: PreparedQuestion) -> bool:
    """Return whether an answer returned all values, right or wrong, that it is asked for."""
    return n_returned(messages, prepared) == len(prepared.reference)


def arguments_changed(message: dict, case: dict) -> bool:
    """Return whether the call changed its arguments."""
    if "changed" in message and "arguments" not in message:  # from a known mistake, see worker/questions.py
        return bool(message["changed"])
    arguments = message.get("arguments")
    exact = {"rtol": 0.0, "atol": 0.0}
    if not isinstance(arguments, dict) or arguments.keys() != case.keys():
        return True
    return any(agreement(arguments[name], case[name], exact) != Agreement(True) for name in case)


def agreements(messages: list[Any], prepared: PreparedQuestion) -> list[Agreement]:
    """Return for each hidden case whether the returned value agrees with the reference."""
    cases = prepared.request["cases"]
    actual, expected = messages_by_case(messages, cases), messages_by_case(prepared.reference, cases)
    return [
        agreement(
            actual.get(("values", i), {}).get("returned"),
            expected["values", i]["returned"],
            prepared.question.tolerance,
        )
        for i in range(len(cases))
    ]


def informative_cases(prepared: PreparedQuestion) -> list[bool]:
    """Return for each hidden case whether all answers without knowledge get it wrong."""
    tries = [agreements(messages, prepared) for messages in prepared.trivial.values()]
    return [not any(agree[i].values for agree in tries) for i in range(len(prepared.request["cases"]))]


def values_share(right: list[bool], informative: list[bool]) -> float:
    """Return the share of the points for values that an answer earns if it gets these hidden cases right.

    Args:
        right: whether the answer gets each case right.
        informative: whether each case tells right answers from answers without knowledge.
    """
    earned = sum(r for r, i in zip(right, informative, strict=True) if i)
    missed = sum(not r for r, i in zip(right, informative, strict=True) if not i)
    return max(0, earned - missed) / sum(informative)


def criteria(outcome: Outcome, prepared: PreparedQuestion) -> dict[str, float]:
    """Return criterion → share of it that an answer earns, beginning with "values"."""
    cases = prepared.request["cases"]
    messages = messages_by_case(outcome.messages, cases)
    agree = agreements(outcome.messages, prepared)
    share = values_share([each.values for each in agree], informative_cases(prepared))
    others = {
        "shape": all(each.shape for each in agree),
        "dtype": all(each.dtype if prepared.question.dtype else each.kind for each in agree),
        "arguments left alone": not any(
            arguments_changed(messages.get(("values", i), {}), case) for i, case in enumerate(cases)
        ),
    }
    for expected in prepared.reference:
        name = expected["pass"]
        if name != "values":
            tolerance = GRADIENT_TOLERANCE if name == "gradients" else prepared.question.tolerance
            actual = messages.get((name, expected["case"]), {}).get("returned")
            others[name] = others.get(name, True) and agreement(actual, expected["returned"], tolerance).values
    return {"values": share} | {name: float(holds and share == 1) for name, holds in others.items()}


def points(shares: dict[str, float], possible: float) -> float:
    """Return the points for these shares of the criteria."""
    if all(share == 1 for share in shares.values()):
        return possible
    others = [share for name, share in shares.items() if name != "values"]
    return round(possible * (VALUES_WEIGHT * shares["values"] + (1 - VALUES_WEIGHT) * sum(others) / len(others)), 2)


def mark(outcome: Outcome | None, prepared: PreparedQuestion, found: bool = True) -> Mark:
    """Mark one question and write the feedback for its student.

    Args:
        outcome: outcome of running the answer, or None if it was not run.
        prepared: the question.
        found: whether the notebook contains the question's cell, as an attempt or as the untouched stub.
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
        reasons = [_criterion_feedback(name, prepared) for name, share in shares.items() if share < 1]
        category, sentences = reasons[0][0], [sentence for _, sentence in reasons]
    else:
        category, error = _category(outcome, prepared, right)
        article = "an" if error[:1] in ("A", "E", "I", "O", "U") else "a"
        sentences = [f"The code raises {article} {error}." if error else CATEGORIES[category]]
        if any(right):
            guessed = "" if all(right) or all(informative_cases(prepared)) else f"; {GUESSED}"
            sentences.append(f"{sum(right)} of {len(right)} hidden cases are right{guessed}.")
    if mistake := recognised_mistake(outcome, prepared):
        sentences.append(f"Known mistake, {mistake.replace('_', ' ')}: {question.sentences[mistake]}")
    return Mark(question.id, earned, question.points, category, shares, mistake, " ".join(sentences))


def _criterion_feedback(name: str, prepared: PreparedQuestion) -> tuple[str, str]:
    """Return the category and the feedback for a criterion that a right answer misses."""
    description = prepared.probe_descriptions.get(name, name)
    return CRITERION_FEEDBACK.get(name, ("property missing", f"This property does not hold: {description}"))


def recognised_mistake(outcome: Outcome, prepared: PreparedQuestion) -> str | None:
    """Return the known mistake whose results equal the answer's in every hidden case, if there is exactly one."""
    cases, tolerance = prepared.request["cases"], prepared.question.tolerance
    messages = messages_by_case(outcome.messages, cases)

    def same_result(actual: dict, expected: dict, case: dict) -> bool:
        if "raised" in actual or "raised" in expected:
            return "raised" in actual and "raised" in expected and actual["raised"] == expected["raised"]
        same = agreement(actual.get("returned"), expected["returned"], tolerance) == Agreement(True)
        return same and arguments_changed(actual, case) == arguments_changed(expected, case)

    def matches(known: dict[tuple[str, int], dict]) -> bool:
        return all(same_result(messages.get(("values", i), {}), known["values", i], c) for i, c in enumerate(cases))

    names = [name for name, known in prepared.mistakes.items() if matches(messages_by_case(known, cases))]
    return names[0] if len(names) == 1 else None


def _category(outcome: Outcome, prepared: PreparedQuestion, right: list[bool]) -> tuple[str, str]:
    """Return the category of the first wrong case, or of the end after the last case; and the name of an exception."""
    cases = prepared.request["cases"]
    i = [*right, False].index(False)
    message = messages_by_case(outcome.messages, cases).get(("values", i))
    if message is None:
        categories = {"no answer": "no answer", "timed out": "timed out", "memory": "too much memory"}
        return categories.get(outcome.status, "crashed"), ""
    if "raised" in message:
        if message["raised"] == "NotImplementedError" and message.get("untouched") is True:
            return "not attempted", ""
        if message.get("cuda") is True:
            return "asks for a GPU", ""
        return "raised an error", message["raised"] if message["raised"] in list(REPORTABLE_ERRORS) else ""
    expected = messages_by_case(prepared.reference, cases)["values", i]["returned"]
    return _difference(message.get("returned"), expected, prepared.question.tolerance), ""


def _difference(actual: Any, expected: dict, tolerance: dict[str, float]) -> str:
    """Return the category of a wrong value."""
    if not isinstance(actual, dict):
        return "crashed"
    if actual.get("type") == "none" and expected["type"] != "none":
        return "returned nothing"
    if expected["type"] in (*SEQUENCES, "dict"):
        differing = ((a, e) for a, e in _pairs(actual, expected) or [] if not agreement(a, e, tolerance).values)
        wrong = next(differing, None)
        return _difference(*wrong, tolerance) if wrong else "returned something else"
    if expected["type"] in ("str", "none", "other"):
        return "wrong values" if actual.get("type") == expected["type"] else "returned something else"
    a, b = _as_array(actual), _as_array(expected)
    if a is None or b is None:
        return "returned something else"
    if a.shape != b.shape:
        return "wrong shape"
    a, b = a.astype(float), b.astype(float)
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
