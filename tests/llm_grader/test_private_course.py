"""A course's own masters need little: a title, a statement, a solution and hidden cases."""

import re

import nbformat
import pytest
from editing import edit

from bookbinder import address
from bookbinder.exercises import public_checks
from bookbinder.masters import load, load_chapter
from groundwork import Refusal
from llm_grader import key
from llm_grader.__main__ import main
from llm_grader.journal import Journal
from llm_grader.preflight import preflight
from llm_grader.records import NOT_GRADED, SubmissionResult

MEAN = """\
import torch


def centred(x):
    return x - x.mean()


def hidden_cases(generator):
    return [{"x": torch.randn(n, generator=generator)} for n in (4, 7)]
"""
COUNT = '''\
def count_words(text: str, word="the") -> int:
    """How often a word occurs."""
    return text.split().count(word)


def cases(generator):
    return [{"text": "the end of the day", "word": "the"}]


def hidden_cases(generator):
    return [{"text": "a b a b a", "word": "a"}, {"text": "b b", "word": "b"}]
'''
STATEMENTS = {
    "centre": "---\ntitle: Centre\nfunction: centred\n---\n\n## Statement\n\nSubtract the mean of `x`.\n",
    "count": (
        "---\ntitle: Count\nfunction: count_words\npoints: 2\n---\n\n## Statement\n\nCount a word.\n\n"
        "## Hint 1\n\nSplit it.\n"
    ),
}
SOURCES = {"centre": MEAN, "count": COUNT}


@pytest.fixture
def course(tmp_path):
    folder = tmp_path / "week-1"
    for name, statement in STATEMENTS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "exercise.md").write_text(statement, encoding="utf-8")
        (folder / name / "exercise.py").write_text(SOURCES[name], encoding="utf-8")
    (folder / "chapter.yml").write_text("title: Week 1\n", encoding="utf-8")
    return folder


def test_the_book_asks_for_more(course):
    with pytest.raises(Refusal, match="week-1/chapter.yml: the field core is missing"):
        load_chapter(course)
    with pytest.raises(Refusal, match="week-1/centre/exercise.md: the field items is missing"):
        load(course / "centre")


def test_a_small_master_becomes_a_question(course):
    first, second = key.load(course).questions
    assert (first.id, first.arguments, first.points, first.seconds) == ("week-1/centre", ["x"], 1, 2)
    assert (first.mistakes, first.sentences, first.checks, first.probes) == ("", {}, "", "")
    assert (second.id, second.points, second.arguments) == ("week-1/count", 2, ["text", "word"])


def test_the_notebook_says_which_exercise_has_no_check(course, tmp_path):
    notebook = nbformat.read(key.build(course, tmp_path / "out")[0], as_version=4)
    nbformat.validate(notebook)
    cells = {cell.id: cell.source for cell in notebook.cells}
    assert cells["exercise-centre"] == "def centred(x):\n    raise NotImplementedError"
    assert cells["exercise-count"] == (
        'def count_words(text: str, word="the") -> int:\n    """How often a word occurs."""\n'
        '    raise NotImplementedError\n\n\ncheck("week-1/count", count_words)'
    )
    words = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert words.count("This exercise has no check in the notebook") == 1
    assert "Hint 1" in words and "two hints" not in words and "difficulty" not in words and "minutes" not in words
    assert "common one" not in words and "The checks are for practice" in words
    assert "| `text` | a string |" in words and "`x` |" not in words
    assert "mean()" not in "".join(cells.values())


def test_a_notebook_without_any_check_does_not_speak_of_checks(course, tmp_path):
    edit(course / "count/exercise.py", r"^def cases.*?(?=^def hidden)", "")
    notebook = nbformat.read(key.build(course, tmp_path / "out")[0], as_version=4)
    assert "public-checks" not in [cell.id for cell in notebook.cells]
    words = "\n".join(cell.source for cell in notebook.cells)
    assert "checks are for practice" not in words and "message below" not in words and "use_checks" not in words
    assert words.count("This exercise has no check in the notebook") == 2


def test_a_stub_never_holds_the_solution(course):
    edit(course / "centre/exercise.py", r"\(x\):\n    return", "(x, /): 'Centred.'; return")
    with pytest.raises(Refusal, match=r"centre/exercise.py: centred must take plain arguments, without \* and /"):
        load(course / "centre", private=True)
    edit(course / "centre/exercise.py", r"\(x, /\)", "(x)")
    assert load(course / "centre", private=True).stub == "def centred(x):\n    raise NotImplementedError"


def test_the_order_is_that_of_the_names_unless_the_course_says_another(course):
    (course / "chapter.yml").write_text("title: Week 1\ncore: [count, centre]\n", encoding="utf-8")
    assert [master.folder.name for master in load_chapter(course, private=True)[1]] == ["count", "centre"]
    (course / "chapter.yml").write_text("title: Week 1\noptional: [centre]\n", encoding="utf-8")
    masters = load_chapter(course, private=True)[1]
    assert [(master.folder.name, master.core) for master in masters] == [("count", True), ("centre", False)]


