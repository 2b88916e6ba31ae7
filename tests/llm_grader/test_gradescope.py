"""The zip for Gradescope, rehearsed in folders laid out as there."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import student_notebooks as student

from groundwork import Refusal
from llm_grader import gradescope, key
from llm_grader.__main__ import main


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


def test_the_zip_holds_all_that_is_needed_and_is_the_same_for_the_same_seed(archive, tmp_path):
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
    seed = gradescope.read_seed(str(archive))
    again = gradescope.write_zip("attention", tmp_path / "again.zip", seed=seed)
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
    known = {"IPython": "ipython", "traitlets": "ipython", "yaml": "pyyaml"}
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


def test_a_file_that_is_no_notebook_has_no_result_but_a_reason(archive, handed_in, capfd):
    path = handed_in(b"<html>")
    with pytest.raises(Refusal, match="^Needs attention: .*web page.*\n.*the autograder failed, and record no score"):
        gradescope.rehearse(archive, path)
    assert main(["rehearse", str(archive), str(path)]) == 2
    said = capfd.readouterr()
    assert said.out == "" and "Needs attention: " in said.err


def test_a_seed_comes_from_an_earlier_zip_or_is_written_out(archive, tmp_path, capsys):
    again = str(tmp_path / "again.zip")
    assert main(["gradescope", "attention", "-o", again, "--seed", str(archive)]) == 0
    assert gradescope.read_seed(again) == gradescope.read_seed(str(archive))
    assert main(["gradescope", "attention", "-o", again, "--seed", "0f" * 32]) == 0
    assert gradescope.read_seed(again) == "0f" * 32
    assert main(["gradescope", "attention", "-o", again]) == 0
    assert gradescope.read_seed(again) not in ("0f" * 32, gradescope.read_seed(str(archive)))
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as old:
        old.writestr("key.json", "{}")
    for wrong in ("17", "0F" * 32, str(tmp_path / "none.zip"), str(tmp_path / "old.zip")):
        assert main(["gradescope", "attention", "-o", again, "--seed", wrong]) == 2
        assert wrong in capsys.readouterr().err


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


def test_every_run_draws_the_inputs_from_the_seed_of_the_zip(laid_out, archive, confined, monkeypatch):
    """Otherwise, the same notebook would earn other marks each time."""
    seeds = []

    def prepare(self, key, seed):
        seeds.append(seed)
        raise Refusal("enough")

    monkeypatch.setattr(gradescope.sandbox, "choose", lambda private: (confined, []))
    monkeypatch.setattr(gradescope.ReferenceWorker, "prepare", prepare)
    for _ in range(2):
        assert not gradescope.autograde(laid_out)
    assert seeds == [gradescope.read_seed(str(archive))] * 2


def break_key(laid_out, monkeypatch):
    (laid_out / "source" / "key.json").write_text("{}")
    return "Not graded: .* is not a key file"


def lose_seed(laid_out, monkeypatch):
    (laid_out / "source" / "seed").unlink()
    monkeypatch.setattr(gradescope.sandbox, "choose", lambda private: (None, []))
    return "Not graded: FileNotFoundError"


def hand_in_nothing(laid_out, monkeypatch):
    (laid_out / "submission" / "attention.ipynb").unlink()
    return "Needs attention: "


def have_no_sandbox(laid_out, monkeypatch):
    def choose(private):
        raise Refusal("No sandbox works on this machine")

    monkeypatch.setattr(gradescope.sandbox, "choose", choose)
    return "Not graded: No sandbox works"


def start_no_worker(laid_out, monkeypatch):
    class Broken:
        def start(self, limits):
            raise OSError("the kernel has had enough")

    monkeypatch.setattr(gradescope.sandbox, "choose", lambda private: (Broken(), []))
    return "Not graded: OSError: the kernel has had enough"


def lack_a_package(laid_out, monkeypatch):
    path = laid_out / "source" / "key.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"requirements": ["no-such-package"]}))
    monkeypatch.setattr(gradescope.sandbox, "choose", lambda private: (None, []))
    return "Not graded: .*no-such-package"


def fail_to_compare(laid_out, monkeypatch):
    """As in a run in which some questions were marked, and another one could not be."""

    def graded(root, assignment):
        raise Refusal("attention/x cannot be compared; the marks of the other questions are kept.")

    monkeypatch.setattr(gradescope, "_autograde", graded)
    return "Not graded: attention/x cannot be compared"


@pytest.mark.parametrize(
    "spoil",
    [break_key, lose_seed, hand_in_nothing, have_no_sandbox, start_no_worker, lack_a_package, fail_to_compare],
)
def test_without_points_no_result_is_left_and_the_reason_is_on_standard_output(laid_out, spoil, monkeypatch, capsys):
    """Gradescope would take a file without scores for a malformed one or for a zero."""
    (path := laid_out / "results" / "results.json").write_text('{"score": 99}')  # of an earlier run
    reason = spoil(laid_out, monkeypatch)
    assert main(["autograde", str(laid_out)]) == 2
    assert not path.exists()
    assert re.match(reason, capsys.readouterr().out.splitlines()[-1])


def test_an_interrupted_run_leaves_no_result(laid_out, confined, popen):
    """Gradescope ends a run after its time limit, or when memory runs out."""
    (path := laid_out / "results" / "results.json").write_text('{"score": 99}')
    there = os.environ | {"AUTOGRADER_ROOT": str(laid_out), "AUTOGRADER_PYTHON": sys.executable}
    there.pop("PYTHONUNBUFFERED", None)
    run = popen(
        ["bash", laid_out / "source" / "run_autograder"], env=there, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert run.stdout.readline().startswith(confined.name.encode())  # the first attack: from now on, it grades
    assert run.poll() is None
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert not path.exists()


def test_the_autograder_stops_before_gradescope_stops_it(laid_out, tmp_path):
    assert (laid_out / "source" / "seconds").read_text() == "570"
    (laid_out / "source" / "seconds").write_text("0.2")
    there = os.environ | {"AUTOGRADER_ROOT": str(laid_out), "AUTOGRADER_PYTHON": sys.executable}
    command = ["bash", laid_out / "source" / "run_autograder"]
    run = subprocess.run(command, env=there, capture_output=True, text=True, timeout=60)
    assert run.returncode == 124 and "had not finished after 0.2 seconds" in run.stdout.splitlines()[-1]
    assert not (laid_out / "results" / "results.json").exists()
    out = str(tmp_path / "a.zip")
    assert main(["gradescope", "attention", "-o", out, "--minutes", "40"]) == 0
    assert zipfile.ZipFile(out).read("seconds") == b"2370"
    assert main(["gradescope", "attention", "-o", out, "--minutes", "41"]) == 2


def test_a_python_that_does_not_start_is_a_reason(laid_out):
    (laid_out / "results" / "results.json").write_text('{"score": 99}')  # of an earlier run
    there = os.environ | {"AUTOGRADER_ROOT": str(laid_out), "AUTOGRADER_PYTHON": "/nowhere/python"}
    for root, code, reason in ((laid_out, 127, "ended with code 127"), (laid_out / "x", 1, "there is no folder")):
        run = subprocess.run(
            ["bash", laid_out / "source" / "run_autograder"],
            env=there | {"AUTOGRADER_ROOT": str(root)},
            capture_output=True,
            text=True,
        )
        assert run.returncode == code and reason in run.stdout
        assert not (root / "results" / "results.json").exists()


def test_bad_input_is_refused_in_a_sentence(archive, tmp_path):
    with pytest.raises(Refusal, match="is not a zip"):
        gradescope.rehearse(tmp_path / "none.zip", tmp_path / "none.ipynb")
    with pytest.raises(Refusal, match="There is no notebook"):
        gradescope.rehearse(archive, tmp_path / "none.ipynb")
