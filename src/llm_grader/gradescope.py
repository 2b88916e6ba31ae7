"""Gradescope: write the autograder zip, grade a submission there, and rehearse the zip on any machine."""

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

import groundwork
from groundwork import Refusal, write_whole
from llm_grader import key, reading, sandbox, submissions
from llm_grader.classrun import LIMITS, SECONDS
from llm_grader.context import GradingContext
from llm_grader.preflight import preflight
from llm_grader.records import Key, Mark, NeedsAttention, Question
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.sandbox.cgroups import memory_for_this_process
from llm_grader.sandbox.environment import student_package_folder
from llm_grader.session import WorkerPool

PACKAGE = Path(__file__).parent
SCRIPTS = PACKAGE / "gradescope_files"
EXCLUDED_NAMES = {"gradescope_files", "importers", "templates", "__pycache__"}
REQUIREMENTS = PACKAGE / "requirements.txt"
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the same content makes the same file
RESERVED_MEMORY = 160 * 2**20  # bytes of a container's memory that the grader itself needs


def write_zip(exercises: str | Path, out: Path, torch_index: str | None = None) -> Path:
    """Write the autograder zip of an assignment.

    Args:
        exercises: the assignment, as for :func:`llm_grader.key.load`.
        out: path of the zip.
        torch_index: URL of a package index with the CPU build of PyTorch; without it, the image gets the CUDA build,
            which is ten times as large.

    Returns:
        The path of the zip.
    """
    index_option = f"--extra-index-url {torch_index}\n" if torch_index else ""
    requirements = index_option + REQUIREMENTS.read_text(encoding="utf-8")
    files = {"key.json": key.to_json(key.load(exercises)).encode(), "requirements.txt": requirements.encode()}
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


# On Gradescope


def autograde(root: Path) -> None:
    """Grade the submission in Gradescope's folders, and keep ``results/results.json`` up to date meanwhile.

    Args:
        root: Gradescope's folder, with the folders source, submission and results.
    """
    result = ResultsFile(root / "results" / "results.json", [])
    try:
        assignment = key.load(root / "source" / "key.json")
        result.questions = assignment.questions
        result.write("Not graded yet: the autograder is running.")
        _autograde(root, assignment, result)
    except NeedsAttention as e:
        result.write(f"Needs attention: {e}")
    except Exception as e:  # an error of the grader
        print(f"{type(e).__name__}: {e}", file=sys.stderr)  # only the instructor sees this output
        result.write("Not graded: the autograder failed. This is not a zero; please tell your instructor.")


def _autograde(root: Path, assignment: Key, result: "ResultsFile") -> None:
    found = submissions.find_in_folder(root / "submission", assignment.name)
    submission = reading.read(submissions.load(found, reading.SIZE_LIMIT), assignment)
    chosen, findings = sandbox.choose([root / "source", root / "submission", root / "results"])
    print(*findings, sep="\n")
    # The smallest container has half a CPU and 768 MB. Without spare workers, PyTorch is loaded by one process at a
    # time, or by two while ``observe`` is called on what a student's worker returned.
    with (
        WorkerPool(chosen, replace(LIMITS, memory=_memory_limit()), n_spares=0) as pool,
        ReferenceWorker(pool) as reference_worker,
    ):
        prepared = reference_worker.prepare(assignment, secrets.token_hex(16))
        reference_worker.stop()
        context = GradingContext(prepared, pool, reference_worker, SECONDS)
        print(*preflight(context), sep="\n")
        reference_worker.stop()

        def write() -> None:
            result.write("Not graded yet: the autograder is running.")

        notes = context.complete(submission, result.marks, write)
        if any(mark.unsure for mark in result.marks.values()):
            notes = context.complete(submission, result.marks, write)
    print(*submission.flags, sep="\n")
    result.write("\n".join(["Your notebook was read.", *found.notes, *submission.notes, *notes]), done=True)


class ResultsFile:
    """The file results.json. It is replaced at each change, and holds points only when all questions are graded.

    Args:
        path: path of the file.
        questions: questions of the assignment.
    """

    def __init__(self, path: Path, questions: list[Question]) -> None:
        self.path, self.questions = path, questions
        self.marks: dict[str, Mark] = {}

    def write(self, text: str, done: bool = False) -> None:
        """Write a text and the marks so far, with points only if ``done``: an interrupted run must not look graded."""
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
        subprocess.run(["bash", root / "run_autograder"], env=environment, cwd=root, check=True)
        return json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
