"""Whatever a learning platform gives becomes one entry per student, and nothing but a regular file is opened."""

import errno
import os
import socket
import zipfile

import pytest
from student_notebooks import blank, data, filled, key

from groundwork import Refusal
from llm_grader import submissions
from llm_grader.records import NeedsAttention, SubmissionFile
from llm_grader.submissions import NO_NOTEBOOK, choose, find, find_with_layout, load


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


@pytest.mark.parametrize("end", ["", "_"], ids=["since 4.1", "before"])
def test_the_folders_of_moodle_say_who_the_student_is(folder, end):
    bela = put(folder / f"Béla Tóth_123_assignsubmission_file{end}" / "exercises.ipynb")
    put(folder / f"Béla Tóth_123_assignsubmission_onlinetext{end}" / "onlinetext.html")
    blind = put(folder / f"Participant_9_assignsubmission_file{end}" / "a_7_assignsubmission_file_.ipynb")
    team = put(folder / f"Default group_assignsubmission_file{end}" / "a.ipynb")
    found, layout = find_with_layout(folder)
    key = "Béla Tóth_123_assignsubmission_file_"
    assert found == [
        SubmissionFile(key, bela, name="Béla Tóth", platform="Moodle", number="123"),
        SubmissionFile("Default group", team, name="Default group", platform="Moodle"),
        SubmissionFile("Participant_9_assignsubmission_file_", blind, "", [], "Participant", "Moodle", "9"),
    ]
    assert found[0].entries == [f"Béla Tóth_123_assignsubmission_{kind}{end}" for kind in ("file", "onlinetext")]
    assert layout == (
        "The names in the folder are those of Moodle: "
        "the name and the participant number of each student were read from them."
    )


def test_what_a_student_writes_never_says_whose_work_it_is(folder):
    """The last part of a name is the student's, whatever it looks like."""
    names = {
        "Ada Lovelace_123_assignsubmission_file_hw1.ipynb": "123",
        "Bob Roe_124_assignsubmission_file_x_123_assignsubmission_file_hw1.ipynb": "124",
        "Eve_125_assignsubmission_file_Ada Lovelace_123_assignsubmission_file_hw1.ipynb": "125",
    }
    for name in names:
        put(folder / name)
    assert {file.path.name: file.number for file in find(folder)} == names


def test_the_files_of_moodle_belong_to_one_student(folder):
    old = put(folder / "Béla Tóth_123_assignsubmission_file_old.ipynb")
    new = put(folder / "Béla Tóth_123_assignsubmission_file_attention.ipynb", age=50)
    put(folder / "Béla Tóth_124_assignsubmission_file_report.pdf")
    first, second = find(folder, "attention")
    assert (first.path, first.name, first.number) == (None, "Béla Tóth", "123")
    assert sorted(each.path for each in first.candidates) == [new, old]
    assert second.problem.startswith("The file is not a notebook") and second.number == "124"


def test_the_files_of_canvas_say_who_the_student_is_and_which_are_late(folder):
    for name in ("doejane_123_457_work-1.ipynb", "doejane_123_99_work.ipynb", "doejane_123_999_report.pdf"):
        put(folder / name)
    for name in ("doejane_123_text.html", "roe_LATE_8_link.html"):
        put(folder / name)
    late = put(folder / "müllerk_LATE_7_460_12_34_attention.ipynb")
    found, layout = find_with_layout(folder, "attention")
    marked = "Canvas marks this file as late."
    about = {"platform": "Canvas"}
    assert found == [
        SubmissionFile("doejane_123", None, name="doejane", number="123", **about),
        SubmissionFile("müllerk_7", late, "", [marked], "müllerk", number="7", **about),
        SubmissionFile("roe_8", None, NO_NOTEBOOK, [marked], "roe", number="8", **about),
    ]
    assert [each.order for each in found[0].candidates] == [457, 99]
    assert layout.startswith("The names in the folder are those of Canvas: the name, the user ID and the late mark")


