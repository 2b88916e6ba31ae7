"""The comparator: what agrees, what it earns, and what the student is told."""

import random
from dataclasses import replace

import numpy as np
import pytest

from llm_grader.marking import (
    CATEGORIES,
    NO_AGREEMENT,
    Agreement,
    _difference,
    agreement,
    criteria,
    informative_cases,
    is_complete,
    mark,
    messages_by_case,
    n_returned,
    points,
    values_share,
)
from llm_grader.records import Outcome, PreparedQuestion, Question
from llm_grader.wire import DTYPES, Tensor
from llm_grader.worker.calls import error_message, load_probes

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
rng = np.random.default_rng(3)
NUMBERS = rng.normal(size=(3, 1, 4))


def tensor(array, dtype=None):
    return {"type": "tensor", "value": Tensor(np.asarray(array), dtype)}


def listed(*items):
    return {"type": "list", "items": list(items)}


RIGHT = tensor(NUMBERS.astype(np.float32))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (tensor(NUMBERS.astype(np.float32) * (1 + 5e-5)), Agreement(True, True, True)),
        (tensor(NUMBERS.astype(np.float32) * (1 + 5e-3)), Agreement(False, True, True)),
        (tensor(NUMBERS), Agreement(True, True, False)),
        (tensor(NUMBERS.astype(np.float32), "bfloat16"), Agreement(True, True, False)),
        (tensor(NUMBERS.astype(np.float32)[:, 0]), Agreement(True, False, True)),
        (tensor(NUMBERS.reshape(4, 3)), NO_AGREEMENT),
        (tensor(NUMBERS.astype(np.float32)[:2]), NO_AGREEMENT),
        (tensor(np.full((3, 1, 4), np.nan, np.float32)), Agreement(False, True, True)),
        (tensor(np.full((3, 1, 4), np.inf, np.float32)), Agreement(False, True, True)),
        ({"type": "none"}, NO_AGREEMENT),
        ({"type": "tensor", "value": 3}, NO_AGREEMENT),
        ({"type": ["tensor"]}, NO_AGREEMENT),
        ({}, NO_AGREEMENT),
        (None, NO_AGREEMENT),
        ("tensor", NO_AGREEMENT),
        (listed(RIGHT), NO_AGREEMENT),
    ],
)
def test_floats_agree_up_to_rounding(found, expected):
    assert agreement(found, RIGHT, TOLERANCE) == expected


def test_whole_numbers_and_booleans_agree_exactly():
    right = tensor(np.array([1, 2, 2**60 + 1]))
    assert agreement(right, right, TOLERANCE) == Agreement(True)
    assert not agreement(tensor(np.array([1, 2, 2**60])), right, TOLERANCE).values
    assert not agreement(tensor(np.array([1.00001, 2, 2**60])), right, TOLERANCE).values
    mask = tensor(np.array([True, False]))
    assert agreement(tensor(np.array([1, 0])), mask, TOLERANCE) == Agreement(True, True, False, False)
    assert not agreement(tensor(np.array([1.0, np.nan])), mask, TOLERANCE).values


def test_nan_and_infinity_agree_with_themselves_alone():
    right = tensor(np.array([np.nan, np.inf, 1.0]))
    assert agreement(right, right, TOLERANCE).values
    for wrong in ([0.0, np.inf, 1.0], [np.nan, -np.inf, 1.0], [np.nan, np.nan, 1.0], [np.nan, np.inf, np.nan]):
        assert not agreement(tensor(np.array(wrong)), right, TOLERANCE).values


def test_a_number_agrees_with_a_tensor_of_its_value():
    number = {"type": "float", "value": 2.5}
    assert agreement(number, number, TOLERANCE) == Agreement(True)
    assert agreement(tensor(np.float32(2.5)), number, TOLERANCE) == Agreement(True)
    assert agreement(number, tensor(np.float32(2.5)), TOLERANCE) == Agreement(True)
    assert agreement({"type": "float", "value": 3.0}, {"type": "int", "value": 3}, TOLERANCE) == Agreement(True)
    assert not agreement({"type": "float", "value": "2.5"}, number, TOLERANCE).values
    assert not agreement({"type": "int", "value": 2**70}, {"type": "int", "value": 1}, TOLERANCE).values


