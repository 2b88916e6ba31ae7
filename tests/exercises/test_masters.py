"""Every master keeps its promises: right passes, the stub is not attempted, each known mistake is named."""

import math
import os
import subprocess
import sys
from functools import cache

import pytest
import torch

from bookbinder import ROOT
from bookbinder.exercises import SHIPPED, generate, public_checks, unpack
from bookbinder.masters import chapters, part
from llm_anatomy.notebook.checks import check, defined
from llm_anatomy.notebook.outcomes import agree, alike, encode, outcome

CHAPTERS = chapters()
MASTERS = [master for _, masters in CHAPTERS.values() for master in masters]
PROBES = [(master, name) for master in MASTERS for name in master.probes]
each_master = pytest.mark.parametrize("master", MASTERS, ids=lambda master: master.id)
each_probe = pytest.mark.parametrize(("master", "name"), PROBES, ids=lambda x: x if isinstance(x, str) else x.id)


def solution(master):
    return master.right()[master.function]


def hidden(master, *answers, seed=0):
    """The hidden cases, and beside each of them what comes of the answers."""
    _, observe = defined(master.checks)
    for case in master.cases("hidden_cases", seed):
        case = {name: encode(value) for name, value in case.items()}
        yield case, *(outcome(answer, case, observe) for answer in answers)


def numbers(encoded):
    return sum(map(numbers, encoded["items"]), []) if "items" in encoded else encoded["data"]


@pytest.mark.syllabus("UCL-17", "UCL-18", "UCL-19", "UCL-20", "UCL-21", "UCL-22", "CMU-09")
@each_master
def test_correct_solutions_pass(master):
    for name, answer in master.right().items():
        result = check(master.id, answer)
        assert result.status == "passed", (name, result)


@each_master
def test_the_stub_is_not_attempted(master):
    assert check(master.id, master.given()).status == "not attempted"


@each_master
def test_known_mistakes_are_named_with_their_sentences(master):
    for name, wrong in master.wrong().items():
        result = check(master.id, wrong)
        assert (result.status, result.mistake) == ("mistake", name)
        assert master.mistakes[name] in result.message


@each_master
def test_hidden_cases_have_finite_answers(master):
    for case, (found, error) in hidden(master, solution(master)):
        assert list(case) == master.arguments and error is None and "changed" not in found
        assert not {"nan", "inf", "-inf"} & set(map(str, numbers(found["returned"])))


@each_master
@pytest.mark.parametrize("seed", [0, 1])
def test_hidden_cases_catch_each_mistake_and_accept_each_solution(master, seed):
    wrong, right = master.wrong(), master.right()
    accepted, caught = set(right), set()
    for _, *found in hidden(master, *right.values(), *wrong.values(), seed=seed):
        made = dict(zip((*right, *wrong), (each for each, _ in found), strict=True))
        caught |= {name for name in wrong if not alike(made[name], made[master.function])}
        accepted &= {name for name in right if alike(made[name], made[master.function])}
    assert caught == set(wrong) and accepted == set(right)


@each_probe
def test_a_probe_says_the_same_on_each_call_and_shows_mistakes(master, name):
    def shown(answer):
        for case in master.cases("hidden_cases"):
            yield encode(master.run()[name](answer, *case.values()))

    right, shows = list(shown(solution(master))), set()
    assert all(map(agree, right, shown(solution(master))))
    assert all(encoded["type"] == "tensor" for encoded in right)
    assert not {"nan", "inf", "-inf"} & set(map(str, sum(map(numbers, right), [])))
    for mistake, answer in master.wrong().items():
        try:
            same = all(map(agree, right, shown(answer)))
        except Exception:  # a shape that does not fit, for instance
            same = False
        shows |= set() if same else {mistake}
    assert shows


def words_alone(outputs, positions, **_):
    return torch.where(positions[..., None] >= 0, outputs, 0)


