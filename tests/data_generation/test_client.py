"""The client of a server: what it sends, what it tries again, what it writes down, and what it pays for."""

import json
import os
import subprocess
import sys
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import openai
import pytest

from llm_anatomy.data_generation.client import LONGEST_WAIT, Journal, OpenAIServer, RateLimit
from llm_anatomy.data_generation.generators import Completion


class Scripted(ThreadingHTTPServer):
    """Answers with what a script says, one entry for each request: a status with headers, a text, or a broken line."""

    daemon_threads = True

    def __init__(self, script=()):
        super().__init__(("127.0.0.1", 0), _Scripted)
        self.script, self.requests, self.lock = list(script), [], threading.Lock()
        self.later = lambda body: 200  # when the script is at its end
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass


class _Scripted(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append((self.path, self.headers, body))
            entry = self.server.script.pop(0) if self.server.script else None
        entry = self.server.later(body) if entry is None else entry
        if entry == "broken":
            return self.connection.close()
        status, headers, content = entry if isinstance(entry, tuple) else (entry, {}, None)
        text = f" answer to {body.get('prompt')} with seed {body.get('seed')}"
        choice = {"text": text, "message": {"content": text}, "finish_reason": "stop"}
        answer = {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 5}}
        content = json.dumps(answer) if content is None else content
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def scripted():
    servers = []

    def start(*script):
        servers.append(Scripted(script))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """How long the library waits before it tries again; it does not really wait."""
    seconds = []
    monkeypatch.setattr(openai._base_client, "time", SimpleNamespace(time=time.time, sleep=seconds.append))
    return seconds


def client(server, **settings):
    return OpenAIServer(server.url, "m", **{"api_key": "secret", **settings})


ANSWER = Completion(" answer to Hi with seed 7", 3, 5, "stop")


def test_a_request_has_what_the_api_wants(scripted, waits):
    server = scripted()
    one = client(server, more={"presence_penalty": 2})
    settings = {"max_tokens": 9, "stop": ["\n"], "temperature": 0.5, "top_p": 0.9, "seed": 7}
    assert one.complete(["Hi"], **settings) == [ANSWER] and not waits
    ((path, headers, body),) = server.requests
    assert path == "/v1/completions" and headers["Authorization"] == "Bearer secret"
    assert body == {"model": "m", "prompt": "Hi", "presence_penalty": 2, **settings}


