"""Read an assignment of Otter-Grader.

There are two forms. The notebook that ``otter assign`` reads marks its questions by raw cells such as
``# BEGIN QUESTION``. The folder ``autograder`` that it writes has a notebook with cells ``grader.check("q1")``, and the
tests in files ``tests/q1.py`` or in the notebook's metadata.
"""

import ast
import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from groundwork import Refusal
from llm_grader.importers.assignment import (
    Assignment,
    Cell,
    Notebook,
    Question,
    Test,
    find_notebooks,
    given_names,
    without_magics,
)

FENCE = re.compile(r"```otter\n(.*?)\n?```", re.DOTALL)
MARK = re.compile(r"#\s*(ASSIGNMENT CONFIG|(?:BEGIN|END) (?:QUESTION|PROMPT|SOLUTION|TESTS))\s*(?:\n(.*))?$", re.DOTALL)
PROMPT = re.compile(
    r'^[ \t]*("""|\'\'\')\s*# BEGIN PROMPT\n(.*?)\n?[ \t]*\1;?\s*# END PROMPT\n?', re.DOTALL | re.MULTILINE
)
IGNORED = re.compile(r"^[ \t]*# BEGIN IGNORE\n(?:.*\n)*?[ \t]*# END IGNORE\n?|^.*# IGNORE[ \t]*\n?", re.MULTILINE)
CONFIG = re.compile(r'\s*("""|\'\'\')\s*# BEGIN TEST CONFIG\n(.*?)\n?\1;?\s*# END TEST CONFIG\s*?\n?', re.DOTALL)
CHECK = re.compile(r"""^\s*\w+\.check\(\s*["']([\w.-]+)["']\s*\)\s*;?\s*$""", re.MULTILINE)
OF_OTTER = re.compile(r"otter\.Notebook\(|^\s*\w+\.(check_all|export)\(", re.MULTILINE)


def read(folder: Path) -> Assignment:
    """Read an assignment.

    Args:
        folder: folder with the notebook that ``otter assign`` reads, the folder ``autograder`` that it writes, or a
            notebook.

    Raises:
        Refusal: there is no assignment, or a notebook cannot be read.
    """
    sources, generated = [], []
    for path, found in find_notebooks(folder):
        marked = [(cell, _mark(cell)) for cell in found.cells]
        if any(mark and mark[0] == "BEGIN QUESTION" for _, mark in marked):
            sources.append(_read_source(path, marked))
        elif any(cell.cell_type == "code" and CHECK.search(cell.source) for cell in found.cells):
            generated.append((path, found))
    if not sources:  # students' notebooks have the same form, without solutions
        complete = [each for each in generated if "autograder" in each[0].parts] or generated
        sources = [_read_generated(path, found) for path, found in complete]
    if not sources:
        raise Refusal(
            f"{folder} holds no Python notebook with a cell `# BEGIN QUESTION` or `grader.check(…)` of Otter-Grader."
        )
    return Assignment(folder.resolve().name if folder.is_dir() else folder.stem, sources)


# The notebook that `otter assign` reads


def _mark(cell: Any) -> tuple[str, str] | None:
    """Return the mark that a cell is, such as "BEGIN QUESTION", and what follows it."""
    source = cell.source.strip()
    if cell.cell_type == "markdown":
        fenced = FENCE.fullmatch(source)
        source = fenced[1].strip() if fenced else ""
    elif cell.cell_type != "raw":
        return None
    match = MARK.match(source)
    return (match[1].upper(), match[2] or "") if match else None


