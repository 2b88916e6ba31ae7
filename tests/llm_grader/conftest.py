"""The sandbox of this machine, contexts in which submissions are graded, and processes that end with their test."""

import contextlib
import subprocess

import pytest

from groundwork import Refusal
from llm_grader import key, sandbox
from llm_grader.classrun import LIMITS
from llm_grader.context import GradingContext
from llm_grader.reference_worker import ReferenceWorker
from llm_grader.session import WorkerPool


@pytest.fixture(scope="session")
def confined(tmp_path_factory):
    """The first sandbox that works on this machine."""
    try:
        return sandbox.choose([tmp_path_factory.mktemp("private")])[0]
    except Refusal as e:
        pytest.skip(f"{e} On Debian and Ubuntu: apt install bubblewrap.")


@pytest.fixture(scope="module")
def context(confined):
    """Creates the context of an assignment: prepared questions, workers, and enough time on a busy machine."""
    with contextlib.ExitStack() as opened:
        made = {}

        def at(where, seconds=20.0):
            if where not in made:
                pool = opened.enter_context(WorkerPool(confined, LIMITS, n_spares=1))
                reference_worker = opened.enter_context(ReferenceWorker(pool))
                made[where] = GradingContext(
                    reference_worker.prepare(key.load(where), "a seed"), pool, reference_worker, seconds
                )
            return made[where]

        yield at


@pytest.fixture
def popen():
    """Starts a process as ``subprocess.Popen`` does, and kills it after the test if it still runs."""
    with contextlib.ExitStack() as started:

        def popen(*arguments, **options):
            process = started.enter_context(subprocess.Popen(*arguments, **options))
            started.callback(process.kill)
            return process

        yield popen