def test_what_cannot_be_compared_does_not_agree():
    assert not agreement({"type": "other"}, {"type": "other"}, TOLERANCE).values
    assert agreement({"type": "float", "value": 10**400}, {"type": "float", "value": 2.5}, TOLERANCE) == NO_AGREEMENT


def test_lists_and_dictionaries_agree_entry_by_entry():
    pair = listed(RIGHT, {"type": "str", "value": "a"})
    assert agreement(pair, pair, TOLERANCE) == Agreement(True)
    for wrong in (
        listed(RIGHT),
        listed(RIGHT, {"type": "str", "value": "b"}),
        listed(),
        {"type": "list"},
        {"type": "list", "items": 3},
    ):
        assert not agreement(wrong, pair, TOLERANCE).values

    def named(**entries):
        return {"type": "dict", "items": [[{"type": "str", "value": k}, v] for k, v in entries.items()]}

    weights = named(a=RIGHT, b=tensor(np.zeros(2)))
    assert agreement(named(b=tensor(np.zeros(2)), a=RIGHT), weights, TOLERANCE) == Agreement(True)
    assert agreement(named(b=tensor(np.zeros(2)), a=tensor(NUMBERS)), weights, TOLERANCE) == Agreement(
        True, True, False
    )
    assert not agreement(named(b=RIGHT, a=tensor(np.zeros(2))), weights, TOLERANCE).values
    assert not agreement(named(a=RIGHT, c=tensor(np.zeros(2))), weights, TOLERANCE).values
    for items in ([[1]], [1, 2], [[{"type": "str"}, RIGHT], [{}, RIGHT]], [[{"value": []}, 1], [{"value": {}}, 2]]):
        assert not agreement({"type": "dict", "items": items}, weights, TOLERANCE).values


# Marks


N_CASES = 4
INPUTS = [{"x": tensor(rng.normal(size=(i + 2, 3)).astype(np.float32))} for i in range(N_CASES)]
OUTPUTS = [case["x"]["value"].array * 2 + 1 for case in INPUTS]


def answers(outputs, arguments=INPUTS, **more):
    """Messages of the plain values as a worker sends them."""
    return [
        {
            "case": i,
            "pass": "values",
            "returned": value if isinstance(value, dict) else tensor(value),
            "arguments": left,
        }
        | more
        for i, (value, left) in enumerate(zip(outputs, arguments, strict=True))
    ]


def passed(name, values):
    return [{"case": i, "pass": name, "returned": tensor(value)} for i, value in enumerate(values)]


GRADIENTS, PROBES = [np.full((i + 2, 3), 2.0) for i in range(N_CASES)], [np.arange(i + 1.0) for i in range(N_CASES)]
EXTRA = passed("gradients", GRADIENTS) + passed("probe_order", PROBES)
QUESTION = Question(
    id="course/double",
    title="Double",
    function="double",
    arguments=["x"],
    points=10.0,
    seconds=2.0,
    tag="exercise-double",
    cell="",
    forbidden=[],
    tolerance=TOLERANCE,
    dtype="x",
    given="",
    solution="",
    hidden="",
    mistakes="",
    sentences={"forgets_one": "You forget to add one.", "in_place": "You change x itself."},
    checks="",
    probes="",
    observed=False,
    calls=False,
    gradients=True,
    version="1",
)


def known(outputs, changed=False):
    return [
        {"case": i, "pass": "values", "returned": tensor(value), "changed": changed} for i, value in enumerate(outputs)
    ]


