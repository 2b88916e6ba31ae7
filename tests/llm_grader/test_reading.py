"""Answers are found in any honest notebook, however untidy; whatever else is handed in needs attention."""

import copy
import gzip
import json
import os
import random
import subprocess
import sys
import time

import pytest
import student_notebooks as student
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from student_notebooks import data, filled, key

from bookbinder import ROOT
from llm_grader import reading
from llm_grader.key import load
from llm_grader.reading import read
from llm_grader.records import NeedsAttention, Submission

FUNCTIONS = [question.function for question in key().questions]
IDS = [question.id for question in key().questions]
FIRST = "attention/hard_lookup"
THREE_ARGUMENTS = "def {}(queries, keys, values):\n    return values[(queries @ keys.T).argmax(-1)]"


def attempted(submission):
    return [name for name, answer in submission.answers.items() if answer.attempted]


def function_of(submission, name):
    """The source of an answer, when its cell's definitions are run and nothing else of it."""
    answer = submission.answers[name]
    return submission.cells[answer.cell].split(f"def {answer.name}(", 1)[1]


def apart(code):
    """Run code in a process of its own."""
    path = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=path)


# Notebooks as they should be


def test_a_solved_notebook_has_all_answers_and_no_notes():
    submission = read(data(filled()), key())
    assert attempted(submission) == IDS and submission.notes == [] and submission.flags == []
    for question in key().questions:
        answer = submission.answers[question.id]
        assert answer.name == question.function
        assert student.solution(question.function) in submission.cells[answer.cell]


@pytest.mark.parametrize("value", ["3", "None", "hard_lookup(q, k, v)", "hard_lookup(q, k, v)[0].sum().item()"])
def test_a_result_is_no_second_answer(value):
    for cell in ("", f"def hard_lookup():\n    return 3\nhard_lookup = {value}"):
        notebook = student.add(filled(), cell or f"hard_lookup = {value}")
        submission = read(data(notebook), key())
        in_last = submission.answers[FIRST].cell == len(submission.cells) - 1
        assert in_last == bool(cell) and bool(submission.notes) == bool(cell)


@pytest.mark.parametrize(
    "value", ["lambda q, k, v: hard_lookup(q)", "torch.compile(hard_lookup)", "partial(f, 3)", "Module()", "other"]
)
def test_a_function_that_is_assigned_is_an_answer(value):
    submission = read(data(student.add(filled(), f"hard_lookup = {value}")), key())
    assert submission.answers[FIRST].cell == len(submission.cells) - 1


def test_an_untouched_notebook_has_only_stubs():
    submission = read(data(student.blank()), key())
    assert list(submission.answers) == IDS and attempted(submission) == [] and submission.notes == []


def test_cells_are_those_of_code_in_their_order():
    notebook = filled()
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert read(data(notebook), key()).cells == code


# Honest but untidy ones: all are answered; what the note says


def repeated(notebook):
    return student.edit(student.duplicated(notebook, "hard_lookup"), "hard_lookup", "scores", "first")


UNTIDY = {
    "copied": (repeated, "hard_lookup is defined in 2 cells; the last one, cell 4, counts."),
    "renamed": (
        lambda n: student.renamed(n, "hard_lookup", "my_lookup"),
        "The function in cell 3 counts as hard_lookup, although it has another name.",
    ),
    "moved": (
        lambda n: student.moved(n, "previous_token_head", 3),
        "The answers are in a different order from the assignment.",
    ),
    "split": (
        lambda n: student.split(n, "hard_lookup"),
        "Answers that were found by name, since their cells lack id and tag: hard_lookup.",
    ),
    "merged": (
        student.merged,
        f"Answers that were found by name, since their cells lack id and tag: {', '.join(FUNCTIONS[:-1])}.",
    ),
    "without metadata": (
        student.without_metadata,
        f"Answers that were found by name, since their cells lack id and tag: {', '.join(FUNCTIONS)}.",
    ),
    "markdown": (
        lambda n: student.as_text(n, "hard_lookup"),
        "hard_lookup is in a text cell; it is run as code, as cell 3.",
    ),
    "raw, without marks": (
        lambda n: student.without_metadata(student.as_text(n, "hard_lookup", "raw")),
        "hard_lookup is in a text cell; it is run as code, as cell 3.",
    ),
    "version 3": (student.as_version_3, "The notebook has format version 3 and was converted to version 4."),
    "a broken cell besides": (
        lambda n: student.add(n, "def unfinished(:"),
        "Cells that are not valid Python: 12.",
    ),
    "a long cell besides": (
        lambda n: student.add(n, f"table = [{'1, ' * 15_000}]"),
        "Cells that are too long to be parsed: 12.",
    ),
}


