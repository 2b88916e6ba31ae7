"""What `make grader` ends with: one sentence that says whether this machine is fit to grade."""

from contextlib import nullcontext

import pytest

from llm_grader import classrun, readiness, sandbox
from llm_grader.__main__ import main
from llm_grader.sandbox.setuid import Unconfined


def test_a_machine_that_is_fit(lending_pool, confined, monkeypatch, capsys):
    monkeypatch.setattr(classrun, "WorkerPool", lambda *given: nullcontext(lending_pool))
    assert main(["ready"]) == 0
    *attacks, last = capsys.readouterr().out.splitlines()
    assert last.startswith(f"This machine is fit to grade: the sandbox {confined.name} blocked ")
    assert last.endswith("and a class of three had the right marks.") and len(attacks) > 10


@pytest.fixture
def refused(capsys):
    def run():
        assert main(["ready"]) == 2
        out, err = capsys.readouterr()
        sentence = err.splitlines()[-1]  # after the progress bar
        assert sentence.startswith("This machine is not fit to grade: ")
        return out, sentence

    return run


def test_a_sandbox_that_lets_the_key_be_read(refused, lending_pool, monkeypatch):
    with type(lending_pool)(Unconfined()) as pool:
        monkeypatch.setattr(sandbox, "choose", lambda private: (pool.sandbox, []))
        monkeypatch.setattr(classrun, "WorkerPool", lambda *given: nullcontext(pool))
        monkeypatch.setattr(classrun, "workers_that_fit", lambda limits: 1)
        assert "an attack on the key earned 1 points in place of 0." in refused()[1]


def test_a_machine_without_a_sandbox(refused, monkeypatch):
    for tried in sandbox.SANDBOXES:
        monkeypatch.setattr(tried, "unavailable_reason", lambda self: "it cannot be found")
    monkeypatch.setattr(readiness, "which", lambda name: None)
    out, sentence = refused()
    assert out.startswith("bubblewrap is missing: on Debian and Ubuntu, `apt install bubblewrap` installs the sandbox")
    assert "No sandbox works on this machine" in sentence and "`apt install bubblewrap`" in sentence


def test_a_machine_without_linux(refused, monkeypatch):
    monkeypatch.setattr(readiness.sys, "platform", "darwin")
    assert refused()[1].endswith("the grader needs Linux, WSL2 or Gradescope.")