REFUSED = {
    "centre/exercise.md: the field title is missing": ("centre/exercise.md", "^title[^\n]*\n", ""),
    "centre/exercise.md: the field function is missing": ("centre/exercise.md", "^function[^\n]*\n", ""),
    "centre/exercise.md: the section “Statement” is missing or empty": ("centre/exercise.md", "## Statement.*", ""),
    "centre/exercise.md: the field difficulty is 4; it must be 1, 2 or 3": (
        "centre/exercise.md",
        "^title",
        "difficulty: 4\ntitle",
    ),
    "centre/exercise.py: the function centred is missing": ("centre/exercise.py", "def centred", "def middle"),
    "centre/exercise.py: the function hidden_cases(generator) is missing": ("centre/exercise.py", "hidden_cases", "h"),
    "centre/exercise.py: hidden_cases must take one argument": ("centre/exercise.py", r"\(generator\)", "()"),
    "centre/exercise.py: hidden case 1 holds y; it must hold x": ("centre/exercise.py", '"x"', '"y"'),
    "centre/exercise.py: x of hidden case 1 holds a set": ("centre/exercise.py", "torch.randn.*?r\\)", "{n}"),
    "centre/exercise.py: hidden_cases must return a list of": ("centre/exercise.py", r"return \[.*", "return []"),
    "centre/exercise.py: hidden_cases raises AttributeError": ("centre/exercise.py", "torch.randn", "torch.normalish"),
    "centre/exercise.py: it cannot be run: ModuleNot": ("centre/exercise.py", "import torch", "import ttorch"),
    "in case 1 count_words raises ZeroDivisionError": ("count/exercise.py", r"return text.*?\n", "return 1 / 0\n"),
    "chapter.yml: the field title is missing": ("chapter.yml", "title: Week 1", "core: [centre, count]"),
    "chapter.yml: core and optional list ['centre']": ("chapter.yml", r"\Z", "core: [centre]\n"),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_wrong_is_said_with_its_file(course, tmp_path, words):
    name, pattern, replacement = REFUSED[words]
    edit(course / name, pattern, replacement)
    with pytest.raises(Refusal, match=re.escape(words)):
        key.build(course, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_private_master_has_is_checked_as_the_books(course):
    (course / "count/mistakes.py").write_text("def all_words(text, word):\n    return len(text.split())\n")
    with pytest.raises(Refusal, match="count/mistakes.py: all_words has no sentence"):
        load(course / "count", private=True)
    edit(course / "count/mistakes.py", r":\n", ':\n    """You count all words."""\n')
    made = public_checks(load(course / "count", private=True))
    assert [mistake["name"] for mistake in made["mistakes"]] == ["all_words"]


def test_small_masters_can_be_graded(course, context):
    """The reference earns full marks and the stub none; otherwise the preflight refuses."""
    made = context(course)
    assert preflight(made) == []


def test_the_notebook_installs_from_what_the_instructor_names(course, tmp_path):
    def first_cell(*source):
        return nbformat.read(key.build(course, tmp_path / "out", *source)[0], as_version=4).cells[0].source

    assert first_cell() == address.first_cell()
    assert first_cell("llm_anatomy==0.1.0") == address.first_cell("llm_anatomy==0.1.0") != address.first_cell()
    assert main(["build", str(course), "--out", str(tmp_path / "new"), "--install-from", "two words"]) == 2
    assert not (tmp_path / "new").exists()
    with pytest.raises(Refusal, match="attention is a chapter of the book, whose notebook says itself"):
        key.build("attention", tmp_path / "new", "llm_anatomy")


# What grade would refuse is refused before the notebook is handed out


UNFIT = {
    "week-1/count: the answer is yes or no, so every hidden case can be guessed; let it return more": (
        r"return text.*?\n",
        "return len(text) > 3\n",
    ),
    "week-1/count: the reference raises ZeroDivisionError in hidden case 2 (values)": (
        r"return text.*?\n",
        "return 1 / (len(text) - 3)\n",
    ),
    "week-1/count: the reference earns 0 of 2 points (The values are wrong)": (
        r"return text.*?\n",
        "import os\n    return int.from_bytes(os.urandom(6))\n",
    ),
}


@pytest.mark.parametrize("said", UNFIT)
def test_build_refuses_what_grade_would_refuse(course, tmp_path, capsys, said):
    edit(course / "count/exercise.py", r"^def cases.*?(?=^def hidden)", "")
    edit(course / "count/exercise.py", *UNFIT[said])
    assert main(["build", str(course), "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_build_names_hidden_cases_that_earn_nothing_and_an_address_that_is_an_example(course, tmp_path, capsys):
    edit(course / "count/exercise.py", '"b b"', '"c"')
    words = ["build", str(course), "--out", str(tmp_path / "out")]
    assert main([*words, "--install-from", "https://github.com/you/your-fork"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("week-1/count: hidden case 2 earns nothing: an answer that knows nothing gets it right.")
    assert "from github.com/you, which is only an example" in told.err
    assert main([*words, "--install-from", "https://github.com/ada/course"]) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize("holds", ["assignment", "marks", "tasks"])
def test_a_folder_of_another_week_is_refused(course, tmp_path, capsys, holds):
    out, other = tmp_path / "out", course.with_name("week-2")
    if holds == "assignment":
        assert main(["build", str(course), "--out", str(out)]) == 0
    else:
        path = out / ("tasks/1-of-2" if holds == "tasks" else ".")
        path.mkdir(parents=True)
        with Journal(path / "journal.sqlite", "a version") as journal:
            journal.record(SubmissionResult("Ada", "", "", NOT_GRADED), {"week-1/centre": "v"})
    course.rename(other)
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "Ada.ipynb").write_text("")
    capsys.readouterr()
    says = "assignment week-1, not week-2" if holds == "assignment" else "marks of week-1, not of week-2"
    for words in (["build"], ["grade", str(tmp_path / "class"), "--exercises"]):
        assert main([*words, str(other), "--out", str(out)]) == 2
        assert f"{out} holds the {says}; choose another folder." in capsys.readouterr().err
    other.rename(course)
    assert main(["build", str(course), "--out", str(out)]) == 0