@pytest.mark.parametrize("name", UNTIDY)
def test_an_untidy_notebook_is_answered_and_noted(name):
    change, note = UNTIDY[name]
    submission = read(data(change(filled())), key())
    assert attempted(submission) == IDS
    assert note in submission.notes and len(submission.notes) <= 2


def colab(notebook):
    """Colab keeps ids in the metadata, under the format of minor version 0, and sources as lists."""
    notebook["nbformat_minor"], notebook["metadata"] = 0, {"colab": {"provenance": []}}
    for cell in notebook["cells"]:
        cell["metadata"] = {"id": cell.pop("id")}
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
    return notebook


def without_id(notebook):
    for cell in notebook["cells"]:
        cell["id"] = "same"
    return notebook


def odd_values(notebook):
    notebook["metadata"] = {"kernelspec": {"name": "no such kernel"}, "x": [float("nan"), float("inf"), 1e999]}
    notebook["cells"].insert(0, {"cell_type": "future", "source": 5, "metadata": [], "id": {}, "attachments": 1})
    notebook["cells"].insert(0, "not a cell")
    return notebook


def in_condition(notebook):
    code = "".join("    " + line for line in student.solution("hard_lookup").splitlines(keepends=True))
    return student.answer(
        notebook, "hard_lookup", f"if True:\n    pass\nelse:\n    pass\ntry:\n{code}\nfinally:\n    pass"
    )


def above(line):
    return lambda notebook: student.answer(notebook, "hard_lookup", f"{line}\n{student.solution('hard_lookup')}")


TIDY_ENOUGH = {
    "colab": colab,
    "the same id everywhere": without_id,
    "odd values": odd_values,
    "in try": in_condition,
    "time": above("%%time"),
    "pip": above("!pip install \\\n   einops"),
    "line magic": above("%matplotlib inline"),
    "help": above("torch.argmax?"),
    "assigned": above("files = !ls"),
    "byte-order mark": lambda notebook: "\ufeff" + json.dumps(notebook),
    "lines of Windows": lambda n: json.dumps(n).replace("\\n", "\\r\\n"),
    "lone surrogate": lambda n: json.dumps(n).replace("scores =", "# \\ud800\\n    scores ="),
    "huge number": lambda n: json.dumps(n | {"x": 0}).replace('"x": 0', '"x": ' + "9" * 10_000),
    "brackets in an escaped text": lambda n: data(n | {"x": '"' + "[" * 200_000}).decode(),
    "no version": lambda n: {"cells": n["cells"]},
}


@pytest.mark.parametrize("name", TIDY_ENOUGH)
def test_what_people_and_editors_do_costs_nothing(name):
    notebook = TIDY_ENOUGH[name](filled())
    submission = read(notebook.encode() if isinstance(notebook, str) else data(notebook), key())
    assert attempted(submission) == IDS and submission.notes == []
    for cell in submission.cells:
        cell.encode()
        assert "\r" not in cell


# Which of several


def test_the_copy_below_counts():
    submission = read(data(repeated(filled())), key())
    assert "first" not in function_of(submission, FIRST) and "scores" in function_of(submission, FIRST)


def test_an_attempt_counts_before_a_stub_below():
    notebook = student.add(student.blank(), student.solution("hard_lookup"), at=3)
    submission = read(data(notebook), key())
    assert attempted(submission) == [FIRST] and submission.answers[FIRST].cell == 2


def test_an_attempt_that_runs_counts_before_a_broken_one_below():
    notebook = student.add(filled(), "def hard_lookup(queries, keys, values):\n    return (values")
    submission = read(data(notebook), key())
    assert submission.answers[FIRST].cell == 2
    assert "hard_lookup is defined in 2 cells; cell 3 counts." in submission.notes


