"""Assignments of nbgrader and Otter-Grader become masters that the grader accepts, and what is left out is said."""

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from groundwork import Refusal
from llm_grader import key, records
from llm_grader.__main__ import main
from llm_grader.classrun import grade_submission
from llm_grader.importers import import_assignment, nbgrader, otter
from llm_grader.preflight import preflight
from llm_grader.submissions import SubmissionFile


def of_nbgrader(source, name="", markdown=False, **about):
    about = {"grade": False, "solution": False, "locked": False, "schema_version": 3, "grade_id": name} | about
    cell = (new_markdown_cell if markdown else new_code_cell)(source)
    cell.metadata["nbgrader"] = about
    return cell


def graded(source, name, points):
    return of_nbgrader(source, name, grade=True, locked=True, points=points)


def answer(source, name):
    return of_nbgrader(source, name, solution=True)


NBGRADER = [
    new_markdown_cell("# Week 3\n\nBring paper.\n\n![a ruler](ruler.png)"),
    of_nbgrader(
        "import math\n%matplotlib inline\nSCALE = 10\n\n\ndef grow(x):\n    return x * SCALE", "setup", locked=True
    ),
    new_markdown_cell("---\n## Sides (3 points)\n\nReturn the side of a square of a given area, or a `ValueError`."),
    answer(
        "def side(area):\n    '''The side of a square.'''\n    ### BEGIN SOLUTION\n    if area < 0:\n"
        "        raise ValueError(area)\n    return math.sqrt(area)\n    ### END SOLUTION",
        "side",
    ),
    new_markdown_cell("The side of 9 is 3."),
    new_code_cell("side(9)"),
    graded(
        "assert side(9) == 3\n### BEGIN HIDDEN TESTS\nfor n in (16, 25):\n    assert abs(side(n) - n**0.5) < 1e-9\n"
        "### END HIDDEN TESTS",
        "side-1",
        2,
    ),
    graded("from nose.tools import assert_raises\n\nassert_raises(ValueError, side, -1)", "side-2", 1),
    new_markdown_cell("Use `side` and `grow`."),
    answer(
        "def grown(areas):\n    ### BEGIN SOLUTION\n    return [grow(side(a)) for a in areas]\n    ### END SOLUTION",
        "grown",
    ),
    graded("assert grown((4, 9)) == [20, 30]\nassert grown(()) == []", "grown-1", 1.5),
    graded(
        "kept = side\ndel side\ntry:\n    grown([4])\nexcept NameError:\n    pass\nfinally:\n    side = kept",
        "uses",
        0.5,
    ),
    answer("def show(text):\n    ### BEGIN SOLUTION\n    print(text)\n    ### END SOLUTION", "show"),
    graded("assert show('a') is None", "show-1", 1),
    answer("def any_even(n):\n    ### BEGIN SOLUTION\n    return 2 * n\n    ### END SOLUTION", "any_even"),
    graded("assert any_even(3) in range(0, 99)", "any_even-1", 1),
    answer("def walk(n):\n    ### BEGIN SOLUTION\n    yield from range(n)\n    ### END SOLUTION", "walk"),
    graded("assert list(walk(3)) == [0, 1, 2]", "walk-1", 1),
    new_markdown_cell("Say why."),
    of_nbgrader("Because.", "why", markdown=True, grade=True, solution=True, points=4),
    of_nbgrader("Draw it.", "draw", markdown=True, task=True, points=2),
    answer("half = SCALE / 20", "half"),
    graded("assert half == 0.5", "half-1", 1),
]
OTTER_TESTS = [
    new_code_cell("centred(np.array([1.0, 3.0]))[0] == -1"),
    new_code_cell(
        '""" # BEGIN TEST CONFIG\npoints: 3\nhidden: true\n""" # END TEST CONFIG\ncentred(np.arange(5.0)).tolist()'
    ),
    new_code_cell("# HIDDEN\nbool(np.allclose(centred(np.array([[1.0, 2.0], [3.0, 7.0]])).sum(), 0))"),
    new_code_cell("# HIDDEN\nlengths(('a', 'bcd'), {'x', 'y'}), centred(np.array([4.0, 6.0]))"),
]
OTTER = [
    new_raw_cell("# ASSIGNMENT CONFIG\nname: hw"),
    new_code_cell("import numpy as np"),
    new_raw_cell("# BEGIN QUESTION\nname: q1\npoints: 6"),
    new_markdown_cell("**Question 1.** Subtract the mean; count the lengths."),
    new_raw_cell("# BEGIN SOLUTION"),
    new_code_cell(
        "def mean(x):\n    return x.sum() / x.size\n\n"
        'def centred(x):\n    y = x - mean(x) # SOLUTION\n    return y # SOLUTION\n    """ # BEGIN PROMPT\n    ...\n'
        '    """; # END PROMPT\n\n'
        "def lengths(words, left_out):\n    # BEGIN SOLUTION\n"
        "    return {w: len(w) for w in words if w not in left_out}\n"
        "    # END SOLUTION"
    ),
    new_raw_cell("# END SOLUTION"),
    new_raw_cell("# BEGIN TESTS"),
    *OTTER_TESTS,
    new_raw_cell("# END TESTS"),
    new_raw_cell("# END QUESTION"),
    new_markdown_cell("```otter\n# BEGIN QUESTION\nname: q2\n```"),
    new_markdown_cell("Assign the largest prime below 20 to `prime`."),
    new_raw_cell("# BEGIN SOLUTION"),
    new_code_cell("prime = 19 # SOLUTION"),
    new_raw_cell("# END SOLUTION"),
    new_raw_cell("# BEGIN TESTS"),
    new_code_cell("def test_prime(prime):\n    assert prime == 19"),
    new_raw_cell("# END TESTS"),
    new_raw_cell("# END QUESTION"),
    new_raw_cell("# BEGIN QUESTION\nname: q3\nmanual: true\npoints: 2"),
    new_raw_cell("# BEGIN SOLUTION"),
    new_markdown_cell("Anything."),
    new_raw_cell("# END SOLUTION"),
    new_raw_cell("# END QUESTION"),
]


