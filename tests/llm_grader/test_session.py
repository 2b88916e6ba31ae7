"""Submissions through real workers: references, known mistakes, modules, caches, training, and what goes wrong."""

import hashlib
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from groundwork import Refusal
from llm_grader import context as context_module
from llm_grader import hidden_cases, key, preflight, session, wire
from llm_grader.classrun import LIMITS
from llm_grader.records import Answer, Key, Submission
from llm_grader.session import WorkerPool

COURSE = str(Path(__file__).parent / "course")


def alone(source, name, function):
    """A cell that takes one function from a source, whose helpers do not meet those of other cells."""
    return f"_alone = {{}}\nexec({source!r}, _alone)\n{function} = _alone[{name!r}]\n"


def marks(context, cells):
    """Marks of a submission with one cell for each question, by the name of the exercise."""
    questions = [each.question for each in context.prepared]
    answers = {q.id: Answer(i, q.function, True) for i, q in enumerate(questions) if i in cells}
    found: dict = {}
    context.complete(Submission([cells.get(i, "") for i in range(len(questions))], answers), found)
    return {mark.question.partition("/")[2]: mark for mark in found.values()}


def solved(context, **others):
    """Cells with the references, but for those that are given."""
    questions = [each.question for each in context.prepared]
    cells = {i: alone(q.solution, q.function, q.function) for i, q in enumerate(questions)}
    return cells | {i: others[q.function] for i, q in enumerate(questions) if q.function in others}


CHAPTERS = ["attention", "absolute_position", "relative_position", "rotary_position"]


@pytest.mark.parametrize("where", [COURSE, *(pytest.param(name, marks=pytest.mark.corpus) for name in CHAPTERS)])
def test_references_earn_all_and_each_known_mistake_is_named(context, where):
    """Each reference and each mistake has a copy of its question, and all go into one submission.

    Some mistakes come to the same in all hidden cases, an exception for instance: then none is named, and never
    another.
    """
    context = context(where)
    copies = [(each, name) for each in context.prepared for name in ("", *each.question.sentences)]
    questions = [replace(each.question, id=f"{each.question.id} {name}") for each, name in copies]
    context = replace(
        context,
        prepared=[replace(each, question=question) for (each, _), question in zip(copies, questions, strict=True)],
    )
    cells = {}
    for i, (question, (_, name)) in enumerate(zip(questions, copies, strict=True)):
        cells[i] = alone(question.mistakes if name else question.solution, name or question.function, question.function)
    found, named = marks(context, cells), 0
    for question, (_, name) in zip(questions, copies, strict=True):
        mark = found[question.id.partition("/")[2]]
        if name:
            assert mark.points < mark.possible and mark.mistake in (name, None), mark
            named += mark.mistake == name and question.sentences[name] in mark.feedback
        else:
            assert mark.points == mark.possible, mark
    assert named >= 0.9 * sum(1 for _, name in copies if name)


@pytest.mark.corpus
@pytest.mark.parametrize("where", [*CHAPTERS, COURSE])
def test_hidden_cases_tell_right_from_wrong_whatever_is_drawn(context, where):
    reference_worker = context(where).reference_worker
    for seed in range(6):
        preflight.check_hidden_cases(reference_worker.prepare(key.load(where), f"another seed, {seed}"))


DRAWS = """
def hidden_cases(generator):
    import torch
    telling = int(torch.rand((), generator=generator) < 0.5)
    return [{"n_queries": n, "n_keys": n + 2 * telling} for n in (3, 4)]
"""


def test_hidden_cases_that_cannot_tell_a_known_mistake_are_drawn_again(context):
    """A mask of as many queries as keys cannot tell from which end one counts; the seed decides what is drawn."""
    attention = context("attention", "causal_mask")
    ((each,), worker) = attention.prepared, attention.reference_worker
    question = replace(each.question, hidden=DRAWS)
    drawn = [worker.prepare(Key("", "", [question]), f"seed {n}")[0].request["cases"] for n in range(4)]
    assert all(cases[0]["n_keys"]["value"] == 5 for cases in drawn)
    never = replace(question, hidden=DRAWS.replace("< 0.5", "< 0"))
    made = worker.prepare(Key("", "", [never]), "seed 0")
    assert made[0].request["cases"] == worker.prepare(Key("", "", [never]), "seed 0")[0].request["cases"]
    with pytest.raises(Refusal, match="the known mistake .* would earn full marks; add other cases"):
        preflight.check_hidden_cases(made)


