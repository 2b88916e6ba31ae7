"""``make check`` finds the tests that a change may break, nearest first, and says what it left out."""

import os
import subprocess
import sys

import affected
import pytest
from affected import ROOT, by_folder, changes, distances, imported, runs


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A small repository: ``house(path, text)`` writes a file of it and returns its path."""
    monkeypatch.setattr(affected, "ROOT", tmp_path)
    monkeypatch.setattr(affected, "FOLDERS", {name: tmp_path / name for name in ("src", "tests")})
    cached = (affected.modules, affected.sources, affected.offered, affected.importers)

    def write(name, text=""):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for function in cached:
            function.cache_clear()
        return path

    yield write
    for function in cached:
        function.cache_clear()


def test_names_lead_to_the_modules_that_define_them(house):
    """Re-exported, listed in a table for lazy import, used through an alias, imported in a function or a submodule."""
    table = '_TABLE = {"Lazy": "house.lazy", "Short": "short"}\nfrom house.eager import Eager\n'
    package = house("src/house/__init__.py", table)
    lazy, short, eager, sub = (house(f"src/house/{name}.py") for name in ("lazy", "short", "eager", "sub"))
    for text, found in {
        "from house import Lazy": {package, lazy},
        "import house as h\nh.Short()": {package, short},
        "from house import (\n    Eager,\n    sub,\n)": {package, eager, sub},
        "def f():\n    import house.sub": {sub},
        "# import house.sub\nfrom a house import nothing": set(),
    }.items():
        assert imported(house("tests/test_it.py", text)) == found, text


def test_importers_follow_by_distance_and_conftest_counts(house):
    bottom = house("src/house/bottom.py")
    house("src/house/middle.py", "from house.bottom import x")
    near = house("tests/house/test_near.py", "import house.bottom")
    far = house("tests/house/test_far.py", "import house.middle")
    page = house("book/one/one.nb.md", "Text.\n\n```{code-cell}\nfrom house.middle import y\n```\n")
    mirror = house("tests/house/test_bottom.py", "")
    conftest = house("tests/house/conftest.py", "import helper")
    helper = house("tests/helper.py", "")
    apart = house("tests/test_apart.py", "")
    found = distances([bottom])
    assert [found.get(path) for path in (mirror, near, far, page, apart)] == [0, 1, 2, 2, None]
    found = distances([helper])
    assert [found.get(path) for path in (conftest, near, far, mirror, apart)] == [1, 2, 2, 2, None]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("src/llm_anatomy/layers/masks.py", "tests/layers/test_masks.py"),
        ("src/llm_grader/wire.py", "tests/llm_grader/test_wire.py"),
        ("book/kv_cache/kv_cache.nb.md", "book/kv_cache/exercises.ipynb"),
        ("book/kv_cache/kv_cache.nb.md", "book/kv_cache/kv_cache.ipynb"),
        ("exercises/attention/causal_mask/exercise.md", "tests/exercises/test_masters.py"),
        ("exercises/attention/causal_mask/exercise.md", "attention/causal_mask"),
        ("tests/layers/test_masks.py", "tests/layers/test_masks.py"),
        (
            "src/llm_anatomy/layers/masks.py",
            "tests/test_package.py::test_examples_in_docstrings_run[llm_anatomy.layers.masks]",
        ),
    ],
)
def test_what_belongs_to_a_file_comes_first(name, first):
    assert first in [argument for distance, run in runs(distances([ROOT / name])) if distance == 0 for argument in run]


def test_what_is_not_python_reaches_those_who_name_it():
    found = distances([ROOT / "src/llm_anatomy/notebook/widgets/graph.js"])
    assert found[ROOT / "tests/book/test_graph_in_browser.py"] == 1
    found = distances([ROOT / "src/llm_anatomy/data/ablation_losses.csv"])
    assert any(path.suffix == ".py" for path in found)


def test_every_test_depends_on_the_conftest_of_the_root():
    found = distances([ROOT / "conftest.py"])
    assert {path for path in ROOT.glob("tests/**/test_*.py")} <= found.keys()


def test_changes_are_those_since_main_and_what_is_not_committed(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(affected, "ROOT", tmp_path)
    git("init", "-b", "main")
    for name in ("old.py", "committed.py", "gone.py"):
        (tmp_path / name).write_text("1")
    git("add", "."), git("commit", "-m", "tests: begin")
    assert changes() == []
    git("switch", "-c", "topic")
    (tmp_path / "committed.py").write_text("2")
    git("commit", "-am", "tests: go on")
    (tmp_path / "new.py").write_text("3")
    (tmp_path / "gone.py").unlink()
    assert {path.name for path in changes()} == {"committed.py", "new.py"}


def test_what_begins_after_the_deadline_is_left_out_and_listed(tmp_path):
    file = tmp_path / "test_it.py"
    file.write_text("def test_one(): pass\n")
    run = [sys.executable, "-m", "pytest", "-p", "affected", "-p", "no:cacheprovider", "-c", os.devnull, str(file)]
    environment = os.environ | {affected.DEADLINE: "0", "PYTHONPATH": str(ROOT / "tests")}
    assert "1 skipped" in subprocess.run(run, env=environment, capture_output=True, text=True).stdout
    lines = by_folder({"tests/a/test_x.py", "tests/a/test_y.py", "book/b/b.ipynb"})
    assert lines[1:] == ["  book/b: b.ipynb", "  tests/a: test_x, test_y"]


def test_what_is_not_there_is_refused_in_one_sentence():
    with pytest.raises(SystemExit, match="AT=book/nothing: there is no such file or folder here"):
        affected.below("book/nothing")
