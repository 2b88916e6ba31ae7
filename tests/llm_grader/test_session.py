"""Submissions through real workers: references, known mistakes, modules, caches, training, and what goes wrong."""

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest

from groundwork import Refusal
from llm_grader import key, preflight, session, wire
from llm_grader.records import Answer, Key, Submission

COURSE = str(Path(__file__).parent / "course")


def alone(source, name, function):
    """A cell that takes one function from a source, whose helpers do not meet those of other cells."""
    return f"_alone = {{}}\nexec({source!r}, _alone)\n{function} = _alone[{name!r}]\n"


def marks(context, cells):
    """Marks of a submission with one cell for each question, by the name of the exercise."""
    questions = [each.question for each in context.prepared]
    answers = {q.id: Answer(i, q.function, True) for i, q in enumerate(questions) if i in cells}
    found = context.marks(Submission([cells.get(i, "") for i in range(len(questions))], answers), questions)
    return {mark.question.partition("/")[2]: mark for mark in found}


def solved(context, **others):
    """Cells with the references, but for those that are given."""
    questions = [each.question for each in context.prepared]
    cells = {i: alone(q.solution, q.function, q.function) for i, q in enumerate(questions)}
    return cells | {i: others[q.function] for i, q in enumerate(questions) if q.function in others}


CHAPTERS = ["attention", "absolute_position", "relative_position", "rotary_position"]


@pytest.mark.parametrize("where", [COURSE, *(pytest.param(name, marks=pytest.mark.corpus) for name in CHAPTERS)])
def test_references_earn_all_and_each_known_mistake_is_named(context, where):
    """The mistakes of all questions go side by side, the first of each, the second of each and so on.

    Some come to the same in all hidden cases, an exception for instance: then none is named, and never another.
    """
    context = context(where)
    questions = [each.question for each in context.prepared]
    assert all(mark.points == mark.possible for mark in marks(context, solved(context)).values())
    named, n_mistakes = 0, sum(len(question.sentences) for question in questions)
    for names in zip_longest(*(question.sentences for question in questions)):
        cells = {i: alone(q.mistakes, names[i], q.function) for i, q in enumerate(questions) if names[i]}
        found = marks(context, cells)
        for question, name in zip(questions, names, strict=True):
            if name:
                mark = found[question.id.partition("/")[2]]
                assert mark.points < mark.possible and mark.mistake in (name, None), mark
                named += mark.mistake == name and question.sentences[name] in mark.feedback
    assert named >= 0.9 * n_mistakes


@pytest.mark.corpus
@pytest.mark.parametrize("where", [*CHAPTERS, COURSE])
def test_hidden_cases_tell_right_from_wrong_whatever_is_drawn(context, where):
    reference_worker = context(where).reference_worker
    for seed in range(12):
        preflight.check_hidden_cases(reference_worker.prepare(key.load(where), f"another seed, {seed}"))


def test_the_preflight_lets_a_sound_key_pass(context):
    course = context(COURSE)
    assert preflight.preflight(course.prepared, course.pool, course.reference_worker, course.seconds) == []


def test_properties_earn_apart_when_the_values_are_right(context):
    """A module that computes right and cannot be loaded, a cached step that changes its cache, weights well trained."""
    course = context(COURSE)
    keeps = course.prepared[0].question.solution.replace(
        "return self.down(", "self.calls = getattr(self, 'calls', 0) + 1\n        return self.down("
    )
    reference = marks(course, solved(course))
    assert (
        marks(course, solved(course, gated_feedforward=alone(keeps, "gated_feedforward", "gated_feedforward")))[
            "gated_feedforward"
        ].points
        == reference["gated_feedforward"].points
    )
    loses = keeps.replace("def forward", "def state_dict(self, *a, **k):\n        return {}\n\n    def forward")
    found = marks(course, solved(course, gated_feedforward=alone(loses, "gated_feedforward", "gated_feedforward")))
    mark = found["gated_feedforward"]
    assert mark.criteria["values"] == 1 and mark.criteria["probe_state_dict_round_trip"] == 0
    assert mark.points == pytest.approx(mark.possible * 0.9) and "loads the state" in mark.feedback


def test_gradients_are_graded_where_the_public_checks_ask_for_them(context):
    attention = context("attention")
    cut = "def stable_softmax(scores):\n    import torch\n    return torch.softmax(scores.detach(), -1)\n"
    mark = marks(attention, solved(attention, stable_softmax=cut))["stable_softmax"]
    assert (mark.category, mark.points) == ("wrong gradients", pytest.approx(0.9))
    assert "gradients" not in marks(attention, solved(attention))["causal_mask"].criteria


def test_training_happens_in_the_worker_and_its_weights_are_looked_at_outside(context):
    course = context(COURSE)
    (each,) = [each for each in course.prepared if each.question.function == "train_bigram"]
    assert each.question.seconds > session.DEFAULT_QUESTION_SECONDS
    lazy = "def train_bigram(*arguments):\n    return {}\n"
    assert marks(course, solved(course, train_bigram=lazy))["train_bigram"].points == 0


