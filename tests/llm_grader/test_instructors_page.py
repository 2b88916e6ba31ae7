"""The page for instructors is true: its example gives what it says, and all its commands are commands."""

import csv
import os
import re
import shlex
import subprocess

import nbformat

from bookbinder import ROOT
from llm_grader.__main__ import main, parser

PAGE = (ROOT / "book/instructors.md").read_text(encoding="utf-8")
EXAMPLE = PAGE[PAGE.index("## A complete example") : PAGE.index("## Which results you can trust")]


def scripts(text):
    """The shell commands of a text."""
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text):
    """Each command of the grader, as its words."""
    for script in scripts(text):
        for line in script.replace("\\\n", " ").splitlines():
            if line.startswith((".venv/bin/python -m llm_grader ", "podman run ")):
                words = shlex.split(line)
                yield words[words.index("llm_grader" if "llm_grader" in words else "grader") + 1 :]


def test_every_command_of_the_page_is_one():
    found = [parser().parse_args(words).action.__name__ for words in commands(PAGE)]
    assert {"build", "grade", "collect", "probe", "gradescope", "rehearse"} <= set(found)


def test_every_target_and_file_of_the_page_is_there():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert (
        {"grader", "address"} <= set(re.findall(r"\bmake (\w+)$", PAGE.replace(" URL", "\n"), re.MULTILINE)) <= targets
    )
    files = re.findall(r"`(deploy/[^`]+)`", PAGE)
    assert len(files) == 3 and all((ROOT / name).is_file() for name in files)


def test_the_example_gives_the_marks_that_the_page_says(lent, tmp_path, monkeypatch):
    """Its commands of the grader run in this process, and the others in a shell."""
    steps = [script for script in scripts(EXAMPLE) if not script.startswith("make ")]
    assert len(steps) == 5
    monkeypatch.setenv("HOME", str(tmp_path))
    for part in re.split(r"^\.venv/bin/python -m llm_grader (.*)\n", "".join(steps), flags=re.MULTILINE):
        if part.startswith(("build ", "grade ")):
            assert main([os.path.expanduser(word) for word in shlex.split(part)]) == 0
        else:
            subprocess.run(["bash", "-ec", part], cwd=tmp_path, check=True, capture_output=True)
    with open(tmp_path / "course/marks/marks.csv", encoding="utf-8-sig") as file:
        rows = {row["student"]: (row["status"], float(row["points"]), row["possible"]) for row in csv.DictReader(file)}
    assert rows == {"ada": ("graded", 2.0, "3"), "bob": ("graded", 0.0, "3")}
    assert len(list((tmp_path / "course/marks/feedback").glob("*.html"))) == 2
    notebook = nbformat.read(tmp_path / "course/assignment/student/week-1.ipynb", as_version=4)
    words = "\n".join(cell.source for cell in notebook.cells)
    assert words.count("This exercise has no check in the notebook") == 1
    assert "torch.exp" not in words and "torch.softmax" not in words
