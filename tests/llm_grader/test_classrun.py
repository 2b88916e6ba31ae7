"""A class run: killed and stopped at any moment, run again, refused where the grader itself is not in order."""

import contextlib
import csv
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import hostile_notebooks as corpus
import pytest
from student_notebooks import answer, data

import llm_grader
from groundwork import Refusal
from llm_grader import classrun, sandbox
from llm_grader.__main__ import main
from llm_grader.key import to_json
from llm_grader.records import GRADED, NOT_GRADED
from llm_grader.sandbox.processes import process_table, related_processes
from llm_grader.sandbox.setuid import Unconfined

QUESTIONS = corpus.key().questions[:2]
KEY = replace(corpus.key(), questions=QUESTIONS)
COMMANDS = ("build", "grade", "gradescope", "rehearse", "autograde", "probe")
ALONE = os.environ | {"PYTHONPATH": str(Path(llm_grader.__file__).parents[1])}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "class").mkdir()
    return tmp_path / "class"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "marks"


@pytest.fixture(scope="module")
def confined(tmp_path_factory):
    return sandbox.choose([tmp_path_factory.mktemp("private")])[0]


def hand_in(folder, *students, function="hard_lookup"):
    for student in students:
        (folder / f"{student}.ipynb").write_bytes(data(corpus.notebook()))


def grade(folder, out, confined, key=KEY, **more):
    said = []
    found = classrun.grade(folder, key, out, confined, [], workers=2, seconds=6.0, log=said.append, **more)
    return {record.student: record for record in found}, said


def rows(out):
    """Students in the journal, row by row."""
    with contextlib.closing(sqlite3.connect(f"file:{out}/journal.sqlite?mode=ro", uri=True)) as journal:
        try:
            return [student for (student,) in journal.execute("SELECT student FROM records ORDER BY number")]
        except sqlite3.OperationalError:  # not made yet
            return []


def versioned(question, **changes):
    return replace(question, **changes, version=question.version + "'")


# Killed and stopped


class Command:
    """``python -m llm_grader grade`` in a process of its own."""

    def __init__(self, folder, out, key):
        words = ("grade", str(folder), "--exercises", str(key), "--out", str(out), "--workers", "2", "--seconds", "6")
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "llm_grader", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ALONE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
        )

    def wait_for(self, n):
        """Until so many records are in the journal."""
        while self.process.poll() is None and (not (self.out / "journal.sqlite").exists() or len(rows(self.out)) < n):
            time.sleep(0.02)
        assert self.process.poll() is None, self.process.communicate()

    def end(self, number):
        """Send a signal; the processes that there were then."""
        members = related_processes([self.process.pid], None, process_table())
        self.process.send_signal(number)
        return self.process.communicate(), members


def vanish(members):
    """Whether all these processes go, soon."""
    latest = time.monotonic() + 60
    while members & process_table().keys() and time.monotonic() < latest:
        time.sleep(0.05)
    return not members & process_table().keys()


@pytest.fixture
def key_file(tmp_path):
    (tmp_path / "private").mkdir(mode=0o700)
    path = tmp_path / "private" / "attention.key.json"
    path.write_text(to_json(KEY))
    return path


def test_a_run_that_is_killed_is_completed_by_the_next(folder, out, key_file):
    students = [f"student {n}" for n in range(9)]
    hand_in(folder, *students)
    chance, done = random.Random(), 0
    for n in (0, 3):
        run = Command(folder, out, key_file)
        run.wait_for(n)
        time.sleep(chance.uniform(0, 1))
        _, members = run.end(signal.SIGKILL)
        assert len(members) > 1 and vanish(members)
        assert done <= len(rows(out)) < len(students)
        done = len(rows(out))
    said, _ = (last := Command(folder, out, key_file)).process.communicate()
    assert last.process.returncode == 0
    assert f"{done} of 9 submissions are already graded; {9 - done} are left." in said
    assert sorted(rows(out)) == sorted(f'"{student}"' for student in students)  # each once
    with open(out / "marks.csv", encoding="utf-8-sig") as file:
        assert [(row["status"], float(row["points"])) for row in csv.DictReader(file)] == [(GRADED, 2.0)] * 9


def test_a_run_that_is_stopped_says_how_to_go_on(folder, out, key_file):
    hand_in(folder, *(f"student {n}" for n in range(9)))
    run = Command(folder, out, key_file)
    run.wait_for(1)
    (_, said), members = run.end(signal.SIGINT)
    assert run.process.returncode == 130
    assert said.splitlines()[-1] == "Stopped. Run the same command again to continue." and "Traceback" not in said
    assert vanish(members)
    assert 1 <= len(rows(out)) < 9


# Graded again


@pytest.fixture
def asked(monkeypatch):
    """Pairs of a submission's answers and the questions it is asked, of students."""
    real, asked = classrun.GradingContext.marks, []

    def marks(self, submission, questions):
        asked.append([question.function for question in questions])
        return real(self, submission, questions)

    monkeypatch.setattr(classrun.GradingContext, "marks", marks)
    return asked