def test_the_first_draw_is_that_of_the_seed_itself(monkeypatch):
    seen: list[int] = []
    monkeypatch.setattr(hidden_cases, "fault", lambda made: "a fault" if made < 3 else "")
    assert hidden_cases.draw("a/b", "seed", lambda seed: seen.append(seed) or len(seen)) == 3
    wanted = [hashlib.sha256(f"{seed} a/b".encode()).digest()[:7] for seed in ("seed", "seed/2", "seed/3")]
    assert seen == list(map(int.from_bytes, wanted))
    monkeypatch.setattr(hidden_cases, "fault", lambda made: "a fault")
    seen.clear()
    assert hidden_cases.draw("a/b", "seed", lambda seed: seen.append(seed) or len(seen)) == 1
    assert len(seen) == hidden_cases.MAX_DRAWS


def test_the_preflight_lets_a_sound_key_pass(context):
    course = context(COURSE)
    assert preflight.preflight(course) == []


def test_a_stub_that_earns_points_is_refused(context, monkeypatch):
    monkeypatch.setattr(preflight, "_stub_cell", lambda each: each.question.solution)
    with pytest.raises(Refusal, match="attention/causal_mask: the untouched stub earns 1 of 1 points"):
        preflight.preflight(context("attention", "causal_mask"))


def test_properties_earn_apart_when_the_values_are_right(context):
    """A module that computes right and cannot be loaded, a cached step that changes its cache, weights well trained."""
    course = context(COURSE, "gated_feedforward")
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
    attention = context("attention", "stable_softmax", "causal_mask")
    cut = "def stable_softmax(scores):\n    import torch\n    return torch.softmax(scores.detach(), -1)\n"
    mark = marks(attention, solved(attention, stable_softmax=cut))["stable_softmax"]
    assert (mark.category, mark.points) == ("wrong gradients", pytest.approx(0.9))
    assert "gradients" not in marks(attention, solved(attention))["causal_mask"].criteria


def test_training_happens_in_the_worker_and_its_weights_are_looked_at_outside(context):
    course = context(COURSE, "train_bigram")
    (each,) = course.prepared
    assert each.question.seconds > session.DEFAULT_QUESTION_SECONDS
    lazy = "def train_bigram(*arguments):\n    return {}\n"
    assert marks(course, solved(course, train_bigram=lazy))["train_bigram"].points == 0


def test_what_pytorch_imports_for_an_optimizer_takes_no_time_from_the_answer(context):
    attention = context("attention", "causal_mask", "split_heads", seconds=1.0)
    assert set(session.question_seconds([each.question for each in attention.prepared], 1.0).values()) == {0.5}
    optimizes = "import torch\ndef split_heads(x, n_heads):\n    torch.optim.Adam([torch.nn.Parameter(x)])\n"
    optimizes += "    return x.view(len(x), n_heads, -1).transpose(0, 1)\n"
    mark = marks(attention, solved(attention, split_heads=optimizes))["split_heads"]
    assert mark.points == mark.possible, mark


def test_a_crash_or_a_loop_costs_its_own_question_alone(context):
    attention = context("attention", "hard_lookup", "stable_softmax", "causal_mask", "split_heads", seconds=2.0)
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
    attention = context("attention", "hard_lookup", "stable_softmax", "causal_mask")
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
    attention = context("attention", "hard_lookup", "stable_softmax", "causal_mask")
    busy = "import torch\ntorch.set_num_threads(4)\nx = torch.randn(400, 400)\n(x @ x).softmax(-1).sum()\n"
    busy += "y = torch.randn(90, 90, requires_grad=True)\n(y @ y).sum().backward()\n"
    busy += alone(attention.prepared[1].question.solution, "stable_softmax", "stable_softmax")
    found = marks(attention, solved(attention, stable_softmax=busy))
    assert all(mark.points == mark.possible for mark in found.values())