def written(folder, cells, name="week.ipynb"):
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells), folder / name)
    return folder


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The masters of each tool's assignment, and the report."""
    made = {}

    def of(tool):
        if tool not in made:
            folder = tmp_path_factory.mktemp(tool)
            source = written(folder / "source" / "week3", {"nbgrader": NBGRADER, "otter": OTTER}[tool])
            made[tool] = folder / f"{tool}-3", import_assignment(tool, source, folder / f"{tool}-3")
        return made[tool]

    return of


def master(folder, name):
    text = (folder / name / "exercise.md").read_text(encoding="utf-8")
    _, header, statement = text.split("---\n", 2)
    return yaml.safe_load(header), statement, (folder / name / "exercise.py").read_text(encoding="utf-8")


def run(source):
    namespace = {}
    exec(source, namespace)
    return namespace


def test_functions_of_nbgrader_become_exercises(imported):
    folder, report = imported("nbgrader")
    assert yaml.safe_load((folder / "chapter.yml").read_text()) == {
        "title": "week3",
        "core": ["side", "grown", "find_half"],
    }
    header, statement, source = master(folder, "side")
    assert header == {"title": "Sides", "function": "side", "points": 3.0}
    for words in ("Bring paper.", "**Sides (3 points)**", "The side of 9 is 3.", "assert side(9) == 3"):
        assert words in statement
    assert (
        "ruler.png" not in statement and "side(n)" not in statement and "\n## " not in statement.split("Statement")[1]
    )
    made = run(source)
    assert made["cases"](None) == [{"area": 9}] and made["hidden_cases"](None) == [{"area": 16}, {"area": 25}]
    assert made["probe_error_1"](made["side"], 16) and not made["probe_error_1"](abs, 16)
    assert "the picture ruler.png is left out" in report


def test_code_that_is_given_comes_with_the_exercise(imported):
    folder, report = imported("nbgrader")
    header, statement, source = master(folder, "grown")
    assert header["points"] == 2 and "## Figure" in statement
    given = statement.partition("## Figure")[2]
    assert "SCALE = 10" in given and "def grow(x)" in given and "def side" not in given and "math" not in given
    made = run(source)
    assert made["cases"](None)[0] == {"areas": (4, 9)} and made["hidden_cases"](None)[0] == {"areas": {"tuple": [4, 9]}}
    assert made["call"](lambda areas: [type(areas).__name__], {"tuple": [4, 9]}) == ["tuple"]
    assert "grown` (2 points)" in report and "a call in its tests that raises NameError is left out" in report
    assert "it has no hidden tests, so the calls of its visible tests are its hidden cases" in report


