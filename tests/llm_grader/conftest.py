"""The sandbox of this machine, contexts in which submissions are graded, and processes that end with their test."""

import contextlib
import functools
import itertools
import math
import os
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from groundwork import Refusal
from llm_grader import classrun, key, sandbox, wire
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


class LendingPool(WorkerPool):
    """Pool that lends a worker again if a fresh runner can be had of it: a new worker imports PyTorch for seconds.

    The tests of hostile submissions and of the commands use pools whose workers serve one submission.
    """

    def __init__(self, confined):
        super().__init__(confined, classrun.LIMITS, n_spares=0)
        self._returned, self._numbers = [], itertools.count(10**6)

    def acquire(self):
        with self._lock:
            worker = self._returned.pop() if self._returned else None
        worker = worker or super().acquire()
        worker.stop = functools.partial(self._take_back, worker)
        return worker

    def _take_back(self, worker):
        """Keep a worker if a fresh runner of it runs an empty cell, whose number tells its reply from earlier ones."""
        del worker.stop
        end, number = time.monotonic() + 2, next(self._numbers)
        cell = {"first": number, "cells": [""], "modes": [], "wanted": [], "imports": False}
        try:
            wire.send(worker.request_fd, {"command": "restart"}, end)
            wire.send(worker.request_fd, cell | {"command": "cells", "cpu_seconds": 2.0, "wall_seconds": 2.0}, end)
            while wire.receive(worker.reply_fd, end) != {"cell": number}:
                pass
            wire.receive(worker.reply_fd, end)
        except wire.WireError:
            return worker.stop()
        worker.limit_cpu(math.inf)
        with self._lock:
            self._returned.append(worker)
        return ""

    def close(self):
        super().close()
        while self._returned:
            self._returned.pop().stop()


@pytest.fixture(scope="session")
def lending_pool(confined):
    with LendingPool(confined) as pool:
        yield pool


@pytest.fixture
def lent(lending_pool, monkeypatch):
    """The sandbox of all classes that this process grades, with workers that serve one submission after another."""
    monkeypatch.setattr(sandbox, "choose", lambda *given: (lending_pool.sandbox, []))
    monkeypatch.setattr(classrun, "WorkerPool", lambda *given: contextlib.nullcontext(lending_pool))
    return lending_pool.sandbox


@pytest.fixture(scope="session")
def context(lending_pool):
    """Creates contexts of assignments: prepared questions, workers, and enough time on a busy machine."""
    with ReferenceWorker(lending_pool) as reference_worker:
        load = functools.cache(key.load)

        @functools.cache
        def prepared(where, question_id):
            (question,) = (each for each in load(where).questions if each.id == question_id)
            return reference_worker.prepare(replace(load(where), questions=[question]), "a seed")[0]

        def at(where, *functions, seconds=20.0):
            """The context of all questions, or of those with these functions."""
            asked = [each.id for each in load(where).questions if not functions or each.function in functions]
            made = [prepared(where, question_id) for question_id in asked]
            return GradingContext(made, lending_pool, reference_worker, seconds)

        yield at


@pytest.fixture
def popen():
    """Starts a process as ``subprocess.Popen`` does, and after the test kills it with all that it started."""
    with contextlib.ExitStack() as started:

        def kill(session):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session, signal.SIGKILL)

        def popen(*arguments, **options):
            process = started.enter_context(subprocess.Popen(*arguments, **options, start_new_session=True))
            started.callback(kill, process.pid)
            return process

        yield popen