@pytest.mark.parametrize("word", ["attempt", "intento", "Versuch", "尝试"])
def test_the_attempts_of_blackboard_are_those_of_one_student(folder, word):
    first, last = f"{word}_2026-01-02-10-00-00", f"{word}_2026-01-02-11-30-00"
    for when in (first, last):
        put(folder / f"Week_1_ada_b_{when}_hw1.ipynb")
        put(folder / f"Week_1_ada_b_{when}.txt", "Name: Ada Byron (ada_b)\nName: Bob (bob)\n")
    bob = put(folder / f"Week_1_bob_{first}_Week_1_ada_b_{last}.txt.ipynb")
    found, layout = find_with_layout(folder)
    assert [(file.student, file.name, file.number) for file in found] == [
        ("Week_1_bob", "Week_1_bob", ""),  # without the text, nobody knows where his login begins
        ("ada_b", "Ada Byron", "ada_b"),
    ]
    assert [each.order for each in found[1].candidates] == [20260102100000, 20260102113000]
    assert found[0].path == bob and layout.startswith("The names in the folder are those of Blackboard")


def test_a_student_of_canvas_does_not_turn_the_class_into_another_platforms(folder):
    for name in ("ada_9_12_hw.ipynb", "bob_8_13_hw.ipynb", "cyd_6_14_hw.ipynb"):
        put(folder / name)
    for end in ("_a.ipynb", ".txt", "_b.ipynb", "_c.ipynb"):
        put(folder / f"eve_7_15_ada_attempt_2026-01-02-10-00-00{end}", "Name: Ada (ada)\n")
    found, layout = find_with_layout(folder)
    assert [file.number for file in found] == ["9", "8", "6", "7"] and "those of Canvas" in layout


def test_a_canvas_name_that_can_be_read_in_two_ways_takes_nobodys_row(folder):
    put(folder / "eve_123_55_9001_hw.ipynb")  # eve_123 has the ID 55, or eve has the ID 123
    assert [(file.student, file.number) for file in find(folder)] == [("eve_123_55_9001_hw", "")]
    for name in ("ada_123_9002_hw.ipynb", "bob_8_9003_12_34_x.ipynb"):  # file IDs have as many digits
        put(folder / name)
    assert [(file.name, file.number) for file in find(folder)] == [("ada", "123"), ("bob", "8"), ("eve_123", "55")]


def test_two_students_with_one_id_on_gradescope_are_two(folder):
    lines = ["---"]
    for number, person in enumerate(("Ada", "Eve", "")):
        put(folder / f"submission_{number}" / "hw1.ipynb")
        sid = "'007'" if person else ""
        lines += [f"submission_{number}:", "  :submitters:", f"  - :name: {person}", f"    :sid: {sid}"]
        lines += [f"    :email: {person and person.lower() + '@example.org'}", "  :score: 1.0"]
    put(folder / "submission_metadata.yml", "\n".join([*lines, ""]))
    found, _ = find_with_layout(folder)
    assert [(file.student, file.number) for file in found] == [
        ("ada@example.org", ""),
        ("eve@example.org", ""),
        ("submission_2", ""),
    ]
    hostile = "submission_0:\n  :submitters:\n  - :name: !!timestamp x\n  :results:\n    output: '*a'\n"
    put(folder / "submission_metadata.yml", hostile)
    assert [file.student for file in find(folder)][:3] == ["submission_0", "submission_1", "submission_2"]


def test_gradescopes_export_says_whose_a_submission_is(folder):
    for number in (11, 12, 13):
        put(folder / f"submission_{number}" / "hw1.ipynb")
    put(
        folder / "submission_metadata.yml",
        """---
submission_11:
  :submitters:
  - :name: Ada Byron
    :sid: '007'
    :email: ada@example.org
  :created_at: 2026-01-02 10:00:00.000000000 Z
  :results: !ruby/hash:ActiveSupport::HashWithIndifferentAccess
    output: ':submitters:'
submission_12:
  :submitters:
  - :name: Bob Roe
    :sid:
    :email: bob@example.org
  - :name: Eve Poe
    :sid: '9'
    :email: eve@example.org
""",
    )
    found, layout = find_with_layout(folder)
    assert [(file.student, file.name, file.number) for file in found] == [
        ("007", "Ada Byron", "007"),
        ("bob@example.org, 9", "Bob Roe, Eve Poe", ""),
        ("submission_13", "", ""),
    ]
    assert layout == (
        "The names in the folder are those of Gradescope's export: the names and IDs of the submitters in "
        "submission_metadata.yml were read from them. Graded under their own names: submission_13."
    )


