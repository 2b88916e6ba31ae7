"""What `make` says on a machine that cannot do it."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bookbinder import environment

ROOT = environment.ROOT


def make(*arguments, path, cwd=ROOT):
    tools = path / "tools"
    tools.mkdir(exist_ok=True)
    for tool in ("make", "sh", "bash", "env"):
        if not (tools / tool).exists():
            (tools / tool).symlink_to(shutil.which(tool))
    return subprocess.run(
        ["make", *arguments], cwd=cwd, capture_output=True, text=True, env={"PATH": str(tools), "PYTHON": ""}
    )


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("target", ["book", "test", "serve", "notebooks", "address", "grader"])
def test_no_python_is_one_sentence(tmp_path, target):
    result = make(target, path=tmp_path)
    assert result.returncode != 0
    assert result.stderr.startswith("No Python 3.11, 3.12 or 3.13 runs here: install one")
    assert len(result.stderr.strip().splitlines()) == 2  # ours, and make's own


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_first_python_that_runs_is_taken(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    called = tmp_path / "called"
    for name, script in {
        "python3.11": "exit 127",  # a shim that does not run
        "python3.12": f'[ "$1" = -c ] && exit 0; echo "${{0##*/}}" > {shlex.quote(str(called))}; exit 3',
        "python3.13": "exit 0",
    }.items():
        (tools / name).write_text(f"#!{shutil.which('sh')}\n{script}\n")
        (tools / name).chmod(0o755)
    assert make("book", path=tmp_path).returncode != 0
    assert called.read_text() == "python3.12\n"


def refused(capsys, monkeypatch, stage="book"):
    monkeypatch.setattr(sys, "argv", ["environment.py", stage])
    assert environment.main() == 1
    sentence = capsys.readouterr().err
    assert sentence.count("\n") == 1
    return sentence


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """The few files that decide about the environment, elsewhere."""
    names = ("requirements/book.txt", "requirements/lock.txt", "requirements.txt", "pyproject.toml")
    for name in (*names, environment.GRADER):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(environment, "prepare", lambda stage, prepare=environment.prepare: prepare(stage, tmp_path))
    return tmp_path


def test_too_little_space_is_refused_before_anything_is_made(clone, capsys, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=300 * 2**20))
    assert "Only 300 MB are free" in refused(capsys, monkeypatch)
    assert not (clone / ".venv").exists()


def test_an_unsuitable_python_is_refused(clone, capsys, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    assert refused(capsys, monkeypatch) == "This is Python 3.14; the book needs Python 3.11, 3.12 or 3.13.\n"


def test_a_failed_installation_is_not_taken_for_a_whole_one_and_whoever_can_test_can_grade(clone, capsys, monkeypatch):
    run = subprocess.run

    def run_without_pip(command, **options):
        """Make environments with an empty pip, which the steps of this test do not need: the real one takes seconds."""
        if "venv" not in command:
            return run(command, **options)
        made = run([*command, "--without-pip"], **options)
        (packages,) = clone.glob(".venv/[Ll]ib/**/site-packages")
        (packages / "pip.py").touch()
        return made

    monkeypatch.setattr(subprocess, "run", run_without_pip)
    monkeypatch.setattr(environment, "steps", lambda stage: [["-c", "raise SystemExit('ERROR: no network')"]])
    assert "ERROR: no network" in refused(capsys, monkeypatch)
    assert not (clone / ".venv/ready-book").exists()
    monkeypatch.setattr(environment, "steps", lambda stage: [["-c", "pass"]])
    environment.prepare("book")
    assert (clone / ".venv/ready-book").exists()
    capsys.readouterr()
    environment.prepare("book")  # ready: nothing is done, nothing said
    assert capsys.readouterr().out == ""
    (clone / "requirements/book.txt").write_text("changed")
    monkeypatch.setattr(environment, "steps", lambda stage: [["-c", "raise SystemExit('ERROR: stale')"]])
    assert "ERROR: stale" in refused(capsys, monkeypatch)
    assert "ERROR: stale" in refused(capsys, monkeypatch, "grader")
    monkeypatch.setattr(environment, "steps", lambda stage: [["-c", "pass"]])
    environment.prepare("test")
    monkeypatch.setattr(environment, "steps", lambda stage: [["-c", "raise SystemExit('ERROR: again')"]])
    environment.prepare("grader")


def test_what_the_grader_needs_is_pinned():
    torch, rest = environment.steps("grader")[:2]
    assert torch[-1] == "torch==2.13.0" and environment.GRADER in rest
    pins = [word.partition("==")[0] for word in rest if "==" in word.partition(";")[0]]
    assert {"numpy", "safetensors", "sandlock", "pyseccomp", "jinja2"} <= set(pins) and "playwright" not in pins


def test_torch_is_installed_first_and_pinned():
    first = environment.steps("test")[0]
    assert first[-1] == "torch==2.13.0" and "torch==2.13.0" in Path(ROOT / "requirements.txt").read_text()
    assert not any("torch" in word for step in environment.steps("book") for word in step)


def test_make_test_runs_the_notebooks_of_lessons_and_leaves_those_of_exercises_to_a_round():
    done = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True)
    assert "--nbval --ignore-glob='*/exercises.ipynb'" in done.stdout, done.stderr