# The last case is one that zeros get right.
OUTPUTS[3] = OUTPUTS[3] * 0
PREPARED = PreparedQuestion(
    question=QUESTION,
    request={"cases": INPUTS, "cotangents": [None] * N_CASES, "probes": ""},
    max_message_bytes=100,
    reference=answers(OUTPUTS) + EXTRA,
    probe_descriptions={"probe_order": "Shuffling the rows shuffles what is returned."},
    mistakes={
        "forgets_one": known([*(value - 1 for value in OUTPUTS[:3]), OUTPUTS[3]]),
        "in_place": known(OUTPUTS, changed=True),
    },
    trivial={"zeros": known([value * 0 for value in OUTPUTS]), "ones": known([value * 0 + 1 for value in OUTPUTS])},
)


def marked(found, end="done", **more):
    return mark(Outcome(end, found), PREPARED, **more)


def test_all_right_earns_all():
    found = marked(answers(OUTPUTS) + EXTRA)
    assert (found.points, found.possible, found.category, found.feedback) == (10, 10, "right", "Right.")
    assert set(found.criteria) == {"values", "shape", "dtype", "arguments left alone", "gradients", "probe_order"}


def test_values_earn_by_the_case_and_nothing_else_does_until_all_are_right():
    wrong = [OUTPUTS[0], OUTPUTS[1] + rng.normal(size=OUTPUTS[1].shape), *OUTPUTS[2:]]
    found = marked(answers(wrong) + EXTRA)
    assert found.points == pytest.approx(10 * 0.6 * 2 / 3, abs=0.01)
    assert {name for name, share in found.criteria.items() if share} == {"values"}
    said = "3 of 4 hidden cases are right; cases that can be guessed do not count."
    assert found.category == "wrong values" and found.feedback == f"{CATEGORIES['wrong values']} {said}"
    nothing_guessed = mark(Outcome("done", answers(wrong)), replace(PREPARED, trivial={}))
    assert nothing_guessed.feedback.endswith("3 of 4 hidden cases are right.")


def test_a_case_that_zeros_get_right_earns_nothing_and_still_can_cost():
    assert informative_cases(PREPARED) == [True, True, True, False]
    assert marked(answers([value * 0 for value in OUTPUTS]) + EXTRA).points == 0
    assert values_share([True, True, True, False], informative_cases(PREPARED)) == pytest.approx(2 / 3)
    assert values_share([False, False, False, False], informative_cases(PREPARED)) == 0
    assert points(criteria(Outcome("done", answers([*OUTPUTS[:3], OUTPUTS[3] + 1]) + EXTRA), PREPARED), 10) == 4


@pytest.mark.parametrize(("dtype", "missed"), [(np.float64, []), (np.int64, ["dtype"])])
def test_a_dtype_that_is_not_stated_may_be_any_of_its_kind(dtype, missed):
    whole = [np.rint(value).astype(np.float32) for value in OUTPUTS]
    free = replace(PREPARED, question=replace(QUESTION, dtype=""), reference=known(whole) + EXTRA)
    found = mark(Outcome("done", answers([value.astype(dtype) for value in whole]) + EXTRA), free)
    assert [name for name, share in found.criteria.items() if not share] == missed


@pytest.mark.parametrize(
    ("criterion", "found"),
    [
        ("shape", answers([value[:, None] for value in OUTPUTS]) + EXTRA),
        ("dtype", answers([value.astype(np.float64) for value in OUTPUTS]) + EXTRA),
        ("arguments left alone", answers(OUTPUTS, [{"x": tensor(value)} for value in OUTPUTS]) + EXTRA),
        ("arguments left alone", answers(OUTPUTS, [{} for _ in OUTPUTS]) + EXTRA),
        (
            "arguments left alone",
            answers(OUTPUTS, [{"x": tensor(case["x"]["value"].array.astype(float))} for case in INPUTS]) + EXTRA,
        ),
        ("gradients", answers(OUTPUTS) + passed("gradients", [g * 1.01 for g in GRADIENTS]) + EXTRA[N_CASES:]),
        ("gradients", answers(OUTPUTS) + EXTRA[N_CASES:]),
        ("probe_order", answers(OUTPUTS) + EXTRA[:-1]),
        ("probe_order", answers(OUTPUTS) + EXTRA[:N_CASES] + passed("probe_order", [PROBES[0] + 1, *PROBES[1:]])),
        ("probe_order", answers(OUTPUTS) + EXTRA[:N_CASES] + passed("probe_order", [v + 1 for v in PROBES])),
    ],
)
def test_each_criterion_costs_its_share_when_the_values_are_right(criterion, found):
    found = marked(found)
    assert [name for name, share in found.criteria.items() if not share] == [criterion]
    assert found.points == pytest.approx(10 - 4 / 5)
    assert found.category != "right" and found.category in CATEGORIES


