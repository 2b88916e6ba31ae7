"""A class that several machines grade: each its share, killed and repeated, and the marks are those of one machine."""

import csv
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import hostile_notebooks as corpus
import pytest
from student_notebooks import answer, data

import llm_grader
from groundwork import Refusal
from llm_grader import shares
from llm_grader.__main__ import main
from llm_grader.journal import Journal
from llm_grader.key import to_json
from llm_grader.records import GRADED, SubmissionResult
from llm_grader.shares import Share

ALONE = os.environ | {"PYTHONPATH": str(Path(llm_grader.__file__).parents[1])}
STUDENTS = [f"student {n}" for n in range(8)]
N = 2


# Shares


def test_each_student_is_in_one_share_whatever_else_is_handed_in():
    for count in (1, 2, 8):
        held = [[student for student in STUDENTS if Share(i, count).holds(student)] for i in range(1, count + 1)]
        assert sorted(sum(held, [])) == STUDENTS
    assert {shares.number_of(f"student {n}", 8) for n in range(200)} == set(range(1, 9))
    assert shares.number_of("Zoë \udce9", 5) in range(1, 6)  # a name that is not valid Unicode


def test_all_shares_have_one_secret_seed(tmp_path):
    together = threading.Barrier(16)

    def draw(number):
        together.wait(60)
        return shares.prepare(tmp_path, Share(number, 16))

    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(draw, range(1, 17)))
    assert len({folder for folder, _ in made}) == 16 and len({seed for _, seed in made}) == 1
    assert stat.S_IMODE((tmp_path / "seed").stat().st_mode) == 0o600
    assert stat.S_IMODE(made[0][0].stat().st_mode) == 0o700
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed", "tasks"]
    assert shares.present(tmp_path) == [Share(i, 16) for i in range(1, 17)]


def test_a_share_takes_the_seed_of_one_that_was_faster(tmp_path, monkeypatch):
    real, faster = shares.write_whole, []

    def slow(path, content, mode):
        monkeypatch.setattr(shares, "write_whole", real)
        faster.append(shares.prepare(tmp_path, Share(2, 2))[1])
        real(path, content, mode)

    monkeypatch.setattr(shares, "write_whole", slow)
    assert [shares.prepare(tmp_path, Share(1, 2))[1]] == faster


def test_a_folder_is_for_one_division_of_one_class(tmp_path):
    shares.prepare(tmp_path / "a", Share(1, 4))
    with pytest.raises(Refusal, match="a class that is divided by 4, not by 3; use the number 4 again"):
        shares.prepare(tmp_path / "a", Share(1, 3))
    (tmp_path / "b").mkdir()
    Journal(tmp_path / "b/journal.sqlite", "1").close()
    with pytest.raises(Refusal, match="holds the journal of a run without --task"):
        shares.prepare(tmp_path / "b", Share(1, 3))
    with pytest.raises(Refusal, match="has another seed than the tasks in its folder"):
        Journal(tmp_path / "b/journal.sqlite", "1", seed="f" * 64)
    (tmp_path / "a/seed").write_text("")
    with pytest.raises(Refusal, match="does not hold the seed"):
        shares.prepare(tmp_path / "a", Share(2, 4))


# Journals


def test_a_merged_journal_has_every_row_once_and_in_order(tmp_path):
    def record(journal, student, digest):
        journal.record(SubmissionResult(student, "", digest, GRADED), {"q": "1"})

    seed = "0" * 64
    with Journal(tmp_path / "all", "1", seed=seed) as journal, Journal(tmp_path / "a", "1", seed=seed) as a:
        assert journal.seed == a.seed == seed
        record(a, "Ada", "first")
        record(a, "Ada", "second")
        for _ in range(2):
            journal.merge(a)
        with Journal(tmp_path / "b", "1", seed=seed) as b:
            record(b, "Bo", "first")
            journal.merge(b)
        record(a, "Ada", "third")
        journal.merge(a)
        assert [each.digest for each in journal.records(["Ada", "Bo"])] == ["third", "first"]
        assert journal._query_value("SELECT count(*) FROM records") == 4


# The commands


