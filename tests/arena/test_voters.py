"""No vote is lost and none counts twice when the server is killed while many vote."""

import os

import pytest
from arena import voters

pytest.importorskip("uvicorn", reason="pip install 'llm_anatomy[arena]'")


@pytest.mark.parametrize(
    ("n_voters", "n_votes", "n_kills"),
    [(8, 320, 1), pytest.param(50, 10_000, 5, marks=pytest.mark.slow)],
)
def test_every_vote_is_there_exactly_once_after_sigkill(tmp_path, n_voters, n_votes, n_kills):
    problems, _, each = voters.run(tmp_path, n_voters, n_votes, n_kills)
    assert not problems and len(each) == n_votes


def test_a_server_that_is_asked_to_stop_stops_and_goes_on_later(tmp_path):
    import signal

    server = voters.Server(tmp_path)
    server.start()
    first = voters.Voter(server.port, 3, seed=0)
    first.run()
    assert server.stop(signal.SIGINT) in (0, 130) and not first.problems
    server.start()
    first.n_votes = 5
    first.run()
    server.stop()
    assert not first.problems and sorted(first.said) == [0, 1, 2, 3, 4]
    assert oct(os.stat(tmp_path / "arena.sqlite").st_mode)[-3:] == "600"
