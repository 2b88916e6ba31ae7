"""Whatever a student writes, the check answers in one or two kind sentences and raises nothing."""

import contextlib
import importlib
import itertools
import json
import os
import subprocess
import sys
import threading
import time

import einops
import numpy as np
import pytest
import torch

from bookbinder.exercises import pack, unpack
from llm_anatomy.notebook import checks
from llm_anatomy.notebook.checks import check, use_checks
from llm_anatomy.notebook.outcomes import (
    agree,
    alike,
    decode,
    encode,
    fingerprint,
    outcome,
    undecodable,
)
from llm_anatomy.notebook.sentences import nth

PROPERTIES = """
import torch


def property_doubling(answer, generator):
    x = torch.randn(2, 5, generator=generator)
    assert torch.allclose(answer(2 * x, 3.0)[1], 2 * answer(x, 3.0)[1]), "Twice the input should give twice the sums."


def property_one_row(answer, generator):
    assert answer(torch.ones(1, 4), 1.0)[1].item() == 4, "A row of four ones should add up to four."
"""


def right(x, factor):
    return factor * x, (factor * x).sum(-1)


def factor_forgotten(x, factor):
    return x, x.sum(-1)


def fails_on_one_row(x, factor):
    if len(x) == 1:
        raise ValueError("one row only")
    return factor * x


def described(answer, cases, properties=PROPERTIES, mistakes=(), **more):
    """The data of a check of this answer."""
    _, observe = checks.defined(properties)
    cases = [{name: encode(value) for name, value in case.items()} for case in cases]
    return {
        **{"function": "scaled_sums", "arguments": list(cases[0]), "dimensions": {"x": ["n_rows", "d"]}},
        **{"kind": "write", "dtype": "", "forbidden": [], "explanation": "", "checks": properties, "cases": cases},
        "expected": [outcome(answer, case, observe)[0] for case in cases],
        "unchanged": [],
        "mistakes": [
            {"name": name, "sentence": text, "outcomes": [fingerprint(outcome(f, case, observe)[0]) for case in cases]}
            for name, f, text in mistakes
        ],
    } | more


CASES = [{"x": x, "factor": 2.0} for x in (torch.arange(6.0).reshape(2, 3), -torch.ones(1, 7))]
MISTAKES = [
    ("factor_forgotten", factor_forgotten, "The factor is not used. Multiply by it."),
    ("fails_on_one_row", fails_on_one_row, "You return one thing, and none for a single row."),
]


@pytest.fixture
def use(tmp_path, monkeypatch):
    """``use(described(…))`` makes this the exercise demo/scaled_sums."""
    folders = itertools.count()
    monkeypatch.setattr(checks, "_brought", {})  # other tests may have run a course's notebook

    def install(exercise):
        folder = tmp_path / str(next(folders))  # files are read once
        folder.mkdir()
        (folder / "demo.txt").write_text(pack({"demo/other": exercise, "demo/scaled_sums": exercise}))
        monkeypatch.setattr(checks, "FOLDER", folder)

    return install


@pytest.fixture(autouse=True)
def exercise(use):
    """An exercise that returns two things and takes a number besides a tensor."""
    use(described(right, CASES, mistakes=MISTAKES))


def told(answer, status="failed"):
    result = check("demo/scaled_sums", answer)
    assert result.status == status, result
    shown = repr(result).removeprefix(f"{result.example}\n")
    assert " ".join(shown.split()) == result.message  # wrapped, nothing else
    assert max(map(len, result.example.splitlines()), default=0) <= 46 and result.example.count("\n") < 5
    return result.message


FIRST = "Not yet: in case 1 (x of shape (2, 3), factor 2.0), scaled_sums "


def test_passed():
    assert told(right, "passed") == "Passed: 2 cases and 2 properties."


def test_code_that_asks_for_cuda_is_noted_whatever_its_result():
    if not torch.cuda.is_available():

        def on_gpu(x, factor):
            return right(x.cuda(), factor)

        assert checks.CPU_NOTE in told(on_gpu)

    def names_it(x, factor):
        device = "cuda:0" if factor is None else x.device
        return right(x.to(device), factor)

    def looks_first(x, factor):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return [each.cpu() for each in right(x.to(device), factor)]

    def says_it(x, factor):
        """No cuda here."""  # "cuda"
        return right(x, factor)

    def stub(x, factor):
        x.cuda() if factor is None else None
        raise NotImplementedError

    assert told(names_it, "passed") == f"Passed: 2 cases and 2 properties. {checks.CPU_NOTE}"
    for answer in (looks_first, says_it):
        assert told(answer, "passed") == "Passed: 2 cases and 2 properties."
    assert checks.CPU_NOTE not in told(stub, "not attempted")


OBSERVED = """

def observe(returned, x, factor):
    \"\"\"what remains of the factor, and whether each row has a sum\"\"\"
    scaled, sums = returned
    assert scaled.shape == x.shape, "The shape has changed."
    return (scaled / x).nan_to_num(factor).flatten().round(decimals=3), len(sums) == len(x)
"""


