"""Prepare `.venv`: what the pages need (`book`), what the grader needs besides (`grader`), or everything (`test`).

Run by the Makefile, before anything is installed, so this file imports nothing but the standard library.

    PYTHONPATH=src python -m bookbinder.environment book|grader|test
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bookbinder import ROOT
from groundwork import Refusal

OLDEST, NEWEST = (3, 11), (3, 13)
FREE_MB = {"book": 700, "grader": 2500, "test": 3500}
WHAT = {
    "book": "what the pages need (about a minute)",
    "grader": "what grading needs, PyTorch among it (some minutes)",
    "test": "everything the tests need, PyTorch among it (some minutes)",
}


GRADER = "src/llm_grader/requirements.txt"


def fingerprint(root: Path, stage: str) -> str:
    """A hash of everything that decides what is installed."""
    names = ["requirements/book.txt", "requirements/lock.txt", "pyproject.toml"]
    names += ["requirements.txt"] * (stage != "book") + [GRADER] * (stage == "grader")
    return hashlib.sha256(b"".join((root / name).read_bytes() for name in names)).hexdigest()


def _check_machine(root: Path, stage: str) -> None:
    version = sys.version_info[:2]
    if not OLDEST <= version <= NEWEST:
        raise Refusal(f"This is Python {version[0]}.{version[1]}; the book needs Python 3.11, 3.12 or 3.13.")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        raise Refusal(
            f"This Python has no module {error.name}, so it cannot make an environment; on Debian and Ubuntu: "
            f"apt install python{version[0]}.{version[1]}-venv."
        ) from None
    free = shutil.disk_usage(root).free // 2**20
    if free < FREE_MB[stage]:
        raise Refusal(
            f"Only {free} MB are free on the disk of the book, and installing {WHAT[stage]} takes {FREE_MB[stage]} MB: "
            "make room and run the command again."
        )


def steps(stage: str) -> list[list[str]]:
    install = ["-m", "pip", "install", "--disable-pip-version-check"]
    if stage == "book":
        needs = [[*install, "-r", "requirements/book.txt"]]
    else:  # torch first and alone: what follows then takes it as it is
        lines = (ROOT / "requirements.txt").read_text().splitlines()
        pin = next(line for line in lines if line.startswith("torch=="))
        rest = ["-r", "requirements.txt"]
        if stage == "grader":
            graders = {line.partition(">=")[0] for line in (ROOT / GRADER).read_text().splitlines()}
            pins = [line for line in lines if line.partition("==")[0] in graders]
            rest = ["-c", "requirements/lock.txt", "-r", "requirements/book.txt", "-r", GRADER, *pins]
        needs = [[*install, "-c", "requirements/lock.txt", pin], [*install, *rest]]
    return [*needs, [*install, "--no-deps", "--no-build-isolation", "-e", "."]]


def prepare(stage: str, root: Path = ROOT) -> None:
    home = root / ".venv"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamps = {s: home / f"ready-{s}" for s in WHAT}
    ready = [s for s in {stage, "test"} if stamps[s].exists() and stamps[s].read_text() == fingerprint(root, s)]
    if ready and runs(python):  # what the tests need is everything
        return
    _check_machine(root, stage)
    if not runs(python):
        shutil.rmtree(home, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", str(home)], capture_output=True, text=True)
        if made.returncode:
            shutil.rmtree(home, ignore_errors=True)
            raise Refusal(f"No environment could be made in {home}: {last_line(made.stdout + made.stderr)}")
    stamps[stage].unlink(missing_ok=True)  # until the last step has succeeded the environment does not count as ready
    log = home / "install.log"
    print(f"Installing {WHAT[stage]}; details in {log.relative_to(root)}", flush=True)
    with log.open("w") as out:
        for step in steps(stage):
            if subprocess.run([python, *step], cwd=root, stdout=out, stderr=subprocess.STDOUT).returncode:
                raise Refusal(f"pip could not install {step[-1]}: {last_line(log.read_text())} (all of it: {log})")
    stamps[stage].write_text(fingerprint(root, stage))


def runs(python: Path) -> bool:
    return python.exists() and subprocess.run([python, "-c", "import pip"], capture_output=True).returncode == 0


def last_line(text: str) -> str:
    """The last line that an installer marked as an error, or else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no message"]
    return next((line for line in reversed(lines) if line.upper().startswith("ERROR")), lines[-1])


def main() -> int:
    if sys.argv[1:] not in [[stage] for stage in WHAT]:
        print(f"usage: python -m bookbinder.environment {'|'.join(WHAT)}", file=sys.stderr)
        return 2
    try:
        prepare(sys.argv[1])
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
