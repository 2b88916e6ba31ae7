"""What an assignment provides for students' code (packages, data files), and imports that fail all the same."""

import json
import sys
import textwrap
import zipfile
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import student_notebooks as student

from groundwork import Refusal
from llm_grader import classrun, gradescope, key, missing_modules, provisions
from llm_grader.missing_modules import WatchingContext, names_in
from llm_grader.records import GRADED, Answer, Submission, SubmissionFile
from llm_grader.sandbox.setuid import SetuidSandbox, Unconfined
from llm_grader.sandbox.workdir import provide
from llm_grader.session import WorkerPool

MASTER = '''\
def count_word(word):
    """How often a word occurs in the file."""
    with open("data/texts/story.txt") as file:
        return file.read().split().count(word)


def cases(generator):
    return [{"word": "the"}]


def hidden_cases(generator):
    return [{"word": "a"}, {"word": "end"}]
'''
STORY = b"the end of a story of a day and a night"


@pytest.fixture
def course(tmp_path):
    folder = tmp_path / "week-1"
    (folder / "count").mkdir(parents=True)
    (folder / "count/exercise.md").write_text(
        "---\ntitle: Count\nfunction: count_word\n---\n\n## Statement\n\nCount a word of `data/texts/story.txt`.\n"
    )
    (folder / "count/exercise.py").write_text(MASTER)
    (folder / "chapter.yml").write_text("title: Week 1\n")
    (folder / "data/texts").mkdir(parents=True)
    (folder / "data/texts/story.txt").write_bytes(STORY)
    (folder / "data/.DS_Store").write_bytes(b"")
    (folder / "requirements.txt").write_text("# for tables\npandas>=1  # any will do\n\nno-such-package\n")
    return folder


# The key, the notebook and the zip


def test_the_key_holds_packages_and_data_and_its_versions_depend_on_them(course, tmp_path):
    made = key.load(course)
    assert (made.requirements, made.data) == (["pandas>=1", "no-such-package"], {"texts/story.txt": STORY})
    (tmp_path / "key.json").write_text(key.to_json(made))
    assert key.load(tmp_path / "key.json") == made
    versions = {made.questions[0].version}
    (course / "data/texts/story.txt").write_bytes(STORY + b".")
    versions.add(key.load(course).questions[0].version)
    (course / "requirements.txt").unlink()
    versions.add(key.load(course).questions[0].version)
    assert len(versions) == 3


def test_a_key_without_them_is_as_it_was():
    made = key.load("attention")
    assert set(json.loads(key.to_json(made))) == {"keyed", "name", "title", "questions"}
    assert made.questions[0].version == key._with_version(made.questions[0]).version


@pytest.mark.parametrize("line", ["-r other.txt", "--index-url https://x.example", "pandas = 2", "two words"])
def test_what_is_no_requirement_is_refused_with_its_line(course, line):
    (course / "requirements.txt").write_text(f"pandas\n{line}\n")
    with pytest.raises(Refusal, match="week-1/requirements.txt: line 2 is "):
        key.load(course)


def test_data_that_is_too_large_or_elsewhere_is_refused(course, monkeypatch):
    (course / "data/link.txt").symlink_to("/etc/hostname")
    with pytest.raises(Refusal, match="week-1/data/link.txt is a link"):
        key.load(course)
    (course / "data/link.txt").unlink()
    monkeypatch.setattr(provisions, "MAX_DATA_BYTES", len(STORY) - 1)
    with pytest.raises(Refusal, match="week-1/data holds 0.0 MiB"):
        key.load(course)


def test_a_key_file_cannot_name_files_elsewhere(course, tmp_path):
    content = json.loads(key.to_json(key.load(course)))
    for name in ("../x", "/x", "a/../../x"):
        (tmp_path / "key.json").write_text(json.dumps(content | {"data": {name: ""}}))
        with pytest.raises(Refusal, match="is not a complete key"):
            key.load(tmp_path / "key.json")


def test_the_notebook_says_what_may_be_imported_and_comes_with_the_data(course, tmp_path):
    paths = key.build(course, tmp_path / "out")
    assert [path.name for path in paths] == ["week-1.ipynb", "week-1.key.json", "data"]
    assert (paths[2] / "texts/story.txt").read_bytes() == STORY
    notebook = nbformat.read(paths[0], as_version=4)
    nbformat.validate(notebook)
    cells = {cell.id: cell.source for cell in notebook.cells}
    assert cells["install-packages"] == "%pip install -q 'pandas>=1' no-such-package"
    assert "in this assignment `pandas>=1`, `no-such-package`" in cells["what-may-be-imported"]
    assert "PyTorch" in cells["what-may-be-imported"] and "`data/texts/story.txt`" in cells["what-may-be-imported"]
    (course / "requirements.txt").unlink()
    with_data = nbformat.read(key.build(course, tmp_path / "data")[0], as_version=4)
    assert "install-packages" not in [cell.id for cell in with_data.cells]