LEFT_OUT = {
    "`show` (1 point): it returns nothing": "nbgrader",
    "`any_even` (1 point): its tests pass with another result as well": "nbgrader",
    "`walk` (1 point): it returns a value of type generator, which cannot be compared": "nbgrader",
    "why (4 points): it is graded by hand": "nbgrader",
    "draw (2 points): it is graded by hand": "nbgrader",
    "q3 (2 points): it is graded by hand": "otter",
}


@pytest.mark.parametrize("words", LEFT_OUT)
def test_what_is_left_out_is_said_with_the_reason(imported, words):
    folder, report = imported(LEFT_OUT[words])
    assert words in report.partition("Not carried over")[2]
    assert (folder / "imported.md").read_text(encoding="utf-8") == report


def test_functions_of_otter_become_exercises(imported):
    folder, _ = imported("otter")
    assert yaml.safe_load((folder / "chapter.yml").read_text())["core"] == ["centred", "lengths", "find_prime"]
    header, statement, source = master(folder, "centred")
    assert (header["title"], header["points"]) == (
        "q1: centred",
        5.5,
    )  # three for one test, one for each other; both share the last
    assert "def mean(x)" in statement.partition("## Figure")[2] and "arange" not in statement
    assert "SOLUTION" not in source and "PROMPT" not in source and "def cases" not in source
    shapes = [list(case["x"]["array"].shape) for case in run(source)["hidden_cases"](None)]
    assert shapes == [[5], [2, 2], [2]]
    header, _, source = master(folder, "lengths")
    assert header["points"] == 0.5
    assert run(source)["hidden_cases"](None) == [{"words": {"tuple": ["a", "bcd"]}, "left_out": {"set": ["x", "y"]}}]


def test_a_variable_becomes_a_function_that_returns_it(imported):
    _, statement, source = master(imported("otter")[0], "find_prime")
    assert "a function `find_prime` without arguments that returns what you are asked to assign to `prime`" in statement
    assert run(source)["find_prime"]() == 19


@pytest.mark.parametrize("tool", ["nbgrader", "otter"])
def test_the_solutions_earn_full_points_and_the_stubs_none(imported, context, tmp_path, tool):
    folder, _ = imported(tool)
    assignment, made = key.load(folder), context(folder)
    preflight(made)
    built, _ = key.build(folder, tmp_path / "built")
    notebook = nbformat.read(built, as_version=4)
    assert built.read_bytes() == key.build(folder, tmp_path / "again")[0].read_bytes()  # ids of two cells never collide
    for cell in notebook.cells:
        if cell.id.startswith("exercise-"):
            cell.source = master(folder, cell.id.removeprefix("exercise-"))[2].partition("def cases")[0]
    nbformat.write(notebook, tmp_path / "solved.ipynb")
    for path, share in ((tmp_path / "solved.ipynb", 1), (built, 0)):
        file = SubmissionFile("student", path)
        record = grade_submission(file, path.parent, assignment, made, None, tmp_path / "marks")
        assert record.status == records.GRADED, record.reason
        assert [mark.points for mark in record.marks] == [share * question.points for question in assignment.questions]


# Reading