def test_gradients_may_differ_a_little_more():
    close = passed("gradients", [g * 1.0005 for g in GRADIENTS])
    assert marked(answers(OUTPUTS) + close + EXTRA[N_CASES:]).points == 10


def test_a_mistake_is_named_when_it_is_one_alone():
    wrong = answers([*(value - 1 for value in OUTPUTS[:3]), OUTPUTS[3]])
    twins = {"forgets_one": PREPARED.mistakes["forgets_one"], "in_place": PREPARED.mistakes["forgets_one"]}
    assert mark(Outcome("done", wrong), replace(PREPARED, mistakes=twins)).mistake is None
    assert marked(answers(OUTPUTS)).mistake is None  # right, but without gradients: in_place has the same values
    alone = replace(PREPARED, mistakes={"forgets_one": PREPARED.mistakes["forgets_one"]})
    nameless = [{"case": i, "pass": "values", "raised": None} for i in range(N_CASES)]
    assert mark(Outcome("done", nameless), alone).mistake is None


def test_known_mistakes_are_named():
    found = marked(answers([*(value - 1 for value in OUTPUTS[:3]), OUTPUTS[3]]))
    assert found.mistake == "forgets_one" and "You forget to add one." in found.feedback
    assert marked(answers([value + 1 for value in OUTPUTS])).mistake is None
    assert marked(answers(OUTPUTS) + EXTRA).mistake is None
    changes = marked(answers(OUTPUTS, [{"x": tensor(value)} for value in OUTPUTS]) + EXTRA)
    assert changes.mistake == "in_place" and "You change x itself." in changes.feedback


@pytest.mark.parametrize(
    ("category", "found", "end"),
    [
        ("returned nothing", answers([{"type": "none"}] * N_CASES), "done"),
        ("returned something else", answers([{"type": "str", "value": "secret"}] * N_CASES), "done"),
        ("returned something else", answers([{"type": "other"}] * N_CASES), "done"),
        ("wrong shape", answers([value.T for value in OUTPUTS]), "done"),
        ("not finite", answers([value * np.nan for value in OUTPUTS]), "done"),
        ("off by a constant", answers([value + 0.5 for value in OUTPUTS]), "done"),
        ("off by a factor", answers([value * 3 for value in OUTPUTS]), "done"),
        ("wrong values", answers([value**2 for value in OUTPUTS]), "done"),
        ("wrong values", answers([value * 0 for value in OUTPUTS]), "done"),
        (
            "raised an error",
            [{"case": i, "pass": "values", "raised": "NotImplementedError", "untouched": False} for i in range(4)],
            "done",
        ),
        ("timed out", [], "timed out"),
        ("crashed", [], "crashed"),
        ("too much memory", [], "memory"),
        ("no answer", [], "no answer"),
        ("raised an error", [{"case": i, "pass": "values", "raised": "ValueError"} for i in range(4)], "done"),
        (
            "asks for a GPU",
            [{"case": i, "pass": "values", "raised": "AssertionError", "cuda": True} for i in range(4)],
            "done",
        ),
        (
            "raised an error",
            [{"case": i, "pass": "values", "raised": "AssertionError", "cuda": "secret"} for i in range(4)],
            "done",
        ),
        (
            "not attempted",
            [{"case": i, "pass": "values", "raised": "NotImplementedError", "untouched": True} for i in range(4)],
            "done",
        ),
    ],
)
def test_what_is_wrong_has_a_name(category, found, end):
    found = marked(found, end)
    assert (found.category, found.points) == (category, 0)
    assert "secret" not in found.feedback