@pytest.fixture
def observed(use):
    """The same exercise, for which the sums may be anything."""
    source = PROPERTIES.partition("def property_one_row")[0] + OBSERVED
    use(described(right, CASES, source, [("factor_forgotten", factor_forgotten, "Multiply.")]))


def test_what_is_observed_is_compared_in_place_of_what_is_returned(observed):
    assert told(lambda x, factor: (factor * x, x[:, 0]), "passed") == "Passed: 2 cases and 1 property."
    assert check("demo/scaled_sums", lambda x, factor: (x, x[:, 0])).mistake == "factor_forgotten"
    assert told(lambda x, factor: (3 * x, x)) == (
        f"{FIRST}leads to [2, 3, 3, 3, 3, 3] instead of [2, 2, 2, 2, 2, 2]. "
        "We compare what remains of the factor, and whether each row has a sum."
    )
    assert told(lambda x, factor: (factor * x, x[0])).startswith(f"{FIRST}leads to False instead of True.")


def test_what_is_observed_may_have_names(use):
    source = PROPERTIES.partition("def property_one_row")[0] + (
        "def observe(returned, x, factor):\n"
        "    'two sums'\n"
        "    return {'scaled': returned[0].sum().item(), 'of rows': returned[1].sum().item()}\n"
    )
    use(described(right, CASES, source))
    assert told(lambda x, factor: (x, x.sum(1))) == (
        f"{FIRST}leads to 15 instead of 30 for 'of rows'. We compare two sums."
    )


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda x: (x[0], x), "returns something that cannot be used: The shape has changed."),
        (lambda x: 7, "returns something that cannot be used: TypeError."),
        (lambda x: None, "returns nothing (None): a `return` may be missing."),
        (lambda x: x.nothing, "raises AttributeError in line"),
        (lambda x: (2 * x, x.add_(1)), "changes its argument x."),
    ],
)
def test_what_cannot_be_observed_is_said(observed, returned, words):
    assert told(lambda x, factor: returned(x)).startswith(FIRST + words)


def test_a_string_that_is_no_number_is_said(use):
    source = PROPERTIES + "\n\ndef observe(returned, x, factor):\n    return float(returned)\n"
    use(described(lambda x, factor: factor, CASES, source.replace("property_", "other_"), []))
    assert told(lambda x, factor: "20 %") == f"{FIRST}returns something that cannot be used: '20 %' is not a number."


def test_any_callable_and_a_list_for_a_tuple_will_do():
    class Answer:
        def __call__(self, *arguments):
            return list(right(*arguments))

    assert told(Answer(), "passed")


def test_not_attempted():
    def stub(x, factor):
        raise NotImplementedError

    message = told(stub, "not attempted")
    assert message.startswith("Not attempted yet: write your code in place of `raise NotImplementedError`")


def test_not_implemented_by_pytorch_is_an_attempt():
    def unsupported(x, factor):
        raise NotImplementedError("'sum' not implemented for 'Half'")

    assert "raises NotImplementedError in line" in told(unsupported)


def test_known_mistake():
    result = check("demo/scaled_sums", lambda x, factor: (x.double(), x.sum(1, keepdim=True)[:, 0]))
    assert (result.status, result.mistake) == ("mistake", "factor_forgotten")
    assert result.message == "Known mistake, factor forgotten: The factor is not used. Multiply by it."


def test_known_mistake_with_an_exception_in_some_case():
    assert check("demo/scaled_sums", fails_on_one_row).mistake == "fails_on_one_row"


def test_unknown_exercise():
    assert check("demo/scaled_sum", right).message == (
        'There is no exercise "demo/scaled_sum"; did you mean "demo/scaled_sums"? '
        "The exercises are demo/other, demo/scaled_sums."
    )
    assert check("zzz", right).message == 'There is no exercise "zzz". The exercises are demo/other, demo/scaled_sums.'


def test_arguments_of_check_in_the_wrong_order():
    assert check(right, "demo/scaled_sums").message.startswith("Give the name of the exercise first, in quotes")


def test_not_callable():
    assert check("demo/scaled_sums", right(torch.ones(2, 3), 1.0)).message == (
        'Pass the function itself, without brackets: check("demo/scaled_sums", scaled_sums). '
        "You passed a value of type tuple."
    )


def test_wrong_number_of_arguments():
    assert told(lambda x: x) == "Not yet: scaled_sums must take the arguments x, factor."


def test_exception_with_its_line():
    def broken(x, factor):
        total = x @ x
        return total, factor

    line = broken.__code__.co_firstlineno + 1
    message = told(broken)
    assert message.startswith(f'{FIRST}raises RuntimeError in line {line}, "total = x @ x": mat1 and mat2')
    assert "Traceback" not in message and "\n" not in message