def test_workers_that_do_not_get_ready_are_our_failure(context, confined, monkeypatch):
    attention = context("attention", "causal_mask")

    def gone(*arguments):
        raise wire.Closed("the other side has closed the pipe")

    monkeypatch.setattr(session.wire, "receive", gone)
    with (
        WorkerPool(confined, LIMITS, n_spares=0) as pool,
        pytest.raises(session.WorkerStartError, match="No worker could be started"),
    ):
        marks(replace(attention, pool=pool), solved(attention))


def test_no_more_workers_are_kept_ready_than_are_expected(monkeypatch):
    started, counts = [], []
    box = Namespace(start=lambda limits: started.append(limits) or Namespace(reply_fd=0))
    monkeypatch.setattr(session.wire, "receive", lambda *given: None)
    pool = WorkerPool(box, LIMITS, n_spares=2, n_expected=4)
    for _ in range(5):
        pool.acquire()
        counts.append(len(started))
    assert counts == [3, 4, 4, 4, 5]


def test_a_key_whose_own_parts_fail_is_refused(context):
    attention = context("attention", "causal_mask")
    question = attention.prepared[0].question
    for broken, message in [
        (replace(question, hidden="def hidden_cases(generator):\n    return [1 / 0]\n"), "ZeroDivisionError"),
        (replace(question, solution="def other():\n    pass\n"), "KeyError"),
        (replace(question, solution="def causal_mask(a, b):\n    return None\n"), None),
        (replace(question, solution="def causal_mask(a, b):\n    import os\n    os._exit(3)\n"), "cannot be run"),
    ]:
        with pytest.raises(Refusal, match=message):
            prepared = attention.reference_worker.prepare(Key("attention", "", [broken]), "seed")
            preflight.preflight(replace(attention, prepared=prepared))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_an_answer_that_asks_for_a_gpu_is_told(context):
    attention = context("attention", "causal_mask", "split_heads")
    asks = "import torch\ndef causal_mask(n, m):\n    return torch.ones(n, m, device='cuda').tril(m - n).bool()\n"
    forges = "class Asks(RuntimeError):\n    args = property(lambda self: 1 / 0)\n\n\n"
    forges += "def split_heads(x, n_heads):\n    raise Asks('No CUDA GPUs are available')\n"
    found = marks(attention, solved(attention, causal_mask=asks, split_heads=forges))
    assert found["causal_mask"].category == "asks for a GPU" and "graded on a CPU" in found["causal_mask"].feedback
    assert found["split_heads"].category == "raised an error"


def test_what_is_far_too_large_is_not_sent(context):
    attention = context("attention", "stable_softmax", "causal_mask", "split_heads")
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
    attention = context("attention", "previous_token_head")
    question = attention.prepared[0].question
    assert "def observe(" in question.checks
    answer = f"import torch\ndef previous_token_head(n_tokens):\n    return {returned}\n"
    found = marks(attention, {0: answer})
    assert found["previous_token_head"].points == 0
    found = marks(attention, solved(attention))
    assert found["previous_token_head"].points == question.points


# What else a notebook does


def in_turn(context, **others):
    """Cells with the references as they are, in one namespace, but for those that are given."""
    questions = [each.question for each in context.prepared]
    return {i: others.get(q.function, q.solution) for i, q in enumerate(questions)}


@pytest.mark.parametrize(
    "where", ["rotary_position", *(pytest.param(name, marks=pytest.mark.corpus) for name in sorted(CHAPTERS)[:-1])]
)
def test_the_book_s_solutions_earn_all_pasted_cell_by_cell(context, where):
    """Two solutions of chapter 7 define a helper of the same name, of which the last one would serve both."""
    context = context(where)
    found = marks(context, in_turn(context))
    assert all(mark.points == mark.possible for mark in found.values())
    told = {name for name, mark in found.items() if "just after its own cell" in mark.feedback}
    assert bool(told) == (where == "rotary_position")


