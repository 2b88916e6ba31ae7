"""The journal of a class run: what is confirmed stays, and what no longer holds is graded again."""

import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import llm_grader
from groundwork import Refusal
from llm_grader.journal import Journal, graded_questions
from llm_grader.records import GRADED, NEEDS_ATTENTION, NOT_GRADED, Mark, SubmissionResult

ALONE = os.environ | {"PYTHONPATH": str(Path(llm_grader.__file__).parents[1])}  # for processes of their own
VERSIONS = {"course/one": "v1", "course/two": "v1"}


def mark(question, points=1.0):
    return Mark(question, points, 2.0, "wrong shape", {"shape": 0.0, "dtype": 1.0}, "wrong_axis", "Look at the axis.")


def graded(student="Ada", digest="a" * 64, points=1.0, questions=VERSIONS):
    marks = [mark(question, points) for question in questions]
    return SubmissionResult(
        student, f"{student}/attention.ipynb", digest, GRADED, "", marks, ["A note."], ["A flag."], 0.5
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


def open_journal(path):
    return Journal(path, "reader 1")


def test_records_and_seed_are_there_again_after_closing(path):
    with open_journal(path) as journal:
        seed = journal.seed
        journal.record(graded(), VERSIONS)
    assert len(bytes.fromhex(seed)) == 32
    with open_journal(path) as journal:
        assert journal.seed == seed
        assert journal.records(["Ada"]) == [graded()]
        assert journal.known("Ada", "a" * 64, VERSIONS) == graded()


def test_marks_that_were_short_of_time_are_made_again_with_more(path):
    with open_journal(path) as journal:
        short = replace(mark("course/one"), category="raised an error", seconds=10.0)
        earlier = replace(mark("course/two"), category="timed out")  # of a grader that stored no seconds
        for student, marks in (("Ada", [short, mark("course/two")]), ("Bo", [mark("course/one"), earlier])):
            journal.record(replace(graded(student), marks=marks), VERSIONS)
        assert journal.give_more_time(10.0) == journal.give_more_time(5.0) == 0
        assert journal.give_more_time(60.0) == 2 and journal.give_more_time(60.0) == 0
        left = {name: journal.known(name, "a" * 64, VERSIONS) for name in ("Ada", "Bo")}
        assert {name: [each.question for each in found.marks] for name, found in left.items()} == {
            "Ada": ["course/two"],
            "Bo": ["course/one"],
        }
        again = replace(short, seconds=60.0)
        journal.record(replace(graded(), marks=[again, mark("course/two")]), VERSIONS)
        assert journal.give_more_time(60.0) == 0
        assert len(journal.known("Ada", "a" * 64, VERSIONS).marks) == 2
    with Journal(path, "reader 2", regrade=True) as journal:
        assert journal.give_more_time(90.0) == 1 and journal.known("Ada", "a" * 64, VERSIONS) is None


def test_the_questions_of_a_journal_in_use_can_be_read_and_nothing_is_created(path):
    assert graded_questions(path) == set() and not path.exists()
    path.touch()
    assert graded_questions(path) == set() and path.read_bytes() == b""  # of a run that was killed at its beginning
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
        assert graded_questions(path) == set(VERSIONS)
    path.write_bytes(b"no journal" * 100)
    assert graded_questions(path) == set()


def test_each_journal_draws_its_own_seed(tmp_path):
    with open_journal(tmp_path / "one") as one, open_journal(tmp_path / "two") as two:
        assert one.seed != two.seed


def test_the_file_with_the_seed_is_for_its_owner_only(path):
    with open_journal(path):
        assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with open_journal(path):
        assert path.stat().st_mode & 0o777 == 0o600


def test_only_marks_of_changed_questions_are_missing(path):
    now = {"course/two": "v2", "course/one": "v1", "course/three": "v1"}
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
        known = journal.known("Ada", "a" * 64, now)
        assert [m.question for m in known.marks] == ["course/one"]
        assert (known.status, known.notes, known.flags) == (GRADED, ["A note."], ["A flag."])
        assert journal.known("Ada", "a" * 64, {"other/thing": "v1"}) is None


def test_marks_of_an_earlier_key_hold_when_the_key_comes_back(path):
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
        journal.record(graded(points=2.0), VERSIONS | {"course/two": "v2"})
        known = journal.known("Ada", "a" * 64, VERSIONS)
        assert known.marks == [mark("course/one", 2.0), mark("course/two", 1.0)]
        turned = dict(reversed(VERSIONS.items()))  # the key's order, whatever the journal's
        assert journal.known("Ada", "a" * 64, turned).marks == known.marks[::-1]


def test_another_file_or_student_knows_nothing(path):
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
        assert journal.known("Ada", "b" * 64, VERSIONS) is None
        assert journal.known("Bo", "a" * 64, VERSIONS) is None


def test_marks_hold_when_the_grader_changes_unless_a_regrade_is_asked_for(path):
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
    with Journal(path, "reader 2") as journal:
        known = journal.known("Ada", "a" * 64, VERSIONS)
        assert known == graded() and {mark.grader for mark in known.marks} == {"reader 1"}
        journal.record(known, VERSIONS)  # as a run does with an older file that is handed in again
        assert {mark.grader for mark in journal.records(["Ada"])[0].marks} == {"reader 1"}
    with Journal(path, "reader 2", regrade=True) as journal:
        assert journal.known("Ada", "a" * 64, VERSIONS) is None
        journal.record(graded(points=2.0), VERSIONS)
        assert journal.known("Ada", "a" * 64, VERSIONS) == graded(points=2.0)  # so a regrade can be continued
    assert [entry.record.points for entry in history(path)] == [2.0, 4.0]


def test_a_mark_says_which_grader_made_it_even_if_others_of_its_record_are_newer(path):
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
    changed = VERSIONS | {"course/two": "v2"}
    with Journal(path, "reader 2") as journal:
        kept = journal.known("Ada", "a" * 64, changed).marks
        journal.record(replace(graded(), marks=[*kept, mark("course/two", 0.5)]), changed)
        assert [m.grader for m in journal.records(["Ada"])[0].marks] == ["reader 1", "reader 2"]


def history(path, grader="reader 1"):
    with Journal(path, grader) as journal:
        return journal.history()


def test_the_history_says_when_and_with_which_versions(path):
    before = datetime.now(UTC).replace(microsecond=0)
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
        journal.record(graded("Bo"), VERSIONS)
        journal.record(graded(digest="b" * 64, points=0.0), VERSIONS | {"course/two": "v2"})
    entries = history(path)
    assert [(entry.number, entry.record.student, entry.record.points) for entry in entries] == [
        *((1, "Ada", 2.0), (2, "Bo", 2.0), (3, "Ada", 0.0)),
    ]
    assert entries[2].versions == VERSIONS | {"course/two": "v2"}
    times = [datetime.fromisoformat(entry.time) for entry in entries]
    assert all(time.utcoffset() is not None for time in times)
    assert before <= times[0] <= times[2] <= datetime.now(UTC)


FORMAT_1 = """
CREATE TABLE seed (seed TEXT NOT NULL);
CREATE TABLE records (
    number INTEGER PRIMARY KEY, student TEXT NOT NULL, digest TEXT NOT NULL, reader TEXT NOT NULL,
    record TEXT NOT NULL, versions TEXT NOT NULL
);
CREATE INDEX of_student ON records (student);
PRAGMA application_id = 1280068935;
PRAGMA user_version = 1;
"""


@pytest.fixture
def old_journal(path):
    """A journal as the first version of the grader wrote it, with two marks and a row without any."""
    old = {
        **{"student": "Ada", "file": "Ada/attention.ipynb", "digest": "a" * 64, "status": "graded", "reason": ""},
        "marks": [
            {
                **{"question": name, "points": 1.0, "possible": 2.0, "category": "wrong shape"},
                **{"criteria": {"values": 0.5}, "mistake": None, "feedback": "A sentence."},
            }
            for name in VERSIONS
        ],
        **{"notes": [], "flags": [], "seconds": 0.5},
    }
    first = {"student": "Ada", "file": "", "digest": "", "status": "needs attention", "marks": []}  # fields may lack
    db = sqlite3.connect(path)
    db.executescript(FORMAT_1)
    db.execute("INSERT INTO seed VALUES (?)", ("5" * 64,))
    for record in (first, old):
        row = ('"Ada"', record["digest"], "reader 0", json.dumps(record), json.dumps(VERSIONS, sort_keys=True))
        db.execute("INSERT INTO records (student, digest, reader, record, versions) VALUES (?, ?, ?, ?, ?)", row)
    db.commit()
    db.close()
    return path


def test_a_journal_of_format_1_keeps_its_seed_its_marks_and_its_history(old_journal):
    for _ in range(2):
        with open_journal(old_journal) as journal:
            assert journal.seed == "5" * 64
            known = journal.known("Ada", "a" * 64, VERSIONS)
            assert known.points == 2.0 and {mark.grader for mark in known.marks} == {"reader 0"}
            assert [entry.time for entry in journal.history()] == ["", ""]
            assert [entry.record.status for entry in journal.history()] == [NEEDS_ATTENTION, GRADED]
    with open_journal(old_journal) as journal:
        journal.record(journal.known("Ada", "a" * 64, VERSIONS), VERSIONS)
        assert len(journal.history()) == 2
        journal.record(graded("Bo"), VERSIONS)
        assert journal.history()[-1].time and journal.known("Ada", "a" * 64, VERSIONS)


def test_a_journal_that_is_killed_while_it_is_brought_to_the_new_format_loses_nothing(old_journal):
    content = old_journal.read_bytes()
    for statement in range(1, 100):
        old_journal.write_bytes(content)
        made = subprocess.run([sys.executable, "-c", DIES_WHILE_MAKING, old_journal, str(statement)], env=ALONE)
        with open_journal(old_journal) as journal:
            assert len(journal.history()) == 2 and journal.seed == "5" * 64
        if made.returncode == 0:
            break
        assert made.returncode == -signal.SIGKILL
    assert 5 < statement < 99


def test_needs_attention_holds_until_reader_or_key_changes(path):
    record = SubmissionResult("Ada", "x", "a" * 64, NEEDS_ATTENTION, "This is a web page, not a notebook.")
    with open_journal(path) as journal:
        journal.record(record, VERSIONS)
        assert journal.known("Ada", "a" * 64, VERSIONS) == record
        assert journal.known("Ada", "a" * 64, VERSIONS | {"course/two": "v2"}) is None
    with Journal(path, "reader 2") as journal:
        assert journal.known("Ada", "a" * 64, VERSIONS) is None


def test_not_graded_is_tried_again_and_hides_no_earlier_marks(path):
    failed = SubmissionResult("Ada", "x", "a" * 64, NOT_GRADED, "The sandbox did not start.")
    with open_journal(path) as journal:
        journal.record(failed, VERSIONS)
        assert journal.known("Ada", "a" * 64, VERSIONS) is None
        journal.record(graded(), VERSIONS)
        journal.record(failed, VERSIONS)
        assert journal.known("Ada", "a" * 64, VERSIONS) == graded()
        assert journal.records(["Ada"]) == [failed]


def test_marks_that_were_given_before_the_grader_failed_are_kept(path):
    with open_journal(path) as journal:
        half = replace(graded(questions=["course/one"]), status=NOT_GRADED, reason="The grader failed.")
        journal.record(half, VERSIONS)
        known = journal.known("Ada", "a" * 64, VERSIONS)
        assert (known.status, known.reason, known.marks) == (GRADED, "", [mark("course/one")])


def test_a_new_file_counts_and_the_old_record_stays(path):
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
        journal.record(graded(digest="b" * 64), VERSIONS)
        assert journal.records(["Ada"]) == [graded(digest="b" * 64)]
        assert journal.known("Ada", "a" * 64, VERSIONS) == graded()
        journal.record(graded(), VERSIONS)  # handed in again
        assert journal.records(["Ada"]) == [graded()]


def test_the_same_again_adds_nothing(path):
    with open_journal(path) as journal:
        for _ in range(3):
            journal.record(graded(), VERSIONS)
    assert sqlite3.connect(path).execute("SELECT count(*) FROM records").fetchone() == (1,)


def test_records_are_those_of_the_students_named_in_their_order(path):
    with open_journal(path) as journal:
        for student in ("Ada", "Bo", "Cy"):
            journal.record(graded(student), VERSIONS)
        assert journal.records(["Cy", "Dee", "Ada"]) == [graded("Cy"), graded("Ada")]


@pytest.mark.parametrize("name", ["", "\udc80\udcff", "a\0b", "a\nb", "');--", "\u202eabc", "x" * 300, "é", "e\u0301"])
def test_any_name_comes_back_as_it_was(path, name):
    with open_journal(path) as journal:
        journal.record(graded(name), VERSIONS)
    with open_journal(path) as journal:
        assert journal.records([name]) == [graded(name)]
        assert journal.known(name, "a" * 64, VERSIONS) == graded(name)


def test_threads_share_a_journal(path):
    def write(student):
        for i in range(20):
            journal.record(graded(student, digest=str(i)), VERSIONS)

    with open_journal(path) as journal:
        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert journal.records("abcd") == [graded(name, digest="19") for name in "abcd"]
        assert all(journal.known(name, str(i), VERSIONS) for name in "abcd" for i in range(20))


# One process at a time

HOLDER = """
import subprocess, sys, time
from pathlib import Path
from llm_grader.journal import Journal, graded_questions
with Journal(Path(sys.argv[1]), "reader 1"):
    child = subprocess.Popen(["sleep", "60"])
    print(child.pid, flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_is_gone_even_by_a_kill(path, popen):
    holder = popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True, env=ALONE)
    child = int(holder.stdout.readline())
    with pytest.raises(Refusal, match=f"^{path} is in use by another run of the grader"):
        open_journal(path)
    holder.kill()
    holder.wait()
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
    os.kill(child, 0)  # a process that it started still runs


def test_a_second_journal_in_the_same_process_is_refused_and_the_first_stays_locked(path):
    with open_journal(path) as journal:
        for _ in range(2):
            with pytest.raises(Refusal, match="is in use"):
                open_journal(path)
        journal.record(graded(), VERSIONS)
    open_journal(path).close()


# Killed at any moment

WRITER = """
import sys
from pathlib import Path
from llm_grader.journal import Journal, graded_questions
from llm_grader.records import Mark, SubmissionResult
with Journal(Path(sys.argv[1]), "reader 1") as journal:
    print(journal.seed, flush=True)
    for i in range(int(sys.argv[2]), 10**9):
        marks = [Mark("course/one", float(i), 2.0, "right", feedback="x" * 5000)]
        journal.record(SubmissionResult(f"student {i}", "", "a", "graded", marks=marks), {"course/one": "v1"})
        print(i, flush=True)
"""


def test_every_confirmed_record_is_found_after_a_kill_at_a_random_moment(path, popen):
    moments = random.Random(0)
    confirmed, seeds, next_one = [], set(), 0
    for _ in range(8):
        arguments = [sys.executable, "-c", WRITER, path, str(next_one)]
        writer = popen(arguments, stdout=subprocess.PIPE, text=True, env=ALONE)
        seeds.add(writer.stdout.readline().strip())
        confirmed.append(int(writer.stdout.readline()))
        time.sleep(moments.uniform(0, 0.05))
        writer.kill()
        confirmed += [int(line) for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        next_one = confirmed[-1] + 2  # the one after may have been written without having been confirmed
        with open_journal(path) as journal:
            found = {record.points for record in journal.records(f"student {i}" for i in confirmed)}
            assert found == {float(i) for i in confirmed}
            seeds.add(journal.seed)
    assert len(seeds) == 1


DIES_WHILE_MAKING = """
import os, sqlite3, sys
from pathlib import Path
from llm_grader.journal import Journal, graded_questions
connect, left = sqlite3.connect, int(sys.argv[2])

def trace(statement):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)