def test_a_chat_asks_with_a_message_and_an_empty_key_is_not_sent(scripted, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from there")
    server = scripted()
    assert client(server, chat=True, api_key="").complete(["Hi"], max_tokens=9)[0].n_tokens == 5
    ((path, headers, body),) = server.requests
    assert path == "/v1/chat/completions" and "Authorization" not in headers
    assert body["messages"] == [{"role": "user", "content": "Hi"}] and not {"prompt", "stop", "seed"} & set(body)


def test_an_address_may_end_with_a_slash_and_more_fields_win(scripted):
    server = scripted()
    OpenAIServer(server.url + "/", "m", api_key="", more={"top_p": 0.5}).complete(["Hi"], max_tokens=1)
    ((path, _, body),) = server.requests
    assert path == "/v1/completions" and body["top_p"] == 0.5


def test_the_key_comes_from_the_environment(scripted, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from there")
    server = scripted()
    client(server, api_key=None).complete(["Hi"], max_tokens=1)
    assert server.requests[0][1]["Authorization"] == "Bearer from there"


def test_completions_are_in_the_order_of_the_prompts_and_have_seeds_of_their_own(scripted):
    one = client(scripted(), concurrency=3)
    texts = [c.text for c in one.complete([f"p{i}" for i in range(7)], max_tokens=9, seed=40)]
    assert texts == [f" answer to p{i} with seed {40 + i}" for i in range(7)]


@pytest.mark.parametrize("problem", [408, 409, 429, 500, 502, 503, 504, 529, "broken"])
def test_what_may_pass_is_tried_again_with_longer_waits(scripted, waits, problem):
    server = scripted(problem, problem, problem)
    assert client(server).complete(["Hi"], max_tokens=9, seed=7) == [ANSWER] and len(server.requests) == 4
    assert all(0.75 <= wait / 2 ** (k - 1) <= 1 for k, wait in enumerate(waits)) and len(waits) == 3
    assert all(body == server.requests[0][2] for _, _, body in server.requests)


def test_waits_grow_to_the_longest_and_differ(scripted, waits):
    client(scripted(*[503] * 12), max_retries=12).complete(["Hi"], max_tokens=9)
    assert all(0.75 <= wait / LONGEST_WAIT <= 1 for wait in waits[4:]) and len(set(waits)) == 12


def test_the_server_says_how_long_to_wait(scripted, waits):
    date = formatdate(time.time() + 100, usegmt=True)
    asked = [(429, {"Retry-After": value}, "") for value in ("17", "0.5", date, "soon", "3000")]
    with pytest.raises(ConnectionError, match=r"no answer in 5 attempts \(429 Too Many"):
        client(scripted(*asked)).complete(["Hi"], max_tokens=9)
    assert waits[:2] == [17, 0.5] and 50 < waits[2] <= 100 and 3 <= waits[3] <= 4


def test_a_server_that_never_answers_is_given_up(scripted, waits):
    with pytest.raises(ConnectionError, match=r"no answer in 3 attempts \(503 Service Unavailable"):
        client(scripted(*[503] * 9), max_retries=2).complete(["Hi"], max_tokens=9)
    assert len(waits) == 2
    with pytest.raises(ConnectionError, match="refused"):
        OpenAIServer("http://127.0.0.1:9/v1", "m").complete(["Hi"], max_tokens=9)
    with pytest.raises(ConnectionError, match=r"no answer in 1 attempt \(503 Service"):
        client(scripted((503, {"x-should-retry": "false"}, ""))).complete(["Hi"], max_tokens=9)


def test_an_answer_that_does_not_come_in_time_is_given_up(scripted, waits):
    server, done = scripted(), threading.Event()
    server.later = lambda body: done.wait(20) and 200
    with pytest.raises(ConnectionError, match=r"no answer in 2 attempts \(timed out\)"):
        client(server, timeout=0.1, max_retries=1).complete(["Hi"], max_tokens=9)
    done.set()
    assert len(waits) == 1


def test_as_many_requests_as_allowed_are_under_way_at_once(scripted):
    server, together = scripted(), threading.Barrier(3, timeout=20)
    server.later = lambda body: 200 if together.wait() >= 0 else 500
    assert len(client(server, concurrency=3).complete(["Hi"] * 6, max_tokens=9)) == 6


def test_a_failure_ends_the_other_requests_soon(scripted, monkeypatch):
    monkeypatch.setattr(openai._base_client.time, "sleep", lambda _: time.sleep(0.05))
    server = scripted()
    server.later = lambda body: 401 if body["prompt"] == "bad" else 503
    with pytest.raises(ValueError, match="401"):
        client(server, concurrency=2, max_retries=300).complete(["bad"] + ["good"] * 200, max_tokens=9)
    assert len(server.requests) < 100


def said(message, code=None):
    return json.dumps({"error": {"message": message, "code": code}})


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ((401, {}, said("Incorrect key secret.\nTry another.")), "401 Unauthorized: Incorrect key …. Try another."),
        ((404, {}, "<html>no</html>"), "404 Not Found: <html>no</html>"),
        ((302, {"Location": "http://127.0.0.1:9/"}, ""), "refuses the request (302 Found)"),
        ((200, {}, "<html>"), "another form than OpenAI's API: b'<html>'"),
        ((200, {}, '{"choices": []}'), "another form"),
        ((200, {}, '{"choices": [{"text": "a", "finish_reason": "stop"}]}'), "another form"),
    ],
)
def test_what_will_not_pass_is_one_sentence_without_another_attempt(scripted, entry, sentence):
    server = scripted(entry)
    with pytest.raises(ValueError) as caught:
        client(server).complete(["Hi"], max_tokens=9)
    assert sentence in str(caught.value) and "secret" not in str(caught.value)
    assert len(server.requests) == 1 and "\n" not in str(caught.value)


def test_an_empty_purse_is_a_refusal_in_the_end(scripted):
    server = scripted(*[(429, {}, said("No money left.", "insufficient_quota"))] * 9)
    with pytest.raises(ValueError, match=r"refuses the request \(429 Too Many Requests: No money left"):
        client(server).complete(["Hi"], max_tokens=9)


def test_another_host_receives_nothing(scripted):
    other = scripted()
    with pytest.raises(ValueError, match=r"refuses the request \(307 Temporary Redirect\)"):
        client(scripted((307, {"Location": f"{other.url}/completions"}, ""))).complete(["Hi"], max_tokens=9)
    assert not other.requests