def test_later_cells_that_spoil_answers_cost_nothing_and_are_named(context):
    attention = context("attention", "stable_softmax", "causal_mask", "split_heads")
    answers = {each.question.id: Answer(i, each.question.function, True) for i, each in enumerate(attention.prepared)}
    spoils = "import torch\ntorch.Tensor.amax = None\ndel causal_mask\n"
    found: dict = {}
    attention.complete(Submission([*in_turn(attention).values(), spoils], answers), found)
    assert all(mark.points == mark.possible for mark in found.values())
    told = {name for name, mark in found.items() if "just after its own cell" in mark.feedback}
    assert told == {"attention/stable_softmax"}


FIRST = ["hard_lookup", "stable_softmax", "causal_mask", "masked_attention", "split_heads", "join_heads"]


def test_five_cells_that_end_their_process_cost_nothing(context):
    attention = context("attention", *FIRST)
    ends = {}
    for question in [each.question for each in attention.prepared][:5]:
        ends[question.function] = f"{question.solution}\nimport os\nos._exit(1)\n"
    found = marks(attention, in_turn(attention, **ends))
    assert all(mark.points == mark.possible for mark in found.values())


def test_what_ended_or_interrupted_a_cell_is_named(context, monkeypatch):
    monkeypatch.setattr(session, "WALL_SECONDS", 1.0)  # of which the last cell waits a part
    attention = context("attention", "hard_lookup", "stable_softmax", "causal_mask", seconds=1.0)
    questions = [each.question for each in attention.prepared]
    answers = {q.id: Answer(i, q.function, True) for i, q in enumerate(questions)}
    cells = [q.solution for q in questions]
    cells[1] = f"while True:\n    pass\n\n{cells[1]}"
    cells[2] += "\nimport os\nos._exit(1)\n"
    cells += ["import time\ntime.sleep(100)\n"]
    found: dict = {}
    notes = attention.complete(Submission(cells, answers), found)
    told = f"of {len(cells)}"
    assert notes == [
        f"Code cell 2 {told} was interrupted, since its time was used up; the rest of it is missing.",
        f"Code cell 3 {told} ended its process, so only its definitions were run.",
        f"Code cell {len(cells)} {told} was interrupted, since its time was used up; the rest of it is missing.",
    ]
    assert all(mark.points == mark.possible for mark in found.values())


@pytest.mark.parametrize("decorator", ["@torch.compile", "@torch.compile(mode='max-autotune')", "@torch.compile()"])
def test_torch_compile_returns_what_it_is_given(context, decorator):
    attention = context("attention", "stable_softmax")
    question = attention.prepared[0].question
    compiled = question.solution.replace("def stable", f"import torch\n\n\n{decorator}\ndef stable")
    assert decorator in compiled
    compiled += (
        "\nlayer = torch.nn.Linear(3, 2)\nlayer.compile()\nassert layer(torch.ones(3)).shape == (2,)\nready = 1\n"
    )
    mark = marks(attention, {0: compiled})["stable_softmax"]
    assert mark.points == mark.possible


BUSY = "while True:\n        pass"
FORKS = "import os\n    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass"


@pytest.fixture
def endless(context):
    """Creates the context of two questions and a submission in which the body of the second answer never ends."""

    def made(body):
        attention = context("attention", "hard_lookup", "causal_mask", seconds=1.0)
        ids = [each.question.id for each in attention.prepared]
        answers = {ids[0]: Answer(0, "hard_lookup", True), ids[1]: Answer(1, "causal_mask", True)}
        answer = f"def causal_mask(*arguments):\n    {body}\n"
        return attention, Submission(list(in_turn(attention, causal_mask=answer).values()), answers)

    return made


