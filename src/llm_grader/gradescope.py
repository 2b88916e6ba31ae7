"""Gradescope: the zip that is uploaded there, what it does with a submission, and a rehearsal on any machine."""

import io
import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from llm_grader import Refusal, key, reading, sandbox, submissions
from llm_grader.classrun import LIMITS, SECONDS, GradingContext
from llm_grader.files import write_whole
from llm_grader.preflight import preflight
from llm_grader.records import Key, Mark, NeedsAttention, Question
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.sandbox.environment import student_package_folder
from llm_grader.session import WorkerPool

PACKAGE = Path(__file__).parent
SCRIPTS = PACKAGE / "gradescope_files"
EXCLUDED_NAMES = {"gradescope_files", "templates", "__pycache__"}
GRADER_REQUIREMENTS = (
    "numpy>=2.0",
    "safetensors>=0.4.5",
    "nbformat>=5.9",
    "tqdm>=4.66",
    "pyseccomp>=0.1.2",
    "sandlock>=0.9",
)
STUDENT_REQUIREMENTS = (
    "torch>=2.6",
    "einops>=0.8",
    "ipython>=8",
    "regex>=2024.11",
    "matplotlib>=3.8",
    "ipywidgets>=7.7",
)
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same content makes the same file
RESERVED_MEMORY = 160 * 2**20  # bytes of a container's memory that are the grader's own


def write_zip(where: str | Path, out: Path, torch_index: str | None = None) -> Path:
    """Write the zip for an assignment.

    Args:
        where: as for :func:`llm_grader.key.load`.
        out: the zip.
        torch_index: address of a package index with PyTorch's build for processors; without it, the image gets the
            build for graphics cards, which is ten times as large.
    """
    files = {
        "key.json": key.to_json(key.load(where)).encode(),
        "requirements.txt": "\n".join(
            [
                *([f"--extra-index-url {torch_index}"] if torch_index else []),
                *GRADER_REQUIREMENTS,
                *STUDENT_REQUIREMENTS,
                "",
            ]
        ).encode(),
    }
    files |= {path.name: path.read_bytes() for path in SCRIPTS.iterdir()}
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
    write_whole(out, buffer.getvalue(), 0o600)  # it holds the key
    return out


# There


def autograde(root: Path) -> None:
    """Grade the submission in Gradescope's folders and keep ``results/results.json`` true all the while."""
    result = ResultsFile(root / "results" / "results.json", [])
    try:
        assignment = key.load(root / "source" / "key.json")
        result.questions = assignment.questions
        result.write("Not graded yet: the autograder is at work.")
        _autograde(root, assignment, result)
    except NeedsAttention as e:
        result.write(f"Needs attention: {e}")
    except Exception as e:  # ours, whatever it is
        print(f"{type(e).__name__}: {e}", file=sys.stderr)  # for the instructor, who alone sees what is printed
        result.write("Not graded: the autograder failed. This is not a zero; please tell your instructor.")


def _autograde(root: Path, assignment: Key, result: "ResultsFile") -> None:
    found = submissions.find_in_folder(root / "submission", assignment.name)
    submission = reading.read(submissions.load(found, reading.SIZE_LIMIT), assignment)
    chosen, findings = sandbox.choose([root / "source", root / "submission", root / "results"])
    print(*findings, sep="\n")
    # Half a processor and 768 MB: no spare workers, so that PyTorch is loaded once at a time, or twice where the
    # examiner has to look at what a student's worker returned.
    with (
        WorkerPool(chosen, replace(LIMITS, memory=_memory_limit()), n_spares=0) as pool,
        ReferenceWorker(pool) as reference_worker,
    ):
        prepared = reference_worker.prepare(assignment, secrets.token_hex(16))
        reference_worker.stop()
        print(*preflight(prepared, pool, reference_worker, SECONDS), sep="\n")
        reference_worker.stop()
        for mark in GradingContext(prepared, pool, reference_worker, SECONDS).marks(submission, assignment.questions):
            result.marks[mark.question] = mark
            result.write("Not graded yet: the autograder is at work.")
    print(*submission.flags, sep="\n")
    result.write("\n".join(["Your notebook was read.", *found.notes, *submission.notes]), done=True)


class ResultsFile:
    """results.json, written whole at each change; points appear in it when the last question is done."""

    def __init__(self, path: Path, questions: list[Question]) -> None:
        self.path, self.questions = path, questions
        self.marks: dict[str, Mark] = {}

    def write(self, text: str, done: bool = False) -> None:
        """Without ``done`` the tests stand there without points: a run that is cut off must not look like a mark."""
        tests = [
            _test_entry(question, self.marks[question.id], done)
            for question in self.questions
            if question.id in self.marks
        ]
        content = {"output": text, "stdout_visibility": "hidden", "visibility": "visible", "tests": tests}
        write_whole(self.path, json.dumps(content, indent=1).encode())


def _test_entry(question: Question, mark: Mark, done: bool) -> dict:
    entry = {"name": question.title, "output": mark.feedback, "visibility": "after_published"}
    if not done:
        return entry
    status = "passed" if mark.points == mark.possible else "failed"
    return entry | {"score": mark.points, "max_score": mark.possible, "status": status}


def _memory_limit() -> int:
    """What a worker may take: the usual, or what the container leaves."""
    limits = [LIMITS.memory + RESERVED_MEMORY]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min(limits) - RESERVED_MEMORY


# Here


def rehearse(archive: Path, notebook: Path, set_up: bool = False) -> dict:
    """Run a zip on one notebook as Gradescope does, in folders that are laid out as there.

    Args:
        archive: the zip.
        notebook: what a student hands in.
        set_up: also run its ``setup.sh``, which installs Python packages; otherwise this Python is used.

    Returns:
        What results.json holds.
    """
    if not zipfile.is_zipfile(archive):
        raise Refusal(f"{archive} is not a zip: make one with `python -m llm_grader gradescope`.")
    if not notebook.is_file():
        raise Refusal(f"{notebook}: there is no such file.")
    with TemporaryDirectory(prefix="rehearsal-") as folder:
        root = Path(folder)
        root.chmod(root.stat().st_mode | stat.S_IXGRP | stat.S_IXOTH)  # as /autograder is
        for name in ("source", "submission", "results"):
            (root / name).mkdir()
        with zipfile.ZipFile(archive) as buffer:
            buffer.extractall(root / "source")
        shutil.copy(notebook, root / "submission" / notebook.name)
        environment = {**os.environ, "AUTOGRADER_ROOT": str(root)}
        if set_up:
            subprocess.run(["bash", root / "source" / "setup.sh"], env=environment, check=True)
        else:
            environment["AUTOGRADER_PYTHON"] = sys.executable
        shutil.copy(root / "source" / "run_autograder", root / "run_autograder")
        subprocess.run(["bash", root / "run_autograder"], env=environment, cwd=root, check=True)
        return json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