def test_a_broken_attempt_alone_is_an_attempt():
    notebook = student.answer(student.blank(), "hard_lookup", "def hard_lookup(queries, keys, values:\n    return 1")
    assert attempted(read(data(notebook), key())) == [FIRST]
    notebook = student.answer(student.blank(), "hard_lookup", "hard lookup = 1")
    submission = read(data(notebook), key())
    assert attempted(submission) == [FIRST] and submission.answers[FIRST].name == "hard_lookup"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (THREE_ARGUMENTS.format("other") + "\n\n\ndef helper(x):\n    return x", "other"),
        ("def helper(x):\n    return x\n\n\n" + THREE_ARGUMENTS.format("other"), "other"),
        ("def helper(x):\n    return x", "helper"),
        ("def helper(x):\n    return x\n\n\ndef another(x, y):\n    return x", None),
        (THREE_ARGUMENTS.format("join_heads"), None),
        ("x = 5", None),
    ],
)
def test_a_renamed_function_is_the_only_one_or_that_with_the_arguments(code, name):
    notebook = student.answer(student.blank(), "hard_lookup", code)
    answer = read(data(notebook), key()).answers.get(FIRST)
    assert answer is None if name is None else (answer.name, answer.attempted) == (name, True)


def test_a_helper_in_the_marked_cell_is_not_a_renamed_answer():
    notebook = student.answer(student.blank(), "hard_lookup", "def helper(x):\n    return x")
    student.add(notebook, student.solution("hard_lookup"), at=3)
    assert read(data(notebook), key()).answers[FIRST].name == "hard_lookup"


@pytest.mark.parametrize(
    "code",
    [
        "async def hard_lookup(q, k, v):\n    pass",
        "class hard_lookup:\n    pass",
        "a, hard_lookup = 1, print",
        "hard_lookup: object = print",
        "from operator import add as hard_lookup",
        "with open(0) as f:\n    def hard_lookup(q, k, v):\n        pass",
        "for _ in range(3):\n    if _:\n        hard_lookup = print",
    ],
)
def test_a_name_is_bound_in_many_ways(code):
    submission = read(data(student.add(student.blank(), code)), key())
    assert attempted(submission) == [FIRST] and submission.answers[FIRST].cell == len(submission.cells) - 1


@pytest.mark.parametrize(
    "code",
    [
        "def outer():\n    def hard_lookup(q, k, v):\n        pass",
        "class Outer:\n    hard_lookup = 1",
        "hard_lookup: object",
        "x.hard_lookup = 1",
        "hard_lookup[0] = 1",
        "%%writefile x.py\ndef hard_lookup(q, k, v):\n    pass",
        "# def hard_lookup(q, k, v):",
        'text = "def hard_lookup(q, k, v):"',
    ],
)
def test_what_binds_nothing_is_no_answer(code):
    assert attempted(read(data(student.add(student.blank(), code)), key())) == []


def test_prose_about_a_function_is_no_answer():
    text = "My plan is\n\ndef hard_lookup(q, k, v):\n  a product and argmax"
    notebook = student.add(student.blank(), text, cell_type="markdown")
    submission = read(data(notebook), key())
    assert attempted(submission) == [] and len(submission.cells) == 11


def test_a_parked_version_in_a_cell_of_text_does_not_count():
    notebook = student.add(filled(), THREE_ARGUMENTS.format("hard_lookup"), cell_type="raw")
    submission = read(data(notebook), key())
    assert submission.answers[FIRST].cell == 2 and len(submission.cells) == 11


def test_a_deleted_exercise_has_no_answer():
    notebook = filled()
    del notebook["cells"][student.position(notebook, "hard_lookup")]
    submission = read(data(notebook), key())
    assert attempted(submission) == IDS[1:] and FIRST not in submission.answers
    assert submission.notes == ["hard_lookup is not answered."]


# Forbidden names

SOFTMAX = "def stable_softmax(scores):\n    {}"
USES = {
    "return torch.softmax(scores, -1)": "torch.softmax",
    "return scores.softmax(-1)": "softmax",
    "import torch.nn.functional as F\n    return F.softmax(scores, -1)": "softmax",
    "from torch import softmax as s\n    return s(scores, -1)": "torch.softmax",
    "import torch as t\n    return t.softmax(scores, -1)": "torch.softmax",
    'return getattr(torch, "softmax")(scores, -1)': "softmax",
    "f = torch.nn.functional\n    return (f\n        .softmax(scores, -1))": "softmax",
}


@pytest.mark.parametrize("code", USES)
def test_a_forbidden_name_is_reported_with_its_place(code):
    notebook = student.answer(student.blank(), "stable_softmax", "%time\n" + SOFTMAX.format(code))
    line = 2 + len(code.split("\n"))
    flags = read(data(notebook), key()).flags
    assert flags == [f"stable_softmax uses {USES[code]} in cell 4, line {line}."]


