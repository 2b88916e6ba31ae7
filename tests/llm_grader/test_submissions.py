"""Whatever a learning platform gives becomes one entry per student, and nothing but a regular file is opened."""

import errno
import os
import socket

import pytest

from groundwork import Refusal
from llm_grader.records import NeedsAttention, SubmissionFile
from llm_grader.submissions import find, find_with_layout, load


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "submissions").mkdir()
    return tmp_path / "submissions"


def put(path, text="{}", age=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def only(folder, name="attention"):
    (found,) = find(folder, name)
    return found


# Layouts


def test_folders_and_files_are_taken_in_the_order_of_their_names(folder):
    bela = put(folder / "Béla Tóth_123_assignsubmission_file_" / "exercises.ipynb")
    doe = put(folder / "doejane_LATE_123_456_notebook-1.ipynb")
    anna = put(folder / "anna" / "unpacked" / "deeper" / "work.IPYNB")
    zoe = put(folder / "zoe.ipynb.txt")
    found, layout = find_with_layout(folder)
    assert (
        found
        == find(folder)
        == [
            SubmissionFile("Béla Tóth_123_assignsubmission_file_", bela),
            SubmissionFile("anna", anna),
            SubmissionFile("doejane_LATE_123_456_notebook-1", doe),
            SubmissionFile("zoe", zoe),
        ]
    )
    assert layout == (
        "The name of each folder or file was taken as the name of a student. "
        "1 of 4 names look like those of Moodle, but anna does not. "
        "1 of 4 names look like those of Canvas, but Béla Tóth_123_assignsubmission_file_ does not."
    )


def test_the_folders_of_moodle_say_who_the_student_is(folder):
    bela = put(folder / "Béla Tóth_123_assignsubmission_file_" / "exercises.ipynb")
    put(folder / "Béla Tóth_123_assignsubmission_onlinetext_" / "onlinetext.html")
    snake = put(folder / "Anna_Maria 2_9_assignsubmission_file_" / "a_7_assignsubmission_file_.ipynb")
    found, layout = find_with_layout(folder)
    assert found == [
        SubmissionFile(
            "Anna_Maria 2_9_assignsubmission_file_", snake, name="Anna_Maria 2", platform="Moodle", number="9"
        ),
        SubmissionFile("Béla Tóth_123_assignsubmission_file_", bela, name="Béla Tóth", platform="Moodle", number="123"),
    ]
    assert found[1].entries == [f"Béla Tóth_123_assignsubmission_{kind}_" for kind in ("file", "onlinetext")]
    assert layout == (
        "The names in the folder are those of Moodle: "
        "the name and the participant number of each student were read from them."
    )


def test_the_files_of_moodle_belong_to_one_student(folder):
    put(folder / "Béla Tóth_123_assignsubmission_file_old.ipynb")
    new = put(folder / "Béla Tóth_123_assignsubmission_file_attention.ipynb", age=50)
    put(folder / "Béla Tóth_124_assignsubmission_file_report.pdf")
    first, second = find(folder, "attention")
    assert (first.path, first.name, first.number) == (new, "Béla Tóth", "123")
    assert first.notes == ["There are 2 notebooks of this student; the one named for the assignment counts."]
    assert second.problem.startswith("The file is not a notebook") and second.number == "124"


def test_the_files_of_canvas_say_who_the_student_is_and_which_are_late(folder):
    for name in ("doejane_123_457_work-1.ipynb", "doejane_123_99_work.ipynb", "doejane_123_999_report.pdf"):
        put(folder / name)
    late = put(folder / "müllerk_LATE_7_460_12_34_attention.ipynb")
    found, layout = find_with_layout(folder, "attention")
    last = "There are 2 notebooks of this student; the one handed in last counts."
    marked = "Canvas marks this file as late."
    assert found == [
        SubmissionFile("doejane_123", folder / "doejane_123_457_work-1.ipynb", "", [last], "doejane", "Canvas", "123"),
        SubmissionFile("müllerk_7", late, "", [marked], "müllerk", "Canvas", "7"),
    ]
    assert layout.startswith("The names in the folder are those of Canvas: the name, the user ID and the late mark")


def test_an_anonymous_student_of_canvas_has_no_number(folder):
    late = put(folder / "LATE_anon_x1Y2z_458_attention.ipynb")
    put(folder / "anon_Ab3_459_attention.ipynb")
    assert [(file.student, file.number) for file in find(folder)] == [("anon_Ab3", ""), ("anon_x1Y2z", "")]
    assert find(folder)[1] == SubmissionFile(
        "anon_x1Y2z", late, "", ["Canvas marks this file as late."], "anon_x1Y2z", "Canvas"
    )


@pytest.mark.parametrize("name", ["Anna_12_34_work", "anna maria_12_34_work", "anna_12_work", "anna-12_34_5_work"])
def test_what_only_resembles_a_name_of_canvas_is_taken_as_it_is(folder, name):
    path = put(folder / f"{name}.ipynb")
    assert only(folder) == SubmissionFile(name, path)


def test_the_layout_of_nbgrader_says_which_assignment_is_graded(folder):
    anna = put(folder / "anna" / "attention" / "problem.ipynb", age=50)
    put(folder / "anna" / "tokens" / "attention.ipynb")  # of another assignment, whatever its name and date
    put(folder / "bela" / "tokens" / "problem.ipynb")
    found, layout = find_with_layout(folder, "attention")
    assert found == [
        SubmissionFile("anna", anna, platform="nbgrader", number="anna"),
        SubmissionFile("bela", None, "The student has no folder attention.", platform="nbgrader", number="bela"),
    ]
    assert layout == "The folder has nbgrader's layout: the ID of each student and the folder attention were read."


def test_nbgraders_only_assignment_may_have_another_name_but_one_of_several_is_not_guessed(tmp_path):
    work = put(tmp_path / "submitted" / "anna" / "ps1" / "problem.ipynb")
    found, layout = find_with_layout(tmp_path / "submitted", "attention")
    assert [file.path for file in found] == [work] and "the folder ps1 were read" in layout
    put(tmp_path / "submitted" / "anna" / "ps2" / "problem.ipynb")
    with pytest.raises(Refusal, match="has nbgrader's layout and holds ps1, ps2, but no assignment attention"):
        find(tmp_path / "submitted", "attention")


def test_a_folder_within_each_students_folder_is_not_yet_nbgraders_layout(folder):
    anna = put(folder / "anna" / "unpacked" / "work.ipynb")
    found, layout = find_with_layout(folder, "attention")
    assert found == [SubmissionFile("anna", anna)] and layout.startswith("The name of each folder or file")


def test_what_systems_leave_behind_is_no_submission(folder):
    for name in (
        "__MACOSX/._a.ipynb",
        ".DS_Store",
        "Thumbs.db",
        "desktop.ini",
        ".ipynb_checkpoints/b.ipynb",
        ".c.ipynb",
    ):
        put(folder / name)
    with pytest.raises(Refusal, match="holds no submissions"):
        find(folder)
    real = put(folder / "anna" / "work.ipynb", age=50)
    put(folder / "anna" / ".ipynb_checkpoints" / "work-checkpoint.ipynb")
    put(folder / "anna" / "__MACOSX" / "work.ipynb")
    assert only(folder) == SubmissionFile("anna", real)


@pytest.mark.parametrize(
    "name", ["attention.ipynb", "Attention (1).ipynb", "doe_12_attention-2.ipynb", "attention1.ipynb"]
)
def test_of_several_notebooks_that_of_the_assignments_name_counts(folder, name):
    named = put(folder / "anna" / name, age=50)
    put(folder / "anna" / "inattention.ipynb")
    put(folder / "anna" / "attention_old.ipynb")
    note = "There are 3 notebooks in the folder; the one named for the assignment counts."
    assert only(folder) == SubmissionFile("anna", named, notes=[note])


@pytest.mark.parametrize("names", [["b", "a", "c"], ["attention", "attention-1", "attention (2)"]])
def test_else_the_one_changed_last_counts(folder, names):
    for age, name in enumerate(names):
        put(folder / "anna" / f"{name}.ipynb", age=age)
    note = "There are 3 notebooks in the folder; the one changed last counts."
    assert only(folder) == SubmissionFile("anna", folder / "anna" / f"{names[0]}.ipynb", notes=[note])


def test_a_student_without_a_notebook_is_told_so(folder):
    put(folder / "anna" / "report.pdf")
    (folder / "bela").mkdir()
    put(folder / "carl.py")
    put(folder / "dora/a/b/c/d/e/f/g/h/too_deep.ipynb")
    anna, bela, carl, dora = find(folder)
    assert dora == SubmissionFile("dora", None, "There is no notebook in the folder, only a folder.")
    assert anna == SubmissionFile("anna", None, "There is no notebook in the folder.")
    assert bela == SubmissionFile("bela", None, "There is no notebook in the folder.")
    assert carl == SubmissionFile("carl", None, "The file is not a notebook: its name does not end in .ipynb.")
    with pytest.raises(NeedsAttention, match="There is no notebook in the folder."):
        load(anna, 100)


def test_a_folder_that_is_none_is_refused(folder, tmp_path):
    with pytest.raises(Refusal, match="The folder of submissions .* does not exist"):
        find(folder / "missing")
    with pytest.raises(Refusal, match="holds no submissions"):
        find(folder)
    with pytest.raises(Refusal, match="class.zip is a file.*; unpack it first"):
        find(put(tmp_path / "class.zip"))
    with pytest.raises(Refusal, match="class.ipynb is a file, but a folder of submissions is expected.$"):
        find(put(tmp_path / "class.ipynb"))


# Names

NAMES = {
    "=cmd|'calc'!A0": "=cmd|'calc'!A0",
    "Ünï çødé 学生 🎓": "Ünï çødé 学生 🎓",
    "two\nlines\x1b[31m": "two�lines�[31m",
    "turned\u202eround": "turned�round",
    os.fsdecode(b"latin-\xe9"): "latin-\\udce9",
    "long" * 60: "long" * 60,
}


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("flat", [True, False])
def test_a_name_can_be_stored_and_printed(folder, name, flat):
    path = put(folder / f"{name}.ipynb" if flat else folder / name / "a.ipynb")
    found = only(folder)
    assert found == SubmissionFile(NAMES[name], path)
    found.student.encode()
    assert load(found, 100) == b"{}"


def test_equal_names_are_told_apart(folder):
    put(folder / "anna" / "a.ipynb")
    for name in ("anna.ipynb", "anna.IPYNB", "anna.py", "anna (2).ipynb", "Zoe\u0308.ipynb", "Zo\u00eb.ipynb"):
        put(folder / name)
    students = [found.student for found in find(folder)]
    assert students == ["Zoë", "Zoë (2)", "anna", "anna (2)", "anna (3)", "anna (4)", "anna (5)"]
    assert [found.student for found in find(folder)] == students


# What is no regular file


def link(path, target):
    path.symlink_to(target)


def listen(path, _):
    with socket.socket(socket.AF_UNIX) as s:
        here = os.open(path.parent, os.O_RDONLY)  # a socket's path may be short only
        try:
            s.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


KINDS = {"a link": link, "a named pipe": lambda path, _: os.mkfifo(path), "a socket": listen}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_neither_followed_nor_opened(folder, tmp_path, kind):
    (folder / "bela").mkdir()
    secret = put(tmp_path / "secret.ipynb", "secret")
    for place in (folder / "anna.ipynb", folder / "bela" / "work.ipynb"):
        KINDS[kind](place, secret)
    anna, bela = find(folder)
    assert anna == SubmissionFile("anna", None, f"The submission is {kind}, not a file.")
    assert bela == SubmissionFile("bela", None, f"There is no notebook in the folder, only {kind}.")
    with pytest.raises(NeedsAttention):  # as if it had been put there later
        load(SubmissionFile("anna", folder / "anna.ipynb"), 100)


def test_links_to_folders_are_not_followed(folder, tmp_path):
    put(tmp_path / "other" / "secret.ipynb")
    link(folder / "anna", tmp_path / "other")
    (folder / "bela").mkdir()
    link(folder / "bela" / "inner", tmp_path / "other")
    link(folder / "bela" / "loop", folder)
    anna, bela = find(folder)
    assert anna == SubmissionFile("anna", None, "The submission is a link, not a file.")
    assert bela == SubmissionFile("bela", None, "There is no notebook in the folder, only a link.")


def test_a_real_notebook_beside_a_link_counts(folder, tmp_path):
    real = put(folder / "anna" / "work.ipynb")
    link(folder / "anna" / "attention.ipynb", put(tmp_path / "secret.ipynb"))
    assert only(folder) == SubmissionFile("anna", real)


def test_a_folder_is_not_opened_as_a_file(folder):
    (folder / "anna.ipynb").mkdir()
    assert only(folder) == SubmissionFile("anna.ipynb", None, "There is no notebook in the folder.")
    with pytest.raises(NeedsAttention, match="a folder, not a file"):
        load(SubmissionFile("anna", folder / "anna.ipynb"), 100)


def test_what_may_not_be_read_needs_attention(folder, monkeypatch):
    file = put(folder / "anna.ipynb")
    put(folder / "bela" / "work.ipynb")
    listed = os.scandir

    def scandir(path):
        if path.name == "bela":
            raise PermissionError(errno.EACCES, "said in any words")
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "open", lambda *_: scandir(folder / "bela"))
    anna, bela = find(folder)
    assert anna == SubmissionFile("anna", file)
    assert bela == SubmissionFile("bela", None, "The submission cannot be read: Permission denied.")
    with pytest.raises(NeedsAttention, match="The file cannot be opened: Permission denied."):
        load(anna, 100)


# Loading


def test_a_file_is_loaded_up_to_the_limit(folder):
    found = SubmissionFile("anna", put(folder / "anna.ipynb", "x" * 100))
    assert load(found, 100) == b"x" * 100
    with pytest.raises(NeedsAttention, match="The file is larger than"):
        load(found, 99)


def test_a_large_file_is_refused_before_it_is_read(folder):
    path = put(folder / "anna.ipynb")
    os.truncate(path, 2**40)
    with pytest.raises(NeedsAttention, match="The file is larger than 10 MB: clear the outputs"):
        load(SubmissionFile("anna", path), 10 * 2**20)


def test_a_file_that_says_it_is_smaller_is_read_no_further_than_the_limit():
    with pytest.raises(NeedsAttention, match="The file is larger than"):
        load(SubmissionFile("anna", os.path.join("/proc/self", "smaps")), 100)


def test_a_file_that_has_gone_needs_attention(folder):
    with pytest.raises(NeedsAttention, match="The file cannot be opened: No such file or directory."):
        load(SubmissionFile("anna", folder / "anna.ipynb"), 100)