def test_only_well_known_names_of_exceptions_are_repeated():
    def text(name):
        return marked([{"case": i, "pass": "values", "raised": name} for i in range(4)]).feedback

    assert text("IndexError") == "The code raises an IndexError."
    for name in ("TheInputsAre0_25And0_5", "<script>", ["IndexError"], {"a": 1}, None):
        assert text(name) == CATEGORIES["raised an error"]


def test_values_that_an_answer_returned_are_counted_right_or_wrong():
    wrong, others = answers([value * 0 for value in OUTPUTS]), [m for m in PREPARED.reference if m["pass"] != "values"]
    assert n_returned(wrong, PREPARED) == N_CASES and is_complete([*wrong, *others], PREPARED)
    nothing, raised = answers([{"type": "none"}] * N_CASES), {"case": 0, "pass": "values", "raised": "ValueError"}
    assert n_returned(nothing, PREPARED) == 0 == n_returned([raised, wrong[0]], PREPARED)
    assert n_returned([wrong[0], wrong[0], *wrong[2:]], PREPARED) == N_CASES - 1
    assert not is_complete([*wrong[1:], *others], PREPARED)


def test_a_question_without_an_outcome_is_not_found_or_not_attempted():
    assert mark(None, PREPARED, found=False).category == "not found"
    assert mark(None, PREPARED, found=True).category == "not attempted"


JUNK = [None, 3, "x", [], {}, {"case": 0}, {"case": 9, "pass": "values"}, {"case": -1, "pass": "values"}]
JUNK += [{"case": True, "pass": "values"}, {"case": [0], "pass": "values"}, {"case": 0, "pass": ["values"]}]
JUNK += [
    {"case": 0, "pass": "values", "returned": junk}
    for junk in (None, 5, [], {"type": "list"}, {"type": {}}, {"type": None})
]
JUNK += [{"case": 0, "pass": "values", "arguments": junk, "returned": RIGHT} for junk in (None, 5, [], {"x": 3})]


@pytest.mark.parametrize("junk", JUNK, ids=str)
def test_junk_among_the_messages_harms_nobody_else(junk):
    assert marked([junk] * 4).points == 0
    assert marked(answers(OUTPUTS) + EXTRA + [junk]).points == 10


# What an answer can return is compared with what the reference can return


def numbers_like(chance):
    """An array as an answer may return it: of any dtype that is sent, of any shape, with NaN and infinity."""
    shape = tuple(chance.choices((0, 1, 2, 3), k=chance.randrange(4)))
    dtype = chance.choice(sorted(set(DTYPES.values())))
    kind = np.dtype(dtype).kind
    with np.errstate(all="ignore"):
        array = np.asarray(rng.normal(size=shape) * 10.0 ** chance.randrange(-9, 300)).astype(dtype)
    if kind == "f" and array.size and chance.random() < 0.3:
        array.flat[0] = chance.choice((np.nan, np.inf, -np.inf))
    return tensor(array, chance.choice(("bfloat16", None)) if dtype == "float32" else None)