def test_an_import_in_another_cell_is_followed():
    notebook = student.add(student.blank(), "from torch.nn.functional import softmax as helper", at=0)
    student.answer(notebook, "stable_softmax", SOFTMAX.format("return helper(scores, -1)"))
    assert read(data(notebook), key()).flags == ["stable_softmax uses softmax in cell 5, line 2."]


@pytest.mark.parametrize(
    "code",
    [
        "return scores.exp() / scores.exp().sum()",
        "softmax = scores.exp()\n    return softmax / softmax.sum()",
        "return scores  # not torch.softmax",
        "print('softmax')\n    return scores",
        "'torch.softmax is forbidden'\n    return scores",
    ],
)
def test_what_is_not_forbidden_is_not_reported(code):
    notebook = student.answer(student.blank(), "stable_softmax", SOFTMAX.format(code))
    assert read(data(notebook), key()).flags == []


def test_an_own_function_of_that_name_is_not_reported():
    notebook = student.add(student.blank(), "def softmax(x):\n    return x.exp()", at=3)
    student.answer(notebook, "stable_softmax", SOFTMAX.format("return softmax(scores)"))
    assert read(data(notebook), key()).flags == []


def test_in_a_merged_cell_only_the_function_itself_is_searched():
    notebook = student.answer(filled(), "masked_attention", "def masked_attention(x):\n    return torch.softmax(x, -1)")
    assert read(data(student.merged(notebook)), key()).flags == []
    student.answer(notebook := filled(), "stable_softmax", "def stable_softmax(x):\n    return torch.softmax(x, -1)")
    assert len(read(data(student.merged(notebook)), key()).flags) == 1


CAUSAL = "def causal_mask(n_queries, n_keys):\n    {}"
SHORT = {
    "from llm_anatomy.layers.masks import causal\n    return causal(n_keys)": ("llm_anatomy.layers", 2),
    "import llm_anatomy.models as zebra\n    return zebra.mask(n_keys)": ("llm_anatomy.models", 2),
    "import importlib\n    return importlib.import_module('llm_anatomy.layers').f": ("llm_anatomy.layers", 3),
    "return torch.nn.functional.scaled_dot_product_attention(q, k, v)": (
        "torch.nn.functional.scaled_dot_product_attention",
        2,
    ),
    "return torch.nn.TransformerEncoderLayer(8, 2)": ("torch.nn.TransformerEncoderLayer", 2),
    "return given(n_keys)": ("llm_anatomy.layers", 2),
}


@pytest.mark.parametrize("code", SHORT)
def test_what_could_write_the_answer_is_reported_without_the_master_saying_so(code):
    notebook = student.add(student.blank(), "from llm_anatomy.layers.masks import causal as given", at=0)
    name, line = SHORT[code]
    student.answer(notebook, "causal_mask", CAUSAL.format(code))
    assert read(data(notebook), key()).flags == [f"causal_mask uses {name} in cell 6, line {line}."]


@pytest.mark.parametrize(
    "helper",
    [
        "def helper(n):\n    import llm_anatomy.layers.masks as given\n    return given.causal(n)",
        "from llm_anatomy.layers.masks import causal\n\nhelper = causal",
        "from llm_anatomy.layers.masks import *",
    ],
)
def test_what_a_helper_in_another_cell_uses_is_reported(helper):
    notebook = student.add(student.blank(), helper, at=0)
    student.add(notebook, "def between(n):\n    return helper(n)", at=0)
    student.answer(notebook, "causal_mask", CAUSAL.format("return between(n_keys)"))
    (flag,) = read(data(notebook), key()).flags
    assert flag.startswith("causal_mask uses llm_anatomy.layers in cell 2, line ")


CHAPTERS = [folder.parent.name for folder in sorted((ROOT / "exercises").glob("*/chapter.yml"))]


@pytest.mark.parametrize(
    "chapter", [pytest.param(name, marks=[pytest.mark.slow] if n % 4 else []) for n, name in enumerate(CHAPTERS)]
)
def test_the_book_s_own_notebooks_and_solutions_are_not_flagged(chapter):
    """What the reference itself uses is not reported, nor are the imports of the notebook's first cell."""
    book, chapter_key = ROOT / "book" / chapter / "exercises.ipynb", load(chapter)
    notebook = json.loads(book.read_text(encoding="utf-8"))
    assert read(data(notebook), chapter_key).flags == []
    solutions = {question.tag: question.solution for question in chapter_key.questions}
    for cell in notebook["cells"]:
        for tag in cell["metadata"].get("tags", []):
            cell["source"] = solutions.get(tag, cell["source"])
    submission = read(data(notebook), chapter_key)
    assert sum(answer.attempted for answer in submission.answers.values()) == len(solutions)
    assert submission.flags == []