MASKED = """\
import torch


def helper(n, m):
    return torch.ones(n, m, dtype=torch.bool).tril(m - n)


def causal_mask(n, m):
    return helper(n, m)
"""
LATER = {  # how a later cell spoils the helper: whether it is seen beforehand, and so called once
    "def helper(n, m):\n    return torch.ones(n, m, dtype=torch.bool)": 1,
    "helper = None": 1,
    "helper.__code__ = (lambda n, m: None).__code__": 1,
    "for helper in (None, 1):\n    pass": 1,
    "del helper": 1,
    "globals()['helper'] = None": 2,
}


@pytest.mark.parametrize("spoils", LATER)
def test_a_helper_that_a_later_cell_replaces_costs_nothing(context, readings, spoils):
    attention = context("attention", "causal_mask")
    submission = Submission([MASKED, spoils], {"attention/causal_mask": Answer(0, "causal_mask", True)})
    attention.complete(submission, found := {})
    mark = found["attention/causal_mask"]
    assert mark.points == mark.possible and context_module.CHANGED_LATER in mark.feedback
    assert len(readings) == LATER[spoils]


def test_a_helper_that_is_defined_again_as_it_was_is_read_at_the_end():
    again = MASKED.partition("\n\n\ndef causal")[0]
    for below, early in ((again, set()), (again.replace("tril(m - n)", "tril(0)"), {"attention/causal_mask"})):
        submission = Submission([MASKED, below], {"attention/causal_mask": Answer(0, "causal_mask", True)})
        assert context_module.rebound_later(submission) == early


@pytest.mark.parametrize(
    ("earlier", "uses"), [("return torch.zeros(n, m)", "plain"), ("raise NotImplementedError", "helper")]
)
def test_an_answer_that_calls_another_one_gets_its_last_attempt(context, earlier, uses):
    attention = context("attention", "causal_mask", "split_heads")
    first, second = (each.question for each in attention.prepared)
    stub = f"import torch\n\n\ndef causal_mask(n, m):\n    {earlier}\n\n\ndef helper():\n    pass\n"
    calls = f"{second.solution}\n\nplain = split_heads\n\n\ndef split_heads(x, n_heads):\n    {uses}\n"
    calls += "    return plain(x, n_heads) if causal_mask(1, 2).tolist() == [[True, True]] else x\n"
    answers = {first.id: Answer(2, "causal_mask", True), second.id: Answer(1, "split_heads", True)}
    attention.complete(Submission([stub, calls, MASKED], answers), found := {})
    assert all(mark.points == mark.possible for mark in found.values()), found


GUESS = "import os, time\nimport torch\n\n\ndef causal_mask(n, m, seen=[]):\n    seen.append(n)\n"
GUESS += "    if len(seen) == {last}:\n        {ends}\n"
GUESS += "    return torch.ones(n, m, dtype=torch.bool).tril(os.urandom(1)[0] % 5 - 2)\n"


@pytest.fixture
def readings(monkeypatch):
    """The marks of all readings, of which each later one is as if it had guessed more."""
    real, seen = context_module.marking.mark, []

    def mark(outcome, prepared, found=True):
        made = real(outcome, prepared, found)
        if outcome is not None and made.points < made.possible:
            made = replace(made, points=0.01 * (len(seen) + 1))
        seen.append(made)
        return made

    monkeypatch.setattr(context_module.marking, "mark", mark)
    return seen


@pytest.mark.parametrize(
    ("last", "ends", "below", "n_readings", "again"),
    [
        (0, "pass", "while True:\n    pass", 1, False),
        (0, "pass", "import os\nos._exit(1)", 1, False),
        (2, "os._exit(1)", "", 2, False),
        (2, "raise ValueError", "while True:\n    pass", 1, True),
        (2, "time.sleep(1000)", "", 1, True),
    ],
)
def test_nobody_gains_from_guessing_twice(context, readings, monkeypatch, last, ends, below, n_readings, again):
    """The first reading counts; the run alone takes the place of an unsure one, also if it earned more."""
    monkeypatch.setattr(session, "WALL_SECONDS", 1.0)
    attention = context("attention", "causal_mask", seconds=1.0)
    guess = GUESS.format(last=last, ends=ends)
    submission = Submission([guess, "", below], {"attention/causal_mask": Answer(0, "causal_mask", True)})
    attention.complete(submission, found := {})
    mark = found["attention/causal_mask"]
    assert (mark.unsure, len(readings), mark.points) == (again, n_readings, 0.01)
    if again:
        found["attention/causal_mask"] = replace(mark, points=0.9)
        attention.complete(submission, found)
        mark = found["attention/causal_mask"]
        assert not mark.unsure and mark.points == 0.02


