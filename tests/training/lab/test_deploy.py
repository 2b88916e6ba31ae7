"""The files that run a training run on a cluster, as far as they can be tried without one."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from torch.distributed.run import parse_args

from llm_anatomy.training.lab.signals import EXIT_STATUS

DEPLOY = Path(__file__).parents[3] / "deploy/train"

SRUN = """#!/bin/sh
printf '%s\\n' "$@" > srun.txt
for i in $(seq $WAIT); do sleep 0.1; done
exit $STATUS
"""
SCONTROL = """#!/bin/sh
if [ "$1" = show ]; then printf 'node-7\\nnode-8\\n'; else echo "$@" > scontrol.txt; fi
"""


@pytest.fixture
def slurm(tmp_path):
    """Starts the script where srun and scontrol are programs that only write down what they were given. At the end, all
    that was started is killed."""
    jobs = []
    for name, script in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    job = dict(SLURM_JOB_ID="42", SLURM_JOB_NUM_NODES="2", SLURM_JOB_NODELIST="node-[7-8]")

    def start(status, wait=0):
        environment = (
            os.environ | job | dict(STATUS=str(status), WAIT=str(wait), PATH=f"{tmp_path}:{os.environ['PATH']}")
        )
        words = ["bash", DEPLOY / "slurm.sh", "a run.yaml", "--seed=3"]
        jobs.append(subprocess.Popen(words, cwd=tmp_path, env=environment, start_new_session=True))
        return jobs[-1]

    yield start
    for job in jobs:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def launched(words):
    """The arguments of torchrun, and those of the command."""
    assert words[:3] == ["python", "-m", "llm_anatomy.training.lab.launch"]
    arguments = parse_args(words[3:])
    assert arguments.module and arguments.training_script == "llm_anatomy"
    assert arguments.training_script_args[0] == "train" and arguments.max_restarts == 0
    return arguments, arguments.training_script_args[1:]


@pytest.mark.parametrize("status", [0, 1, EXIT_STATUS])
def test_the_slurm_job_is_queued_again_if_it_was_stopped(slurm, tmp_path, status):
    assert slurm(status).wait(timeout=60) == status
    assert (tmp_path / "scontrol.txt").exists() == (status == EXIT_STATUS)
    if status == EXIT_STATUS:
        assert (tmp_path / "scontrol.txt").read_text() == "requeue 42\n"
    arguments, own = launched((tmp_path / "srun.txt").read_text().splitlines())
    assert own == ["a run.yaml", "--seed=3"]
    assert (arguments.nnodes, arguments.nproc_per_node) == ("2", "8")
    assert (arguments.rdzv_backend, arguments.rdzv_id, arguments.rdzv_endpoint) == ("c10d", "42", "node-7:29500")


def test_the_slurm_script_outlives_the_signal_of_a_preemption(slurm, tmp_path):
    job = slurm(EXIT_STATUS, wait=20)
    while not (tmp_path / "srun.txt").exists():
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=60) == EXIT_STATUS
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 42\n"


def test_the_slurm_script_leaves_time_to_save():
    directives = [line.split(" ", 1)[1] for line in (DEPLOY / "slurm.sh").read_text().splitlines() if "#SBATCH" in line]
    options = dict(line.removeprefix("--").strip().partition("=")[::2] for line in directives if line.startswith("--"))
    name, _, seconds = options["signal"].partition("@")
    assert name == "TERM" and int(seconds) > 240 and "requeue" in options
    assert "--shutdown-timeout 240" in (DEPLOY / "slurm.sh").read_text()


def test_the_kubernetes_job_starts_again_if_it_was_stopped():
    (job,) = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    exit_codes = job["spec"]["podFailurePolicy"]["rules"][0]
    assert exit_codes["action"] == "Ignore" and exit_codes["onExitCodes"]["values"] == [EXIT_STATUS]
    assert exit_codes["onExitCodes"]["containerName"] == container["name"]
    assert pod["restartPolicy"] == "Never"  # a failure policy demands it
    arguments, own = launched(container["command"] + container["args"])
    assert arguments.nproc_per_node == container["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert 30 < arguments.shutdown_timeout < pod["terminationGracePeriodSeconds"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert own == [f"{mounts['run']}/run.yaml"]
