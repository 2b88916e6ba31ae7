"""The zip for Gradescope, rehearsed in folders laid out as there."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import student_notebooks as student

from groundwork import Refusal
from llm_grader import gradescope, key
from llm_grader.records import Mark


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return gradescope.write_zip("attention", tmp_path_factory.mktemp("zip") / "autograder.zip")


SMALL = ["hard_lookup", "stable_softmax", "causal_mask"]


@pytest.fixture(scope="module")
def small_archive(tmp_path_factory):
    """The zip of an assignment of some of the questions, one of which nobody has solved."""
    folder = tmp_path_factory.mktemp("small")
    whole = key.load("attention")
    chosen = replace(whole, questions=[question for question in whole.questions if question.function in SMALL])
    (folder / "attention.key.json").write_text(key.to_json(chosen), encoding="utf-8")
    return gradescope.write_zip(str(folder / "attention.key.json"), folder / "autograder.zip")


@pytest.fixture
def handed_in(tmp_path):
    def write(notebook):
        path = tmp_path / "attention.ipynb"
        path.write_bytes(notebook if isinstance(notebook, bytes) else student.data(notebook))
        return path

    return write


def test_the_zip_holds_all_that_is_needed_and_is_the_same_each_time(archive, tmp_path):
    with zipfile.ZipFile(archive) as packed:
        names = set(packed.namelist())
        needs = packed.read("requirements.txt").decode()
        modes = {name: packed.getinfo(name).external_attr >> 16 & 0o777 for name in ("setup.sh", "run_autograder")}
        (stored := tmp_path / "key.json").write_bytes(packed.read("key.json"))
    assert key.load(stored) == key.load("attention")
    assert modes == {"setup.sh": 0o755, "run_autograder": 0o755}
    wanted = {"src/llm_grader/worker/__main__.py", "src/llm_grader/gradescope.py", "src/llm_anatomy/notebook/checks.py"}
    wanted |= {"src/groundwork.py"}
    assert wanted <= names and not any("__pycache__" in name or "bookbinder" in name for name in names)
    assert {"torch", "numpy", "nbformat", "safetensors"} <= set(re.findall(r"^\w+", needs, re.MULTILINE))
    again = gradescope.write_zip("attention", tmp_path / "again.zip")
    assert again.read_bytes() == archive.read_bytes()
    assert archive.stat().st_size < 3_500_000 and archive.stat().st_mode & 0o777 == 0o600


def test_the_set_up_needs_neither_conda_nor_a_browser_and_is_sound():
    for script in ("setup.sh", "run_autograder"):
        text = (gradescope.SCRIPTS / script).read_text()
        assert not re.search(r"conda|chrom|playwright|firefox|https?:", text)
        assert subprocess.run(["bash", "-n", gradescope.SCRIPTS / script]).returncode == 0


def test_a_package_index_is_named_on_request(tmp_path):
    made = gradescope.write_zip("attention", tmp_path / "a.zip", torch_index="https://wheels.example/cpu")
    with zipfile.ZipFile(made) as packed:
        assert packed.read("requirements.txt").decode().startswith("--extra-index-url https://wheels.example/cpu\n")


def test_what_the_scripts_import_is_in_the_requirements():
    """Apart from what only `build` and reports at home need."""
    lines = gradescope.REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    named = {line.partition(">")[0] for line in lines if not line.startswith("#")}
    used = set()
    for path in Path(gradescope.__file__).parent.rglob("*.py"):
        if path.name not in ("key.py", "reports.py") and path.parent.name not in gradescope.EXCLUDED_NAMES:
            used |= set(re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE))
    known = {"IPython": "ipython", "traitlets": "ipython"}
    ours = {"llm_grader", "llm_anatomy", "groundwork"}
    used = {known.get(name, name) for name in used - sys.stdlib_module_names - ours}
    assert used <= named


FORGERY = """
import json, os, pathlib
forged = json.dumps({"score": 99, "tests": [{"score": 99, "max_score": 1}]})
for name in ["/autograder/results/results.json", "results.json", "../results/results.json", "/tmp/results.json"]:
    try:
        pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(name).write_text(forged)
    except OSError:
        pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for fd in range(30):
        try:
            os.write(os.open(f"/proc/{pid}/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK), forged.encode())
        except OSError:
            pass
"""


def test_a_notebook_is_graded_as_at_home_and_a_forged_result_counts_for_nothing(small_archive, confined, handed_in):
    notebook = student.filled("hard_lookup", "causal_mask")
    student.edit(notebook, "causal_mask", "n_keys - n_queries", "0")
    student.add(student.duplicated(notebook, "hard_lookup"), FORGERY, at=1)
    found = gradescope.rehearse(small_archive, handed_in(notebook))
    assert "99" not in json.dumps(found)
    tests = {test["name"]: test for test in found["tests"]}
    titles = [question.title for question in key.load("attention").questions if question.function in SMALL]
    assert list(tests) == titles and "score" not in found
    assert {test["visibility"] for test in tests.values()} == {"after_published"}
    assert (tests["Hard lookup"]["score"], tests["Hard lookup"]["status"]) == (1, "passed")
    assert 0 <= tests["Causal mask"]["score"] < 1 and "counted from the first key" in tests["Causal mask"]["output"]
    assert sum(test["score"] for test in tests.values()) == 1 + tests["Causal mask"]["score"]
    assert "2 cells" in found["output"]


def test_a_file_that_is_no_notebook_has_no_points(archive, handed_in):
    found = gradescope.rehearse(archive, handed_in(b"<html>"))
    assert found["tests"] == [] and "score" not in found
    assert found["output"].startswith("Needs attention: ") and "web page" in found["output"]


@pytest.fixture
def laid_out(archive, handed_in, tmp_path):
    """Gradescope's folders with a notebook in them."""
    root = tmp_path / "autograder"
    for name in ("source", "submission", "results"):
        (root / name).mkdir(parents=True)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(root / "source")
    handed_in(student.filled("causal_mask")).rename(root / "submission" / "attention.ipynb")
    return root


def test_when_no_worker_starts_nothing_looks_like_a_zero(laid_out, confined, monkeypatch, capsys):
    def fails(self, limits):
        raise Refusal("the kernel has had enough")

    monkeypatch.setattr(gradescope.sandbox, "choose", lambda private: (confined, []))
    monkeypatch.setattr(type(confined), "start", fails)
    gradescope.autograde(laid_out)
    found = json.loads((laid_out / "results" / "results.json").read_text())
    assert found["tests"] == [] and found["output"].startswith("Not graded: ") and "kernel" not in found["output"]
    assert "the kernel has had enough" in capsys.readouterr().err


def test_a_result_has_points_only_when_it_is_done(tmp_path):
    (question,) = [each for each in key.load("attention").questions if each.function == "causal_mask"]
    result = gradescope.ResultsFile(tmp_path / "results.json", [question])
    result.marks[question.id] = Mark(question.id, 1.0, 2.0, "right", {}, None, "Good.")
    result.write("The autograder is running.")
    assert "score" not in json.loads(result.path.read_text())["tests"][0]
    result.write("All is graded.", done=True)
    assert json.loads(result.path.read_text())["tests"][0]["score"] == 1


def test_the_result_is_whole_at_every_moment_and_has_no_points_before_the_end(laid_out, confined, popen):
    """Also when the run is cut off, as Gradescope does after its time limit."""
    path = laid_out / "results" / "results.json"
    there = os.environ | {"AUTOGRADER_ROOT": str(laid_out), "AUTOGRADER_PYTHON": sys.executable}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = popen(["bash", laid_out / "source" / "run_autograder"], env=there, **quiet)
    seen = set()
    while "is running" not in "".join(seen) and run.poll() is None:
        if path.exists() and (text := path.read_text()):
            seen.add(text)
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    seen.add(path.read_text())
    assert len(seen) == 2
    for text in seen:
        assert "score" not in json.loads(text) and not any("score" in test for test in json.loads(text)["tests"])


def test_bad_input_is_refused_in_a_sentence(archive, tmp_path):
    with pytest.raises(Refusal, match="is not a zip"):
        gradescope.rehearse(tmp_path / "none.zip", tmp_path / "none.ipynb")
    with pytest.raises(Refusal, match="There is no notebook"):
        gradescope.rehearse(archive, tmp_path / "none.ipynb")
