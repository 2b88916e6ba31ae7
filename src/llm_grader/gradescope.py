"""Gradescope: write the autograder zip, grade a submission there, and rehearse the zip on any machine."""

import io
import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import groundwork
from groundwork import Refusal, write_whole
from llm_grader import key, provisions, reading, sandbox, submissions
from llm_grader.classrun import LIMITS, SECONDS
from llm_grader.context import GradingContext
from llm_grader.missing_modules import WatchingContext
from llm_grader.preflight import preflight
from llm_grader.records import Key, Mark, NeedsAttention, Question
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.sandbox.cgroups import memory_for_this_process
from llm_grader.sandbox.environment import student_package_folder
from llm_grader.sandbox.workdir import provide
from llm_grader.session import WorkerPool

PACKAGE = Path(__file__).parent
SCRIPTS = PACKAGE / "gradescope_files"
EXCLUDED_NAMES = {"gradescope_files", "importers", "templates", "__pycache__"}
REQUIREMENTS = PACKAGE / "requirements.txt"
SEED = "seed"
MINUTES, MAX_MINUTES = 10.0, 40.0  # Gradescope's time limit for a submission: by default, and at most
SECONDS_LEFT = 30  # before it, for what Gradescope does before and after the run
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the same content makes the same file
RESERVED_MEMORY = 160 * 2**20  # bytes of a container's memory that the grader itself needs


