"""A sandbox of Linux namespaces, set up by bubblewrap."""

import functools
import shutil
import subprocess
import sys
from pathlib import Path

from groundwork import Refusal
from llm_grader.sandbox.base import Limits, Sandbox
from llm_grader.sandbox.environment import DEVICES, readable_paths, setpriv_prefix, worker_files

WORKDIR = "/grader"


class Bubblewrap(Sandbox):
    """Sandbox in which a worker sees a few read-only folders, and no other process and no network."""

    name = "bubblewrap"
    has_namespaces = True

    def unavailable_reason(self) -> str:
        tools = ("bwrap", "setpriv") if self.changes_user else ("bwrap",)
        not_found = [tool for tool in tools if not shutil.which(tool)]
        return f"{' and '.join(not_found)} cannot be found" if not_found else ""

    def command(self, program: list[str], extra: Path | None, limits: Limits, uid: int | None, tmp: str) -> list[str]:
        name, *arguments = program
        prefix = setpriv_prefix(uid)
        tools = [_find_tool(prefix[0])] if prefix else []
        return [
            *(_find_tool("bwrap"), "--die-with-parent", "--new-session"),
            *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
            *([] if prefix else user_namespace_options()),
            # the only writable folder and its second name come first, since this Python may lie below them
            *("--perms", "1777", "--size", str(limits.disk), "--tmpfs", tmp, "--dir", "/dev"),
            *("--symlink", f"..{tmp}", "/dev/shm"),  # bubblewrap follows a relative link only
            *system_options(),
            *("--dir", WORKDIR, "--dir", f"{WORKDIR}/llm_grader"),
            *(argument for tool in tools for argument in ("--ro-bind", tool, "/setpriv")),
            *(
                argument
                for name, path in worker_files(extra).items()
                for argument in ("--ro-bind", str(path), f"{WORKDIR}/{name}")
            ),
            # read-only, so that a worker cannot ask the kernel to spare it when memory runs out
            *("--proc", "/proc", "--remount-ro", "/proc"),
            *(argument for device in DEVICES for argument in ("--dev-bind", device, device)),
            *("--remount-ro", "/", "--chdir", tmp),
            *(["/setpriv", *prefix[1:]] if prefix else []),
            *(sys.executable, "-I", "-B", f"{WORKDIR}/{name}", *arguments),
        ]


def _find_tool(name: str) -> str:
    if path := shutil.which(name):
        return path
    raise Refusal(f"{name} cannot be found.")


@functools.cache
def user_namespace_options() -> list[str]:
    """Return the options for a user namespace in which workers cannot create another one, if bubblewrap can do that."""
    usage = subprocess.run(["bwrap", "--help"], capture_output=True, text=True, check=True).stdout
    return ["--unshare-user", *(["--disable-userns"] if "--disable-userns" in usage else [])]


def system_options() -> list[str]:
    """Return the options that mount the system libraries and the running Python read-only."""
    options = []
    made: set[Path] = set()
    for path in readable_paths():
        # create each parent folder: those that bubblewrap creates by itself can be entered by root only
        for folder in reversed(path.parents[:-1]):
            if folder not in made:
                options += ["--dir", str(folder)]
        made |= {path, *path.parents}
        options += ["--symlink", str(path.readlink())] if path.is_symlink() else ["--ro-bind", str(path)]
        options.append(str(path))
    return options