def test_what_otter_assign_writes_is_read_with_its_tests(tmp_path):
    cells = [
        new_code_cell("import otter\ngrader = otter.Notebook('hw.ipynb')"),
        new_markdown_cell("Double it."),
        new_code_cell("STEP = 2\n\ndef double(x):\n    return STEP * x"),
        new_code_cell('grader.check("q1")'),
        new_code_cell("def half(x):\n    return x / 2"),
        new_code_cell('grader.check("q2")'),
    ]
    folder = written(tmp_path / "dist/autograder", cells, "hw.ipynb")
    cells[2] = new_code_cell("STEP = 2\n\ndef double(x):\n    ...")
    written(tmp_path / "dist/student", cells, "hw.ipynb")
    (folder / "tests").mkdir()
    (folder / "tests/q1.py").write_text(
        "OK_FORMAT = True\n\ntest = {'name': 'q1', 'points': None, 'suites': [{'cases': [\n"
        "    {'code': '>>> y = 4\\n>>> double(y)\\n8', 'hidden': False, 'points': 2},\n"
        "    {'code': '>>> double(5)\\n10', 'hidden': True}], 'setup': '>>> a = 1', 'type': 'doctest'}]}\n"
    )
    (folder / "tests/q2.py").write_text(
        "from otter.test_files import test_case\n\nOK_FORMAT = False\nname = 'q2'\npoints = 4\n\n"
        "@test_case(points=1, hidden=True)\ndef test_half(half, env):\n    assert half(4) == env['half'](4)\n\n"
        "@test_case()\ndef test_more(half):\n    assert half(1) == 0.5\n"
    )
    (notebook,) = otter.read(tmp_path / "dist").notebooks
    first, second = notebook.questions
    assert (first.points, [test.points for test in first.tests], first.given) == (2, [2, 0], {"STEP"})
    assert (second.points, [test.points for test in second.tests]) == (4, [1, 3])
    sources = {(cell.question, cell.test): cell for cell in notebook.cells if cell.role == "test"}
    assert sources[0, 0].source == "a = 1\ny = 4\ndouble(y)" and not sources[0, 0].hidden
    assert sources[0, 1].hidden and sources[1, 0].hidden and not sources[1, 1].hidden
    namespace = {"half": lambda x: x / 2}
    exec(sources[1, 0].source, namespace)  # calls the test
    namespace["half"] = lambda x: x
    with pytest.raises(AssertionError):
        exec(sources[1, 1].source, namespace)
    within = nbformat.read(folder / "hw.ipynb", 4)
    of_file = {}
    exec((folder / "tests/q1.py").read_text(), of_file)
    within.metadata["otter"] = {"tests": {"q1": of_file["test"]}}
    nbformat.write(within, folder / "hw.ipynb")
    (folder / "tests/q1.py").unlink()
    assert otter.read(tmp_path / "dist").notebooks[0].questions[0] == first


def test_tests_that_nbgrader_writes_itself_are_run(tmp_path):
    cells = [
        answer("def f(x):\n    return x + 1", "f"),
        graded("### AUTOTEST f(1); f(2)\n### HASHED AUTOTEST f(3)", "t", 1),
    ]
    (notebook,) = nbgrader.read(written(tmp_path / "hw", cells)).notebooks
    assert notebook.cells[-1].source == "f(1); f(2)\nf(3)" and notebook.cells[-1].shows


def a_course(folder):
    for name in ("ps1", "ps2"):
        written(folder / "source" / name, NBGRADER)


def a_broken_notebook(folder):
    written(folder, [])
    (folder / "week.ipynb").write_text("{")


def an_old_notebook(folder):
    written(folder, [of_nbgrader("1", "a", schema_version=4)])


def without_an_end(folder):
    written(folder, OTTER[:7])


REFUSED = {
    "There is no folder": ("nbgrader", lambda folder: None),
    "holds no notebook with cells of nbgrader": ("nbgrader", lambda folder: written(folder, OTTER)),
    "holds no Python notebook with a cell `# BEGIN QUESTION`": ("otter", lambda folder: written(folder, NBGRADER)),
    "holds several assignments; name one of": ("nbgrader", a_course),
    "week.ipynb is not a notebook that can be read": ("otter", a_broken_notebook),
    "cell 1 has schema version 4 of nbgrader; versions 1 to 3 can be read": ("nbgrader", an_old_notebook),
    "the cell `# END QUESTION` of q1 is missing": ("otter", without_an_end),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_read_is_one_sentence(tmp_path, capsys, words):
    tool, make = REFUSED[words]
    make(tmp_path / "hw")
    assert main(["import", tool, str(tmp_path / "hw"), "--out", str(tmp_path / "masters")]) == 2
    said = capsys.readouterr().err
    assert words in said and len(said.splitlines()) == 1
    assert not (tmp_path / "masters").exists()


def test_nothing_is_overwritten(tmp_path):
    source = written(tmp_path / "hw", NBGRADER)
    with pytest.raises(Refusal, match=r"--out .*hw exists and is not empty; name a new folder"):
        import_assignment("nbgrader", source, source)
    with pytest.raises(Refusal, match="must be up to 50 letters, digits"):
        import_assignment("nbgrader", source, tmp_path / "my masters")


def test_an_assignment_without_anything_to_compare_is_refused_with_the_reasons(tmp_path):
    source = written(tmp_path / "hw", [of_nbgrader("Why?", "why", markdown=True, grade=True, solution=True, points=4)])
    with pytest.raises(Refusal, match=r"(?s)No question can be carried over.*why \(4 points\): it is graded by hand"):
        import_assignment("nbgrader", source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_help_says_that_code_is_run(capsys):
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    words = " ".join(capsys.readouterr().out.split())
    assert "runs its solutions and tests, with your rights" in words and "autograder" in words