WITHOUT_THE_CHANGE = {  # what a probe must come to, from the solution and a case
    "attention/masked_attention": {"probe_hidden_keys": lambda f, c: f(**c)[0]},
    "attention/multi_head_attention": {
        "probe_causality": lambda f, c: f(**c | {"mask": torch.ones_like(c["mask"]).tril()})[: len(c["x"]) // 2],
        "probe_order_of_tokens": lambda f, c: f(**c | {"mask": torch.ones_like(c["mask"])}),
    },
    "absolute_position/absolute_attention": {
        "probe_more_padding": lambda f, c: words_alone(f(**c), **c),
        "probe_order_of_tokens": lambda f, c: words_alone(f(**c), **c),
    },
    "absolute_position/sinusoidal_encoding": {
        "probe_products_of_moved_positions": lambda f, c: (
            f(c["positions"], 2 * math.ceil(c["d_model"] / 2)) @ f(c["positions"], 2 * math.ceil(c["d_model"] / 2)).mT
        )
    },
    "relative_position/biased_weights": {"probe_moved_text": lambda f, c: f(**c)},
    "relative_position/shaw_attention": {
        "probe_moved_text": lambda f, c: f(**c),
        "probe_hidden_keys": lambda f, c: f(**c)[:, :, 0],
    },
    "rotary_position/rotate_efficiently": {"probe_in_two_steps": lambda f, c: f(**c)},
    "rotary_position/rotary_attention": {
        "probe_moved_text": lambda f, c: f(**c),
        "probe_one_query_at_a_time": lambda f, c: f(**c),
    },
    "rotary_position/rotary_linear_attention": {"probe_causality": lambda f, c: f(**c)[:, : len(c["positions"]) // 2]},
}


@each_probe
def test_a_probe_shows_what_its_sentence_says(master, name):
    right = solution(master)
    for case in master.cases("hidden_cases"):
        shown = master.run()[name](right, *case.values())
        wanted = WITHOUT_THE_CHANGE[master.id][name](right, case)
        torch.testing.assert_close(shown, wanted, rtol=1e-4, atol=1e-4)


@each_master
def test_shapes_in_the_signature_are_true(master):
    jaxtyping, beartype = pytest.importorskip("jaxtyping"), pytest.importorskip("beartype")
    checked = jaxtyping.jaxtyped(typechecker=beartype.beartype)(solution(master))
    for case in master.cases() + master.cases("hidden_cases"):
        checked(**case)


def code_lines(source):
    """Lines that say something of their own: no imports, signatures, brackets or docstrings of one line."""
    lines = (line.strip() for line in source.splitlines())
    return {line for line in lines if len(line) > 20 and not line.startswith(('"""', "import ", "from ", "def ", "#"))}


@cache
def stored(chapter):
    return unpack((ROOT / SHIPPED / f"{chapter}.txt").read_text(encoding="utf-8"))


@each_master
def test_what_is_shipped_holds_neither_solution_nor_hidden_cases(master):
    chapter = master.folder.parent.name
    page = (ROOT / "book" / chapter / "exercises.nb.md").read_text(encoding="utf-8")
    public = page + "\n".join([master.checks, *map(str, stored(chapter)[master.id].values())])
    common = code_lines(master.stub) | code_lines(master.checks) | code_lines(master.figure)
    private = {
        "solution": master.solution,
        "accepted": part(master.source, set(master.accepted)),
        "hidden": master.hidden,
        "mistakes": (master.folder / "mistakes.py").read_text(encoding="utf-8"),
        **({"probes": master.probing} if master.probes else {}),
    }
    for name, source in private.items():
        own = code_lines(source) - common
        assert (own or name == "hidden") and not [line for line in own if line in public], name


def test_what_is_shipped_is_fresh():
    assert generate(check=True) == []


@each_master
def test_public_checks_are_what_the_master_makes(master):
    """Numbers up to rounding, since another machine may differ in the last digit."""
    made, kept = public_checks(master), stored(master.folder.parent.name)[master.id]
    assert made.keys() == kept.keys()
    for key in made.keys() - {"cases", "expected", "unchanged", "mistakes"}:
        assert kept[key] == made[key]
    for a, b in zip(kept["cases"], made["cases"], strict=True):
        assert list(a) == list(b) and all(agree(a[name], b[name]) for name in a)
    assert all(map(alike, kept["expected"], made["expected"]))
    for a, b in zip(kept["mistakes"], made["mistakes"], strict=True):
        assert (a["name"], a["sentence"]) == (b["name"], b["sentence"])


def test_freshness_is_told_without_pytorch():
    script = """
import sys
sys.modules["torch"] = sys.modules["llm_anatomy"] = None
from bookbinder.exercises import generate
sys.exit("; ".join(generate(check=True)) or 0)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
