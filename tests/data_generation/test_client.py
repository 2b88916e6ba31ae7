"""The client of a server: what it sends, what it tries again, what it writes down, and what it pays for."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from data_generation.test_server import serving, tiny

from llm_anatomy.data_generation.client import Journal, OpenAIServer, RateLimit
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
            self.server.requests.append((self.path, dict(self.headers), body))
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


def client(server, **settings):
    waits = []
    one = OpenAIServer(server.url, "m", **{"api_key": "secret", "sleep": waits.append, **settings})
    return one, waits


ANSWER = Completion(" answer to Hi with seed 7", 3, 5, "stop")


def test_a_request_has_what_the_api_wants(scripted):
    server = scripted()
    one, waits = client(server, more={"presence_penalty": 2})
    settings = {"max_tokens": 9, "stop": ["\n"], "temperature": 0.5, "top_p": 0.9, "seed": 7}
    assert one.complete(["Hi"], **settings) == [ANSWER] and not waits
    ((path, headers, body),) = server.requests
    assert path == "/v1/completions" and headers["Authorization"] == "Bearer secret"
    assert body == {"model": "m", "prompt": "Hi", "presence_penalty": 2, **settings}


def test_a_chat_asks_with_a_message(scripted):
    server = scripted()
    one, _ = client(server, chat=True, api_key="")
    assert one.complete(["Hi"], max_tokens=9)[0].n_tokens == 5
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
    client(server, api_key=None)[0].complete(["Hi"], max_tokens=1)
    assert server.requests[0][1]["Authorization"] == "Bearer from there"


def test_completions_are_in_the_order_of_the_prompts_and_have_seeds_of_their_own(scripted):
    one, _ = client(scripted(), concurrency=3)
    texts = [c.text for c in one.complete([f"p{i}" for i in range(7)], max_tokens=9, seed=40)]
    assert texts == [f" answer to p{i} with seed {40 + i}" for i in range(7)]


@pytest.mark.parametrize("problem", [408, 429, 500, 502, 503, 504, "broken"])
def test_what_may_pass_is_tried_again_with_longer_waits(scripted, problem):
    server = scripted(problem, problem, problem)
    one, waits = client(server)
    assert one.complete(["Hi"], max_tokens=9, seed=7) == [ANSWER] and len(server.requests) == 4
    assert all(2**k / 2 <= wait <= 2**k for k, wait in enumerate(waits)) and len(waits) == 3


def test_waits_grow_to_a_minute_and_differ(scripted):
    one, waits = client(scripted(*[503] * 12), max_retries=12)
    one.complete(["Hi"], max_tokens=9)
    assert all(30 <= wait <= 60 for wait in waits[6:]) and len(set(waits)) == 12


def test_the_server_says_how_long_to_wait(scripted):
    date = formatdate(time.time() + 3000, usegmt=True)
    asked = [(429, {"Retry-After": value}, "") for value in ("17", "0.5", date, "soon")]
    one, waits = client(scripted(*asked))
    one.complete(["Hi"], max_tokens=9)
    assert waits[:2] == [17, 0.5] and 2900 < waits[2] <= 3000 and 4 <= waits[3] <= 8


def test_a_server_that_never_answers_is_given_up(scripted):
    one, waits = client(scripted(*[503] * 9), max_retries=2)
    with pytest.raises(ConnectionError, match=r"no answer in 3 attempts \(503 Service Unavailable"):
        one.complete(["Hi"], max_tokens=9)
    assert len(waits) == 2
    one, _ = client(scripted())
    one.url = "http://127.0.0.1:9/v1"
    with pytest.raises(ConnectionError, match="refused"):
        one.complete(["Hi"], max_tokens=9)


def test_an_answer_that_does_not_come_in_time_is_given_up(scripted):
    server, done = scripted(), threading.Event()
    server.later = lambda body: done.wait(20) and 200
    one, waits = client(server, timeout=0.1, max_retries=1)
    with pytest.raises(ConnectionError, match=r"no answer in 2 attempts \(timed out\)"):
        one.complete(["Hi"], max_tokens=9)
    done.set()
    assert len(waits) == 1


def test_as_many_requests_as_allowed_are_under_way_at_once(scripted):
    server, together = scripted(), threading.Barrier(3, timeout=20)
    server.later = lambda body: 200 if together.wait() >= 0 else 500
    assert len(client(server, concurrency=3)[0].complete(["Hi"] * 6, max_tokens=9)) == 6


def test_a_failure_ends_the_other_requests_soon(scripted):
    server = scripted()
    server.later = lambda body: 401 if body["prompt"] == "bad" else 503
    one, _ = client(server, concurrency=2, max_retries=300, sleep=lambda _: time.sleep(0.05))
    with pytest.raises(ValueError, match="401"):
        one.complete(["bad"] + ["good"] * 200, max_tokens=9)
    assert len(server.requests) < 100


def said(message, code=None):
    return json.dumps({"error": {"message": message, "code": code}})


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ((401, {}, said("Incorrect key.\nTry another.")), "401 Unauthorized: Incorrect key. Try another."),
        ((429, {}, said("No money left.", "insufficient_quota")), "429 Too Many Requests: No money left."),
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
        client(server)[0].complete(["Hi"], max_tokens=9)
    assert sentence in str(caught.value) and "secret" not in str(caught.value)
    assert len(server.requests) == 1 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"url": "127.0.0.1:8000"}, "must be an address such as"),
        ({"url": "file:///etc/passwd"}, "must be an address such as"),
        ({"concurrency": 0}, "concurrency=0 must be at least 1"),
        ({"max_retries": -1}, "max_retries=-1 must be at least 0"),
        ({"tokens_per_minute": 0}, "must be above 0"),
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
    one, waits = client(scripted(), requests_per_minute=60, concurrency=1)
    one.complete(["Hi"] * 3, max_tokens=9)
    assert waits[0] == 0 and waits[1] <= 1 <= 2 * waits[1] and waits[2] <= 2 <= 2 * waits[2]
    one, waits = client(scripted(), tokens_per_minute=6000, concurrency=1)
    one.complete(["Hi"] * 2, max_tokens=500)
    assert 4.5 < waits[1] < 5.6  # 500 tokens and those of the prompt, at 100 a second


# --- The journal ---


def test_what_is_in_the_journal_is_not_asked_again(scripted, tmp_path):
    server, path = scripted(), tmp_path / "journal.jsonl"
    first = client(server, journal=path)[0].complete(["Hi", "Ho", "Hi"], max_tokens=9)
    assert len(server.requests) == 3 and len(Journal(path)) == 3
    one, _ = client(server, journal=path)
    assert one.complete(["Hi", "Ho", "Hi"], max_tokens=9) == first and len(server.requests) == 3
    one.complete(["Hi"], max_tokens=9)  # the third time in this program, so that it is a new question
    one.complete(["Ho"], max_tokens=8)
    assert len(server.requests) == 5 and "secret" not in path.read_text()


def test_the_order_of_fields_does_not_matter_to_the_journal(scripted, tmp_path):
    server, fields = scripted(), {"presence_penalty": 2, "logit_bias": {}}
    for more in (fields, dict(reversed(fields.items()))):
        client(server, journal=tmp_path / "j", more=more)[0].complete(["Hi"], max_tokens=9)
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
        client(server, journal=tmp_path / "j", concurrency=1)[0].complete(["a", "b", "c", "d"], max_tokens=9)
    n_asked = len(server.requests)
    client(server, journal=tmp_path / "j", concurrency=1)[0].complete(["a", "b", "c", "d"], max_tokens=9)
    prompts = [body["prompt"] for _, _, body in server.requests[n_asked:]]
    assert prompts[0] == "c" and not {"a", "b"} & set(prompts)


def test_a_line_that_was_being_written_is_dropped(tmp_path):
    path = tmp_path / "journal.jsonl"
    Journal(path).add("one", ANSWER)
    whole = path.read_bytes()
    for n in range(1, len(whole)):
        path.write_bytes(whole + whole.replace(b"one", b"two")[:n])
        found = Journal(path)
        assert found.find("one") == ANSWER and found.find("two") is None and path.read_bytes() == whole
        path.write_bytes(whole[:n])  # the first line of all
        assert len(Journal(path)) == 0 and path.read_bytes() == b""
    path.write_text("[1]\n")
    with pytest.raises(ValueError, match="journal.jsonl, line 1: this is no entry"):
        Journal(path)


PROGRAM = """
import sys
from llm_anatomy.data_generation.client import OpenAIServer
from llm_anatomy.data_generation.cost import Usage

