"""A key holds all that grading needs; what the student gets holds nothing of it, and works from one file."""

import base64
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zlib
from dataclasses import asdict
from pathlib import Path

import nbformat
import pytest
from editing import edit

from bookbinder import ROOT
from bookbinder.masters import load, load_chapter
from groundwork import Refusal
from llm_anatomy.notebook import checks
from llm_anatomy.notebook.outcomes import agree, encode
from llm_grader import key

COURSE = Path(__file__).parent / "course"
NAMES = ["gated_feedforward", "cached_step", "train_bigram", "encode_words"]
MASTERS = {master.folder.name: master for master in load_chapter(COURSE)[1]}


@pytest.fixture
def course(tmp_path):
    """A copy of the private course, to be changed."""
    shutil.copytree(COURSE, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "course"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The two files that are built of the private course."""
    return key.build(COURSE, tmp_path_factory.mktemp("built"))


def by_name(folder):
    return {question.id.partition("/")[2]: question for question in key.load(folder).questions}


# What the course promises


def seen(master, answer):
    """What the grader sees of an answer in the hidden cases: what is compared in place of it, and each probe."""
    probes = master.run()
    _, observe = checks.defined(master.checks)
    for case in master.cases("hidden_cases"):
        arguments = [case[name] for name in master.arguments]
        if "call" in probes:
            found = probes["call"](answer, *arguments)
        else:
            found = answer(*arguments)
            found = observe(found, *arguments) if observe else found
        yield [encode(thing) for thing in (found, *(probes[name](answer, *arguments) for name in master.probes))]


@pytest.mark.parametrize("name", NAMES)
def test_hidden_cases_and_probes_catch_each_mistake(name):
    master = MASTERS[name]
    right = list(seen(master, master.right()[master.function]))
    again = list(seen(master, master.right()[master.function]))
    assert all(agree(a, b) for one, two in zip(right, again, strict=True) for a, b in zip(one, two, strict=True))
    for mistake in master.wrong().values():
        pairs = zip(right, seen(master, mistake), strict=True)
        assert not all(agree(a[0], b[0]) for a, b in pairs), mistake


# The key


def test_a_chapter_of_the_book_by_its_name():
    loaded = key.load("attention")
    assert loaded == key.load(ROOT / "exercises/attention")
    assert (loaded.name, loaded.title, len(loaded.questions)) == ("attention", "attention", 9)
    first, softmax = loaded.questions[:2]
    assert (first.id, first.function, first.tag) == ("attention/hard_lookup", "hard_lookup", "exercise-hard_lookup")
    assert first.arguments == ["queries", "keys", "values"]
    assert (first.points, first.seconds, first.probes, first.forbidden) == (1, 2, "", [])
    assert first.tolerance == {"rtol": 1e-4, "atol": 1e-5}
    assert "torch.softmax" in softmax.forbidden
    assert "argmax(dim=-1)" in first.solution and "negative" in first.hidden and "cdist" in first.mistakes
    assert first.sentences["worst_fit"].startswith("You pick the key that fits worst.")
    assert "property_order_of_entries" in first.checks
    assert "def probe_causality" in loaded.questions[6].probes


def test_cells_of_the_book_are_those_that_students_have():
    notebook = json.loads((ROOT / "book/attention/exercises.ipynb").read_text(encoding="utf-8"))
    ids = {cell["id"]: cell for cell in notebook["cells"]}
    for question in key.load("attention").questions:
        assert ids[question.cell]["metadata"]["tags"] == [question.tag]


def test_a_book_notebook_that_is_not_fresh_is_refused(tmp_path, monkeypatch):
    changed = tmp_path / "book.ipynb"
    shutil.copy(ROOT / "book/attention/exercises.ipynb", changed)
    monkeypatch.setattr(key, "_book_notebook", lambda chapter: changed)
    key.load("attention")
    edit(changed, "def split_heads", "def split")
    with pytest.raises(
        Refusal,
        match="The exercise attention/split_heads in book/attention/exercises.ipynb differs from its master; run",
    ):
        key.load("attention")
    changed.unlink()
    with pytest.raises(Refusal, match="The exercise attention/hard_lookup .* differs"):
        key.load("attention")


def test_a_private_course():
    questions = by_name(COURSE)
    assert list(questions) == NAMES
    assert [question.points for question in questions.values()] == [4, 2, 3, 1]
    assert [question.seconds for question in questions.values()] == [2, 2, 20, 2]
    assert questions["gated_feedforward"].tolerance == {"rtol": 1e-3, "atol": 1e-4}
    has = {name: (each.observed, each.calls, each.gradients) for name, each in questions.items() if each.observed}
    assert has == {"gated_feedforward": (True, True, False), "train_bigram": (True, False, False)}
    assert questions["cached_step"].id == "course/cached_step"


def test_words_in_a_source_are_not_what_it_defines(course):
    said = r'\1    """Neither def observe(returned, text) nor def property_gradient(answer, generator)."""\n'
    edit(course / "encode_words" / "exercise.py", r"(def property_\w+\(answer, generator\):\n)", said)
    question = by_name(course)["encode_words"]
    assert "def observe(" in question.checks and "def property_gradient" in question.checks
    assert not question.observed and not question.gradients


def test_a_key_is_known_without_pytorch():
    script = f"""
import sys
sys.modules["torch"] = sys.modules["llm_anatomy"] = None
from llm_grader import key
assert len(key.load({str(COURSE)!r}).questions) == 4
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr


CAN_CHANGE_A_MARK = {
    "exercise.md": ("^points: 4", "points: 5"),
    "the solution": ("silu\\(self", "2 * silu(self"),
    "mistakes.py": ("gelu\\(gate\\)", "gelu(up)"),
    "what is observed": ("torch.linspace\\(-2", "torch.linspace(-1"),
    "hidden cases": ("matrices\\(6, 7\\)", "matrices(6, 8)"),
    "probes": ("tensor \\+ 1", "tensor + 2"),
}


@pytest.mark.parametrize("what", CAN_CHANGE_A_MARK)
def test_the_version_changes_with_all_that_can_change_a_mark(course, what):
    before = by_name(course)
    file = what if "." in what else "exercise.py"
    edit(course / "gated_feedforward" / file, *CAN_CHANGE_A_MARK[what])
    after = by_name(course)
    assert [name for name in NAMES if before[name].version != after[name].version] == ["gated_feedforward"]


def test_the_version_stays_when_words_change(course):
    before = by_name(course)
    edit(course / "gated_feedforward/exercise.md", "^title: A gated", "title: The gated")
    edit(course / "gated_feedforward/exercise.md", "Return a module", "Give back a module")
    edit(course / "chapter.yml", "its own", "ours")
    assert [q.version for q in by_name(course).values()] == [q.version for q in before.values()]


def test_what_is_no_key_is_refused(tmp_path, course):
    with pytest.raises(Refusal, match=r"no chapter, folder or key atention; did you mean attention\? .* are absolute_"):
        key.load("atention")
    with pytest.raises(Refusal, match="holds no chapter.yml, so there are no questions .* Its subfolders course do"):
        key.load(tmp_path)
    with pytest.raises(Refusal, match="chapter.yml is not a key file; name a chapter"):
        key.load(course / "chapter.yml")
    edit(course / "cached_step/exercise.md", "^title: [^\n]*\n", "")
    with pytest.raises(Refusal, match="course/cached_step/exercise.md: the field title is missing"):
        key.load(course)


# What is built


def test_a_key_survives_being_written_down(built):
    assert key.load(built[1]) == key.load(COURSE)


def test_the_key_is_for_its_owner_alone(tmp_path):
    (tmp_path / "private").mkdir(mode=0o755)
    (tmp_path / "private/course.key.json").touch(mode=0o644)
    _, private = key.build(COURSE, tmp_path)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in private.parent.iterdir()) == ["course.key.json"]


def test_a_key_of_another_form_or_without_a_part_is_refused(built, tmp_path):
    content = json.loads(built[1].read_text(encoding="utf-8"))
    path = tmp_path / "other.key.json"
    path.write_text(json.dumps(content | {"keyed": 2}), encoding="utf-8")
    with pytest.raises(Refusal, match="other.key.json has key format 2, and this grader reads only 3; build it again"):
        key.load(path)
    del content["questions"][1]["hidden"]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(Refusal, match="not a complete key"):
        key.load(path)
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(Refusal, match="is not a key"):
        key.load(path)
    with pytest.raises(Refusal, match="No student notebook can be built"):
        key.build(path, tmp_path)


def test_points_that_were_edited_in_a_key_change_its_version(built, tmp_path):
    content = json.loads(built[1].read_text(encoding="utf-8"))
    content["questions"][0]["points"] = 7
    path = tmp_path / "course.key.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    before, after = key.load(COURSE).questions, key.load(path).questions
    assert after[0].points == 7 and after[0].version != before[0].version
    assert after[1:] == before[1:]
    content["questions"][0]["points"] = 4.0  # the header has an integer, which is the same number
    path.write_text(json.dumps(content), encoding="utf-8")
    assert key.load(path).questions == before


def test_the_notebook_of_a_chapter_of_the_book_is_the_books(tmp_path):
    notebook, private = key.build("attention", tmp_path)
    assert notebook == tmp_path / "student/attention.ipynb"
    assert notebook.read_bytes() == (ROOT / "book/attention/exercises.ipynb").read_bytes()
    assert key.load(private) == key.load("attention")


