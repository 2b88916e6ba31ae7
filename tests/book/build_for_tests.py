"""``python build_for_tests.py FOLDER`` builds the book there, unless another process has.

It runs beside the tests, and no longer than the process that started it: then its standard input ends. The build finds
no PyTorch: whoever only builds the pages has none.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from filelock import FileLock

ABSENT = ("torch", "numpy", "matplotlib")


def end_with_the_tests():
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)  # its own group, with all that the build has started


def main(folder: Path) -> int:
    log, failed = folder.with_name("build.txt"), folder.with_name("failed.txt")
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_name("build.lock")):  # each worker of a run starts one of these, and the first one builds
        if not folder.exists() and not failed.exists():  # there is no folder until all of it is built
            hidden = folder.with_name("absent")
            hidden.mkdir(exist_ok=True)
            for name in ABSENT:
                (hidden / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name} where pages are built')\n")
            paths = filter(None, [str(hidden), os.environ.get("PYTHONPATH")])
            with log.open("w") as output:
                ended = subprocess.run(
                    [sys.executable, "-m", "bookbinder", "html", "--out", str(folder)],
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            if ended.returncode:
                log.rename(failed)
    return int(failed.exists())


if __name__ == "__main__":
    threading.Thread(target=end_with_the_tests, daemon=True).start()
    sys.exit(main(Path(sys.argv[1])))