def test_a_stray_file_does_not_switch_a_layout_off_and_is_named(folder):
    put(folder / "Ada_1_assignsubmission_file_" / "a.ipynb")
    put(folder / "Bob_2_assignsubmission_file_" / "a.ipynb")
    put(folder / "notes.txt")
    mailed = put(folder / "by mail.ipynb")
    found, layout = find_with_layout(folder)
    assert [(file.student, file.platform, file.number) for file in found] == [
        ("Ada_1_assignsubmission_file_", "Moodle", "1"),
        ("Bob_2_assignsubmission_file_", "Moodle", "2"),
        ("by mail", "Moodle", ""),
    ]
    assert found[2].path == mailed
    assert layout.endswith("Graded under their own names: by mail.ipynb. Left over, and not graded: notes.txt.")


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


# Of several notebooks


def notebooks(folder, **contents):
    """Ada's notebooks by their names; the blank one is what was handed out."""
    made = {"blank": blank, "one": lambda: filled("hard_lookup"), "other": lambda: filled("stable_softmax")}
    for name, content in contents.items():
        put(folder / "ada" / f"{name}.ipynb", data(made[content]()).decode())
    return choose(only(folder), key())


@pytest.mark.parametrize(
    "contents",
    [
        {"attention": "blank", "ada_solution": "one"},
        {"zz": "blank", "Copy of attention": "one"},
        {"attention": "one", "attention (1)": "blank"},
    ],
)
def test_the_notebook_with_answers_counts_whatever_the_names_are(folder, contents):
    found = notebooks(folder, **contents)
    assert contents[found.path.stem] == "one"
    assert found.notes == ["There are 2 notebooks of this student; the only one with answers counts."]


def test_of_different_answers_a_person_chooses_and_of_equal_ones_nobody_has_to(folder, tmp_path):
    found = notebooks(folder, first="one", final="other", handout="blank")
    assert found.path is None and "2 notebooks with different answers" in found.problem
    assert "final.ipynb" in found.problem and "first.ipynb" in found.problem and "handout" not in found.problem
    with pytest.raises(NeedsAttention, match="Keep one of them"):
        load(found, 100)
    (tmp_path / "class").mkdir()
    assert notebooks(tmp_path / "class", first="one", final="one").path
    longer = filled("hard_lookup")
    longer["cells"] += [{"cell_type": "code", "source": text} for text in ("", "hard_lookup?", "!pip install x")]
    put(tmp_path / "class" / "ada" / "with more cells.ipynb", data(longer).decode())
    assert choose(only(tmp_path / "class"), key()).path


def test_the_last_one_with_answers_that_the_platform_received_counts(folder):
    for number, content in ((5, filled("hard_lookup")), (30, filled("stable_softmax")), (200, blank())):
        put(folder / f"ada_7_{number}_a.ipynb", data(content).decode(), age=number)
    found = choose(only(folder), key())
    assert found.path.name == "ada_7_30_a.ipynb"
    assert found.notes == ["There are 3 notebooks of this student; the one handed in last counts."]


def test_a_notebook_that_cannot_be_read_may_be_the_one_that_counts(folder):
    put(folder / "ada" / "a.ipynb", "{no JSON")
    put(folder / "ada" / "b.ipynb", data(blank()).decode())
    assert choose(only(folder), key()).problem.startswith("One of 2 notebooks of this student cannot be read: The file")
    put(folder / "ada" / "b.ipynb", data(filled("hard_lookup")).decode())
    assert choose(only(folder), key()).path is None
    os.remove(folder / "ada" / "a.ipynb")
    (folder / "ada" / "work.zip").write_bytes(b"PK damaged")
    assert choose(only(folder), key()).problem.endswith("The zip archive cannot be read; hand in the notebook alone.")


