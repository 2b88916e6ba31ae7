"""The status of a launched run is that of its workers."""

import signal
import subprocess
import sys
import time

import pytest

from llm_anatomy.training.lab.signals import EXIT_STATUS

WORKER = """
import os, signal, sys, time
rank, mode, folder = os.environ["RANK"], *sys.argv[1:]

def stop(number, frame):
    open(f"{folder}/saved-{rank}", "w").close()
    sys.exit(75)

signal.signal(signal.SIGTERM, stop)
open(f"{folder}/started-{rank}", "w").close()
if mode == "wait" or (mode == "crash" and rank == "0"):
    time.sleep(300)
if mode == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit({"stopped": 75, "crash": 3}.get(mode, 0))
"""


@pytest.fixture
def launch(tmp_path):
    (tmp_path / "worker.py").write_text(WORKER)
    command = [sys.executable, "-m", "llm_anatomy.training.lab.launch", "--standalone", "--nproc-per-node", "2"]

    def start(mode):
        return subprocess.Popen([*command, tmp_path / "worker.py", mode, tmp_path], stderr=subprocess.DEVNULL)

    return start


@pytest.mark.parametrize(
    ("mode", "status"), [("done", 0), ("stopped", EXIT_STATUS), ("crash", 3), ("killed", 128 + signal.SIGKILL)]
)
def test_the_status_is_that_of_the_first_worker_that_failed(launch, tmp_path, mode, status):
    assert launch(mode).wait(timeout=300) == status


def test_a_signal_stops_the_workers_and_asks_for_another_start(launch, tmp_path):
    process = launch("wait")
    while len(list(tmp_path.glob("started-*"))) < 2:
        assert process.poll() is None
        time.sleep(0.1)
    process.terminate()
    assert process.wait(timeout=300) == EXIT_STATUS
    assert len(list(tmp_path.glob("saved-*"))) == 2