def returned_like(chance, depth=0):
    """A value as the worker of an honest student or of the reference encodes it."""
    kind = chance.randrange(5 if depth > 3 else 8)
    if kind < 2:
        return numbers_like(chance)
    if kind == 2:
        value = chance.choice((True, False, 0, 1, -7, 2**62, 0.0, -0.0, 2.5, 1e-300, 1e300, np.nan, np.inf, -np.inf))
        return {"type": type(value).__name__, "value": value}
    if kind == 3:
        return {"type": "str", "value": chance.choice(("", "a", "w_query", "\ud800", "x" * 300))}
    if kind == 4:
        return chance.choice(({"type": "none"}, {"type": "other"}))
    n = chance.choice((0, 1, 2, 3, 40 if depth == 0 else 1))
    items = [returned_like(chance, depth + 1) for _ in range(n)]
    if kind < 7:
        return {"type": chance.choice(("list", "tuple")), "items": items}
    return {"type": "dict", "items": [[key_like(chance), item] for item in items]}


def key_like(chance):
    """A key of a dictionary."""
    if chance.random() < 0.2:
        return {"type": "tuple", "items": [key_like(chance) for _ in range(chance.randrange(3))]}
    value = chance.choice(("", "a", "w_query", "\ud800", 0, -7, 2**62, 2.5, np.inf, True, None))
    names = {"NoneType": "none"}
    return {"type": names.get(type(value).__name__, type(value).__name__), "value": value}


WRONG = [None, True, 3, 2**70, 10**400, -1.5, np.nan, "", "list", [], [[]], {}, Tensor(np.zeros(3)), [1, "a", None]]
KINDS = ("tensor", "int", "float", "bool", "str", "list", "dict", "none", "other", "set")


def sent_like(chance, depth=0):
    """A value as a hostile worker may send it: anything that JSON and tensors can hold, and halves of encodings."""
    how = chance.randrange(6)
    if how == 0 or depth > 3:
        return chance.choice(WRONG)
    if how == 1:
        return returned_like(chance, depth)
    if how == 2:
        return [sent_like(chance, depth + 1) for _ in range(chance.randrange(4))]
    names = chance.sample(("type", "value", "items", "tensor", "case"), chance.randrange(1, 4))
    value = {name: sent_like(chance, depth + 1) for name in names}
    return value | ({"type": chance.choice((*KINDS, *WRONG))} if chance.random() < 0.7 else {})