def test_the_packages_that_the_notebook_names_are_those_of_the_requirements():
    named = [line.partition(">")[0] for line in provisions.REQUIREMENTS.read_text().splitlines() if line[:1] != "#"]
    known = {name: package for package, name in provisions.NAMES.items()}
    found = [known.get(name, name) for name in provisions.base_packages()]
    assert "torch" in found and len(found) > 3 and set(found) <= set(named)


def test_the_zip_installs_the_packages_and_holds_the_data(course, tmp_path):
    with zipfile.ZipFile(gradescope.write_zip(str(course), tmp_path / "a.zip")) as packed:
        assert packed.read("requirements.txt").decode().endswith("\npandas>=1\nno-such-package\n")
        (tmp_path / "key.json").write_bytes(packed.read("key.json"))
    assert key.load(tmp_path / "key.json").data == {"texts/story.txt": STORY}


# Before a class is graded


def test_what_is_not_installed_is_named_with_the_command_before_anything_runs(course, tmp_path, confined, monkeypatch):
    monkeypatch.setattr(classrun, "WorkerPool", lambda *given: pytest.fail("a worker was started"))
    (tmp_path / "class").mkdir()
    (tmp_path / "class/Ada.ipynb").write_bytes(student.data(student.blank()))
    (course / "requirements.txt").write_text("numpy\nno-such-package>=2\ntorch>=99\ntorch>99; python_version<'3'\n")
    with pytest.raises(Refusal) as refusal:
        classrun.grade(tmp_path / "class", key.load(course), tmp_path / "marks", confined, [])
    assert f"{sys.executable} -m pip install 'no-such-package>=2' 'torch>=99'`" in str(refusal.value)
    assert "(no-such-package>=2, torch>=99)" in str(refusal.value)


def test_what_cannot_be_imported_in_the_sandbox_is_refused(context, monkeypatch):
    made = context("attention", "hard_lookup")
    assert missing_modules.check_imports(made, []) == []
    assert missing_modules.check_imports(made, ["numpy"]) == []
    monkeypatch.setattr(provisions, "modules_of", lambda line: ["absent_one"])
    with pytest.raises(Refusal, match="broken is installed, but students' code cannot import absent_one"):
        missing_modules.check_imports(made, ["broken"])


def test_the_modules_of_a_package_are_found_by_any_spelling_of_its_name():
    assert provisions.modules_of("NBformat>=5") == ["nbformat"]
    assert "yaml" in provisions.modules_of("pyyaml")


# Data in the sandbox


def sandboxes(confined):
    """The sandbox of this machine, and one that shows workers the grader's work folder, which the others do as well."""
    yield confined
    yield Unconfined() if SetuidSandbox().unavailable_reason() else SetuidSandbox()


def test_code_finds_the_data_where_the_notebook_does_and_cannot_change_it(context, confined):
    made = context("attention", "hard_lookup")
    question = made.prepared[0].question
    right = textwrap.indent(question.solution, 8 * " ")
    cell = f"""
with open("data/texts/story.txt") as file:
    text = file.read()
try:
    open("data/texts/story.txt", "w").write("")
except OSError:
    if text == {STORY.decode()!r}:
{right}
"""
    provide({"texts/story.txt": STORY})
    try:
        for sandbox in sandboxes(confined):
            with WorkerPool(sandbox, classrun.LIMITS, n_spares=0) as pool:
                marks = {}
                replace(made, pool=pool).complete(
                    Submission([cell], {question.id: Answer(0, question.function, True)}), marks
                )
            assert marks[question.id].category == "right", sandbox.name
    finally:
        provide({})
    with WorkerPool(confined, classrun.LIMITS, n_spares=0) as pool:
        replace(made, pool=pool).complete(
            Submission([cell], {question.id: Answer(0, question.function, True)}), marks := {}
        )
    assert marks[question.id].category == "no answer"


# Imports that fail


