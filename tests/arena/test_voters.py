"""No vote is lost and none counts twice when the server is killed, or asked to stop, while many vote."""

import stat

import pytest
from arena import voters

pytest.importorskip("uvicorn", reason="pip install 'llm_anatomy[arena]'")


@pytest.mark.parametrize(
    ("n_voters", "n_votes", "n_kills"),
    [(8, 120, 2), pytest.param(50, 10_000, 5, marks=pytest.mark.slow)],
)
def test_every_vote_is_there_exactly_once_after_sigint_and_sigkill(tmp_path, n_voters, n_votes, n_kills):
    problems, _, each = voters.run(tmp_path, n_voters, n_votes, n_kills)
    assert not problems and len(each) == n_votes
    assert stat.S_IMODE((tmp_path / "arena.sqlite").stat().st_mode) == 0o600
