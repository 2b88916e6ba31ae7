"""Every master keeps its promises: right passes, the stub is not attempted, each known mistake is named."""

import math
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

import pytest
import torch
from book_masters import FOLDERS, IDS, each_master

from bookbinder import ROOT
from bookbinder.exercises import SHIPPED, public_checks, unpack
from bookbinder.masters import part
from llm_anatomy.notebook.checks import check, defined
from llm_anatomy.notebook.outcomes import agree, alike, encode, outcome


def with_shapes_checked(solution):
    """The solution, which now raises where a shape is not that of its signature (as long as jaxtyping is there)."""
    if not find_spec("jaxtyping"):
        return solution
    import beartype
    import jaxtyping

    return jaxtyping.jaxtyped(typechecker=beartype.beartype)(solution)


def numbers(encoded):
    return sum(map(numbers, encoded["items"]), []) if "items" in encoded else encoded["data"]


def finite(encoded):
    return all(math.isfinite(x) for x in numbers(encoded) if isinstance(x, float))


@pytest.mark.syllabus("UCL-17", "UCL-18", "UCL-19", "UCL-20", "UCL-21", "UCL-22", "CMU-09")
@each_master
def test_right_passes_the_stub_is_not_attempted_and_known_mistakes_are_named(master):
    assert check(master.id, master.given()).status == "not attempted"
    right = master.right()
    for name, answer in right.items():
        result = check(master.id, answer)
        assert result.status == "passed", (name, result)
    for name, wrong in master.wrong().items():
        result = check(master.id, wrong)
        assert (result.status, result.mistake) == ("mistake", name)
        assert master.mistakes[name] in result.message
    solution = with_shapes_checked(right[master.function])
    for case in master.cases():
        solution(**case)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@each_master
def test_hidden_cases_catch_each_mistake_and_accept_each_solution(master, seed):
    _, observe = defined(master.checks)
    right, overlooked = master.right(), master.wrong()
    solution = with_shapes_checked(right[master.function])
    for case in master.cases("hidden_cases", seed):
        case = {name: encode(value) for name, value in case.items()}
        expected, error = outcome(solution, case, observe)
        assert list(case) == master.arguments and error is None and "changed" not in expected
        assert finite(expected["returned"])
        for name, answer in right.items():
            assert alike(outcome(answer, case, observe)[0], expected), name
        for name, answer in list(overlooked.items()):
            if not alike(outcome(answer, case, observe)[0], expected):
                del overlooked[name]
    assert not overlooked


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


@pytest.mark.parametrize("master", WITHOUT_THE_CHANGE, indirect=True)
def test_a_probe_shows_what_its_sentence_says_the_same_on_each_call_and_a_mistake(master):
    cases, solution = master.cases("hidden_cases"), master.right()[master.function]
    namespace, wrong = master.run(), master.wrong()
    for name, without_the_change in WITHOUT_THE_CHANGE[master.id].items():
        probe, right = namespace[name], []
        for case in cases:
            shown = probe(solution, *case.values())
            torch.testing.assert_close(shown, without_the_change(solution, case), rtol=1e-4, atol=1e-4)
            right.append(encode(shown))
        assert all(map(finite, right))
        assert all(agree(a, encode(probe(solution, *case.values()))) for a, case in zip(right, cases, strict=True))

        def shows(answer, probe=probe, right=right):
            try:
                return not all(
                    agree(a, encode(probe(answer, *case.values()))) for a, case in zip(right, cases, strict=True)
                )
            except Exception:  # a shape that does not fit, for instance
                return True

        assert any(map(shows, wrong.values()))


def code_lines(source):
    """Lines that say something of their own: no imports, signatures, brackets or docstrings of one line."""
    lines = (line.strip() for line in source.splitlines())
    return {line for line in lines if len(line) > 20 and not line.startswith(('"""', "import ", "from ", "def ", "#"))}


@cache
def stored(chapter):
    return unpack((ROOT / SHIPPED / f"{chapter}.txt").read_text(encoding="utf-8"))


@each_master
def test_what_is_shipped_holds_neither_solution_nor_hidden_cases(master):
    assert master.probes.keys() == WITHOUT_THE_CHANGE.get(master.id, {}).keys()  # each probe is tested above
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


FIRST = {FOLDERS[name].parent: name for name in reversed(IDS)}.values()  # of each chapter


@pytest.mark.parametrize(
    "master",
    [pytest.param(name, marks=[] if name in FIRST else [pytest.mark.slow]) for name in IDS],
    indirect=True,
)
def test_public_checks_are_what_the_master_makes(master):
    """Numbers up to rounding, since another machine may differ in the last digit.

    That masters have not changed since is told by their hashes.
    """
    made, kept = public_checks(master), stored(master.folder.parent.name)[master.id]
    assert made.keys() == kept.keys()
    for key in made.keys() - {"cases", "expected", "unchanged", "mistakes"}:
        assert kept[key] == made[key]
    for a, b in zip(kept["cases"], made["cases"], strict=True):
        assert list(a) == list(b) and all(agree(a[name], b[name]) for name in a)
    assert all(map(alike, kept["expected"], made["expected"]))
    for a, b in zip(kept["mistakes"], made["mistakes"], strict=True):
        assert (a["name"], a["sentence"]) == (b["name"], b["sentence"])


def test_what_is_shipped_is_fresh_which_is_told_without_pytorch():
    script = """
import sys
sys.modules["torch"] = sys.modules["llm_anatomy"] = None
from bookbinder.exercises import generate
sys.exit("; ".join(generate(check=True)) or 0)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