def test_an_answer_that_waits_for_ever_is_unsure(endless):
    attention, submission = endless("import time; time.sleep(1000)")
    attention.complete(submission, found := {})
    assert [mark.question for mark in found.values() if mark.unsure] == ["attention/causal_mask"]
    assert found["attention/causal_mask"].category == "timed out"


@pytest.mark.parametrize("body", [BUSY, pytest.param(FORKS, marks=pytest.mark.slow)])
def test_an_answer_without_end_is_unsure_until_it_has_run_again_alone(endless, body):
    attention, submission = endless(body)
    found: dict = {}
    attention.complete(submission, found)
    assert [mark.question for mark in found.values() if mark.unsure] == ["attention/causal_mask"]
    assert [mark.question for mark in found.values() if mark.points < mark.possible] == ["attention/causal_mask"]
    again = []
    attention.complete(submission, found, lambda: again.append(True))
    mark = found["attention/causal_mask"]
    assert len(again) == 1 and not mark.unsure and (mark.category, mark.points) == ("timed out", 0)
    assert context_module.RUN_AGAIN in mark.feedback


def test_an_unsure_answer_that_a_later_cell_spoils_costs_nothing_in_the_end(context):
    attention = context("attention", "hard_lookup", "causal_mask", seconds=1.0)
    answers = {each.question.id: Answer(i, each.question.function, True) for i, each in enumerate(attention.prepared)}
    spoils = f'def forever(*arguments):\n    {BUSY}\n\n\nsetattr(helper, "__code__", forever.__code__)\n'
    submission = Submission([*in_turn(attention, causal_mask=MASKED).values(), spoils], answers)
    found: dict = {}
    attention.complete(submission, found)
    assert [mark.question for mark in found.values() if mark.unsure] == ["attention/causal_mask"]
    attention.complete(submission, found)
    assert all(mark.points == mark.possible and not mark.unsure for mark in found.values())
    assert context_module.CHANGED_LATER in found["attention/causal_mask"].feedback


def test_an_answer_that_lacks_time_just_after_its_own_cell_is_unsure(context):
    attention = context("attention", "hard_lookup", "causal_mask", seconds=1.0)
    answers = {each.question.id: Answer(i, each.question.function, True) for i, each in enumerate(attention.prepared)}
    endless = f"def causal_mask(*arguments):\n    {BUSY}\n"
    spoils = "causal_mask.__code__ = (lambda *arguments: None).__code__\n"
    submission = Submission([*in_turn(attention, causal_mask=endless).values(), spoils], answers)
    found: dict = {}
    attention.complete(submission, found)
    mark = found["attention/causal_mask"]
    assert mark.unsure and mark.category == "returned nothing"


def test_cells_that_wait_and_then_end_their_process_hold_the_class_up_for_a_limited_time(context, monkeypatch):
    """Each is run twice, and each time all cells above it wait again, for which no CPU time is counted."""
    attention = context("attention", "hard_lookup", "causal_mask")
    monkeypatch.setattr(session, "SUBMISSION_FACTOR", 0.05)
    waits = "import os, time\ndef at_once(function):\n    time.sleep(0.5)\n    os._exit(1)\n\n"
    waits += "@at_once\ndef f():\n    pass\n"
    answers = {each.question.id: Answer(0, each.question.function, True) for each in attention.prepared}
    with attention.session(Submission([waits] * session.MAX_RUNS, answers)) as held:
        assert {outcome.status for _, outcome in held.run(attention.prepared)} == {"timed out"}