def watched(*args, **options):
    db = connect(*args, **options)
    db.set_trace_callback(trace)
    return db

sqlite3.connect = watched
Journal(Path(sys.argv[1]), "reader 1").close()
"""


def test_a_journal_whose_making_was_killed_is_made_by_the_next(tmp_path):
    for statement in range(1, 100):
        path = tmp_path / str(statement)
        made = subprocess.run([sys.executable, "-c", DIES_WHILE_MAKING, path, str(statement)], env=ALONE)
        assert path.stat().st_mode & 0o777 == 0o600
        with open_journal(path) as journal:
            journal.record(graded(), VERSIONS)
            assert len(journal.seed) == 64 and journal.records(["Ada"]) == [graded()]
        if made.returncode == 0:
            break
        assert made.returncode == -signal.SIGKILL
    assert 5 < statement < 99


# Files that are no journal, and disks that are full


def damaged(path):
    with open_journal(path) as journal:
        for i in range(50):
            journal.record(graded(f"student {i}"), VERSIONS)
    return path.read_bytes()


def foreign(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE records (student)")
    db.commit()
    db.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    "content",
    [
        lambda path: b"not a journal",
        lambda path: b"student,points\n" * 1000,
        foreign,
        lambda path: damaged(path)[:9000],
        lambda path: damaged(path)[:4096] + bytes(4096) + damaged(path)[8192:],
        lambda path: damaged(path)[:-4096] + bytes(4096),
        lambda path: damaged(path).replace(b"SQLite format 3", b"SQLite format 9"),
    ],
)
def test_a_file_that_is_no_journal_is_named_and_left_alone(path, content):
    path.write_bytes(content(path))
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(Refusal, match=f"^{path} is .*not a journal of the grader; move it away"):
            open_journal(path)
        assert path.read_bytes() == before


def test_a_journal_of_another_format_is_refused(path):
    open_journal(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 3")
    db.close()
    with pytest.raises(Refusal, match="has format 3, and this version of the grader reads formats 1 to 2"):
        open_journal(path)


def test_a_damaged_record_is_one_sentence(path):
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
    db = sqlite3.connect(path)
    db.execute("""UPDATE records SET record = '{"student": 1}'""")
    db.commit()
    db.close()
    with open_journal(path) as journal, pytest.raises(Refusal, match=f"^{path} is damaged"):
        journal.records(["Ada"])


def test_a_place_that_cannot_be_is_one_sentence(tmp_path):
    with pytest.raises(Refusal, match="missing/journal cannot be opened: No such file"):
        open_journal(tmp_path / "missing" / "journal")
    with pytest.raises(Refusal, match="cannot be opened: Is a directory"):
        open_journal(tmp_path)


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(path):
    large = replace(graded("Bo"), notes=["x" * 100_000])
    with open_journal(path) as journal:
        journal.record(graded(), VERSIONS)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, limits[1]))
        try:
            with pytest.raises(Refusal, match="cannot be read or written: .*; all earlier records are safe"):
                journal.record(large, VERSIONS)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert journal.records(["Ada", "Bo"]) == [graded()]
        journal.record(large, VERSIONS)
    with open_journal(path) as journal:
        assert journal.records(["Ada", "Bo"]) == [graded(), large]
