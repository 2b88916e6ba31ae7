"""The sandbox of this machine, and desks at which submissions are graded."""

import contextlib

import pytest

from groundwork import Refusal
from llm_grader import key, sandbox
from llm_grader.classrun import LIMITS, Desk
from llm_grader.examiner import Examiner
from llm_grader.session import Pool


@pytest.fixture(scope="session")
def confined(tmp_path_factory):
    """The first sandbox that holds here."""
    try:
        return sandbox.choose([tmp_path_factory.mktemp("private")])[0]
    except Refusal as e:
        pytest.skip(f"{e} On Debian and Ubuntu: apt install bubblewrap.")


@pytest.fixture(scope="module")
def desk(confined):
    """Makes the desk of an assignment: its questions with inputs drawn, workers, and time enough on a busy machine."""
    with contextlib.ExitStack() as opened:
        made = {}

        def at(where, seconds=20.0):
            if where not in made:
                pool = opened.enter_context(Pool(confined, LIMITS, spares=1))
                examiner = opened.enter_context(Examiner(pool))
                made[where] = Desk(examiner.prepare(key.load(where), "a seed"), pool, examiner, seconds)
            return made[where]

        yield at