def test_exception_in_a_library_points_at_the_students_line():
    def broken(x, factor):
        return np.linalg.inv(np.ones((2, 3)))

    assert '"return np.linalg.inv(np.ones((2, 3)))"' in told(broken)


def test_einops_is_quoted_with_its_cause():
    def broken(x, factor):
        return einops.rearrange(x, "a (b c) -> b a c")

    assert "Could not infer sizes for" in told(broken)


def test_exit_is_an_exception_like_any_other():
    assert told(lambda x, factor: sys.exit()).startswith(f"{FIRST}raises SystemExit")


def test_long_messages_of_many_lines_are_cut():
    def broken(x, factor):
        raise ValueError("a" * 500 + "\nsecond line")

    assert told(broken).endswith(f": {'a' * 200}.")


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda x: None, "returns nothing (None): a `return` may be missing"),
        (lambda x: x, "returns a tensor instead of a tuple of 2 values"),
        (lambda x: x.numpy(), "returns a NumPy array instead of a tuple of 2 values"),
        (lambda x: (x, x.sum(-1), x), "returns 3 values instead of 2"),
        (lambda x: (2 * x, None), "returns, as its second value, nothing (None): a `return` may be missing"),
        (lambda x: (np.array(["a"]), x), "returns, as its first value, a value of type ndarray instead of a tensor"),
        (lambda x: (2 * x, 3.0), "returns, as its second value, a number instead of a tensor of shape (2,)"),
        (lambda x: (2 * x, x), "returns, as its second value, shape (2, 3) instead of (2,)"),
        (lambda x: (2 * x, x.sum(-1) / 0), "returns, as its second value, an infinite number"),
        (lambda x: (x.add_(1), x.sum(-1)), "changes its argument x. It must leave its arguments as they are"),
    ],
)
def test_wrong_results(returned, words):
    assert told(lambda x, factor: returned(x)).startswith(FIRST + words)


def test_arrays_and_scalars_of_numpy_count_as_tensors_and_numbers(use):
    def named(x, factor):
        return {"sums": x.sum(-1), "first": x[0, 0].item(), "above": bool(x[0, 0] > 0)}

    def in_numpy(x, factor):
        values = x.double().numpy()[::-1]
        sums = values.sum(-1)[::-1].astype(">f4")  # neither in order nor in the byte order of this machine
        return {np.str_("sums"): sums, "first": values[-1, 0], "above": values[-1, 0] > 0}

    use(described(named, CASES, properties="def property_sums(answer, generator):\n    import torch\n"
        "    assert torch.allclose(answer(torch.ones(1, 4), 1.0)['sums'], torch.tensor([4.0]))\n"))  # fmt: skip
    assert told(in_numpy, "passed")
    use(described(right, CASES))
    assert told(lambda x, factor: (factor * x.numpy(), np.float32(factor) * x.numpy().sum(-1)), "passed")
    assert told(lambda x, factor: (2 * x.numpy(), x.numpy().sum(-1))).startswith(
        f"{FIRST}is wrong in its second value: it returns"
    )


def test_a_whole_number_is_exact_whatever_its_type(use):
    use(described(lambda x, factor: 124_439_808, CASES, properties=""))
    assert told(lambda x, factor: 124_439_808.0, "passed") and told(lambda x, factor: 248_879_616 / 2, "passed")
    assert told(lambda x, factor: 124_439_040.0) and told(lambda x, factor: 124_439_808.5)


def test_a_large_difference_is_a_number_and_a_broken_property_helps(use):
    use(described(right, [{"x": torch.arange(28.0).reshape(4, 7), "factor": 1.0}]))
    noise = torch.rand(40, 7, generator=torch.Generator().manual_seed(0))[:4]
    assert "off by up to 238." in told(lambda x, factor: (factor * x + 250 * noise, x.sum(-1)))
    assert told(lambda x, factor: (factor * x + noise[: len(x), : x.shape[1]], x.sum(-1) ** 2)) == (
        "Not yet: in case 1 (x of shape (4, 7), factor 1.0), scaled_sums is wrong in its first value: it returns "
        "numbers that are off by up to 0.95. Twice the input should give twice the sums."
    )


def test_whole_numbers_and_booleans_are_told_by_their_position(use):
    def triangle(x, factor):
        return torch.ones(3, 4, dtype=torch.bool).tril()

    use(described(triangle, CASES[:1]))
    wrong = triangle(0, 0).clone()
    wrong[1, 0] = wrong[0, 2] = False
    wrong[0, 3] = wrong[2, 1] = True
    wrong[2, 2] = False
    assert told(lambda x, factor: wrong).startswith(f"{FIRST}returns True instead of False at [0, 3] (3 of 12")