def test_the_notebook_of_a_private_course(built, tmp_path):
    notebook = nbformat.read(built[0], as_version=4)
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    cells = {cell.id: cell for cell in notebook.cells}
    for question in key.load(built[1]).questions:
        cell = cells[question.cell]
        assert cell.metadata.tags == [question.tag]
        assert cell.source.endswith(f'raise NotImplementedError\n\n\ncheck("{question.id}", {question.function})')
    hidden = cells["public-checks"]
    assert hidden.metadata.jupyter.source_hidden and hidden.metadata.cellView == "form"
    assert hidden.source.startswith("# @title ") and hidden.metadata.tags == ["public-checks"]
    assert ids.index("public-checks") == 3 and notebook.cells[2].source.endswith("setup()")
    words = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "# Exercises: a course of its own" in words and "These exercises go with" not in words
    assert "Hint 2" in words and "{dropdown}" not in words
    assert key.build(COURSE, tmp_path)[0].read_bytes() == built[0].read_bytes()


def public_text(notebook):
    """All that a student can read in a notebook, the public checks unfolded."""
    text = notebook.read_text(encoding="utf-8")
    found = "\n".join(cell.source for cell in nbformat.reads(text, as_version=4).cells)
    for packed in re.findall(r'use_checks\("""\n(.*?)\n"""\)', found, re.DOTALL):
        unpacked = json.loads(zlib.decompress(base64.b64decode(packed)))
        found += "\n".join(json.dumps(entry) + "\n" + entry["checks"] for entry in unpacked.values())
    return found


def code_lines(source):
    """Lines that say something of their own: no imports, signatures, brackets or docstrings of one line."""
    lines = (line.strip() for line in source.splitlines())
    return {line for line in lines if len(line) > 20 and not line.startswith(('"""', "import ", "from ", "def ", "#"))}


@pytest.mark.parametrize("where", ["attention", COURSE], ids=["the book's", "private"])
def test_what_the_student_gets_holds_nothing_of_the_key(where, tmp_path):
    notebook, private = key.build(where, tmp_path)
    public = public_text(notebook)
    for question in key.load(private).questions:
        master = load((ROOT / "exercises" if where == "attention" else COURSE.parent) / question.id)
        common = code_lines(master.stub) | code_lines(question.checks)
        for part in ("solution", "mistakes", "hidden", "probes"):
            own = code_lines(asdict(question)[part]) - common
            assert own or part == "probes" and not question.probes, part
            assert not [line for line in own if line in public], (question.id, part)


def test_the_checks_in_the_notebook_work_without_a_file(built, monkeypatch):
    monkeypatch.setattr(checks, "_brought", {})
    assert checks.check("course/encode_words", len).status == "failed"
    (cell,) = (cell for cell in nbformat.read(built[0], as_version=4).cells if cell.id == "public-checks")
    exec(cell.source, {})
    for master in MASTERS.values():
        assert checks.check(master.id, master.right()[master.function]).status == "passed"
        assert checks.check(master.id, master.given()).status == "not attempted"
        for name, mistake in master.wrong().items():
            assert checks.check(master.id, mistake).mistake == name


def test_the_notebook_runs_as_it_comes(built, monkeypatch, capsys):
    monkeypatch.setattr("llm_anatomy.notebook.setup", lambda: None)  # which would change how other tests print
    monkeypatch.setattr(checks, "_brought", {})
    code = [cell.source for cell in nbformat.read(built[0], as_version=4).cells if cell.cell_type == "code"]
    script = "\n\n".join([*code, 'print(check("course/encode_words", encode_words))'])
    exec(script, {"__name__": "__main__"})
    assert capsys.readouterr().out.startswith("Not attempted yet")


def test_a_statement_that_has_no_plain_form_is_named(course, tmp_path):
    edit(course / "cached_step/exercise.md", "A model that writes", "{doc}`nowhere`. A model that writes")
    with pytest.raises(Refusal, match="course: in the statement or a hint of “One step with a cache”"):
        key.build(course, tmp_path)
