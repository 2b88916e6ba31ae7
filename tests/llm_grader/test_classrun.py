"""A class run: killed and stopped at any moment, run again, refused where the grader itself is not in order."""

import contextlib
import csv
import hashlib
import os
import random
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import hostile_notebooks as corpus
import pytest
from student_notebooks import answer, data

import llm_grader
from groundwork import Refusal
from llm_grader import classrun, context, marking, session, wire
from llm_grader.__main__ import main, parser
from llm_grader.journal import Journal
from llm_grader.key import load, to_json
from llm_grader.records import GRADED, NOT_GRADED
from llm_grader.sandbox.processes import process_table, related_processes
from llm_grader.sandbox.setuid import Unconfined
from llm_grader.session import WorkerPool

QUESTIONS = corpus.key().questions[:2]
KEY = replace(corpus.key(), questions=QUESTIONS)
COMMANDS = ("build", "grade", "collect", "gradescope", "rehearse", "autograde", "probe", "ready")
ALONE = os.environ | {"PYTHONPATH": str(Path(llm_grader.__file__).parents[1])}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "class").mkdir()
    return tmp_path / "class"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "marks"


def hand_in(folder, *students):
    for student in students:
        (folder / f"{student}.ipynb").write_bytes(data(corpus.notebook()))


def grade(folder, out, sandbox, key=KEY, seconds=6.0, **more):
    said, more = [], {"workers": 2} | more
    found = classrun.grade(folder, key, out, sandbox, [], seconds=seconds, log=said.append, **more)
    return {record.student: record for record in found}, said


def rows(out):
    """Students in the journal, row by row.

    A process that was killed within a transaction leaves a file that SQLite mends when it is read next, for which it
    must be writable.
    """
    with contextlib.closing(sqlite3.connect(f"file:{out}/journal.sqlite?mode=rw", uri=True, timeout=60)) as journal:
        if not journal.execute("SELECT count(*) FROM sqlite_master WHERE name = 'records'").fetchone()[0]:
            return []  # not made yet
        return [student for (student,) in journal.execute("SELECT student FROM records ORDER BY number")]


