"""Whatever a learning platform gives becomes one entry per student, and nothing but a regular file is opened."""

import errno
import os
import socket

import pytest

from groundwork import Refusal
from llm_grader.records import NeedsAttention, SubmissionFile
from llm_grader.submissions import find, load


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
    assert find(folder) == [
        SubmissionFile("Béla Tóth_123_assignsubmission_file_", bela),
        SubmissionFile("anna", anna),
        SubmissionFile("doejane_LATE_123_456_notebook-1", doe),
        SubmissionFile("zoe", zoe),
    ]


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
    anna, bela, carl = find(folder)
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