def _read_source(path: Path, marked: list) -> Notebook:
    notebook, before, within, inside = Notebook(path), [], [], ""
    question, config = -1, {}
    tests: list[tuple[Cell, dict, str]] = []
    for cell, mark in marked:
        if mark:
            begins, _, what = mark[0].partition(" ")
            if what == "CONFIG":
                continue
            if (begins == "BEGIN") == (inside == what) or (what != "QUESTION" and not within):
                raise Refusal(f"{path}: the cell `# {mark[0]}` is not expected where it stands.")
            inside = what if begins == "BEGIN" else "QUESTION" if what != "QUESTION" else ""
            if mark[0] == "BEGIN QUESTION":
                if within:
                    raise Refusal(f"{path}: a question begins before the one before it ends.")
                config = _config(path, mark[1])
                within, question, tests = [True], len(notebook.questions), []
                name = str(config.get("name") or f"question {question + 1}")
                by_hand = "it is graded by hand" if config.get("manual") else ""
                notebook.questions.append(Question(name, before, reason=by_hand))
                before = []
            elif mark[0] == "END QUESTION":
                _add_tests(notebook, question, tests, config.get("points"))
                within = []
        elif re.match(r"\s*# IGNORE\b", cell.source, re.IGNORECASE):
            continue
        elif inside == "TESTS" and cell.cell_type == "code":
            tests.append(_test(path, cell.source))
        elif inside == "SOLUTION" and cell.cell_type == "code":
            complete, student = _versions(cell.source)
            notebook.questions[question].given |= given_names(complete, student)
            notebook.cells.append(Cell("solution", complete, question))
        elif cell.cell_type == "markdown" and inside not in ("SOLUTION", "PROMPT", "TESTS"):
            (notebook.questions[question].statement if within else before).append(cell.source)
        elif cell.cell_type == "code" and inside in ("", "QUESTION"):
            notebook.cells.append(Cell("given", without_magics(cell.source)))
    if within:
        raise Refusal(f"{path}: the cell `# END QUESTION` of {notebook.questions[-1].name} is missing.")
    return notebook


def _config(path: Path, text: str) -> dict:
    try:
        config = yaml.safe_load(text) or {}
    except yaml.YAMLError as e:
        raise Refusal(f"{path}: the configuration of a question or a test is not YAML.") from e
    if not isinstance(config, dict):
        raise Refusal(f"{path}: the configuration of a question or a test is not YAML with names and values.")
    return config


def _versions(source: str) -> tuple[str, str]:
    """Return a solution's cell as the instructor wrote it, without marks, and as students get it."""
    source = IGNORED.sub("", without_magics(source))
    student = PROMPT.sub(lambda match: match[2] + "\n", source)
    source, kept, complete, inside = PROMPT.sub("", source), [], [], False
    for line in student.split("\n"):
        if mark := re.match(r"(\s*)# (BEGIN|END) SOLUTION( NO PROMPT)?\s*$", line):
            inside = mark[2] == "BEGIN"
            kept += [f"{mark[1]}..."] if inside and not mark[3] else []
        elif not inside and (mark := re.match(r"(\s*)(.*?)\s*#\s*(SOLUTION( NO PROMPT)?|SEED)\s*$", line)):
            assigned = re.match(r"([\w.,\[\]'\" ]+=)(?!=)", mark[2])
            kept += [] if mark[4] or mark[3] == "SEED" else [f"{mark[1]}{assigned[1] if assigned else ''}..."]
        elif not inside:
            kept.append(line)
    for line in source.split("\n"):
        if not re.match(r"\s*# (BEGIN|END) SOLUTION( NO PROMPT)?\s*$", line):
            complete.append(re.sub(r"\s*#\s*(SOLUTION( NO PROMPT)?|SEED)\s*$", "", line))
    return "\n".join(complete), "\n".join(kept)


def _test(path: Path, source: str) -> tuple[Cell, dict, str]:
    """Return a test's cell, its configuration, and its visible code."""
    config = {}
    if match := CONFIG.match(source):
        config, source = _config(path, match[2]), source[match.end() :]
    if hidden := re.match(r"\s*#+ *HIDDEN( TEST)? *#* *(\n|$)", source, re.IGNORECASE):
        config, source = config | {"hidden": True}, source[hidden.end() :]
    return _test_cell(_calling(without_magics(source)), bool(config.get("hidden"))), config, source


