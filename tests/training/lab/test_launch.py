"""The status of a launched run is that of its workers."""

import signal
import subprocess
import sys
import time

import pytest

from llm_anatomy.training.lab import launch
from llm_anatomy.training.lab.signals import EXIT_STATUS

TWO_WORKERS = ["--standalone", "--nproc-per-node", "2"]

WORKER = """
import os, signal, sys, time
rank, mode, folder = os.environ["RANK"], *sys.argv[1:]

def stop(number, frame):
    open(f"{folder}/saved-{rank}", "w").close()
    sys.exit(75)

signal.signal(signal.SIGTERM, stop)
open(f"{folder}/started-{rank}", "w").close()
launcher = os.getppid()
while (mode == "wait" or (mode == "crash" and rank == "0")) and os.getppid() == launcher:
    time.sleep(0.05)
if mode == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit({"stopped": 75, "crash": 3}.get(mode, 0))
"""


def status_of(*arguments):
    return launch.launch(arguments)


@pytest.mark.parametrize(
    ("mode", "status"), [("done", 0), ("stopped", EXIT_STATUS), ("crash", 3), ("killed", 128 + signal.SIGKILL)]
)
def test_the_status_is_that_of_the_first_worker_that_failed(forks, tmp_path, mode, status):
    (tmp_path / "worker.py").write_text(WORKER)
    assert forks(status_of, *TWO_WORKERS, tmp_path / "worker.py", mode, tmp_path) == status


def test_a_signal_stops_the_workers_and_asks_for_another_start(tmp_path):
    (tmp_path / "worker.py").write_text(WORKER)
    command = [sys.executable, "-m", launch.__name__, *TWO_WORKERS, tmp_path / "worker.py", "wait", tmp_path]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            while len(list(tmp_path.glob("started-*"))) < 2:
                assert process.poll() is None
                time.sleep(0.05)
            process.terminate()
            assert process.wait(timeout=300) == EXIT_STATUS
        finally:
            process.kill()
    assert len(list(tmp_path.glob("saved-*"))) == 2