def test_a_runner_that_an_answer_stops_does_not_use_up_the_time_of_the_others(context, monkeypatch):
    monkeypatch.setattr(session, "WALL_SECONDS", 1000.0)
    monkeypatch.setattr(session, "FIRST_LOOK_SECONDS", 0.2)
    monkeypatch.setattr(session, "STALL_SECONDS", 1.0)
    attention = context("attention", "hard_lookup", "causal_mask", "split_heads", seconds=1.0)
    stops = "def causal_mask(*arguments):\n    import os\n    os.kill(os.getppid(), 19)\n"
    found = marks(attention, in_turn(attention, causal_mask=stops))
    assert [name for name, mark in found.items() if mark.points < mark.possible] == ["causal_mask"]
    assert found["causal_mask"].category == "timed out" and found["causal_mask"].unsure


def test_forged_messages_of_cells_end_the_runner_at_once(context):
    attention = context("attention", "hard_lookup", "causal_mask")
    forges = 'import json\njson.dumps = lambda *arguments, **more: \'{"status": "done"}\'\n'
    answers = {each.question.id: Answer(0, each.question.function, True) for each in attention.prepared}
    with attention.session(Submission([forges, ""], answers)) as forged:
        assert {outcome.status for _, outcome in forged.run(attention.prepared)} == {"crashed"}
        assert not forged.unsure


def test_the_run_alone_counts_unless_the_answer_returned_less(context):
    attention = context("attention", "causal_mask")
    attention.complete(Submission([], {}), found := {})
    mark, again = found["attention/causal_mask"], context_module.RUN_AGAIN
    before = replace(mark, points=1.0, unsure=True, feedback="Out of time.", n_returned=2)
    for points, n_returned, counts in ((0.0, 2, "Wrong."), (1.0, 3, "Wrong."), (1.0, 1, "Out of time.")):
        alone = replace(mark, points=points, unsure=True, feedback="Wrong.", n_returned=n_returned)
        chosen = context_module.mark_that_counts(before, alone)
        assert chosen.feedback == f"{counts} {again}" and not chosen.unsure


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [([2, 2], [5, 5]), ([2, 1, 1], [5, 2.5, 2.5]), ([2, 2, 20], [5, 5, 20]), ([2] * 40, [0.5] * 40)],
)
def test_time_is_divided_among_all_questions_whatever_was_used_before(seconds, expected, context):
    question = context(COURSE, "encode_words").prepared[0].question
    questions = [replace(question, id=str(i), seconds=float(each)) for i, each in enumerate(seconds)]
    assert list(session.question_seconds(questions, 10.0).values()) == expected


@pytest.mark.parametrize(
    ("chapter", "name", "bodies"),
    [
        ("rotary_position", "score_and_bound", ["torch.zeros(len(offsets))", "2.5", "{'a': 1}"]),
        pytest.param("absolute_position", "two_options", ["torch.zeros(3)", "3"], marks=pytest.mark.slow),
        pytest.param("relative_position", "bleu_gains", ["torch.zeros(3)", "3", "'a', 'b'"], marks=pytest.mark.slow),
    ],
)
def test_one_value_in_place_of_several_is_told(context, chapter, name, bodies):
    """Each of the answers returns a value of another kind than the reference."""
    context = context(chapter, name)
    arguments = ", ".join(context.prepared[0].question.arguments)
    for body in bodies:
        found = marks(context, {0: f"import torch\ndef {name}({arguments}):\n    return {body}\n"})[name]
        assert (found.points, found.category) == (0, "returned something else")


def test_arrays_of_numpy_earn_all_in_a_worker_too(context):
    course = context("attention", "split_heads")
    source = "def split_heads(x, n_heads):\n    x = x.numpy()\n"
    source += "    return x.reshape(len(x), n_heads, -1).transpose(1, 0, 2)[::-1][::-1]\n"
    found = marks(course, solved(course, split_heads=source))
    assert found["split_heads"].points == found["split_heads"].possible, found["split_heads"]
