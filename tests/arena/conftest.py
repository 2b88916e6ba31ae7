"""A small arena, served from this machine."""

import socket
import threading
import time

import pytest

from llm_anatomy.arena.outputs import Outputs

NASTY = (
    "<script>document.title = 'broken'</script><img src=x onerror=\"document.title='broken'\">\u202e &amp; {{ 7 * 7 }}"
)
OUTPUTS = Outputs(
    {
        f"Once upon a time, there was hare number {p}. {NASTY if p == 0 else ''}": {
            model: f"{model[::-1]} wrote that hare {p} ran.\n\nIt was late. " * (3 + p) + NASTY for model in models
        }
        for p, models in enumerate([["story_llama@0.7", "story_rope@1.3", "story_learned@0.7"]] * 4)
    }
)


@pytest.fixture
def votes(tmp_path):
    module = pytest.importorskip("llm_anatomy.arena.votes", reason="pip install 'llm_anatomy[arena]'")
    with module.Votes(tmp_path / "arena.sqlite") as opened:
        yield opened


@pytest.fixture
def arena(votes):
    """The address of an arena."""
    uvicorn = pytest.importorskip("uvicorn", reason="pip install 'llm_anatomy[arena]'")
    from llm_anatomy.arena.app import application

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(OUTPUTS, votes), log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the arena did not start"
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()
