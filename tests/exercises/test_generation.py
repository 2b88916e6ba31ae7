"""An incomplete master is refused with what is missing; a complete one makes what its student needs."""

import json
import re
import shutil

import pytest
from editing import edit

from bookbinder import ROOT
from bookbinder.exercises import SHIPPED, generate, public_checks, set_up_imports
from bookbinder.masters import FILES, load, load_chapter, part
from groundwork import Refusal
from llm_anatomy.notebook import checks


@pytest.fixture
def root(tmp_path):
    """A repository whose only exercise is hard lookup."""
    folder = tmp_path / "exercises/attention"
    original = ROOT / "exercises/attention/hard_lookup"
    shutil.copytree(original, folder / "hard_lookup", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "chapter.yml").write_text("title: attention\ncore: [hard_lookup]\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def master(root):
    return root / "exercises/attention/hard_lookup"


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(master, name):
    (master / name).unlink()
    with pytest.raises(Refusal, match=f"hard_lookup/{name}: the file is missing"):
        load(master)


@pytest.mark.parametrize("field", ["title", "items", "function", "difficulty", "importance", "minutes"])
def test_a_missing_field_is_named(master, field):
    edit(master / "exercise.md", rf"^{field}: [^\n]*\n", "")
    with pytest.raises(Refusal, match=f"hard_lookup/exercise.md: the field {field} is missing"):
        load(master)


WRONG_HEADERS = {
    "difficulty is 4": ("^difficulty: 1", "difficulty: 4"),
    "minutes is 0": ("^minutes: 10", "minutes: 0"),
    "items is 'UCL-17'": (r"^items: \[UCL-17\]", "items: UCL-17"),
    "title is None": ("^title: [^\n]*", "title:"),
    "function is 'hard lookup'": ("^function: hard_lookup", "function: hard lookup"),
    "UCL-99 is not an item": ("UCL-17", "UCL-99"),
    "a field minuets": ("^minutes", "minuets: 3\nminutes"),
    "not valid YAML": (r"^items: \[", "items: [["),
    "a header between two lines": ("^---\n", ""),
    "the field dtype is 'values.dtype'; it must be one of queries, keys, values, float32, int64": (
        "^dtype: queries",
        "dtype: values.dtype",
    ),
    "points is 0; it must be a number above 0": ("^minutes", "points: 0\nminutes"),
    "points is True; it must be a number above 0": ("^minutes", "points: yes\nminutes"),
    "seconds is '9 s'": ("^minutes", "seconds: 9 s\nminutes"),
    "seconds is inf": ("^minutes", "seconds: .inf\nminutes"),
    "forbidden is 'torch.argmax'; it must be a list of names": ("^minutes", "forbidden: torch.argmax\nminutes"),
    "forbidden is ['a loop']": ("^minutes", "forbidden: [a loop]\nminutes"),
}


@pytest.mark.parametrize("words", WRONG_HEADERS)
def test_a_wrong_header_is_refused(master, words):
    edit(master / "exercise.md", *WRONG_HEADERS[words])
    with pytest.raises(Refusal, match=re.escape(words)):
        load(master)


@pytest.mark.parametrize("title", ["Statement", "Hint 1", "Hint 2"])
def test_a_missing_or_empty_section_is_named(master, title):
    edit(master / "exercise.md", rf"^## {title}\n.*?(?=^## |\Z)", f"## {title}\n\n")
    with pytest.raises(Refusal, match=f"“{title}” is missing or empty"):
        load(master)
    edit(master / "exercise.md", rf"^## {title}", "## Remark")
    with pytest.raises(Refusal, match=f"“{title}” is missing or empty"):
        load(master)


DOCSTRING_OF_OBSERVE = (
    "exercise",
    r"\Z",
    "\n\ndef observe(returned, queries, keys, values):\n    return 0\n",
)
WRONG_CODE = {
    "exercise.py: the function hard_lookup is missing": ("exercise", "def hard_lookup", "def lookup"),
    "exercise.py: hard_lookup has no docstring": ("exercise", '^    """.*?"""\n', ""),
    "exercise.py: the argument keys of hard_lookup has no type": ("exercise", "keys: [^\n]*,", "keys,"),
    "exercise.py: hard_lookup has no return type": ("exercise", " -> [^\n]*:", ":"),
    "exercise.py: line 12 is not Python": ("exercise", "scores =", "scores = ="),
    "exercise.py: the function cases(generator) is missing": ("exercise", "def cases", "def case"),
    "exercise.py: the function hidden_cases(generator) is missing": ("exercise", "def hidden_cases", "def hidden"),
    "exercise.py: a function property_": ("exercise", "^def property_.*(?=^def hidden)", ""),
    "exercise.py: 1 functions accepted_…, other correct solutions, are needed; at least 2": (
        "exercise",
        "^def accepted_.*(?=^def accepted_one_hot)",
        "",
    ),
    "exercise.py: accepted_table_of_scores must take the arguments queries, keys, values": (
        "exercise",
        r"def accepted_table_of_scores\(queries, keys",
        "def accepted_table_of_scores(keys, queries",
    ),
    "exercise.py: accepted_stable_sort has no docstring": (
        "exercise",
        r'(def accepted_stable_sort[^\n]*\n)    """.*?"""\n',
        r"\1",
    ),
    "exercise.py: observe must take the arguments returned, queries, keys, values": (
        "exercise",
        r"\Z",
        "\n\ndef observe(returned, queries):\n    return 0\n",
    ),
    "exercise.py: observe has no docstring": DOCSTRING_OF_OBSERVE,
    "exercise.py: what is shipped, properties and observe, uses accepted_stable_sort, which is not": (
        "exercise",
        r"(def property_[^\n]*\n)",
        r"\1    assert accepted_stable_sort\n",
    ),
    "mistakes.py: 1 mistakes, but at least 4": ("mistakes", r"^def key_not_value.*\Z", ""),
    "mistakes.py: worst_fit has no sentence": ("mistakes", r'(def worst_fit[^\n]*\n)    """.*?"""\n', r"\1"),
    "mistakes.py: worst_fit must take the arguments": ("mistakes", r"def worst_fit\(queries, ", "def worst_fit("),
}


WRONG_TOLERANCES = {
    "must hold rtol and atol, each a number above 0": "{'rtol': 1e-3}",
    "TOLERANCE is {'rtol': 0.001, 'atol': 0}; it must": "{'rtol': 1e-3, 'atol': 0}",
    "TOLERANCE is 0.001": "1e-3",
    "TOLERANCE is dict(rtol=1, atol=1)": "dict(rtol=1, atol=1)",
}


@pytest.mark.parametrize("words", WRONG_TOLERANCES)
def test_a_wrong_tolerance_is_refused(master, words):
    edit(master / "exercise.py", r"\Z", f"\n\nTOLERANCE = {WRONG_TOLERANCES[words]}\n")
    with pytest.raises(Refusal, match=f"exercise.py: .*{re.escape(words)}"):
        load(master)


PROBE = """

def call(answer, queries, keys, values):
    return answer(queries, keys, values)


def probe_doubled(answer, queries, keys, values):
    \"\"\"Queries twice as long find
    the same.\"\"\"
    return _doubled(answer, queries, keys, values)


def _doubled(answer, queries, *others):
    return answer(2 * queries, *others)
"""
WRONG_PROBES = {
    "probe_doubled must take the arguments answer, queries, keys, values": (
        r"probe_doubled\(answer, ",
        "probe_doubled(",
    ),
    "call must take the arguments answer, queries, keys, values": (r"call\(answer, ", "call("),
    "probe_doubled has no sentence": ('    """Queries twice.*?"""\n', ""),
}


@pytest.mark.parametrize("words", WRONG_PROBES)
def test_wrong_probes_are_refused(master, words):
    edit(master / "exercise.py", r"\Z", PROBE)
    edit(master / "exercise.py", *WRONG_PROBES[words])
    with pytest.raises(Refusal, match=re.escape(f"hard_lookup/exercise.py: {words}")):
        load(master)


def test_what_grading_needs(master):
    plain = load(master)
    hash_of_plain = plain.hash
    assert (plain.points, plain.seconds, plain.forbidden, plain.probes) == (plain.difficulty, 2, [], {})
    assert plain.tolerance == {"rtol": 1e-4, "atol": 1e-5}
    edit(master / "exercise.py", r"\Z", '\n\nTOLERANCE = {"rtol": 1e-2, "atol": 3}\n')
    edit(master / "exercise.py", r"\Z", PROBE)
    full = load(master)
    assert full.tolerance == {"rtol": 1e-2, "atol": 3}
    assert full.probes == {"probe_doubled": "Queries twice as long find the same."}
    assert full.hash == hash_of_plain  # nothing that is public is made from these
    edit(master / "exercise.md", "^minutes", "points: 2.5\nseconds: 30\nforbidden: [torch.argmax, max]\nminutes")
    said = load(master)
    assert (said.points, said.seconds, said.forbidden) == (2.5, 30, ["torch.argmax", "max"])
    assert said.hash != hash_of_plain


@pytest.mark.parametrize("words", WRONG_CODE)
def test_incomplete_code_is_refused(master, words):
    name, pattern, replacement = WRONG_CODE[words]
    edit(master / f"{name}.py", pattern, replacement)
    with pytest.raises(Refusal, match=re.escape(words)):
        load(master)


@pytest.mark.parametrize("name", ["hard lookup", "x" * 51])
def test_a_folder_whose_name_cannot_be_a_tag_is_refused(root, master, name):
    master.rename(master.parent / name)
    edit(master.parent / "chapter.yml", "hard_lookup", name)
    with pytest.raises(Refusal, match=f"folder name '{name}' must be up to 50 letters, digits, - and _"):
        load_chapter(master.parent)


def test_a_chapter_lists_its_exercises_and_no_function_twice(root, master):
    chapter = master.parent
    shutil.copytree(master, chapter / "hard_lookup_again")
    with pytest.raises(Refusal, match=r"core and optional list \['hard_lookup'\], but the folders here are"):
        load_chapter(chapter)
    edit(chapter / "chapter.yml", r"\[hard_lookup\]", "[hard_lookup]\noptional: [hard_lookup_again]")
    with pytest.raises(Refusal, match="2 exercises ask for a function hard_lookup"):
        load_chapter(chapter)
    (chapter / "chapter.yml").unlink()
    with pytest.raises(Refusal, match=r"attention/chapter.yml: the file is missing"):
        generate(root=root)


WRONG_MASTERS = {
    "exercise.py: in case 1 hard_lookup raises ZeroDivisionError": ("exercise", "dim=-1", "dim=1 // 0"),
    "exercise.py: in case 1 hard_lookup changes keys": ("exercise", "    scores =", "    keys += 1\n    scores ="),
    "exercise.py: hard_lookup fails a property: Your answer changes": ("exercise", r"values\[sc", "values[0 * sc"),
    "mistakes.py: worst_fit cannot be told from right": ("mistakes", "argmin", "argmax"),
    "mistakes.py: worst_fit cannot be told from index_not_value": (
        "mistakes",
        r"values\[\(queries @ keys.T\).argmin\(-1\)\]",
        "(queries @ keys.T).argmax(-1)",
    ),
    "mistakes.py: worst_fit raises or returns NaN in every public case": ("mistakes", r"\.argmin\(-1\)", ".argmin(9)"),
    "mistakes.py: worst_fit raises or returns NaN in every": (
        "mistakes",
        r"\.argmin\(-1\)\]",
        ".argmin(-1)] * math.nan",
    ),
    "exercise.py: case 1 holds query, keys, values": ("exercise", '"queries":', '"query":'),
    "exercise.py: keys of case 1 holds a set; it may hold tensors": ("exercise", r'"keys": [^\n]*', '"keys": [{1}],'),
    "exercise.py: keys of case 1 is torch.float64, but the header names no argument for dtype": (
        "exercise",
        r'("keys": torch.tensor\([^\n]*)\),\n',
        r"\1).double(),\n",
    ),
}


@pytest.mark.parametrize("words", WRONG_MASTERS)
def test_a_master_that_does_not_hold_is_refused(master, words):
    if "for dtype" in words:
        edit(master / "exercise.md", "^dtype: [^\n]*\n", "")
    if "math.nan" in WRONG_MASTERS[words][2]:
        edit(master / "mistakes.py", r"\A", "import math\n\n")
    name, pattern, replacement = WRONG_MASTERS[words]
    edit(master / f"{name}.py", pattern, replacement)
    with pytest.raises(Refusal, match=re.escape(words)):
        public_checks(load(master))


def test_what_is_observed_stands_in_the_public_checks(master):
    observe = '\n\ndef observe(returned, queries, keys, values):\n    """size"""\n    return 7\n'
    edit(master / "exercise.py", r"\Z", observe)
    with pytest.raises(Refusal, match="index_not_value cannot be told from right"):
        public_checks(load(master))
    edit(master / "exercise.py", "return 7", "return returned + 100")
    assert public_checks(load(master))["expected"][0]["returned"]["data"] == [101, 101, 101, 101]
    edit(master / "exercise.py", r"return returned \+", 'assert returned.ndim == 3, "No."\n    return returned +')
    with pytest.raises(Refusal, match="in case 1 hard_lookup returns something that cannot be used: No"):
        public_checks(load(master))


def test_a_part_has_what_it_needs_and_nothing_else():
    source = """
import math
import os, sys as system
from pathlib import Path

LIMIT = 3


@staticmethod
def helper():
    return math.pi + LIMIT


def wanted(x=helper):
    y: Path = system.argv
    return y


def unwanted():
    return wanted() + os
"""
    made = part(source, {"wanted"})
    assert made.startswith("import math\nimport sys as system\nfrom pathlib import Path\n\n\nLIMIT = 3\n")
    assert "@staticmethod\ndef helper" in made and "unwanted" not in made and "os" not in made.split()
    assert part(source, {"nothing"}) == "" and part(part(source, {"wanted"}), {"wanted"}) == made


DEBUG = """

def broken(queries, keys, values):
    \"\"\"A lookup that does not do what it says.\"\"\"
    return values[(queries @ keys.T).argmin(dim=-1)]
"""


def test_code_to_mend_is_the_stub_and_not_attempted(root, master, monkeypatch):
    edit(master / "exercise.py", r"\Z", DEBUG)
    edit(master / "exercise.md", "^minutes", "kind: debug\nminutes")
    with pytest.raises(Refusal, match="mistakes.py: worst_fit cannot be told from the code that is given"):
        generate(root=root)
    edit(master / "exercise.py", r"argmin\(dim=-1\)\]\n\Z", "argmin(dim=-1) * 0]\n")
    generate(root=root)
    page = (root / "book/attention/exercises.nb.md").read_text(encoding="utf-8")
    assert "**Find the mistake.** Core; difficulty" in page and "argmin(dim=-1) * 0]\n\n\ncheck(" in page
    assert "def hard_lookup(queries, keys, values):" in page and "broken" not in page
    monkeypatch.setattr(checks, "FOLDER", root / SHIPPED)
    assert checks.check("attention/hard_lookup", load(master).given()).message == checks.UNCHANGED
    assert checks.check("attention/hard_lookup", load(master).right()["hard_lookup"]).status == "passed"


MADE = ["book/attention/exercises.nb.md", (SHIPPED / "attention.txt").as_posix()]


def test_what_is_made_follows_its_master(root, master):
    assert [problem.partition(" ")[0] for problem in generate(check=True, root=root)] == MADE
    assert generate(root=root) == MADE
    assert generate(root=root) == generate(check=True, root=root) == []

    edit(master / "exercise.py", "9, 2, 3, 5", "8, 2, 3, 5")  # a hidden case
    assert generate(check=True, root=root) == []
    edit(master / "mistakes.py", "should return", "should give")
    (problem,) = generate(check=True, root=root)
    assert problem == f"{MADE[1]} is not what its master makes: run `python -m bookbinder exercises`"
    assert generate(root=root) == MADE[1:]
    edit(root / MADE[0], "hand in", "hand over")
    assert generate(root=root) == MADE[:1]


def test_what_has_no_master_is_removed(root):
    generate(root=root)
    stray = root / SHIPPED / "before.txt"
    stray.write_text("", encoding="utf-8")
    (problem,) = generate(check=True, root=root)
    assert problem.startswith(f"{SHIPPED.as_posix()}/before.txt belongs to no exercise")
    assert generate(root=root) == [stray.relative_to(root).as_posix()] and not stray.exists()


def test_a_refused_master_leaves_everything_as_it_was(root, master):
    edit(master / "mistakes.py", "argmin", "argmax")
    with pytest.raises(Refusal):
        generate(root=root)
    assert not (root / "book").exists() and not (root / "src").exists()


def test_the_students_text(root, master):
    generate(root=root)
    text = (root / MADE[0]).read_text(encoding="utf-8")
    assert "# Exercises: attention" in text and "{doc}`attention`" in text
    assert "Core; difficulty 1 of 3, importance 2 of 3, about 10 minutes." in text
    assert "| `keys` | floats, (n_keys, d_head) |" in text
    assert "| what it returns | floats, (n_queries, d_value), in the dtype of `queries` |" in text
    assert text.count(":::{dropdown} Hint") == 2
    cells = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    imports = (
        "import math\n\nimport torch\n\n"
        "from llm_anatomy.notebook import check, setup\nfrom llm_anatomy.shapes import Float, Tensor\n\n"
    )
    assert cells[0] == f"{imports}setup()\n"
    assert cells[1].startswith(":tags: [exercise-hard_lookup]\n\ndef hard_lookup(")
    assert cells[1].endswith('raise NotImplementedError\n\n\ncheck("attention/hard_lookup", hard_lookup)\n')


def test_the_set_up_cell_imports_what_the_solutions_import(master):
    added = "import torch\nimport torch.nn.functional as F\nfrom torch import nn"
    edit(master / "exercise.py", "^import torch$", added)
    edit(master / "exercise.py", "^    scores = queries @", "    F.relu(nn.Identity()(keys))\n    scores = queries @")
    made = set_up_imports([load(master)])
    assert {"import torch", "import torch.nn.functional as F", "from torch import nn"} <= set(made.splitlines())


def test_shapes_in_words(master):
    edit(master / "exercise.py", r"values: Float\[Tensor, .n_keys d_value.\]", "values: int")
    results = 'tuple[Float[Tensor, "n_queries"], Bool[Tensor, "n q"], Int[Tensor, ""]]'
    edit(master / "exercise.py", "-> [^\n]*:", f"-> {results}:")
    edit(master / "exercise.md", "^dtype: [^\n]*\n", "")
    shapes = load(master).shapes
    assert (shapes["values"], shapes["returns"]) == (
        "a whole number",
        "three results: floats, (n_queries,); booleans, (n, q); a whole number",
    )


def test_a_dtype_is_said_of_each_result_that_can_have_it(master):
    results = 'tuple[Float[Tensor, "n_queries"], Int[Tensor, "n"], int, Float[Tensor, ""], dict[str, Tensor]]'
    edit(master / "exercise.py", "-> [^\n]*:", f"-> {results}:")
    assert load(master).shapes["returns"] == (
        "five results: floats, (n_queries,), in the dtype of `queries`; integers, (n,); a whole number; "
        "a number, in the dtype of `queries`; a dictionary of tensors, in the dtype of `queries`"
    )
    edit(master / "exercise.md", "^dtype: queries", "dtype: int64")
    assert "integers, (n,), `torch.int64`; a whole number; a number; " in load(master).shapes["returns"]
    edit(master / "exercise.py", "-> [^\n]*:", "-> tuple[int, float]:")
    with pytest.raises(Refusal, match="the field dtype is 'int64', but no result can have it: two results: a whole"):
        load(master)


def test_a_figure_is_read_without_arguments_and_part_by_part(root, master):
    edit(master / "exercise.md", "^minutes", "kind: figure\nminutes")
    with pytest.raises(Refusal, match="hard_lookup reads a figure, so it takes no arguments and needs a function obs"):
        load(master)
    slopes = root / "exercises/feedforward/read_the_slopes"
    shutil.copytree(ROOT / "exercises/feedforward/read_the_slopes", slopes)
    assert {item["data"][0] for item in public_checks(load(slopes))["expected"][0]["returned"]["items"]} == {"right"}
    edit(slopes / "exercise.py", '"right" if name == wanted else name for', "name for")
    with pytest.raises(Refusal, match="observe must return a dictionary, part → "):
        public_checks(load(slopes))


def test_public_checks_name_every_mistake_and_hold_no_code(root, master):
    made = public_checks(load(master))
    assert [mistake["name"] for mistake in made["mistakes"]] == list(load(master).mistakes)
    assert "argmax(" not in json.dumps(made)