def test_an_unreadable_upload_before_the_one_that_counts_and_another_notebook_do_not_matter(folder):
    other = data({"cells": [{"cell_type": "code", "source": "x = 1"}], "nbformat": 4, "nbformat_minor": 5}).decode()
    for number, content in ((9, "{no JSON"), (10, data(filled("hard_lookup")).decode()), (11, other)):
        put(folder / f"ada_7_{number}_a.ipynb", content)
    assert choose(only(folder), key()).path.name == "ada_7_10_a.ipynb"
    (folder / "ada_7_12_work.zip").write_bytes(b"PK damaged")
    assert "cannot be read: The zip archive" in choose(only(folder), key()).problem


def test_too_many_notebooks_are_not_opened(folder):
    for number in range(30):
        put(folder / "ada" / f"{number}.ipynb")
    assert choose(only(folder), key()).problem == "There are more than 20 notebooks of this student."


# Zip archives


def zipped(path, compression=zipfile.ZIP_DEFLATED, **members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("place", ["ada.zip", "ada/hw1.ZIP", "Ada_1_assignsubmission_file_hw.zip"])
def test_a_zip_archive_is_read_without_being_unpacked(folder, place):
    path = zipped(folder / place, **{"/up/a.ipynb": "{}", "__MACOSX/a.ipynb": "1", "../b.ipynb": "2", "c.txt": "3"})
    found = only(folder)
    assert (found.path, found.member) == (path, "/up/a.ipynb") and load(found, 100) == b"{}"
    assert [*folder.parent.iterdir()] == [folder]


def test_of_several_notebooks_in_an_archive_the_one_with_answers_counts(folder):
    zipped(folder / "ada.zip", **{"a.ipynb": data(blank()), "work/b.ipynb": data(filled("hard_lookup"))})
    found = choose(only(folder), key())
    assert found.member == "work/b.ipynb" and load(found, 10**7) == data(filled("hard_lookup"))


def test_a_hostile_archive_is_one_sentence(folder, monkeypatch):
    monkeypatch.setattr(submissions, "MAX_FILES", 20)
    zipped(folder / "many.zip", **{f"{n}.txt": "" for n in range(21)})
    zipped(folder / "bomb.zip", **{"a.ipynb": b" " * 10**7})
    zipped(folder / "lzma.zip", zipfile.ZIP_LZMA, **{"a.ipynb": "{}"})
    put(folder / "broken.zip", "PK")
    zipped(folder / "deep.zip", **{"a/b/c/d/e/f.ipynb": "{}"})
    damaged = zipped(folder / "damaged.zip", **{"a.ipynb": "{}" * 500})
    damaged.write_bytes(damaged.read_bytes().replace(b"a.ipynb", b"b.ipynb", 1))
    locked = zipped(folder / "locked.zip", **{"a.ipynb": "{}"})
    content = bytearray(locked.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1  # as if it had a password
    locked.write_bytes(content)
    far = zipped(folder / "far.zip", **{"a.ipynb": "{}"})  # begins 2**63 bytes on, says an entry of zip64
    with zipfile.ZipFile(far, "w") as archive:
        entry = zipfile.ZipInfo("a.ipynb")
        archive.writestr(entry, "{}")
        entry.header_offset, entry.extra = 2**63, b""
    told = {}
    for file in find(folder):
        with pytest.raises(NeedsAttention) as problem:
            load(file, 10**6)
        told[file.student] = str(problem.value)
    assert told == {
        "many": "The zip archive holds more than 20 files; hand in the notebook alone.",
        "bomb": "The file is larger than 0.953674 MB: clear the outputs, save the notebook and hand it in again.",
        "lzma": "The zip archive is compressed in an unusual way; hand in the notebook alone.",
        "broken": "The zip archive cannot be read; hand in the notebook alone.",
        "deep": "There is no notebook in the zip archive.",
        "damaged": "The zip archive cannot be read; hand in the notebook alone.",
        "locked": "The zip archive has a password; hand in the notebook alone.",
        "far": "The zip archive cannot be read; hand in the notebook alone.",
    }
    monkeypatch.setattr(submissions, "MAX_ARCHIVE", 10)
    assert "larger than" in find(folder)[0].problem


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