def test_a_cell_too_long_to_be_searched_is_reported():
    notebook = student.answer(student.blank(), "stable_softmax", SOFTMAX.format("return 1") + "\nx = 1" * 10_000)
    submission = read(data(notebook), key())
    assert attempted(submission) == ["attention/stable_softmax"]
    assert submission.flags == ["stable_softmax: cell 4 is too long to be searched for forbidden names."]


def test_no_text_of_the_student_is_repeated():
    notebook = student.renamed(filled(), "hard_lookup", "zebra")
    student.add(notebook, "def zebra(:")
    student.edit(notebook, "stable_softmax", "scores", "zebra")
    student.edit(notebook, "stable_softmax", "return", "import torch.softmax as zebra; return zebra or")
    submission = read(data(notebook), key())
    assert submission.notes and submission.flags
    assert "zebra" not in " ".join(submission.notes + submission.flags)


# What is no notebook of this assignment

ANOTHER = {"cells": [{"cell_type": "code", "source": "x = 1", "metadata": {}}], "nbformat": 4, "nbformat_minor": 4}
REFUSED = {
    b"": "The file is empty.",
    b" \n\t": "The file is empty.",
    b"x" * (10 * 2**20 + 1): "The file is larger than 10 MB: clear the outputs",
    b"<!DOCTYPE html><html>": "a web page",
    b"\n  <html><head>Sign in": "a web page",
    b"import torch\n\ndef hard_lookup(": "plain text, such as a Python script",
    b"%PDF-1.7": "a PDF file",
    b"PK\x03\x04....": "a zip archive",
    gzip.compress(b"{}"): "a compressed file",
    "{}".encode("utf-16"): "UTF-16",
    "{}".encode("utf-16-le"): "UTF-16",
    b'{"cells": "\xff"}': "not text encoded in UTF-8",
    b"{}\0\0": "neither text nor a notebook",
    b"{}": "no cells",
    b"[1, 2]": "no cells",
    b'"text"': "no cells",
    b'{"cells": 5}': "no cells",
    b'{"cells": [], }': "not valid JSON",
    data(student.blank())[:5000]: "is incomplete",
    data(student.blank())[:-3]: "is incomplete",
    b'{"cells": ' + b"[" * 50_000 + b"]" * 50_000 + b"}": "nested too deeply",
    b"[" * 10_000_000: "too many values",
    b"[" + b'"",' * 3_000_000 + b"1]": "too many values",
    json.dumps({"cells": [{}] * 2_001}).encode(): "2001 cells, but only 2000 are allowed",
    json.dumps({"cells": [], "nbformat": 5}).encode(): "version of the notebook format is unknown",
    json.dumps({"cells": [], "nbformat": "4"}).encode(): "version of the notebook format is unknown",
    json.dumps({"worksheets": [{"cells": [{"cell_type": "code"}]}], "nbformat": 3}).encode(): "cannot be converted",
    json.dumps(ANOTHER).encode(): "another notebook: none of its cells belongs to the assignment attention",
}


@pytest.mark.parametrize("data", REFUSED, ids=REFUSED.values())
def test_what_is_no_notebook_needs_attention_and_says_why(data):
    with pytest.raises(NeedsAttention, match=REFUSED[data]):
        read(data, key())


@pytest.mark.parametrize("code", ["(" * 50_000, "-" * 19_000 + "1", "a" + ".a" * 9_000, "a" + "+a" * 9_000, "x = '\0'"])
def test_source_that_breaks_the_parser_costs_its_cell_alone(code):
    submission = read(data(student.add(filled(), code)), key())
    assert attempted(submission) == IDS and len(submission.notes) == 1


def test_only_so_much_is_parsed():
    notebook = filled()
    for _ in range(10):
        student.add(notebook, "x;" * 9_000, at=0)
    submission = read(data(notebook), key())
    assert attempted(submission) == IDS
    assert submission.notes == ["Cells that are too long to be parsed: " + f"{_numbers(7, 21)}."]


def _numbers(first, last):
    return ", ".join(map(str, range(first, last + 1)))