def test_a_dtype_is_looked_at_after_all_values(use):
    def whole(x, factor):
        return (2 * x).long(), (2 * x).sum(-1)

    def precise(x, factor):
        return (factor * x).double(), factor * x.sum(-1)

    assert told(precise, "passed")
    start = "The values are right, but in case 1 (x of shape (2, 3), factor 2.0), scaled_sums returns, "
    start += "as its first value, "
    assert told(whole) == f"{start}integers instead of floats."
    assert not told(lambda x, factor: whole(3 * x, factor)).startswith("The values are right")
    doubles = [{"x": CASES[0]["x"].double(), "factor": 2.0}, CASES[1]]
    use(described(right, doubles, dtype="x"))
    expected = "torch.float32 instead of torch.float64 (the dtype of x), which the exercise asks for."
    assert expected in told(lambda x, factor: right(x.float(), factor))


def test_a_dtype_that_is_asked_for_is_told_also_if_it_has_rounded_the_values(use):
    def rounded(x, factor):
        return (factor * x).half(), (factor * x).sum(-1)

    x = torch.rand(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wrong = [("halved", lambda x, factor: right(x, factor / 2), "You halve.")]
    use(described(right, [{"x": x, "factor": 2.0}], "", wrong, dtype="x"))
    wrong = "as its first value, torch.float16 instead of torch.float64 (the dtype of x), which the exercise asks for."
    assert told(rounded) == f"Not yet: in case 1 (x of shape (4, 5), factor 2.0), scaled_sums returns, {wrong}"
    assert told(lambda x, factor: right(x.float(), factor / 2), "mistake") == (
        "Known mistake, halved: You halve. Note the dtype: in case 1 (x of shape (4, 5), factor 2.0), scaled_sums "
        "returns, as its first value, torch.float32 instead of torch.float64 (the dtype of x), which the exercise asks "
        "for."
    )
    assert told(lambda x, factor: right(x, factor / 2), "mistake") == "Known mistake, halved: You halve."


def test_a_result_in_float64_has_the_properties_that_it_has_in_float32(use):
    def precise(x, factor):
        return [(factor * x).double(), factor * x.double().sum(-1)]

    compared = "allclose(answer(2 * x, 3.0)[1], 2 * answer(x, 3.0)[1])"
    source = PROPERTIES.replace(compared, "allclose(answer(x, 3.0)[1], 3 * x.sum(-1))")
    assert source != PROPERTIES
    use(described(right, CASES, source))
    assert told(precise, "passed")


def test_a_case_that_breaks_by_its_dtype_hides_no_other(use):
    use(described(right, [{"x": CASES[0]["x"].double()[:1], "factor": 2.0}, *CASES], dtype="x"))

    def answer(x, factor):
        return x @ torch.eye(x.shape[1]) + 1.7 * x[0, 0] + x * x, x.sum(-1)

    assert told(answer).startswith(
        "Not yet: in case 2 (x of shape (2, 3), factor 2.0), scaled_sums is wrong in its first value"
    )
    assert "raises RuntimeError" in told(lambda x, factor: right(x @ torch.eye(x.shape[1]), factor))


def doubled_softmax(x, factor):
    return 2 * torch.nn.Softmax(-1)(x)


def test_a_forbidden_function_is_named_at_once(use):
    def by_hand(x, factor):
        powers = (x - x.amax(-1, keepdim=True)).exp()
        return 2 * powers / powers.sum(-1, keepdim=True)

    source = "def observe(returned, x, factor):\n    'all'\n    return returned + 0 * returned.softmax(-1)\n"
    for properties in ("", source):  # what a check does itself is not the student's
        use(described(by_hand, CASES, properties, forbidden=["torch.softmax", "torch.nn.Softmax"]))
        assert check("demo/scaled_sums", by_hand).status == "passed"
        for answer in (doubled_softmax, lambda x, factor: 2 * x.softmax(-1), lambda x, f: 2 * x.log_softmax(1).exp()):
            result = check("demo/scaled_sums", answer)
            assert result.status == "forbidden"
            assert result.message == "Right, but this exercise asks you not to use torch.softmax."
    assert told(lambda x, f: x.softmax(-1) + x).endswith(". This exercise asks you not to use torch.softmax.")


def test_what_is_shown_is_not_said_again():
    result = check("demo/scaled_sums", lambda x, factor: (2 * x, 2 * x.sum(-1) + 1))
    assert repr(result) == (
        "scaled_sums(x=[[0, 1, 2], [3, 4, 5]],\n  factor=2)\nreturns  ([[0, 2, 4], [6, 8, 10]], [7, 25])\n"
        "expected ([[0, 2, 4], [6, 8, 10]], [6, 24])\nNot yet. Twice the input should give twice the\nsums."
    )


def test_the_smallest_failing_input_is_shown_where_it_fits(use):
    def last_of_rows(x, factor):
        return factor * x[:, -1]

    use(described(last_of_rows, [CASES[0], {"x": torch.tensor([[1.0, 2.5]]), "factor": 3.0}]))
    result = check("demo/scaled_sums", lambda x, factor: factor * x[:, 0])
    assert result.example == "scaled_sums(x=[[1, 2.5]], factor=3)\nreturns  [3]\nexpected [7.5]"
    assert repr(result).startswith(result.example + "\nNot yet")
    assert check("demo/scaled_sums", lambda x, factor: factor * x[:, -1] + 1e-3).example.splitlines()[1:] == [
        "returns  [7.501]",
        "expected [7.5]",
    ]


def test_the_shape_is_told_where_the_numbers_are_right(use):
    def rows(x, factor):
        return factor * x

    more = [{"x": torch.tensor([1.0, 2.5, 3.25]), "factor": 3.1}, {"x": torch.rand(2, 3, 4), "factor": 3.1}]
    use(described(rows, [CASES[0], *more], properties=""))
    result = check("demo/scaled_sums", lambda x, factor: factor * x.reshape(-1, x.shape[-1]))
    assert result.example.startswith("scaled_sums(x=[1, 2.5, 3.25], factor=3.1)\nreturns  [[")
    assert result.message == (
        "Not yet: scaled_sums returns shape (1, 3) instead of (3,). Your numbers are right and in the right order, but "
        "the shape is wrong."
    )


@pytest.mark.parametrize("kind", ["predict", "data", "config"])
def test_a_prediction_does_not_give_the_value_away(use, kind):
    def answer():
        return 42

    wrong = [("counted_twice", lambda: 84, "You count twice.")]
    use(described(answer, [{}], "", wrong, kind=kind, dimensions={}, explanation="Six times seven."))
    assert told(answer, "passed") == "Passed: 1 case. Six times seven."
    assert told(lambda: 84, "mistake") == "Known mistake, counted twice: You count twice."
    assert told(lambda: 41) == checks.NOT_THE_VALUE
    assert not any(check("demo/scaled_sums", wrong).example for wrong in (lambda: 41, lambda: 84))
    assert told(lambda x: 42) == "Not yet: scaled_sums must take no arguments."


def test_a_prediction_of_several_numbers_is_told_which_are_wrong(use):
    def answer():
        return 3, 0.5, 42.0

    use(described(answer, [{}], "", kind="predict", dimensions={}))
    hints = "The hints tell you how to go on."
    assert told(lambda: (3, 0.4, 42)) == f"Not yet: your second number is not right. {hints}"
    assert told(lambda: [2, 0.5, 41]) == f"Not yet: your first and third numbers are not right. {hints}"
    assert told(lambda: (2, 0.4, 41)) == told(lambda: (3, 0.5)) == told(lambda: 3) == checks.NOT_THE_VALUE
    use(described(lambda: (1, 2, 3, "four"), [{}], "", kind="predict", dimensions={}))
    wrong = "your second, third and fourth values are not right"
    assert told(lambda: (1, 3, 4, "five")) == f"Not yet: {wrong}. {hints}"


def test_a_prediction_with_names_is_told_which_of_them_are_wrong(use):
    """Not by ordinals: a reader may write the entries in any order."""
    use(described(lambda: {"b": "yes", "a": "no", "c": "no"}, [{}], "", kind="data", dimensions={}))
    hints = "The hints tell you how to go on."
    assert told(lambda: {"c": "yes", "b": "yes", "a": "no"}) == f"Not yet: your value for 'c' is not right. {hints}"
    assert (
        told(lambda: {"b": "no", "c": "no", "a": "yes"})
        == f"Not yet: your values for 'a' and 'b' are not right. {hints}"
    )


def test_a_fingerprint_tells_what_it_was_made_of(use):
    generator = torch.Generator().manual_seed(0)
    for shape in ((3, 4), (5,), (2, 3, 7)):
        x = torch.randn(shape, generator=generator)
        x[0] = -torch.inf
        made = fingerprint({"returned": encode(x)})
        assert "data" not in made["returned"] and alike({"returned": encode(x * (1 + 1e-6))}, made)
        moved = x.roll(1, -1) if x.ndim > 1 else x.flip(0)
        spoilt = torch.where(x.isinf(), torch.nan, x)
        for other in (x + 0.01, moved, x.roll(1, 0), spoilt, x.clamp(min=-9), x.unsqueeze(0)):
            assert not alike({"returned": encode(other)}, made)
    spoilt = [torch.zeros(6).index_fill(0, torch.tensor(i), torch.nan) for i in range(2)]
    assert not alike({"returned": encode(spoilt[0])}, fingerprint({"returned": encode(spoilt[1])}))


def test_right_in_all_cases_without_the_property():
    def remembered(x, factor):
        return right(x, x.abs().max() if factor == 3.0 else factor)

    assert told(remembered) == (
        "Not yet. All cases are right, but a property does not hold: Twice the input should give twice the sums."
    )


def test_exceptions_within_a_property_are_the_students():
    def answer(x, factor):
        assert factor == 2.0, "an assertion of the student's own"
        return right(x, factor)

    message = told(answer)
    assert "When we test the property “doubling”, your function raises AssertionError in line" in message
    assert message.endswith("an assertion of the student's own.")


def test_a_property_that_cannot_use_the_result():
    def answer(x, factor):
        return right(x, factor) if factor == 2.0 else None

    assert (
        "When we test the property “doubling”, your function returns something that cannot be used "
        "(TypeError: 'NoneType' object is not subscriptable)." in told(answer)
    )


def endless(x, factor):
    while True:
        pass


def endless_with_handler(x, factor):
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.01)