def damaged(chance, value):
    """A value in which one part is replaced by what a hostile worker may send."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        name = chance.choice(list(value))
        return value | {name: damaged(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], damaged(chance, value[at]), *value[at + 1 :]]
    return sent_like(chance, depth=2)


def answered_like(chance, case, expected):
    """One message of an answer for a case."""
    how = chance.randrange(6)
    returned = (
        expected
        if how == 0
        else damaged(chance, expected)
        if how == 1
        else sent_like(chance)
        if how == 2
        else returned_like(chance)
    )
    message = {"case": case, "pass": "values", "returned": returned, "arguments": INPUTS[0]}
    if chance.random() < 0.05:
        message["raised"] = chance.choice(("ValueError", *WRONG))
    if chance.random() < 0.1:
        message = damaged(chance, message)
    return message


@pytest.mark.parametrize("n_pairs", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_whatever_is_returned_is_marked(n_pairs):
    """Each of many random pairs of what the reference returns and what an answer returns gets a mark."""
    chance = random.Random(7)
    for _ in range(n_pairs // N_CASES):
        expected = [returned_like(chance) for _ in range(N_CASES)]
        answer = [answered_like(chance, i, value) for i, value in enumerate(expected)]
        reference = [{"case": i, "pass": "values", "returned": value} for i, value in enumerate(expected)]
        mistake = [each | {"returned": returned_like(chance), "changed": False} for each in reference]
        prepared = replace(
            PREPARED,
            request={"cases": [INPUTS[0]] * N_CASES},
            reference=[*reference, {"case": 0, "pass": "gradients", "returned": expected[0]}],
            mistakes={"forgets_one": mistake, "in_place": [each | {"changed": True} for each in reference]},
            trivial={"zeros": known([np.zeros(77)] * N_CASES)},
        )
        returned = [message.get("returned") if isinstance(message, dict) else message for message in answer]
        outcome = Outcome("done", [*answer, {"case": 0, "pass": "gradients", "returned": returned[0]}])
        found = mark(outcome, prepared)
        assert 0 <= found.points <= found.possible and found.category in CATEGORIES
        for value, actual in zip(expected, returned, strict=True):
            assert agreement(value, value, TOLERANCE).values or "other" in str(value)
            assert isinstance(agreement(actual, value, TOLERANCE), Agreement)
            assert _difference(actual, value, TOLERANCE) in CATEGORIES


@pytest.mark.parametrize(
    ("returned", "expected", "category"),
    [
        (RIGHT, listed(RIGHT, RIGHT), "returned something else"),
        ({"type": "float", "value": 2.5}, listed(RIGHT, RIGHT), "returned something else"),
        (RIGHT, {"type": "dict", "items": [[{"type": "str", "value": "a"}, RIGHT]]}, "returned something else"),
        (listed(RIGHT), RIGHT, "returned something else"),
        (listed(RIGHT), listed(RIGHT, RIGHT), "returned something else"),
        (listed(RIGHT, {"type": "none"}), listed(RIGHT, RIGHT), "returned nothing"),
    ],
)
def test_a_value_of_another_kind_than_the_reference_s_is_named(returned, expected, category):
    assert _difference(returned, expected, TOLERANCE) == category
    assert not agreement(returned, expected, TOLERANCE).values


def test_dictionaries_may_have_keys_of_every_kind():
    keys = [{"type": "str", "value": "1"}, {"type": "int", "value": 1}, {"type": "float", "value": 2.5}]
    keys += [{"type": "none"}, listed(*keys), listed()]
    right = {"type": "dict", "items": [[key, {"type": "int", "value": i}] for i, key in enumerate(keys)]}
    assert agreement({"type": "dict", "items": right["items"][::-1]}, right, TOLERANCE) == Agreement(True)
    for i in range(len(keys)):
        others = [[key, {"type": "int", "value": n - (n == i)}] for n, key in enumerate(keys)]
        assert not agreement({"type": "dict", "items": others}, right, TOLERANCE).values
        repeated = [right["items"][0], *right["items"][:i], *right["items"][i + 1 :]]
        assert not agreement({"type": "dict", "items": repeated}, right, TOLERANCE).values or i == 0


def test_messages_of_cases_that_do_not_exist_are_dropped():
    assert messages_by_case([{"case": case, "pass": "values"} for case in (-1, N_CASES, 0)], INPUTS).keys() == {
        ("values", 0)
    }


def test_two_numbers_are_not_called_off_by_a_constant():
    pair = replace(PREPARED, request={"cases": INPUTS[:1]}, reference=answers([np.array([1.0, 2.0])], INPUTS[:1]))
    assert mark(Outcome("done", answers([np.array([4.0, 5.0])], INPUTS[:1])), pair).category == "wrong values"


def test_the_first_message_of_a_case_counts():
    assert marked(answers([value * 0 for value in OUTPUTS]) + answers(OUTPUTS) + EXTRA).points == 0


def test_right_values_before_a_bad_end_are_told_with_it():
    told = marked(answers(OUTPUTS), "timed out")
    assert told.category == "timed out" and told.points == 8.4
    assert told.feedback == f"{CATEGORIES['timed out']} {len(OUTPUTS)} of {len(OUTPUTS)} hidden cases are right."


@pytest.mark.parametrize("error", [NotImplementedError("no kernel"), ValueError(), NotImplementedError()])
def test_only_the_stubs_own_error_means_that_nothing_was_tried(error):
    assert error_message(error)["untouched"] == (type(error) is NotImplementedError and not str(error))


def test_the_probes_of_a_source_are_its_functions_of_that_name():
    source = "def probe_order(answer): pass\ndef helper(): pass\ndef call(answer, x): return answer(x, 1)"
    call, probes = load_probes(source)
    assert list(probes) == ["probe_order"] and call(lambda *given: given, x=2) == (2, 1)
    assert load_probes("")[0](lambda *given: given, a=3, b=4) == (3, 4)