def write_zip(
    exercises: str | Path, out: Path, torch_index: str | None = None, seed: str = "", minutes: float = MINUTES
) -> Path:
    """Write the autograder zip of an assignment.

    Args:
        exercises: the assignment, as for :func:`llm_grader.key.load`.
        out: path of the zip.
        torch_index: URL of a package index with the CPU build of PyTorch; without it, the image gets the CUDA build,
            which is ten times as large.
        seed: seed of the hidden inputs, see :func:`read_seed`; by default, a new one is drawn.
        minutes: Gradescope's time limit for a submission. The autograder stops itself before it, since Gradescope gives
            no points to a submission that it stops.

    Returns:
        The path of the zip.
    """
    assignment = key.load(exercises)
    requirements = f"--extra-index-url {torch_index}\n" if torch_index else ""
    requirements += REQUIREMENTS.read_text(encoding="utf-8")
    if assignment.requirements:
        requirements += "\n".join(
            ["# What this assignment lets students import besides.", *assignment.requirements, ""]
        )
    files = {"key.json": key.to_json(assignment).encode(), "requirements.txt": requirements.encode()}
    files[SEED] = (seed or secrets.token_hex(32)).encode()
    files["seconds"] = str(int(60 * minutes) - SECONDS_LEFT).encode()
    files |= {path.name: path.read_bytes() for path in SCRIPTS.iterdir()}
    files["src/groundwork.py"] = Path(groundwork.__file__).read_bytes()
    for package in (PACKAGE, student_package_folder()):
        for path in sorted(package.rglob("*")):
            relative = path.relative_to(package)
            if path.is_file() and not EXCLUDED_NAMES.intersection(relative.parts):
                files[f"src/{package.name}/{relative.as_posix()}"] = path.read_bytes()
    out.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, ZIP_DATE)
            entry.external_attr = (0o755 if name in ("setup.sh", "run_autograder") else 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    write_whole(out, buffer.getvalue(), 0o600)  # since it holds the key
    return out


def read_seed(text: str) -> str:
    """Return the seed that the command line names: 64 hexadecimal digits, or the path of a zip that has one.

    Raises:
        Refusal: it is neither.
    """
    if (path := Path(text)).is_file() and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            text = archive.read(SEED).decode(errors="replace") if SEED in archive.namelist() else ""
        if not re.fullmatch("[0-9a-f]{64}", text):
            raise Refusal(f"{path} holds no seed; name a zip that this version of the grader wrote.")
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise Refusal(f"--seed is {text}; it must be an earlier autograder zip, or 64 hexadecimal digits.")
    return text


# On Gradescope


def autograde(root: Path) -> bool:
    """Grade the submission in Gradescope's folders, and write ``results/results.json`` if it has points.

    Gradescope knows no state without points: it takes a file without scores for a malformed one or for a zero. Without
    a file it says that the autograder failed, and records nothing. The reason is printed, for the instructor.

    Args:
        root: Gradescope's folder, with the folders source, submission and results.

    Returns:
        Whether the submission was graded.
    """
    path = root / "results" / "results.json"
    path.unlink(missing_ok=True)
    try:
        assignment = key.load(root / "source" / "key.json")
        result = _autograde(root, assignment)
        write_whole(path, json.dumps(result, indent=1).encode())
    except NeedsAttention as e:
        print(f"Needs attention: {e}")
    except Exception as e:  # an error of the grader
        print(f"Not graded: {e if isinstance(e, Refusal) else f'{type(e).__name__}: {e}'}")
    else:
        return True
    return False


def _autograde(root: Path, assignment: Key) -> dict[str, Any]:
    """Grade the submission and return the content of results.json.

    Raises:
        NeedsAttention: it cannot be read.
        Exception: the grader failed.
    """
    found = submissions.choose(submissions.find_in_folder(root / "submission"), assignment)
    submission = reading.read(submissions.load(found, reading.SIZE_LIMIT), assignment)
    chosen, findings = sandbox.choose([root / "source", root / "submission", root / "results"])
    print(*findings, sep="\n")
    provisions.check_installed(assignment.requirements)
    provide(assignment.data)
    # The smallest container has half a CPU and 768 MB. Without spare workers, PyTorch is loaded by one process at a
    # time, or by two while ``observe`` is called on what a student's worker returned.
    with (
        WorkerPool(chosen, replace(LIMITS, memory=_memory_limit()), n_spares=0) as pool,
        ReferenceWorker(pool) as reference_worker,
    ):
        prepared = reference_worker.prepare(assignment, (root / "source" / SEED).read_text(encoding="utf-8"))
        reference_worker.stop()
        context = WatchingContext.of(GradingContext(prepared, pool, reference_worker, SECONDS))
        print(*preflight(context), sep="\n")
        reference_worker.stop()
        context.names.clear()
        marks: dict[str, Mark] = {}
        notes = context.complete(submission, marks)
        if any(mark.unsure for mark in marks.values()):
            notes = context.complete(submission, marks)
    remarks, flags = context.remarks(submission, marks.values())
    print(*submission.flags, *flags, sep="\n")
    return {
        "output": "\n".join(["Your notebook was read.", *found.notes, *submission.notes, *notes, *remarks]),
        "stdout_visibility": "hidden",
        "visibility": "visible",
        "tests": [_test_entry(question, marks[question.id]) for question in assignment.questions],
    }


def _test_entry(question: Question, mark: Mark) -> dict:
    return {
        "name": question.title,
        "output": mark.feedback,
        "visibility": "after_published",
        "score": mark.points,
        "max_score": mark.possible,
        "status": "passed" if mark.points == mark.possible else "failed",
    }


def _memory_limit() -> int:
    """Return the memory limit of a worker in bytes: the usual one, or what the container leaves."""
    return min(LIMITS.memory, memory_for_this_process() - RESERVED_MEMORY)


# On the instructor's machine


def rehearse(archive: Path, notebook: Path, set_up: bool = False) -> dict:
    """Run an autograder zip on one notebook as Gradescope does, in the same folder layout.

    Args:
        archive: path of the zip.
        notebook: path of the notebook that a student hands in.
        set_up: whether to run ``setup.sh`` from the zip, which installs Python packages; otherwise this Python is used.

    Returns:
        The content of results.json.

    Raises:
        Refusal: the run has left none, since it cannot give the notebook points. The message says why.
    """
    if not zipfile.is_zipfile(archive):
        raise Refusal(f"{archive} is not a zip; write one with `python -m llm_grader gradescope`.")
    if not notebook.is_file():
        raise Refusal(f"There is no notebook {notebook}.")
    with TemporaryDirectory(prefix="rehearsal-") as folder:
        root = Path(folder)
        root.chmod(root.stat().st_mode | stat.S_IXGRP | stat.S_IXOTH)  # like /autograder
        for name in ("source", "submission", "results"):
            (root / name).mkdir()
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(root / "source")
        shutil.copy(notebook, root / "submission" / notebook.name)
        environment = {**os.environ, "AUTOGRADER_ROOT": str(root)}
        if set_up:
            subprocess.run(["bash", root / "source" / "setup.sh"], env=environment, check=True)
        else:
            environment["AUTOGRADER_PYTHON"] = sys.executable
        shutil.copy(root / "source" / "run_autograder", root / "run_autograder")
        run = subprocess.run(["bash", root / "run_autograder"], env=environment, cwd=root, stdout=subprocess.PIPE)
        said = run.stdout.decode(errors="replace").strip()
        if not (path := root / "results" / "results.json").exists():
            reason = said.rpartition("\n")[2] or f"The autograder ended with code {run.returncode}."
            raise Refusal(f"{reason}\nGradescope will say that the autograder failed, and record no score.")
        print(said, file=sys.stderr)
        return json.loads(path.read_text(encoding="utf-8"))