def stopped(before, seconds=20):
    """Wait until no more threads are alive than before."""
    end = time.monotonic() + seconds
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.05)
    return threading.active_count() <= before


def test_an_endless_loop_is_given_up_and_stopped(monkeypatch):
    monkeypatch.setattr(checks, "TIME_LIMIT", 0.3)
    before = threading.active_count()
    said = "Not yet: scaled_sums has not finished after 0.3 seconds of computing. Is there a loop that never ends?"
    assert told(endless) == said
    assert stopped(before)


def test_an_answer_that_sleeps_is_given_up_by_the_clock_and_stopped(monkeypatch):
    monkeypatch.setattr(checks, "WALL_LIMIT", 0.3)
    before = threading.active_count()
    said = "Not yet: scaled_sums has not finished after 0.3 seconds, of which it has computed for 0. Does it wait for"
    assert told(endless_with_handler).startswith(said)
    assert stopped(before)


def computing(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_only_the_cpu_time_of_the_answer_counts(monkeypatch):
    """Neither the time in which it waits nor what another thread computes meanwhile."""
    monkeypatch.setattr(checks, "TIME_LIMIT", 0.3)
    other = threading.Thread(target=computing, args=(0.5,))
    other.start()
    told(lambda x, factor: (other.join(), time.sleep(0.1), right(x, factor))[-1], "passed")


SLOW_MODULE = """
import time

end = time.thread_time() + 0.8
while time.thread_time() < end:
    pass
READY = True
"""


@pytest.fixture
def slow_module(tmp_path, monkeypatch):
    """The name of a module whose import computes for longer than an answer may."""
    (tmp_path / "slow_to_import.py").write_text(SLOW_MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(checks, "TIME_LIMIT", 0.3)
    yield "slow_to_import"
    sys.modules.pop("slow_to_import", None)


def test_what_an_answer_imports_takes_no_time_from_it(slow_module):
    def answer(x, factor):
        assert importlib.import_module(slow_module).READY
        return right(x, factor)

    assert told(answer, "passed")


def test_an_import_is_never_interrupted(slow_module, monkeypatch):
    monkeypatch.setattr(checks, "WALL_LIMIT", 0.2)
    before = threading.active_count()

    def answer(x, factor):
        importlib.import_module(slow_module)
        endless(x, factor)

    assert "has not finished after 0.2 seconds" in told(answer)
    assert stopped(before) and sys.modules[slow_module].READY


@pytest.mark.slow
def test_the_first_optimizer_of_a_session_is_no_loop_on_a_busy_computer():
    """It imports 800 modules. The check is run where nothing has been imported yet, with less time than that takes."""
    script = """
import torch
from llm_anatomy.notebook import check, checks


def adamw_step(x, gradient, m, v, t, eta, alpha, weight_decay):
    weights = torch.nn.Parameter(x.clone())
    weights.grad = gradient.clone()
    optimizer = torch.optim.AdamW([weights], lr=eta * alpha, weight_decay=weight_decay / alpha)
    optimizer.state[weights] = {"step": torch.tensor(t - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.step()
    state = optimizer.state[weights]
    return weights.detach(), state["exp_avg"], state["exp_avg_sq"]


checks.TIME_LIMIT = 0.8
print(check("optimization/adamw_step", adamw_step).status)
"""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    finally:
        for each in others:
            each.kill()
            each.wait()
    assert ran.stdout == "passed\n", ran.stderr


@pytest.mark.parametrize(("limit", "seconds"), [(0.3, 30.0), (30.0, 0.3)])
def test_an_answer_has_the_time_of_all_exercises_or_that_of_its_own_if_it_is_longer(limit, seconds, use, monkeypatch):
    monkeypatch.setattr(checks, "TIME_LIMIT", limit)
    use(described(right, CASES, seconds=seconds))
    told(lambda x, factor: (computing(0.2), right(x, factor))[1], "passed")


def test_an_endless_loop_met_only_by_a_property(monkeypatch):
    monkeypatch.setattr(checks, "TIME_LIMIT", 0.3)
    assert "has not finished after" in told(lambda x, factor: right(x, factor) if factor == 2.0 else endless(x, factor))


def test_a_list_that_contains_itself_is_told():
    def answer(x, factor):
        returned = [factor * x]
        returned.append(returned)
        return returned

    assert "second value" in told(answer)


def test_arguments_are_fresh_each_time():
    seen = []

    def answer(x, factor):
        seen.append(x)
        return right(x, factor)

    told(answer, "passed")
    told(answer, "passed")
    assert len({id(x) for x in seen}) == len(seen)


def test_precision_and_defaults_of_the_notebook_do_not_matter():
    before = torch.get_default_dtype()
    try:
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        assert told(right, "passed")
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(before)


def test_what_the_student_prints_is_seen(capsys):
    def answer(x, factor):
        print("hello from", tuple(x.shape))
        return right(x, factor)

    told(answer, "passed")
    assert capsys.readouterr().out.startswith("hello from (2, 3)\nhello from (1, 7)\n")


def test_two_checks_say_the_same():
    def noisy(x, factor):
        return factor * x, torch.randn(len(x), generator=torch.Generator().manual_seed(0))

    assert told(noisy) == told(noisy)


ONE = torch.tensor([1.0])


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (ONE, ONE + 5e-6, True),
        (ONE, ONE + 1e-3, False),
        (ONE, ONE.long(), True),
        (ONE * torch.nan, ONE * torch.nan, True),
        (ONE * torch.nan, ONE, False),
        (ONE / 0, ONE / 0, True),
        (50_000, 50_001, False),
        (torch.ones(2, 3), torch.ones(3, 2), False),
        (torch.ones(2, 3), torch.ones(2, 3).to_sparse(), False),
        ((ONE, 2), [ONE, 2], True),
        ((ONE, 2), (ONE, 2, 3), False),
        (None, None, True),
        (None, "text", False),
        ("text", "text", True),
        ("text", "other", False),
        ("1.0", 1.0, False),
        (torch.nan, "text", False),
        (["a", 1], ("a", 1), True),
        ({"a": ONE, "b": None}, {"b": None, "a": ONE + 5e-6}, True),
        ({"a": ONE}, {"a": 2 * ONE}, False),
        ({"a": ONE}, {"b": ONE}, False),
        ({"a": ONE}, [ONE], False),
        ({1: ONE}, {1: ONE, 2: ONE}, True),  # not by names: no more is known of it than its type
    ],
)
def test_what_counts_as_equal(a, b, same):
    assert agree(encode(a), encode(b)) == same
    assert alike({"returned": encode(a)}, {"returned": encode(b)}) == same


