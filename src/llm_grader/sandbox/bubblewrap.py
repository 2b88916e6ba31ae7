"""Workers in namespaces of their own, set up by bubblewrap: they see a few folders, and no other process or network."""

import functools
import shutil
import subprocess
import sys
from pathlib import Path

from llm_grader.sandbox.base import Limits, Sandbox
from llm_grader.sandbox.surroundings import DEVICES, lowered, parts, visible

ROOM = "/grader"


class Bubblewrap(Sandbox):
    name = "bubblewrap"
    namespaces = True

    def missing(self) -> str:
        tools = ("bwrap", "setpriv") if self.lowers else ("bwrap",)
        absent = [tool for tool in tools if not shutil.which(tool)]
        return f"{' and '.join(absent)} cannot be found" if absent else ""

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        name, *arguments = program
        lower = lowered(uid)
        tools = [shutil.which(lower[0])] if lower else []
        return [
            *(shutil.which("bwrap"), "--die-with-parent", "--new-session"),
            *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
            *([] if lower else user_namespace()),
            # the one place that can be written; first of all, since what is needed may lie below it
            *("--perms", "1777", "--size", str(limits.disk), "--tmpfs", tmp),
            *system(),
            *("--dir", ROOM, "--dir", f"{ROOM}/llm_grader"),
            *(word for tool in tools for word in ("--ro-bind", tool, "/setpriv")),
            *(word for name, path in parts(extra).items() for word in ("--ro-bind", str(path), f"{ROOM}/{name}")),
            *("--proc", "/proc", "--dir", "/dev"),
            *(word for device in DEVICES for word in ("--dev-bind", device, device)),
            *("--symlink", tmp, "/dev/shm"),
            *("--remount-ro", "/", "--chdir", tmp),
            *(["/setpriv", *lower[1:]] if lower else []),
            *(sys.executable, "-I", "-B", f"{ROOM}/{name}", *arguments),
        ]


@functools.cache
def user_namespace() -> list[str]:
    """For a caller who is not root: a namespace in which workers cannot make further ones, where bubblewrap can."""
    usage = subprocess.run(["bwrap", "--help"], capture_output=True, text=True, check=True).stdout
    return ["--unshare-user", *(["--disable-userns"] if "--disable-userns" in usage else [])]


@functools.cache
def system() -> list[str]:
    """Options that show system libraries and the running Python, read-only."""
    options = []
    made: set[Path] = set()
    for path in visible():
        # folders on the way are made one by one: those that bubblewrap adds of itself can be entered by root alone
        for folder in reversed(path.parents[:-1]):
            if folder not in made:
                options += ["--dir", str(folder)]
        made |= {path, *path.parents}
        options += ["--symlink", str(path.readlink())] if path.is_symlink() else ["--ro-bind", str(path)]
        options.append(str(path))
    return options