@pytest.mark.parametrize("task", ["0/3", "4/3", "1", "1/0", "-1/3", "one/three", "1/99999", "1/3/5"])
def test_what_is_no_task_is_refused(task, tmp_path, capsys):
    assert main(["grade", str(tmp_path), "--exercises", "attention", "--out", "x", f"--task={task}"]) == 2
    assert f"--task is {task}; it must be I/N, such as 1/8" in capsys.readouterr().err


CLASS = STUDENTS[:4]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A class of students who know more or less, and a key."""
    course = tmp_path_factory.mktemp("course")
    (course / "class").mkdir()
    (course / "private").mkdir(mode=0o700)
    key = replace(corpus.key(), questions=corpus.key().questions[:2])
    (course / "private/attention.key.json").write_text(to_json(key))
    wrong = "def hard_lookup(queries, keys, values): return values * 0"
    for n, student in enumerate(CLASS):
        notebook = answer(corpus.notebook(), "hard_lookup", wrong) if n == 1 else corpus.notebook()
        (course / "class" / f"{student}.ipynb").write_bytes(data(notebook) if n != 2 else b"{}")
    return course


def words(course, command, out, *more):
    """A command of the grader, word by word."""
    key = course / "private/attention.key.json"
    return [command, str(course / "class"), "--exercises", str(key), "--out", str(out), *more]


@pytest.fixture
def here(lent, capsys):
    """Runs a command in this process; returns its exit status, what it prints and what went wrong."""

    def here(*given):
        capsys.readouterr()
        return main(words(*given)), *capsys.readouterr()

    return here


def marks(out):
    with open(out / "marks.csv", encoding="utf-8-sig") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_tasks_of_which_one_is_killed_and_repeated_give_the_marks_of_one_machine(course, popen, here):
    """The one that is killed is a process of its own, and everything else runs in this one."""
    out, killed = course / "marks", shares.number_of(CLASS[0], N)
    options = ("--workers", "1", "--seconds", "20", "--task")
    command = [sys.executable, "-m", "llm_grader", *words(course, "grade", out, *options, f"{killed}/{N}")]
    task = popen(command, env=ALONE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while task.poll() is None and not (out / "tasks" / f"{killed}-of-{N}" / "journal.sqlite").exists():
        time.sleep(0.02)
    task.kill()
    said = task.communicate(timeout=600)
    assert task.returncode == -signal.SIGKILL, said
    assert here(course, "grade", out, *options, f"{N + 1 - killed}/{N}")[0] == 0

    mine = [student for student in CLASS if shares.number_of(student, N) == killed]
    assert 0 < len(mine) < len(CLASS)
    code, said, error = here(course, "collect", out)
    assert (code, error.count("\n")) == (2, 1) and f"{len(mine)} not graded" in said
    assert error.startswith(f"Task {killed}/{N} has not graded {len(mine)} submission")
    rows = marks(out)
    assert [student for student in CLASS if rows[student]["status"] == "not graded"] == mine
    assert {rows[student]["points"] for student in mine} == {""}
    assert f"Task {killed}/{N} has not graded this submission." in rows[mine[0]]["reason"]
    assert "not graded" in (out / "summary.html").read_text(encoding="utf-8")

    assert here(course, "grade", out, *options, f"{killed}/{N}")[0] == 0
    code, said, error = here(course, "collect", out)
    assert (code, error) == (0, "") and "0 not graded" in said

    plain = course / "plain"
    plain.mkdir(mode=0o700)
    shutil.copy(out / "seed", plain / "seed")
    assert here(course, "grade", plain, "--seconds", "20")[0] == 0
    assert marks(out) == marks(plain)
    assert {row["points"] for row in marks(out).values()} == {"2", "1", ""}
    summary = (out / "summary.html").read_text(encoding="utf-8")
    assert "bubblewrap" in summary or "setuid" in summary or "sandlock" in summary

    more = course / "class" / "zoe.ipynb"  # whoever comes later is missing until her task is repeated
    more.write_bytes(data(corpus.notebook()))
    code, said, error = here(course, "collect", out)
    assert code == 2 and error.startswith(f"Task {shares.number_of('zoe', N)}/{N} has not graded 1 submission: run it")
    more.unlink()
    assert here(course, "collect", out)[0] == 0 and marks(out) == marks(plain)


def test_collecting_nothing_is_refused(course, here, tmp_path):
    code, _, error = here(course, "collect", tmp_path)
    assert code == 2 and "holds no tasks; grade them first, with the option --task" in error