def test_outcomes_with_different_exceptions_or_changes_differ():
    assert not alike({"raised": "IndexError"}, {"raised": "TypeError"})
    assert not alike({"returned": encode(ONE), "changed": ["x"]}, {"returned": encode(ONE)})


def test_a_case_survives_being_written_down():
    values = [
        torch.randn(2, 3),
        torch.tensor([[True], [False]]),
        torch.arange(4).to(torch.uint8),
        torch.ones(0, 2),
        3,
        0.5,
    ]
    for value in values:
        copy = decode(json.loads(json.dumps(encode(value))))
        assert type(copy) is type(value)
        torch.testing.assert_close(copy, value, rtol=1e-5, atol=1e-6)


def test_a_case_may_hold_texts_and_collections():
    value = {"words": ["a", "", "ß"], "sizes": (2, None, True), "nested": {"empty": [], "number": 0.5}}
    encoded = encode(value)
    assert decode(json.loads(json.dumps(encoded))) == value and undecodable(encoded) is None
    assert undecodable(encode({"a": [1, {2}]})) == "set"
    assert undecodable(encode({"a": {1: 2}})) == "dict"


def words_and_table(words, table):
    return {"text": " ".join(words), "ids": [table[word] for word in words]}, None


@pytest.fixture
def texts(use):
    """An exercise that takes and returns texts, lists and dictionaries."""
    case = {"words": ["a", "b", "a"], "table": {"a": 1, "b": 2}}
    use(described(words_and_table, [case], "", function="words_and_table", dimensions={}))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda w: ({"text": "a b a", "ids": [1, 2, 1]}, None), None),
        (lambda w: ({"text": "a b a", "ids": (1, 2, 1)}, None), None),
        (lambda w: ({"text": "a-b", "ids": [1, 2, 1]}, None), "wrong in the value 'text' of its first value: it"),
        (lambda w: ({"text": "a-b", "ids": [1, 2, 1]}, None), "returns 'a-b' instead of 'a b a'"),
        (
            lambda w: ({"text": "a b a", "ids": [1, 2, 3]}, None),
            "is wrong in the third value of the value 'ids' of its first value: it returns 3 instead of 1",
        ),
        (
            lambda w: ({"text": "a b a", "ids": [1, 2]}, None),
            "as the value 'ids' of its first value, a list of 2 values instead of 3",
        ),
        (
            lambda w: ({"text": "a b a"}, None),
            "as its first value, a dictionary with the keys ['text'] instead of ['ids', 'text']",
        ),
        (
            lambda w: ({"text": None, "ids": []}, None),
            "as the value 'ids' of its first value, an empty list instead of 3 values",
        ),
        (
            lambda w: ({"text": None, "ids": [1, 2, 1]}, None),
            "as the value 'text' of its first value, nothing (None): a `return`",
        ),
        (
            lambda w: ({"text": 3, "ids": [1, 2, 1]}, None),
            "value 'text' of its first value, a number instead of a string",
        ),
        (lambda w: (["a b a", [1, 2, 1]], None), "as its first value, a list of 2 values instead of a dictionary"),
        (lambda w: ({1: 2}, None), "as its first value, a dictionary whose keys are not all strings"),
        (
            lambda w: ({"text": "a b a", "ids": [1, 2, 1]}, 1),
            "as its second value, a number instead of None",
        ),
        (lambda w: ({"text": "a b a", "ids": w.pop() and [1, 2, 1]}, None), "changes its argument words. It must"),
    ],
)
def test_texts_lists_and_dictionaries(texts, returned, words):
    if words is None:
        told(lambda words, table: returned(words), "passed")
    else:
        message = told(lambda words, table: returned(words))
        assert message.startswith("Not yet: in case 1 (words of length 3, table of length 2), words_and_table ")
        assert words in message