def table(out, name):
    with open(out / f"{name}.csv", encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def versioned(question, **changes):
    return replace(question, **changes, version=question.version + "'")


# Killed and stopped


def test_hidden_cases_that_earn_nothing_are_named_before_the_grading(folder, out, lent, monkeypatch):
    monkeypatch.setattr(classrun, "preflight", lambda context: ["One case earns nothing.", "Another one too."])
    hand_in(folder, "Ada")
    _, said = grade(folder, out, lent)
    begin = said.index("Grading 1 submissions, 2 at a time.")
    assert said[begin - 2 : begin] == ["One case earns nothing.", "Another one too."]


@pytest.fixture
def key_file(tmp_path):
    (tmp_path / "private").mkdir(mode=0o700)
    path = tmp_path / "private" / "attention.key.json"
    path.write_text(to_json(KEY))
    return path


def test_a_run_that_is_killed_or_stopped_is_completed_by_the_next(
    folder, out, key_file, popen, lent, monkeypatch, capsys
):
    students = [f"student {n}" for n in range(6)]
    hand_in(folder, *students)
    words = ["grade", str(folder), "--exercises", str(key_file), "--out", str(out), "--workers", "1", "--seconds", "6"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    killed = popen([sys.executable, "-m", "llm_grader", *words], env=ALONE, text=True, **pipes)
    while killed.poll() is None and not ((out / "journal.sqlite").exists() and rows(out)):
        time.sleep(0.02)
    time.sleep(random.uniform(0, 0.3))
    assert killed.poll() is None, killed.communicate()
    members = related_processes([killed.pid], None, process_table())
    killed.kill()
    killed.wait()
    assert len(members) > 1
    latest = time.monotonic() + 60
    while members & process_table().keys():  # the workers end with the grader
        assert time.monotonic() < latest
        time.sleep(0.05)
    done = len(rows(out))
    assert 1 <= done < 6

    def stop(journal, *given):
        """What the keys Ctrl and C do, just after a new record."""
        record(journal, *given)
        if len(rows(out)) > done:
            raise KeyboardInterrupt

    record = Journal.record
    capsys.readouterr()
    with monkeypatch.context() as stopped:
        stopped.setattr(Journal, "record", stop)
        assert main(words) == 130
    said = capsys.readouterr().err
    assert said.splitlines()[-1] == "Stopped. Run the same command again to continue." and "Traceback" not in said
    assert len(rows(out)) == done + 1 < 6
    done += 1

    _, said = grade(folder, out, lent, load(key_file))
    assert said[0] == f"{done} of 6 submissions are already graded; {6 - done} are left."
    assert sorted(rows(out)) == sorted(f'"{student}"' for student in students)  # each once
    assert [(row["status"], float(row["points"])) for row in table(out, "marks")] == [(GRADED, 2.0)] * 6


# Graded again


@pytest.fixture
def asked(monkeypatch):
    """Functions of the questions that are marked, each time that a submission is run."""
    real, asked = context.GradingContext.marks, []

    def marks(self, session, questions, alone):
        asked.append([question.function for question in questions])
        return real(self, session, questions, alone)

    monkeypatch.setattr(context.GradingContext, "marks", marks)
    return asked


def test_what_is_known_is_not_done_again(folder, out, lent, asked, monkeypatch):
    monkeypatch.setattr(classrun, "preflight", lambda *given: [])
    hand_in(folder, "Ada", "Bo")
    first, _ = grade(folder, out, lent)
    assert [record.points for record in first.values()] == [2.0, 2.0]
    assert asked == [["hard_lookup", "stable_softmax"]] * 2
    asked.clear()

    again, said = grade(folder, out, lent)
    assert not asked and again == first and said == ["2 of 2 submissions are already graded; 0 are left."]

    harder = replace(KEY, questions=[QUESTIONS[0], versioned(QUESTIONS[1], points=3.0)])
    changed, _ = grade(folder, out, lent, harder)
    assert asked == [["stable_softmax"]] * 2
    assert [[mark.points for mark in record.marks] for record in changed.values()] == [[1.0, 3.0]] * 2
    assert len(rows(out)) == 4
    asked.clear()

    (folder / "Ada.ipynb").write_bytes(data(answer(corpus.notebook(), "hard_lookup", "def hard_lookup(a, b, c): 1")))
    other, said = grade(folder, out, lent, harder)
    assert asked == [["hard_lookup", "stable_softmax"]] and said[0].startswith("1 of 2")
    assert other["Ada"].marks[0].category == "returned nothing" and other["Bo"] == changed["Bo"]
    asked.clear()

    hand_in(folder, "Ada")  # the older one again
    older, _ = grade(folder, out, lent, harder)
    assert not asked and [mark.points for mark in older["Ada"].marks] == [1.0, 3.0]


# Again


def test_a_file_that_changes_during_a_regrade_keeps_no_old_mark(folder, out, lent, monkeypatch):
    """Only one question has changed, and the student replaces the file after the grader has found it."""
    hand_in(folder, "Ada")
    assert grade(folder, out, lent)[0]["Ada"].points == 2.0
    real = classrun.preflight

    def replace_the_file(*given):
        wrong = {question.function: "def ANSWER(*given):\n    return None\n" for question in QUESTIONS}
        (folder / "Ada.ipynb").write_bytes(data(corpus.notebook(answers=wrong)))
        return real(*given)

    monkeypatch.setattr(classrun, "preflight", replace_the_file)
    changed = replace(KEY, questions=[versioned(QUESTIONS[0], points=3.0), QUESTIONS[1]])
    assert grade(folder, out, lent, changed)[0]["Ada"].points == 0.0


def test_what_may_be_the_machine_s_fault_runs_again_when_no_other_submission_runs(folder, out, lent, monkeypatch):
    hand_in(folder, "Ada", "Bo")
    real, lost, said = session.Session._run_question, [], []

    def lose_the_first(self, each, messages):
        if len(lost) < 1 and said:
            lost.append(each)
            raise wire.Timeout("the time limit was exceeded")
        return real(self, each, messages)

    def preflight(context):
        said.append(checks(context))
        return said[0]

    checks = classrun.preflight
    monkeypatch.setattr(session.Session, "_run_question", lose_the_first)
    monkeypatch.setattr(classrun, "preflight", preflight)
    found, _ = grade(folder, out, lent)
    assert lost and [record.points for record in found.values()] == [2.0] * 2
    assert not any(mark.unsure for record in found.values() for mark in record.marks)
    assert len(rows(out)) == 2


def test_a_file_replaced_before_it_runs_again_alone_is_not_left_unsure(folder, out, lent, monkeypatch):
    real, seen = classrun.grade_submission, []

    def replace_the_file(file, *given):
        seen.append(file)
        endless = f"def ANSWER(*given):\n    '{len(seen)}'\n    while True:\n        pass\n"
        if len(seen) < 3:
            file.path.write_bytes(data(corpus.notebook(answers={"hard_lookup": endless})))
        return real(file, *given)

    hand_in(folder, "Ada")
    monkeypatch.setattr(classrun, "grade_submission", replace_the_file)
    mark = grade(folder, out, lent, seconds=1.0)[0]["Ada"].marks[0]
    assert len(seen) == 3 and mark.category == "timed out"
    assert not mark.unsure and context.RUN_AGAIN in mark.feedback


def test_more_seconds_are_given_to_what_was_short_of_them(folder, out, key_file, lent, monkeypatch, capsys):
    """An answer that never ends, and one that lacks what a cell without end would have made."""
    monkeypatch.setattr(classrun, "preflight", lambda *given: [])
    source = QUESTIONS[0].solution
    lacks = f"while True:\n    pass\nready = 1\n\n\n{source}"
    lacks = lacks.replace("def hard_lookup(", "def plain(") + "\n\n\ndef hard_lookup(*given):\n    [].pop(made())\n"
    for name, code in (("Ada", "def ANSWER(*given):\n    while True:\n        pass\n"), ("Bo", lacks), ("Cy", source)):
        (folder / f"{name}.ipynb").write_bytes(data(corpus.notebook(answers={"hard_lookup": code})))

    def run(*more):
        words = ["grade", str(folder), "--exercises", str(key_file), "--out", str(out), *more]
        assert main(words) == 0
        with Journal(out / "journal.sqlite", "any") as journal:
            marks = {record.student: record.marks[0] for record in journal.records(["Ada", "Bo", "Cy"])}
        return capsys.readouterr().out, {name: mark.seconds for name, mark in marks.items()}

    assert run("--seconds", "1")[1] == {"Ada": 1, "Bo": 1, "Cy": 0}
    assert "3 of 3 submissions are already graded" in run("--seconds", "1")[0]
    said, seconds = run("--seconds", "2", "--regrade")
    assert "short of time in an earlier run, and are made again: 2." in said
    assert "1 of 3 submissions are already graded; 2 are left." in said and seconds == {"Ada": 2, "Bo": 2, "Cy": 0}


def test_an_edit_of_the_grader_keeps_the_marks_until_a_regrade_is_asked_for(folder, out, lent, asked, monkeypatch):
    monkeypatch.setattr(classrun, "preflight", lambda *given: [])
    hand_in(folder, "Ada", "Bo")
    monkeypatch.setattr(classrun, "grader_version", lambda: "before")
    first, _ = grade(folder, out, lent)
    assert "earlier version" not in (out / "summary.html").read_text()
    asked.clear()
    monkeypatch.setattr(classrun, "grader_version", lambda: "after")
    again, _ = grade(folder, out, lent)
    assert not asked and again == first
    assert (
        "4 marks were made by an earlier version of the grader: <code>before</code>"
        in (out / "summary.html").read_text()
    )
    regraded, said = grade(folder, out, lent, regrade=True)
    assert asked == [["hard_lookup", "stable_softmax"]] * 2 and [r.points for r in regraded.values()] == [2.0, 2.0]
    assert "earlier version" not in (out / "summary.html").read_text()
    assert sorted(row["grader"] for row in table(out, "audit")) == ["after", "after", "before", "before"]
    asked.clear()
    grade(folder, out, lent, regrade=True)
    assert not asked


def test_every_graded_file_is_kept_and_the_audit_trail_names_it(folder, out, lent, monkeypatch):
    monkeypatch.setattr(classrun, "preflight", lambda *given: [])
    handed_in = [data(corpus.notebook()), data(answer(corpus.notebook(), "hard_lookup", "def hard_lookup(a, b, c): 1"))]
    path = folder / "=cmd.. 学生" / "x.ipynb"
    path.parent.mkdir()
    for content in (*handed_in, b"no notebook", handed_in[0]):
        path.write_bytes(content)
        grade(folder, out, lent)
    trail = table(out, "audit")
    assert [row["points"] for row in trail] == ["2", "1", "", "2"]
    digests = [hashlib.sha256(content).hexdigest() for content in (*handed_in, b"no notebook", handed_in[0])]
    assert [row["sha256"] for row in trail] == digests
    assert [(out / row["kept as"]).read_bytes() for row in trail[:3]] == [*handed_in, b"no notebook"]
    assert {path.name for path in (out / "attempts").iterdir()} == {f"{digest}.ipynb" for digest in digests}
    assert all(datetime.fromisoformat(row["time"]).tzinfo for row in trail)
    (out / "attempts" / f"{digests[0]}.ipynb").unlink()
    grade(folder, out, lent)  # nothing to grade, but the file is there to be kept
    assert (out / "attempts" / f"{digests[0]}.ipynb").read_bytes() == handed_in[0]


def test_a_file_that_cannot_be_kept_is_not_graded(folder, out, lent, monkeypatch):
    monkeypatch.setattr(classrun, "preflight", lambda *given: [])
    hand_in(folder, "Ada")
    out.mkdir()
    (out / "attempts").write_text("in the way")
    found, _ = grade(folder, out, lent)
    assert found["Ada"].status == NOT_GRADED and not found["Ada"].marks


def test_the_list_of_students_and_the_platforms_names_reach_the_tables(folder, out, lent, tmp_path, monkeypatch):
    monkeypatch.setattr(classrun, "preflight", lambda *given: [])
    hand_in(folder, "byronada_7_12_attention", "lovelaceada_LATE_8_13_attention")
    (listed := tmp_path / "ids.csv").write_text("folder,id,name\n7,s-7,Ada Byron\n8,s-8,Ada Lovelace\n9,s-9,Bo\n")
    found, _ = grade(folder, out, lent, student_list=listed)
    assert list(found) == ["byronada_7", "lovelaceada_8"]
    assert [(row["name"], row["id"], row["notes"]) for row in table(out, "marks")] == [
        ("Ada Byron", "s-7", ""),
        ("Ada Lovelace", "s-8", "Canvas marks this file as late."),
    ]
    rows_of_canvas = [(row["Student"], row["ID"], row["SIS User ID"]) for row in table(out, "canvas")]
    assert rows_of_canvas[1:] == [("Ada Byron", "7", "s-7"), ("Ada Lovelace", "8", "s-8")]
    assert [row["Identifier"] for row in table(out, "moodle")] == ["s-7", "s-8"]
    summary = (out / "summary.html").read_text()
    assert (
        "The names in the folder are those of Canvas" in summary
        and "not among the submissions: <bdi>9</bdi>" in summary
    )


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
        grade(folder, out, StandIn(before), workers=1)
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
def test_a_key_that_is_not_in_order_grades_nobody(folder, out, lent, changes, message):
    hand_in(folder, "Ada")
    with pytest.raises(Refusal, match=message):
        grade(folder, out, lent, replace(KEY, questions=[versioned(QUESTIONS[0], **changes)]))
    assert rows(out) == []


def test_without_workers_a_submission_is_not_graded_and_tried_again(folder, out, lent, monkeypatch):
    hand_in(folder, "Ada", "Bo")
    real = classrun.preflight

    def then_break(context):
        found = real(context)
        broken.setattr(context.pool, "acquire", partial(WorkerPool.acquire, context.pool))  # which lends none
        broken.setattr(context.pool, "sandbox", StandIn("raise SystemExit('The machine is full.')"))
        return found

    with monkeypatch.context() as broken:
        broken.setattr(classrun, "preflight", then_break)
        found, _ = grade(folder, out, lent)
    assert [record.status for record in found.values()] == [NOT_GRADED] * 2
    assert found["Ada"].reason == "The grader failed: No worker could be started: The machine is full."
    assert [(row["points"], row["attention/hard_lookup"]) for row in table(out, "marks")] == [("", "")] * 2
    assert [record.points for record in grade(folder, out, lent)[0].values()] == [2.0] * 2


def test_a_failure_of_comparing_stays_within_its_question(folder, out, lent, asked, monkeypatch):
    """Neither is such a question a zero, nor are the marks of the others lost; the next run tries it again."""
    monkeypatch.setattr(classrun, "preflight", lambda *given: [])
    hand_in(folder, "Ada")
    real = marking.mark

    def fails_once(outcome, prepared, *found):
        if prepared.question.function == "hard_lookup":
            raise ZeroDivisionError("in our own code")
        return real(outcome, prepared, *found)

    monkeypatch.setattr(marking, "mark", fails_once)
    (record,) = grade(folder, out, lent)[0].values()
    assert (record.status, [mark.points for mark in record.marks]) == (NOT_GRADED, [1.0])
    failed = "attention/hard_lookup cannot be compared (ZeroDivisionError: in our own code)"
    assert record.reason == f"The grader failed: {failed}; the marks of the other questions are kept."
    (row,) = table(out, "marks")
    assert [row[name] for name in ("points", "attention/hard_lookup", "attention/stable_softmax")] == ["", "", ""]
    page = next((out / "feedback").iterdir()).read_text(encoding="utf-8")
    assert "this is not a zero" in page and "1 of 1 points" not in page and "ZeroDivision" not in page
    monkeypatch.setattr(marking, "mark", real)
    (record,) = grade(folder, out, lent)[0].values()
    assert (record.status, record.reason, record.points) == (GRADED, "", 2.0)
    assert asked == [["hard_lookup", "stable_softmax"], ["hard_lookup"]]


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
        ("grade nowhere --exercises key.json --out x", "nowhere does not exist."),
        ("grade class --exercises nowhere --out x", "There is no chapter, folder or key nowhere"),
        ("grade class --exercises key.json --out class/x", "and the submissions class overlap"),
        ("grade class --exercises key.json --out x --workers 0", "--workers is 0; it must be at least 1."),
        ("grade class --exercises key.json --out x --seconds 0", "--seconds is 0; it must be from 1 to 3600."),
        ("grade class --exercises key.json --out x", "holds no submissions"),
        ("grade class --exercises key.json --out x --students ids.csv", "ids.csv has no row for Ada"),
        ("grade class --exercises key.json --out x --students nowhere.csv", "nowhere.csv cannot be read"),
        ("collect class --exercises key.json --out x", "holds no submissions"),
        ("gradescope nowhere -o x.zip", "There is no chapter, folder or key nowhere"),
        ("rehearse nowhere.zip nowhere.ipynb", "nowhere.zip"),
        ("probe nowhere", "There is no file or folder nowhere."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(words, said, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder.parent)
    (folder.parent / "ids.csv").write_text("folder,id\nBo,1\n")
    (folder.parent / "key.json").write_text(to_json(KEY))
    if "--students" in words:
        hand_in(folder, "Ada")
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert said in err and err.count("\n") == 1


def test_the_list_of_students_is_private(folder, tmp_path, monkeypatch):
    def choose(private, *_):
        raise Refusal(f"asked: {[str(path) for path in private]}")

    monkeypatch.setattr("llm_grader.sandbox.choose", choose)
    listed = tmp_path / "office" / "ids.csv"
    listed.parent.mkdir()
    listed.write_text("folder,id\nAda,1\n")
    hand_in(folder, "Ada")
    words = ["grade", str(folder), "--exercises", "attention", "--out", str(tmp_path / "x"), "--students", str(listed)]
    args = parser().parse_args(words)
    with pytest.raises(Refusal, match=str(listed.parent)):
        args.action(args)


@pytest.mark.parametrize("words", ["", "mark", "grade", "grade class", "build attention", "gradescope", "rehearse x"])
def test_a_command_that_is_not_one_shows_its_usage(words, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(words.split())
    assert leaving.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m llm_grader")
