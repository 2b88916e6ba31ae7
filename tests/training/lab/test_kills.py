"""Ten kills of the program beside this file, which goes on for as many as one likes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.syllabus("GT-03")
def test_runs_that_are_killed_ten_times_end_as_if_nothing_had_happened():
    command = [sys.executable, Path(__file__).with_name("kills.py"), "--kills", "10"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as run:
        try:
            said, _ = run.communicate()
        finally:
            run.terminate()
    assert run.returncode == 0, said
    assert "10 kills" in said and "all with the weights and metrics of the undisturbed ones" in said
