"""The files that run the grader in containers, as far as they can be tried without an engine and a scheduler."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import hostile_notebooks as corpus
import pytest
import yaml
from student_notebooks import data

from bookbinder import ROOT
from llm_grader import shares
from llm_grader.__main__ import parser
from llm_grader.key import to_json

DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
COPIED = re.findall(r"^COPY (\S+) (\S+)$", CONTAINERFILE, re.MULTILINE)


@pytest.fixture
def said(tmp_path):
    """Runs a shell script in which the program of this name only says what it was given; returns these words."""

    def run(script, program, **environment):
        fake = tmp_path / "tools" / program
        fake.parent.mkdir(exist_ok=True)
        fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        fake.chmod(0o755)
        path = {"PATH": f"{fake.parent}:{os.environ['PATH']}"}
        made = subprocess.run(script, env=path | environment, capture_output=True, text=True, check=True)
        return made.stdout.splitlines()

    return run


def task(words):
    """The share that the command of a grader, given word by word, grades."""
    args = parser().parse_args(words)
    assert (args.submissions, args.exercises, args.out) == (
        Path("/course/submissions"),
        "/course/private/week-1.key.json",
        Path("/course/marks"),
    )
    return shares.parse(args.task)


def test_the_slurm_script_grades_each_share(said):
    script = (DEPLOY / "slurm.sh").read_text(encoding="utf-8")
    first, last = map(int, re.search(r"^#SBATCH --array=(\d+)-(\d+)$", script, re.MULTILINE).groups())
    assert first == 1
    for number in (first, last):
        environment = {"COURSE": "/shared/a course", "KEY": "week-1", "SLURM_ARRAY_TASK_ID": str(number)}
        words = said(["bash", DEPLOY / "slurm.sh"], "apptainer", SLURM_ARRAY_TASK_COUNT="1", **environment)
        grader = words.index("/shared/a course/grader.sif")
        assert words[grader - 2 : grader] == ["--bind", "/shared/a course:/course"]
        assert task(words[grader + 1 :]) == shares.Share(number, last)


def test_the_kubernetes_job_grades_each_share(said):
    (job,) = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"], job["spec"]["completionMode"]) == ("batch/v1", "Job", "Indexed")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (mount,), (volume,) = container["volumeMounts"], job["spec"]["template"]["spec"]["volumes"]
    assert mount["name"] == volume["name"] and mount["mountPath"] == "/course"
    for index in (0, job["spec"]["completions"] - 1):
        words = said(container["command"] + container["args"], "python", JOB_COMPLETION_INDEX=str(index))
        assert words[:2] == ["-m", "llm_grader"]
        assert task(words[2:]) == shares.Share(index + 1, job["spec"]["completions"])


def test_the_image_holds_all_that_grading_needs_and_no_key(tmp_path, confined, popen):
    root = tmp_path / "image"
    for source, target in COPIED:
        assert target.startswith("/opt/grader/") and not re.search("exercises|private|key", source)
        origin, goal = ROOT / source, root / target.removeprefix("/opt/grader/")
        goal.parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(origin, goal, ignore=ignored) if origin.is_dir() else shutil.copy(origin, goal)
    assert {path.name for path in (root / "src").iterdir()} == {"groundwork.py", "llm_grader", "llm_anatomy"}
    assert f"-r {dict(COPIED)['src/llm_grader/requirements.txt']}" in CONTAINERFILE
    entry = shlex.split(re.search(r"^ENTRYPOINT \[(.*)\]$", CONTAINERFILE, re.MULTILINE)[1].replace(",", " "))
    environment = dict(re.findall(r"(\w+)=(\S+)", re.search(r"^ENV (.*)$", CONTAINERFILE, re.MULTILINE)[1]))
    assert environment["PYTHONPATH"] == "/opt/grader/src" and entry == ["python", "-m", "llm_grader"]

    (tmp_path / "class").mkdir()
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "class/Ada.ipynb").write_bytes(data(corpus.notebook()))
    key = replace(corpus.key(), questions=corpus.key().questions[:1])
    (tmp_path / "private/attention.key.json").write_text(to_json(key))
    same = ["class", "--exercises", "private/attention.key.json", "--out", "marks"]
    for words in (["grade", *same, "--seconds", "20", "--workers", "1", "--task", "1/1"], ["collect", *same]):
        made = popen(
            [sys.executable, *entry[1:], *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(root / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = made.communicate()[0]
        assert made.returncode == 0 and "1 graded" in said, said
    assert "Ada" in (tmp_path / "marks/marks.csv").read_text(encoding="utf-8-sig")