def test_an_old_notebook_is_converted_in_silence(capfd, caplog):
    notebook = student.as_version_3(filled())
    notebook["worksheets"][0]["cells"][0] |= {"metadata": {"collapsed": 5}, "unknown": 1, "outputs": [{"zebra": 1}]}
    read(data(notebook), key())
    assert capfd.readouterr() == ("", "") and caplog.records == []


def test_memory_and_time_are_bounded():
    """Ten megabytes of what takes most memory for its length, in a process whose address space ends."""
    code = """
import resource
from llm_grader import reading
from llm_grader.records import Key, NeedsAttention
n = 10 * 2**20
hostile = [b"[" * n, b'["' + b'"' * (n - 2), b"[" + b'"",' * (n // 3 - 1) + b"0]", b"[" + b"9" * (n - 2) + b"]",
           b"[" + b"{}," * (n // 3 - 1) + b"{}]", b'{"cells":[{"source":"' + b"a;" * (n // 2 - 50) + b'"}]}',
           b'{"cells":["' + b'\\\\\\\\\\\\"' * (n // 4 - 50) + b'"]}']
del n
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + 80 * 2**20, resource.RLIM_INFINITY))
for data in hostile:
    try:
        reading.read(data, Key("a", "A", []))
    except NeedsAttention as e:
        print(e)
"""
    done = apart(code)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 7, done.stderr


# Whatever the bytes

quietly = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def survives(data):
    try:
        submission = read(data, key())
    except NeedsAttention as e:
        assert str(e).endswith(".") and len(str(e)) < 250
    else:
        assert isinstance(submission, Submission)
        for name, answer in submission.answers.items():
            assert name in IDS and answer.cell < len(submission.cells) and answer.name.isidentifier()
        json.dumps(submission.cells, ensure_ascii=False).encode()


@quietly
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_need_attention(data):
    survives(data)


@quietly
@given(st.data())
def test_a_notebook_with_changed_bytes_is_read_or_needs_attention(drawn):
    changed = bytearray(data(filled()))
    for _ in range(drawn.draw(st.integers(1, 6))):
        at = drawn.draw(st.integers(0, len(changed)))
        changed[at : at + drawn.draw(st.integers(0, 40))] = drawn.draw(st.binary(max_size=10))
    survives(bytes(changed))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SOURCES = st.text(max_size=40) | st.lists(st.sampled_from(["def ", "hard_lookup", "(", "\n", " ", ":", "%%time", "!"]))


@quietly
@given(VALUES, st.integers(0, 2**32), st.booleans(), SOURCES)
def test_a_notebook_with_changed_values_is_read_or_needs_attention(value, seed, old, source):
    notebook = student.as_version_3(filled()) if old else filled()
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 4)):
        here = notebook
        while isinstance(inner := here[(at := chance.choice(list(_places(here))))], dict | list) and inner:
            if chance.random() < 0.2:
                break
            here = inner
        here[at] = copy.deepcopy(source if at in ("source", "input") else value)
    survives(json.dumps(notebook).encode())


def _places(values):
    return values if isinstance(values, dict) else range(len(values))


ANSWERS = [f"def {function}(*given):\n    return h0(1)" for function in FUNCTIONS]
SLOW = {
    "many helpers": [f"def h{i}(x):\n    return {'+'.join(f'h{j}(x)' for j in range(800))}" for i in range(40)],
    "many stars": [f"from a{i} import *" for i in range(1900)],
}


@pytest.mark.parametrize("cells", SLOW)
def test_a_notebook_that_is_small_is_read_in_a_short_time(monkeypatch, cells):
    """Every cell is parsed at most twice, however many answers use it, and is looked for once for each answer."""
    parsed, tokens, before = [], [], reading.source
    real = before._parse, before.n_tokens
    monkeypatch.setattr(before, "_parse", lambda text: parsed.append(text) or real[0](text))
    monkeypatch.setattr(before, "n_tokens", lambda text: tokens.append(text) or real[1](text))
    notebook = student.blank()
    for text in [*ANSWERS, *SLOW[cells]]:
        student.add(notebook, text)
    start = time.process_time()
    read(data(notebook), key())
    assert time.process_time() - start < 5
    assert max(parsed.count(text) for text in {*SLOW[cells]}) <= 2
    assert max(map(tokens.count, {*SLOW[cells]})) <= 3


def test_the_reader_needs_neither_torch_nor_the_package():
    code = "import sys, llm_grader.reading, llm_grader.submissions; print({'torch', 'llm_anatomy'} & set(sys.modules))"
    assert apart(code).stdout == "set()\n"
