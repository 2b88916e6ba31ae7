"""Faults that benchmarks/planted_faults.py plants, and whether it notices which tests see them."""

import ast
import importlib.util
import os
import subprocess
import sys

import pytest

from bookbinder import ROOT

FILE = ROOT / "benchmarks/planted_faults.py"
spec = importlib.util.spec_from_file_location("planted_faults", FILE)
planted = importlib.util.module_from_spec(spec)
spec.loader.exec_module(planted)

SOURCE = '''"""A module."""

LIMIT: int | None = 3


def double(xs: list[int] | tuple[int, ...], least=0):
    """Twice the large ones – of “all”."""
    found = [2 * x for x in xs if x >= least and
             x < LIMIT]
    if not found:
        raise ValueError(f"none of {len(xs) + 1} numbers")
    xs.clear()
    return found
'''


def test_a_fault_changes_one_thing_and_leaves_the_text_around_it():
    tree = ast.parse(SOURCE)
    made = {
        (planted.replaced(SOURCE, tree, place, new), at_import)
        for place, changes, at_import in planted.sites(tree)
        for new in changes
    }
    assert ast.dump(tree) == ast.dump(ast.parse(SOURCE))
    texts = {text for text, _ in made if text}
    for old, new in {
        "= 3": "= (4)",
        "x >= least": "(x > least)",
        "x >= least and\n             x < LIMIT": "(x >= least or x < LIMIT)",
        "2 * x": "(2 + x)",
        "not found": "(True)",
        "    xs.clear()\n": "    pass\n",
        "least=0": "least=(1)",
    }.items():
        assert SOURCE.replace(old, new) in texts, old
    assert all("none of {len(xs) + 1} numbers" in text and ": int | None" in text for text in texts)
    assert all('"""A module."""' in text and "Twice the large ones – of “all”" in text for text in texts)
    at_import = {text for text, first in made if first}
    assert SOURCE.replace("= 3", "= (4)") in at_import and SOURCE.replace("2 * x", "(2 + x)") not in at_import


TESTS = """
import pytest, time
from module import double

@pytest.mark.parametrize("x", [0, 1])
def test_double(x):
    assert double([x]) == [2 * x]

def test_least():
    assert double([1, 2], least=2) == [4]

@pytest.mark.slow
def test_limit():
    assert double([1, 2, 3]) == [2, 4]

@pytest.mark.slow
def test_broken():
    assert double([3]) == [9]
"""
RUN = """
import sys
from pathlib import Path
import planted_faults
clone = Path.cwd()
source = (clone / "module.py").read_text()
order = ["test_module.py::test_least", "test_module.py::test_double[1]"]
levels = [("make test", ["test_module.py"], 30, order), ("slow", ["-m", "slow", "test_module.py"], 30)]
assert not any(planted_faults.seen_by(clone, "module.py", source, [("near", ["-m", "", "test_module.py"], 30)]))
changes = [("2 * x", "2 + x"), ("x >= least", "x > least"), ("< LIMIT", "<= LIMIT"), ("x < ", "x != "), ("def ", "de ")]
for old, new in changes:
    print(" ".join(planted_faults.seen_by(clone, "module.py", source.replace(old, new), levels)).strip())
assert (clone / "module.py").read_text() == source
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="faults are tried in forks")
def test_the_first_test_that_sees_a_fault_is_named(tmp_path):
    for name, text in {"module.py": SOURCE, "test_module.py": TESTS, "pytest.ini": "[pytest]\nmarkers = slow"}.items():
        (tmp_path / name).write_text(text)
    path = os.pathsep.join([str(FILE.parent), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "make test test_module.py::test_double[1]",
        "make test test_module.py::test_least",
        "slow test_module.py::test_limit",
        "",
        "make test test_module.py (cannot be imported)",
    ], done.stderr


def test_lines_are_those_of_coverage_and_the_report_counts_what_was_seen():
    assert [line for line in range(24) if planted.runs(bytes([0b1000_0010, 1]), line)] == [1, 7, 8]
    row = {"folder": "src", "name": "a", "test": "t"}
    rows = [row | {"level": level} for level in ("make test", "near", "slow", "")]
    text = planted.report([*rows, row | {"level": "", "name": "b"}], {"b": "It is the same.", "t": "Another."})
    assert "| src | 5 | 2 | 1 | 1 | 1 |" in text and "sees 66.7% (95 % interval: 20.8% to 93.9%)" in text
    lists = " ".join(text.partition("Seen by nothing:")[2].split())
    assert lists == "- a Seen by `.ci/run` alone: - a (t) Harmless: - b: It is the same."
