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

import groundwork
from groundwork import Refusal, write_whole
from llm_grader import key, reading, sandbox, submissions
from llm_grader.classrun import LIMITS, SECONDS, Desk
from llm_grader.examiner import Examiner
from llm_grader.preflight import preflight
from llm_grader.records import Key, Mark, NeedsAttention, Question
from llm_grader.sandbox.surroundings import learner_side
from llm_grader.session import Pool

HERE = Path(__file__).parent
SCRIPTS = HERE / "gradescope_files"
ONLY_AT_HOME = {"gradescope_files", "templates", "__pycache__"}
GRADER_NEEDS = ("numpy>=2.0", "safetensors>=0.4.5", "nbformat>=5.9", "tqdm>=4.66", "pyseccomp>=0.1.2", "sandlock>=0.9")
STUDENTS_NEED = ("torch>=2.6", "einops>=0.8", "ipython>=8", "regex>=2024.11", "matplotlib>=3.8", "ipywidgets>=7.7")
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same content makes the same file
KEPT_FREE = 160 * 2**20  # bytes of a container's memory that are the grader's own


def write(where: str | Path, out: Path, torch_index: str | None = None) -> Path:
    """Write the zip for an assignment.

    Args:
        where: as for :func:`llm_grader.key.load`.
        out: the zip.
        torch_index: address of a package index with PyTorch's build for processors; without it, the image gets the
            build for graphics cards, which is ten times as large.
    """
    files = {
        "key.json": key.written(key.load(where)).encode(),
        "requirements.txt": "\n".join(
            [*([f"--extra-index-url {torch_index}"] if torch_index else []), *GRADER_NEEDS, *STUDENTS_NEED, ""]
        ).encode(),
    }
    files |= {path.name: path.read_bytes() for path in SCRIPTS.iterdir()}
    files["src/groundwork.py"] = Path(groundwork.__file__).read_bytes()
    for package in (HERE, learner_side()):
        for path in sorted(package.rglob("*")):
            inside = path.relative_to(package)
            if path.is_file() and not ONLY_AT_HOME.intersection(inside.parts):
                files[f"src/{package.name}/{inside.as_posix()}"] = path.read_bytes()
    out.parent.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, ZIP_DATE)
            entry.external_attr = (0o755 if name in ("setup.sh", "run_autograder") else 0o644) << 16
            made.writestr(entry, content, zipfile.ZIP_DEFLATED)
    write_whole(out, packed.getvalue(), 0o600)  # it holds the key
    return out


# There


def autograde(root: Path) -> None:
    """Grade the submission in Gradescope's folders and keep ``results/results.json`` true all the while."""
    result = Result(root / "results" / "results.json", [])
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


def _autograde(root: Path, assignment: Key, result: "Result") -> None:
    found = submissions.in_folder(root / "submission", assignment.name)
    submission = reading.read(submissions.load(found, reading.SIZE_LIMIT), assignment)
    confined, findings = sandbox.choose([root / "source", root / "submission", root / "results"])
    print(*findings, sep="\n")
    # Half a processor and 768 MB: no spare workers, so that PyTorch is loaded once at a time, or twice where the
    # examiner has to look at what a student's worker returned.
    with Pool(confined, replace(LIMITS, memory=_memory()), spares=0) as pool, Examiner(pool) as examiner:
        prepared = examiner.prepare(assignment, secrets.token_hex(16))
        examiner.end()
        print(*preflight(prepared, pool, examiner, SECONDS), sep="\n")
        examiner.end()
        for mark in Desk(prepared, pool, examiner, SECONDS).marks(submission, assignment.questions):
            result.marks[mark.question] = mark
            result.write("Not graded yet: the autograder is at work.")
    print(*submission.flags, sep="\n")
    result.write("\n".join(["Your notebook was read.", *found.notes, *submission.notes]), done=True)


class Result:
    """results.json, written whole at each change; points appear in it when the last question is done."""

    def __init__(self, path: Path, questions: list[Question]) -> None:
        self.path, self.questions = path, questions
        self.marks: dict[str, Mark] = {}

    def write(self, text: str, done: bool = False) -> None:
        """Without ``done`` the tests stand there without points: a run that is cut off must not look like a mark."""
        tests = [
            _test(question, self.marks[question.id], done) for question in self.questions if question.id in self.marks
        ]
        content = {"output": text, "stdout_visibility": "hidden", "visibility": "visible", "tests": tests}
        write_whole(self.path, json.dumps(content, indent=1).encode())


def _test(question: Question, mark: Mark, done: bool) -> dict:
    shown = {"name": question.title, "output": mark.feedback, "visibility": "after_published"}
    if not done:
        return shown
    status = "passed" if mark.points == mark.possible else "failed"
    return shown | {"score": mark.points, "max_score": mark.possible, "status": status}


def _memory() -> int:
    """What a worker may take: the usual, or what the container leaves."""
    limits = [LIMITS.memory + KEPT_FREE]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min(limits) - KEPT_FREE


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
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(root / "source")
        shutil.copy(notebook, root / "submission" / notebook.name)
        there = {**os.environ, "AUTOGRADER_ROOT": str(root)}
        if set_up:
            subprocess.run(["bash", root / "source" / "setup.sh"], env=there, check=True)
        else:
            there["AUTOGRADER_PYTHON"] = sys.executable
        shutil.copy(root / "source" / "run_autograder", root / "run_autograder")
        subprocess.run(["bash", root / "run_autograder"], env=there, cwd=root, check=True)
        return json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