url, journal = sys.argv[1:]
server = OpenAIServer(url, "tiny", api_key="", journal=journal, concurrency=2)
print(Usage.of(server.complete([f"p{i}" for i in range(60)], max_tokens=6, seed=5)))
"""


def test_after_kills_nothing_that_was_answered_is_paid_twice(tmp_path):
    """The program is killed twice; the model is a real one, behind the real server, which waits for permits so that no
    life of the program is long enough for all requests."""
    asked, permits, model = [], threading.Semaphore(0), tiny()

    def counted(ids, **settings):
        asked.append(bytes(ids).decode())
        permits.acquire()
        return type(model).pieces(model, ids, **settings)

    model.pieces = counted
    journal = tmp_path / "journal.jsonl"
    with serving(model, "tiny") as server:
        command, known = [sys.executable, "-c", PROGRAM, server.url, journal], 0
        for _ in range(2):
            permits.release(12)
            with subprocess.Popen(command) as program:
                try:
                    while program.poll() is None and (not journal.exists() or n_lines(journal) < known + 4):
                        time.sleep(0.005)
                finally:
                    program.kill()
            assert program.returncode == -signal.SIGKILL
            known = n_lines(journal)
        permits.release(200)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "n_requests=60" in done.stdout and len(Journal(journal)) == 60
    assert set(asked) == {f"p{i}" for i in range(60)}
    assert len(asked) <= 60 + 2 * 2  # at most what was under way at each kill, two requests


def n_lines(path):
    return path.read_bytes().count(b"\n")
