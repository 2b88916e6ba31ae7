"""Benchmark: time and memory of grading a class, compared with starting PyTorch and IPython, and with otter-grader.

    python benchmarks/grading.py [--submissions 60] [--otter PATH/TO/VENV/bin/otter]

The script writes submissions to the attention chapter's exercises with some right and some wrong answers, and grades
them with `python -m llm_grader grade` in a separate process. It prints the seconds per submission after the preflight
and the peak resident set size of that process. Then it grades a class of 200, a tenth of it hostile, with ten seconds
for each submission. The baseline is a process that imports PyTorch and IPython, since every submission needs one. If
otter-grader is installed, it gets two of the exercises as an assignment and grades one submission after another with
`otter run`.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

import hostile_notebooks as hostile  # noqa: E402
import student_notebooks as student  # noqa: E402

BASELINE = "import torch, IPython.core.interactiveshell as s; torch.set_num_threads(1); s.InteractiveShell.instance()"
GRADE = """
import pathlib, sys
from llm_grader.__main__ import main
code = main(["grade", sys.argv[1], "--exercises", "attention", "--out", sys.argv[2], "--workers", "2"])
status = dict(line.split(":") for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print("PEAK", status["VmHWM"].split()[0])
sys.exit(code)
"""
OTTER_TESTS = {
    "hard_lookup": "hard_lookup(torch.eye(3), torch.eye(3), torch.eye(3)).shape == (3, 3)",
    "causal_mask": "causal_mask(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]",
}


def seconds(command: list, **more) -> float:
    begin = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    return time.perf_counter() - begin


def baseline() -> float:
    return seconds([sys.executable, "-I", "-c", BASELINE], env=os.environ | {"OMP_NUM_THREADS": "1"})


def ordinary(folder: Path, count: int) -> None:
    """Write different submissions, of which every third has a known mistake and every fifth omits a question."""
    exercises = [question.function for question in student.key().questions]
    for i in range(count):
        keep = [name for j, name in enumerate(exercises) if i % 5 or j != i // 5 % len(exercises)]
        made = student.filled(*keep)
        if i % 3 == 0 and "causal_mask" in keep:
            student.edit(made, "causal_mask", "n_keys - n_queries", "0")
        (folder / f"student{i:03}.ipynb").write_bytes(student.data(student.add(made, f"print({i})")))


def graded(folder: Path, out: Path) -> tuple[float, float, float]:
    """Return the total seconds, the seconds after the preflight, and the grader's peak memory in MB."""
    run = subprocess.Popen(
        [sys.executable, "-c", GRADE, folder, out],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"},
    )
    begin, last, peak = time.perf_counter(), 0.0, 0.0
    for line in run.stdout:
        if line.startswith("Grading"):
            last = time.perf_counter()
        if line.startswith("PEAK"):
            peak = int(line.split()[1]) / 1024
    assert run.wait() == 0
    end = time.perf_counter()
    return end - begin, end - last, peak


def otter_assignment(otter: Path, folder: Path) -> tuple[Path, Path]:
    """Return the autograder zip and a submission of an otter-grader assignment with the two exercises."""

    def cell(kind: str, text: str) -> dict:
        made = {"cell_type": kind, "id": f"c{next(numbers)}", "metadata": {}, "source": text}
        return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})

    numbers = iter(range(1000))
    cells = [cell("raw", "# ASSIGNMENT CONFIG\nrequirements: []\nrun_tests: false\nexport_cell: false\n")]
    cells.append(cell("code", "import math\nimport torch\nfrom einops import rearrange"))
    for name, test in OTTER_TESTS.items():
        body = re.sub(r"\b(Float|Bool|Int)\[[^\]]*\]", "torch.Tensor", student.solution(name))
        cells += [
            cell("raw", f"# BEGIN QUESTION\nname: {name}\npoints: 1"),
            cell("markdown", name),
            cell("raw", "# BEGIN SOLUTION"),
            cell("code", body),
            cell("raw", "# END SOLUTION"),
            cell("raw", "# BEGIN TESTS"),
            cell("code", f"assert {test}"),
            cell("raw", "# END TESTS"),
            cell("raw", "# END QUESTION"),
        ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    master = folder / "master.ipynb"
    master.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": cells}))
    subprocess.run([otter, "assign", master, folder / "dist"], check=True, capture_output=True, cwd=folder)
    (archive,) = (folder / "dist" / "autograder").glob("*autograder*.zip")
    return archive, folder / "dist" / "autograder" / "master.ipynb"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=60)
    parser.add_argument("--otter", type=Path, help="otter-grader's command")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names = ("class", "large", "otter")
        for name in names:
            (folder / name).mkdir()
        ordinary(folder / "class", args.submissions)
        each, baselines = [], []
        for i in range(args.rounds):
            baselines.append(baseline())
            _, after, peak = graded(folder / "class", folder / f"marks{i}")
            each.append(after / args.submissions)
            ratio = each[-1] / baselines[-1]
            print(f"{each[-1]:.2f} s per submission, {ratio:.2f} × the baseline; grader {peak:.0f} MB", flush=True)
        if args.otter:
            archive, submission = otter_assignment(args.otter.absolute(), folder / "otter")
            command = [args.otter.absolute(), "run", submission, "-a", archive, "-o", folder / "otter"]
            theirs = [seconds(command, cwd=folder / "otter") for _ in range(args.rounds)]
            ratio = statistics.median(each) / statistics.median(theirs)
            print(f"otter-grader, two questions: {statistics.median(theirs):.2f} s; ours {ratio:.2f} × that")
        ordinary(folder / "large", 180)
        attacks = [attack for attack in hostile.CORPUS.values() if attack.status == "graded"]
        attacks = random.Random(200).sample(attacks, 20)
        for attack in attacks:
            attack.make(folder / "large", f"hostile {attack.name}")
        everything, _, peak = graded(folder / "large", folder / "marks")
        print(f"a class of 200 with {len(attacks)} hostile submissions: {everything:.0f} s, grader {peak:.0f} MB")


if __name__ == "__main__":
    main()