@pytest.mark.parametrize(("i", "word"), [(0, "first"), (9, "tenth"), (10, "11th"), (20, "21st"), (21, "22nd")])
def test_the_values_of_a_list_are_counted_from_the_first(i, word, use):
    assert nth(i) == word
    use(described(lambda x, factor: [0] * 30, CASES[:1], ""))
    wrong = [0] * i + [7] + [0] * (29 - i)
    message = told(lambda x, factor: wrong)
    assert f"is wrong in its {word} value: it returns 7 instead of 0" in message


# Answers that are judged part by part

READING = """
def observe(returned):
    "whether the numbers are right"
    height, width, depth = returned
    return {
        "height": "right" if height == 3 else "too large: twice" if height == 6 else "too large",
        "letter for A": "right" if width == 4 else f"letter {width}",
        "letter for B": "right" if depth == 5 else f"letter {depth}",
    }
"""
READ_WRONGLY = [
    ("twice", lambda: (6, 4, 5), "Your height is twice what it should be."),
    ("exchanged", lambda: (3, 5, 4), "You have exchanged A and B."),
    ("both", lambda: (6, 8, 5), "You doubled two of them."),
]
HINTS = "The hints tell you how to go on."


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((6, 5, 4), "Your height is twice what it should be. You have exchanged A and B."),
        ((6, 8, 9), f"You doubled two of them. Your letter for B is not right. {HINTS}"),
        ((7, 5, 4), f"Your height is too large. You have exchanged A and B. {HINTS}"),
        ((3, 1, 2), f"Your letters for A and B are not right. {HINTS}"),
        ((3, 4, 2), f"Your letter for B is not right. {HINTS}"),
        ((8, 1, 2), f"Your height is too large. Your letters for A and B are not right. {HINTS}"),
    ],
)
def test_each_part_that_is_wrong_gets_its_sentence(answer, message, use):
    case = {"function": "scaled_sums", "dimensions": {}, "kind": "figure"}
    use(described(lambda: (3, 4, 5), [{}], READING, READ_WRONGLY, **case))
    assert told(lambda: (3, 4, 5), "passed") and told(lambda: (6, 4, 5), "mistake")
    assert told(lambda: answer) == f"Not yet. {message}"