def _calling(source: str) -> str:
    """Return the code of a test, with a call of the function that is all it defines."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return source
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        return source
    arguments = [argument.arg for argument in body[0].args.args]
    passed = ["globals()" if name == "env" else f"globals().get({name!r})" for name in arguments]
    return f"{source}\n\n{body[0].name}({', '.join(passed)})"


def _test_cell(source: str, hidden: bool) -> Cell:
    return Cell("test", source, hidden=list(range(1, source.count("\n") + 2)) if hidden else [], shows=True)


def _add_tests(notebook: Notebook, question: int, tests: list[tuple[Cell, dict, str]], points: Any) -> None:
    """Add the tests of a question, with the points that Otter gives to each.

    Tests that state no points share what is left of the question's; a question that states none either has one point.
    """
    stated = [config.get("points") for _, config, _ in tests]
    if isinstance(points, list):
        stated, points = (points + stated[len(points) :])[: len(stated)], None
    known = sum(float(each) for each in stated if each is not None)
    unknown = stated.count(None)
    if points is None:
        points = known if known else 0 if stated and not unknown else 1
    rest = (float(points) - known) / unknown if unknown else 0.0
    for (cell, config, source), own in zip(tests, stated, strict=True):
        visible = "" if config.get("hidden") else source.strip()
        notebook.add_test(question, cell, Test(max(0.0, rest) if own is None else float(own), visible))
    notebook.questions[question].points = max(float(points), known)


# What `otter assign` writes


def _read_generated(path: Path, found: Any) -> Notebook:
    """Read a notebook with solutions; the cells between two checks are the answer to one question.

    What is given in them is known if the students' notebook lies where ``otter assign`` writes it.
    """
    notebook, markdown, code = Notebook(path), [], []
    in_notebook = found.metadata.get("otter", {}).get("tests", {})
    beside = path.parent.parent / "student" / path.name
    student = [
        cell for each in ([beside] if beside.is_file() else []) for _, n in find_notebooks(each) for cell in n.cells
    ]
    given = "\n".join(without_magics(cell.source) for cell in student if cell.cell_type == "code")
    for cell in found.cells:
        if cell.cell_type == "markdown":
            markdown.append(cell.source)
        elif cell.cell_type == "code" and (check := CHECK.search(cell.source)):
            notebook.questions.append(Question(check[1], markdown))
            question = len(notebook.questions) - 1
            for each in code:
                notebook.cells.append(Cell("solution", each, question))
                notebook.questions[-1].given |= given_names(each, given)
            file = path.parent / "tests" / f"{check[1]}.py"
            if check[1] in in_notebook:
                _add_tests(notebook, question, *_ok_tests(path, in_notebook[check[1]]))
            elif file.is_file():
                _add_tests(notebook, question, *_file_tests(file))
            else:
                notebook.questions[-1].reason = f"its tests {file.name} are missing"
            markdown, code = [], []
        elif cell.cell_type == "code" and not OF_OTTER.search(cell.source):
            code.append(without_magics(cell.source))
    return notebook


def _file_tests(file: Path) -> tuple[list[tuple[Cell, dict, str]], Any]:
    """Read a test file, which is never run: its values are literals and its tests are functions."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        values = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
    except (SyntaxError, ValueError) as e:
        raise Refusal(f"{file} is not a test file of Otter-Grader.") from e
    if isinstance(values.get("test"), dict):
        return _ok_tests(file, values["test"])
    imports = "\n".join(
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom) and "otter" not in ast.unparse(node)
    )
    return list(_exception_tests(tree, imports)), values.get("points")


def _exception_tests(tree: ast.Module, imports: str) -> Iterator[tuple[Cell, dict, str]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            decorator = node.decorator_list[0]
            found = {each.arg: each.value for each in getattr(decorator, "keywords", [])}
            config = {name: value.value for name, value in found.items() if isinstance(value, ast.Constant)}
            node.decorator_list = []
            source = f"{ast.unparse(node)}"
            calling = _calling(source)
            yield (
                _test_cell(f"{imports}\n{calling}" if imports else calling, bool(config.get("hidden"))),
                config,
                source,
            )


def _ok_tests(path: Path, test: dict) -> tuple[list[tuple[Cell, dict, str]], Any]:
    """Return the tests of the OK format, whose code is written as doctests."""
    tests = []
    try:
        for suite in test["suites"]:
            set_up = _doctest_code(suite.get("setup") or "")
            for case in suite["cases"]:
                source = _doctest_code(case["code"])
                cell = _test_cell(f"{set_up}{source}".rstrip(), case.get("hidden", False))
                tests.append((cell, dict(case), source))
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise Refusal(f"{path}: the test {test.get('name')} does not have the OK format.") from e
    return tests, test.get("points")


def _doctest_code(text: str) -> str:
    return "".join(example.source for example in doctest.DocTestParser().get_examples(text))