@pytest.fixture
def run(context):
    """Runs cells, the last of which answers a question of two, and returns its mark, and the notes and flags."""

    def run(*cells):
        made = context("attention", "hard_lookup")
        watching = WatchingContext.of(made)
        question = made.prepared[0].question
        submission = Submission(list(cells), {question.id: Answer(len(cells) - 1, question.function, True)})
        watching.complete(submission, marks := {})
        return marks[question.id], *watching.remarks(submission, marks.values())

    run.question = context("attention", "hard_lookup").prepared[0].question
    run.arguments = ", ".join(run.question.arguments)
    return run


def test_a_missing_module_that_costs_points_is_named_for_a_person(run):
    answer = f"def {run.question.function}({run.arguments}):\n    "
    cases = {
        "in a cell": ("from absent_one.special import softmax", f"{answer}return softmax(1)"),
        "behind an error in the same cell": ("1 / 0\nimport absent_one", f"{answer}return absent_one.softmax(1)"),
        "in the answer": ("pass", f"{answer}import absent_one\n    return 1"),
        "in the answer's decorator": (f"import absent_one\n\n@absent_one.jit\n{answer}return 1",),
        "behind an error of another kind": (
            "def load():\n    try:\n        import absent_one\n    except ImportError as e:\n"
            "        raise RuntimeError('install it') from e",
            f"{answer}return load()",
        ),
        "and then the answer ends its process": ("import absent_one", f"{answer}import os\n    os._exit(0)"),
    }
    for name, cells in cases.items():
        mark, notes, flags = run(*cells)
        assert mark.points == 0, name
        assert [flag.partition(".")[0] for flag in flags] == ["Imports failed: absent_one"], name
        assert notes == ["The notebook imports absent_one, which is not installed where it was graded."], name


def test_a_module_that_only_the_running_code_names_is_named_for_the_instructor(run):
    answer = f"def {run.question.function}({run.arguments}):\n    return softmax(1)"
    _, notes, flags = run("softmax = __import__('absent_one').softmax", answer)
    assert flags[0].startswith("Imports failed: absent_one. ") and notes == []


def test_a_failed_import_that_costs_nothing_is_not_mentioned(run):
    guarded = "try:\n    import absent_one\nexcept ImportError:\n    absent_one = None"
    wrong = f"def {run.question.function}({run.arguments}):\n    return 0"
    assert run("import absent_one", run.question.solution)[1:] == ([], [])
    assert run(guarded, wrong)[1:] == ([], [])
    assert run("from google.colab import drive", wrong)[1:] == ([], [])


def test_no_hidden_input_leaves_the_sandbox_in_the_name_of_a_module(run):
    """The instructor may read it, the student may not."""
    lies = "raise ModuleNotFoundError(name='hidden_input_17')"
    _, notes, flags = run(f"def {run.question.function}({run.arguments}):\n    {lies}")
    assert flags and notes == []


def test_malformed_messages_name_nothing():
    messages = [None, 3, {"missing": 3}, {"missing": [3, ["x"], "a b", "x" * 61, "../y", "é"]}, {"missing": None}]
    assert names_in(messages) == set()
    assert names_in([*messages, {"missing": ["sklearn.svm"]}]) == {"sklearn"}


def test_errors_that_lie_about_themselves_are_only_looked_at():
    from llm_grader.worker.cells import failed_imports

    class Lying(ImportError):
        name = property(lambda self: pytest.fail("called"))
        __cause__ = property(lambda self: pytest.fail("called"))

    loop = ValueError()
    loop.__context__ = other = ModuleNotFoundError(name="absent_one")
    other.__context__ = Lying("x")
    other.__context__.__context__ = loop
    assert failed_imports(loop) == ["absent_one"]


def test_the_record_of_a_submission_has_the_flag(context, tmp_path):
    notebook = student.filled("hard_lookup")
    student.edit(notebook, "hard_lookup", "    return ", "    return absent_one.softmax, ")
    student.add(notebook, "import absent_one", at=1)
    path = tmp_path / "Ada.ipynb"
    path.write_bytes(student.data(notebook))
    made = context("attention", "hard_lookup")
    assignment = replace(key.load("attention"), questions=[each.question for each in made.prepared])
    file = SubmissionFile("Ada", path)
    record = classrun.grade_submission(file, tmp_path, assignment, made, None, tmp_path / "marks")
    assert (record.status, record.points) == (GRADED, 0)
    assert any(flag.startswith("Imports failed: absent_one. ") for flag in record.flags)
    assert any("imports absent_one, which is not installed" in note for note in record.notes)


def test_the_folder_of_data_is_no_question(course):
    assert [question.id for question in key.load(course).questions] == ["week-1/count"]
    assert not Path("data").exists()  # nothing is left in the current folder