def test_what_is_known_is_not_done_again(folder, out, confined, asked, monkeypatch):
    monkeypatch.setattr(classrun, "preflight", lambda *given: [])  # the same key each time
    hand_in(folder, "Ada", "Bo")
    first, _ = grade(folder, out, confined)
    assert [record.points for record in first.values()] == [2.0, 2.0]
    assert asked == [["hard_lookup", "stable_softmax"]] * 2
    asked.clear()

    again, said = grade(folder, out, confined)
    assert not asked and again == first and said == ["2 of 2 submissions are already graded; 0 are left."]

    harder = replace(KEY, questions=[QUESTIONS[0], versioned(QUESTIONS[1], points=3.0)])
    changed, _ = grade(folder, out, confined, harder)
    assert asked == [["stable_softmax"]] * 2
    assert [[mark.points for mark in record.marks] for record in changed.values()] == [[1.0, 3.0]] * 2
    assert len(rows(out)) == 4
    asked.clear()

    (folder / "Ada.ipynb").write_bytes(data(answer(corpus.notebook(), "hard_lookup", "def hard_lookup(a, b, c): 1")))
    other, said = grade(folder, out, confined, harder)
    assert asked == [["hard_lookup", "stable_softmax"]] and said[0].startswith("1 of 2")
    assert other["Ada"].marks[0].category == "returned nothing" and other["Bo"] == changed["Bo"]
    asked.clear()

    hand_in(folder, "Ada")  # the older one again
    older, _ = grade(folder, out, confined, harder)
    assert not asked and [mark.points for mark in older["Ada"].marks] == [1.0, 3.0]


# Ours, not theirs


class StandIn(Unconfined):
    """Workers that run a few lines before the worker's own program, or in its place."""

    def __init__(self, before):
        self.before = before

    def command(self, program, extra, limits, uid, tmp):
        python, *flags, path = super().command(program, extra, limits, uid, tmp)[: -len(program) + 1]
        run = "import runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')"
        return [python, *flags, "-c", f"{self.before}\n{run}", path, *program[1:]]


BLIND = """
import sys
sys.path.insert(0, sys.argv[1].rpartition("/llm_grader/")[0])
from llm_grader.worker import cells
cells._run_with_timeout = lambda *given: False
"""


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("raise SystemExit('The machine is full.')", "No worker could be started: The machine is full."),
        (BLIND, "attention/hard_lookup: the reference earns 0 of 1 points"),
    ],
)
def test_a_broken_sandbox_grades_nobody(folder, out, before, message):
    hand_in(folder, "Ada")
    with pytest.raises(Refusal, match=message):
        grade(folder, out, StandIn(before))
    assert rows(out) == [] and not (out / "marks.csv").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"solution": "def hard_lookup(queries, keys, values):\n    return 1 / 0"},
         "the reference raises ZeroDivisionError in hidden case 1"),
        ({"hidden": "import os\ndef hidden_cases(generator):\n    os._exit(1)"}, "the reference cannot be run"),
        (
            {"hidden": "import torch\ndef hidden_cases(generator):\n"
             "    return [{name: torch.zeros(2, 2) for name in ('queries', 'keys', 'values')}]"},
            r"answers that know nothing \(zeros, .*\) get every hidden case right",
        ),
        ({"mistakes": f"{QUESTIONS[0].mistakes}\n{QUESTIONS[0].solution}\nworst_fit = hard_lookup"},
         "the known mistake worst_fit would earn full marks"),
    ],
)  # fmt: skip
def test_a_key_that_is_not_in_order_grades_nobody(folder, out, confined, changes, message):
    hand_in(folder, "Ada")
    with pytest.raises(Refusal, match=message):
        grade(folder, out, confined, replace(KEY, questions=[versioned(QUESTIONS[0], **changes)]))
    assert rows(out) == []


def test_without_workers_a_submission_is_not_graded_and_tried_again(folder, out, confined, monkeypatch):
    hand_in(folder, "Ada", "Bo")
    real = classrun.preflight

    def then_break(*given):
        found = real(*given)
        given[1].close()
        monkeypatch.setattr(given[1], "sandbox", StandIn("raise SystemExit('The machine is full.')"))
        return found

    monkeypatch.setattr(classrun, "preflight", then_break)
    found, _ = grade(folder, out, confined)
    assert [record.status for record in found.values()] == [NOT_GRADED] * 2
    assert found["Ada"].reason == "The grader failed: No worker could be started: The machine is full."
    with open(out / "marks.csv", encoding="utf-8-sig") as file:
        assert [(row["points"], row["attention/hard_lookup"]) for row in csv.DictReader(file)] == [("", "")] * 2
    monkeypatch.setattr(classrun, "preflight", real)
    assert [record.points for record in grade(folder, out, confined)[0].values()] == [2.0] * 2


# The commands


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as leaving:
        main([command, "--help"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m llm_grader {command}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("build nowhere --out x", "There is no chapter, folder or key nowhere"),
        ("build attntion --out x", "did you mean attention?"),
        ("grade nowhere --exercises attention --out x", "nowhere does not exist."),
        ("grade class --exercises nowhere --out x", "There is no chapter, folder or key nowhere"),
        ("grade class --exercises attention --out class/x", "and the submissions class overlap"),
        ("grade class --exercises attention --out x --workers 0", "--workers is 0; it must be at least 1."),
        ("grade class --exercises attention --out x --seconds 0", "--seconds is 0; it must be from 1 to 3600."),
        ("grade class --exercises attention --out x", "holds no submissions"),
        ("gradescope nowhere -o x.zip", "There is no chapter, folder or key nowhere"),
        ("rehearse nowhere.zip nowhere.ipynb", "nowhere.zip"),
        ("probe nowhere", "There is no file or folder nowhere."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(words, said, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert said in err and err.count("\n") == 1


@pytest.mark.parametrize("words", ["", "mark", "grade", "grade class", "build attention", "gradescope", "rehearse x"])
def test_a_command_that_is_not_one_shows_its_usage(words, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(words.split())
    assert leaving.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m llm_grader")