def test_without_the_library_one_sentence_names_the_extra():
    script = """
import sys
sys.modules["openai"] = None
from llm_anatomy.data_generation.client import OpenAIServer
try:
    OpenAIServer("http://127.0.0.1/v1", "m")
except ValueError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout == "models behind a server need openai (pip install 'llm_anatomy[data]')\n", found.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"url": "127.0.0.1:8000"}, "must be an address such as"),
        ({"url": "file:///etc/passwd"}, "must be an address such as"),
        ({"concurrency": 0}, "concurrency=0 must be at least 1"),
        ({"max_retries": -1}, "max_retries=-1 must be at least 0"),
        ({"tokens_per_minute": 0}, "must be above 0"),
        ({"api_key": "secret\n"}, "^the API key must be printable ASCII; perhaps it ends with a line break$"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        OpenAIServer(**{"url": "http://127.0.0.1/v1", "model": "m", **arguments})


def test_no_minute_has_more_than_are_allowed():
    now = [100.0]
    starts = []
    limit = RateLimit(30, clock=lambda: now[0], sleep=lambda seconds: starts.append(now[0] + seconds))
    for _ in range(50):
        limit.wait(1)
        now[0] += 0.5
    assert all(sum(a <= b < a + 60 for b in starts) <= 30 for a in starts) and starts[0] == 100
    now[0] += 1000
    limit.wait(1)
    assert starts[-1] == now[0]  # after a pause, at once


def test_limits_count_requests_and_the_tokens_they_may_use(scripted):
    waits = []
    one = client(scripted(503), requests_per_minute=60, concurrency=1, sleep=waits.append)
    one.complete(["Hi"] * 2, max_tokens=9)  # three requests, since one is sent again
    assert waits[0] == 0 and waits[1] <= 1 <= 2 * waits[1] and waits[2] <= 2 <= 2 * waits[2] and len(waits) == 3
    waits.clear()
    one = client(scripted(), tokens_per_minute=6000, concurrency=1, sleep=waits.append)
    one.complete(["Hi"] * 2, max_tokens=500)
    assert 4.5 < waits[1] < 5.6  # 500 tokens and those of the prompt, at 100 a second


# --- The journal ---


def test_what_is_in_the_journal_is_not_asked_again(scripted, tmp_path):
    server, path = scripted(), tmp_path / "journal.jsonl"
    first = client(server, journal=path).complete(["Hi", "Ho", "Hi"], max_tokens=9)
    assert len(server.requests) == 3 and len(Journal(path)) == 3
    one = client(server, journal=path)
    assert one.complete(["Hi", "Ho", "Hi"], max_tokens=9) == first and len(server.requests) == 3
    one.complete(["Hi"], max_tokens=9)  # the third time in this program, so that it is a new question
    one.complete(["Ho"], max_tokens=8)
    assert len(server.requests) == 5 and "secret" not in path.read_text()


def test_the_order_of_fields_does_not_matter_to_the_journal(scripted, tmp_path):
    server, fields = scripted(), {"presence_penalty": 2, "logit_bias": {}}
    for more in (fields, dict(reversed(fields.items()))):
        client(server, journal=tmp_path / "j", more=more).complete(["Hi"], max_tokens=9)
    assert len(server.requests) == 1


def test_an_answer_is_on_the_disk_before_it_is_used(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_size))
    journal = Journal(tmp_path / "j")
    journal.add("one", ANSWER)
    assert synced == [(tmp_path / "j").stat().st_size] and synced[0] > 0


def test_answers_before_a_failure_are_kept(scripted, tmp_path):
    server = scripted(200, 200, 401)
    with pytest.raises(ValueError, match="401"):
        client(server, journal=tmp_path / "j", concurrency=1).complete(["a", "b", "c", "d"], max_tokens=9)
    n_asked = len(server.requests)
    client(server, journal=tmp_path / "j", concurrency=1).complete(["a", "b", "c", "d"], max_tokens=9)
    prompts = [body["prompt"] for _, _, body in server.requests[n_asked:]]
    assert prompts[0] == "c" and not {"a", "b"} & set(prompts)


def test_a_line_of_another_form_is_named(tmp_path):
    path = tmp_path / "journal.jsonl"
    for line in ("[1]", "3", "[]", "{"):
        path.write_text(f'["key", "Hi", 3, 1, "stop"]\n{line}\n')
        with pytest.raises(ValueError, match="^journal.jsonl, line 2: this is no entry of a journal$"):
            Journal(path)