def test_a_crash_or_a_loop_costs_its_own_question_alone(context):
    attention = context("attention", 10.0)
    dies = "def causal_mask(*arguments):\n    import os\n    os._exit(0)\n"
    loops = "def split_heads(*arguments):\n    while True:\n        pass\n"
    kills = "def hard_lookup(*arguments):\n    import os\n    os.kill(os.getppid(), 9)\n"
    found = marks(attention, solved(attention, causal_mask=dies, split_heads=loops, hard_lookup=kills))
    lost = {name: mark.category for name, mark in found.items() if mark.points < mark.possible}
    assert lost == {"causal_mask": "crashed", "split_heads": "timed out", "hard_lookup": "crashed"}


ENDS = ["import os; os._exit(1)", "import ctypes; ctypes.string_at(0)", "import sys; sys.exit()"]
IN_TURN = [(end, is_above, (n + is_above) % 2) for n, end in enumerate(ENDS) for is_above in (False, True)]


@pytest.mark.parametrize(
    ("end", "is_above"),
    [pytest.param(*case, marks=[pytest.mark.slow] if is_left else []) for *case, is_left in IN_TURN],
)
def test_a_cell_that_ends_its_worker_is_run_more_carefully(context, end, is_above):
    attention = context("attention")
    first = attention.prepared[0].question
    if is_above:
        source = alone(first.solution, first.function, first.function)
        found = marks(attention, solved(attention, hard_lookup=f"{end}\n{source}"))
        del found["hard_lookup"]
    else:
        definition = f"import torch\ndef hard_lookup(q, k, v):\n    return v[(q @ k.T).argmax(-1)]\n{end}\n"
        found = marks(attention, solved(attention, hard_lookup=definition))
    assert all(mark.points == mark.possible for mark in found.values())


def test_threads_do_not_hang_the_questions(context):
    """A cell that computes with PyTorch, and one that asks for more threads, before the fork."""
    attention = context("attention")
    busy = "import torch\ntorch.set_num_threads(4)\nx = torch.randn(400, 400)\n(x @ x).softmax(-1).sum()\n"
    busy += "y = torch.randn(90, 90, requires_grad=True)\n(y @ y).sum().backward()\n"
    busy += alone(attention.prepared[1].question.solution, "stable_softmax", "stable_softmax")
    found = marks(attention, solved(attention, stable_softmax=busy))
    assert all(mark.points == mark.possible for mark in found.values())


def test_workers_that_do_not_get_ready_are_our_failure(context, monkeypatch):
    attention = context("attention")

    def gone(*arguments):
        raise wire.Closed("the other side has closed the pipe")

    monkeypatch.setattr(session.wire, "receive", gone)
    with pytest.raises(session.WorkerStartError, match="No worker could be started"):
        marks(attention, solved(attention))


def test_a_key_whose_own_parts_fail_is_refused(context):
    attention = context("attention")
    question = attention.prepared[2].question
    for broken, message in [
        (replace(question, hidden="def hidden_cases(generator):\n    return [1 / 0]\n"), "ZeroDivisionError"),
        (replace(question, solution="def other():\n    pass\n"), "KeyError"),
        (replace(question, solution="def causal_mask(a, b):\n    return None\n"), None),
        (replace(question, solution="def causal_mask(a, b):\n    import os\n    os._exit(3)\n"), "cannot be run"),
    ]:
        with pytest.raises(Refusal, match=message):
            prepared = attention.reference_worker.prepare(Key("attention", "", [broken]), "seed")
            preflight.preflight(prepared, attention.pool, attention.reference_worker, 5.0)


def test_what_is_far_too_large_is_not_sent(context):
    attention = context("attention")
    huge = "def causal_mask(n_queries, n_keys):\n    import torch\n    return torch.ones(1900, 2000)\n"
    endless = "def split_heads(x, n_heads):\n    import torch\n    return torch.ones(()).expand(10**6, 10**6)\n"
    found = marks(attention, solved(attention, causal_mask=huge, split_heads=endless))
    assert {found[name].category for name in ("causal_mask", "split_heads")} == {"returned something else"}
    assert sum(mark.points < mark.possible for mark in found.values()) == 2


@pytest.mark.parametrize(
    "returned",
    [
        "torch.full((n_tokens, 2), torch.nan), torch.ones(n_tokens, 2)",
        "[[1.0]] * n_tokens, 'w_key'",
        *(
            pytest.param(returned, marks=pytest.mark.slow)
            for returned in [
                "torch.zeros(n_tokens, 2), torch.zeros(n_tokens, 2)",
                "torch.full((n_tokens, 2), 1e38), torch.full((n_tokens, 2), 1e38)",
                "torch.ones(n_tokens, 1999), torch.ones(n_tokens, 1999)",
                "torch.ones(n_tokens, 0), torch.ones(n_tokens, 0)",
                "{'w_query': torch.eye(n_tokens)}",
                "None",
            ]
        ),
    ],
)
def test_whatever_is_returned_the_reference_worker_survives_looking_at_it(context, returned):
    attention = context("attention")
    question = attention.prepared[-1].question
    assert "def observe(" in question.checks
    answer = f"import torch\ndef previous_token_head(n_tokens):\n    return {returned}\n"
    found = marks(attention, {len(attention.prepared) - 1: answer})
    assert found["previous_token_head"].points == 0
    assert attention.reference_worker.prepare(Key("attention", "", [question]), "seed")
