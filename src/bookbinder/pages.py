"""Build the site from the notebooks, whole or not at all, and serve it on this machine."""

import errno
import http.server
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from bookbinder import ROOT, exercises, kept, notebooks, reading, syllabus
from groundwork import Refusal

MARK = "searchindex.js"  # what every built book has
BASE = "foundation"  # a file of the last build, with the digest of all that is no page
# Looking for garbage, of which there is little, would take a third of the time.
BUILD = "import gc; gc.disable(); from jupyter_book.cli.main import main; main()"


def problems(root: Path = ROOT, paths: list[Path] | None = None, base: str = "") -> list[str]:
    """Everything that keeps the book, or the pages that ``paths`` name, from being built; one line each.

    ``base`` is the digest of the foundation, if it is known.
    """
    chosen, passed, found = notebooks.pages(root, paths), kept.Passed(root), []
    base = base or (kept.foundation(root) if passed.keeps else "")
    for page in chosen:
        told = page.book.titles, page.book.labels, page.book.equations
        key = kept.digest("page", base, *told, page.name, page.text.read_bytes(), _content(page.notebook))
        found += passed.problems(key, lambda page=page: notebooks.problems(page) + reading.problems(page))
    if not paths:
        found += notebooks.orphans(root)
        key = kept.digest("exercises", base, kept.contents(root, "book", suffix="exercises.nb.md"))
        found += passed.problems(key, lambda: exercises.generate(check=True, root=root))
        found += syllabus.problems(root)
        passed.save()
    return found


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def html(root: Path = ROOT, out: Path | None = None) -> Path:
    """Build the pages in the folder ``out``. Where the build fails, the folder stays as it was.

    Without ``out``, the build goes on from the last one, and leaves itself to the next.
    """
    goes_on, out = out is None, (out or root / "_build/html").resolve()
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise Refusal(f"{out} holds something other than a built book: name an empty folder or a new one.")
    new, old = (out.with_name(f".{out.name}.{name}") for name in ("new", "old"))
    # The path of the last build stays the same, since what was read names files in it.
    last, work = (root / kept.FOLDER / "last", root / kept.FOLDER / "work") if goes_on else (None, new / "work")
    if last:
        last.parent.mkdir(parents=True, exist_ok=True)
    for folder in (new, old, work):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        base = take_up(last, work, root) if last else ""
        run = _checked(root, work, base)
        if run.returncode and os.strerror(errno.ENOSPC) in run.stderr:
            raise Refusal("The book is not built: no space is left on the disk.")
        if run.returncode:
            raise Refusal("\n".join([*_warnings(run.stderr, root), "The book is not built: see the lines above."]))
        built = new / "html"
        (shutil.copytree if last else os.replace)(work / "_build/html", built)
        (built / ".nojekyll").touch()  # else the host of the pages leaves out folders that begin with _
        if out.exists():
            os.replace(out, old)
        os.replace(built, out)
        if last:
            shutil.rmtree(last, ignore_errors=True)
            os.replace(work, last)
    except OSError as error:
        if old.exists() and not out.exists():
            os.replace(old, out)
        raise Refusal(f"The book is not built: {error}.") from None
    finally:
        for folder in (new, old, work):
            shutil.rmtree(folder, ignore_errors=True)
    return out


def _checked(root: Path, work: Path, base: str) -> subprocess.CompletedProcess:
    """Build the pages in ``work`` and check them meanwhile. Where there are problems, the build is given up."""
    command = [sys.executable, "-c", BUILD, "build", str(root), "--path-output", str(work)]
    command += ["-W", "-n", "--keep-going", "-q"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as build:
        try:
            if found := problems(root, base=base):
                raise Refusal("\n".join([*found, f"The book is not built: {_count(found)} above."]))
            stdout, stderr = build.communicate()
        except BaseException:
            build.kill()
            raise
    return subprocess.CompletedProcess(command, build.returncode, stdout, stderr)


def take_up(last: Path, work: Path, root: Path) -> str:
    """Copy the last build to where the next one works, if it stands on the same foundation; return that digest."""
    base = kept.foundation(root)
    if (last / BASE).exists() and (last / BASE).read_text() == base:
        shutil.copytree(last, work)
        # Addresses of styles and scripts have a checksum where the file was there before the page.
        shutil.rmtree(work / "_build/html/_static", ignore_errors=True)
    work.mkdir(exist_ok=True)
    (work / BASE).write_text(base)
    return base


def _warnings(text: str, root: Path) -> list[str]:
    """The warnings of Sphinx, without the traceback of the command that ran it."""
    text = re.sub(r"\x1b\[[\d;]*m", "", text).replace(f"{root}{os.sep}", "")
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line for line in lines if any(word in line for word in ("WARNING", "ERROR", "CRITICAL", "cannot be bound"))]
    return told or lines


def _count(found: list[str]) -> str:
    return "the problem" if len(found) == 1 else f"the {len(found)} problems"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(root: Path = ROOT, port: int = 8000) -> http.server.ThreadingHTTPServer:
    """Return a server of the built pages that only this machine can reach."""
    folder = root / "_build/html"
    if not (folder / MARK).exists():
        raise Refusal("There are no pages yet: `make book` builds them.")
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))
    except (OSError, OverflowError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise Refusal(f"Port {port} is in use: `make serve PORT={port + 1}` takes the next one.") from None
        raise Refusal(f"Port {port} cannot be used: {error}.") from None