# Checks that a notebook brings along


@pytest.fixture
def brought():
    """What a notebook brings along: the same exercise by another name, and by one that is there already."""
    return {name: described(right, CASES, mistakes=MISTAKES, master="0") for name in ("mine/sums", "demo/other")}


def test_checks_that_are_brought_along_need_no_file(brought):
    assert check("mine/sums", right).message.startswith('There is no exercise "mine/sums"')
    assert unpack(pack(brought)) == brought and max(map(len, pack(brought).splitlines())) == 100
    use_checks("\n" + pack(brought) + "\n")
    use_checks(pack(brought))  # running a cell again changes nothing
    for name in brought:
        assert check(name, right).message == "Passed: 2 cases and 2 properties."
        assert check(name, factor_forgotten).mistake == "factor_forgotten"
    assert check("mine/sum", right).message.endswith("The exercises are demo/other, demo/scaled_sums, mine/sums.")


DAMAGED = {
    "cut": lambda text, content: text[:-30],
    "a letter changed": lambda text, content: text[:50] + ("a" if text[50] != "a" else "b") + text[51:],
    "not base64": lambda text, content: "überhaupt nicht",
    "empty": lambda text, content: "",
    "a list": lambda text, content: pack([1]),
    "not by names": lambda text, content: pack({"mine/sums": []}),
    "without cases": lambda text, content: pack({"mine/sums": {"checks": ""}}),
    "not Python": lambda text, content: pack({"mine/sums": content["mine/sums"] | {"checks": "def"}}),
    "no source": lambda text, content: pack({"mine/sums": content["mine/sums"] | {"checks": None}}),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_checks_are_refused_in_one_sentence(brought, how):
    with pytest.raises(ValueError, match="^the public checks in this cell are damaged: take the cell from a fresh"):
        use_checks(DAMAGED[how](pack(brought), brought))
    assert checks._brought == {}
