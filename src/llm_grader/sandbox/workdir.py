"""The work folder that a grader keeps while it runs, for sandboxes that cannot mount files into a worker."""

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from llm_grader.sandbox.environment import DATA, closed_folder, provided_data, worker_files

PREFIX = "llm_grader-workdir-"


@functools.cache
def workdir() -> Path:
    """Create the work folder, and remove those of graders that were killed.

    Its subfolder ``grader`` holds copies of :func:`~llm_grader.sandbox.environment.worker_files`, which all users may
    read and only this user may change. A lock that ends with this process tells that the folder is in use.
    """
    parent = temporary_folder()
    for leftover in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # of another user, in use, or not a folder
            fd = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(fd).st_uid == os.geteuid():
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_trees(str(leftover))
            finally:
                os.close(fd)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
    atexit.register(remove_trees, str(folder))
    os.makedirs(folder / "grader" / "llm_grader")
    for name, path in worker_files().items():
        if path.is_dir():
            shutil.copytree(path, folder / "grader" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / "grader" / name)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def temporary_folder() -> Path:
    """Return this user's folder for temporary files, or the machine's where root's workers cannot enter that one."""
    own = Path(tempfile.gettempdir())
    return Path("/tmp") if os.geteuid() == 0 and closed_folder(own / "workdir") else own


def add_file(extra: Path) -> None:
    """Add one more file to those that workers see."""
    fd, copy = tempfile.mkstemp(dir=workdir())
    os.close(fd)
    shutil.copyfile(extra, copy)
    os.chmod(copy, 0o644)
    os.replace(
        copy, workdir() / "grader" / extra.name
    )  # in one step, since another worker may be starting with this file


def provide(files: dict[str, bytes]) -> None:
    """Let workers that start from now on find these data files, in place of earlier ones, below the folder ``data``.

    Args:
        files: relative path of each file → its content.
    """
    remove_trees(*map(str, provided_data.values()))
    provided_data.clear()
    if files:
        folder = workdir() / "grader" / DATA
        for name, content in files.items():
            (path := folder / name).parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        provided_data[DATA] = folder


def remove_trees(*paths: str) -> None:
    """Remove folders of any depth, and nothing that a link in them points to."""
    if paths:
        subprocess.run(["rm", "-rf", "--one-file-system", "--", *paths], check=True)
