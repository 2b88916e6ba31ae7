"""An environment in which every user can read Python: some sandboxes need it, and root's own Python is often private.

Made by root with bubblewrap, for a pytest in a process of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
INSIDE = "LLM_GRADER_TEST_INSIDE"
IDS = {"root": 0, "anyone": 60999}


def run_tests(arguments: list[str], user: str = "root") -> str:
    """Run pytest there and return what it prints; it has to succeed.

    Its temporary files lie in a folder that the user owns: not every machine lets everyone write to /tmp.

    Args:
        arguments: of pytest.
        user: "root" or "anyone".
    """
    if os.environ.get(INSIDE):
        pytest.skip("this is where everyone can read Python")
    if os.geteuid() or not shutil.which("bwrap"):
        pytest.skip("only root with bubblewrap can create this environment")
    command = ["bwrap", "--dev-bind", "/", "/"]
    needed = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT}
    hidden = {top for folder in needed for top in [folder, *folder.parents] if top.stat().st_mode & 0o005 != 0o005}
    for top in sorted(hidden):
        command += ["--perms", "0755", "--tmpfs", str(top)]
    for folder in sorted(needed):
        for parent in reversed(folder.parents[:-1]):
            command += ["--dir", str(parent)] if any(parent.is_relative_to(top) for top in hidden) else []
        command += ["--ro-bind", str(folder), str(folder)]
    if user == "anyone":
        command += ["setpriv", f"--reuid={IDS[user]}", f"--regid={IDS[user]}", "--clear-groups"]
    command += [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider", "--import-mode=importlib"]
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        os.chown(folder, IDS[user], IDS[user])
        command += ["-rs", "--basetemp", f"{folder}/tests", *arguments]
        environment = os.environ | {INSIDE: "1", "PYTHONDONTWRITEBYTECODE": "1", "HOME": folder, "TMPDIR": folder}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout
