"""The server: the official client reads its answers, and what it refuses is JSON with a sentence."""

import copy
import functools
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
import typing
from contextlib import contextmanager

import pytest
import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.data_generation.api_fields import TABLE, fields_of
from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.data_generation.local_model import LocalModel
from llm_anatomy.models.checkpoints.chat import ChatTemplate
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.simple import ByteTokenizer

openai = pytest.importorskip("openai")
for needed in ("starlette", "uvicorn", "jsonschema", "hypothesis"):
    pytest.importorskip(needed)

import jsonschema  # noqa: E402
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from openai.types import chat, completion_create_params  # noqa: E402

from llm_anatomy.data_generation import server as server_module  # noqa: E402
from llm_anatomy.data_generation.server import CompletionServer  # noqa: E402

CHATML = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|end|>{% endfor %}<assistant>"
AS_JSON = "{{ messages | tojson }}{{ '' if tools is none else tools | tojson }}"
HI = [{"role": "user", "content": "Hi"}]


def tiny(n_ctx=64, **texts):
    torch.manual_seed(0)
    config = ModelConfig(d_model=16, n_layers=1, n_heads=2, d_ff=24, n_vocab=257, position="rope", n_ctx=n_ctx)
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(4)  # so that letters are not all equally likely
    return LocalModel(model, Texts(tokenizer=ByteTokenizer(["<|end|>"]), stop=(256,), **texts))


@contextmanager
def serving(model, name):
    """A server in a thread, which has ended afterwards."""
    with CompletionServer(model, name, port=0, quiet=True) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server():
    with serving(tiny(chat_template=ChatTemplate(templates={"default": CHATML})), "tiny") as server:
        yield server


@pytest.fixture(scope="module")
def other():
    """A model whose name has a slash, and whose template shows all that it is given."""
    template = ChatTemplate(templates={"default": AS_JSON})
    with serving(tiny(2048, chat_template=template, stop_strings=("[end]",)), "owner/name") as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url, api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def other_client(other):
    with openai.OpenAI(base_url=other.url, api_key="any", max_retries=0) as client:
        yield client


def until(condition):
    """Wait until a condition holds, for at most a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


SETTINGS = {"max_tokens": 12, "temperature": 0.7, "seed": 3}


def test_the_official_client_finds_the_model(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").object == "model"
    with pytest.raises(openai.NotFoundError, match="this server has 'tiny'") as caught:
        client.models.retrieve("gpt-5")
    assert caught.value.code == "model_not_found"


def test_a_name_may_have_a_slash(other_client, other):
    assert other_client.models.retrieve("owner/name").id == "owner/name"
    assert other_client.completions.create(model="owner/name", prompt="Hi", max_tokens=1).model == "owner/name"
    assert [ask(other, "GET", f"/v1/models/owner{slash}name")[0] for slash in ("/", "%2F", "%2f")] == [200] * 3
    assert ask(other, "GET", "/v1/models/owner%252Fname")[0] == 404  # it is unquoted once


def test_completions_are_those_of_the_model_and_are_counted(client, server):
    answer = client.completions.create(model="tiny", prompt=["Hello", [72, 105]], **SETTINGS)
    expected = [server.model.complete([p], **{**SETTINGS, "seed": s})[0] for p, s in [("Hello", 3), ("Hi", 4)]]
    assert [choice.text for choice in answer.choices] == [completion.text for completion in expected]
    assert [choice.finish_reason for choice in answer.choices] == [c.finish_reason for c in expected]
    n_written = sum(completion.n_tokens for completion in expected)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (7, n_written)
    assert answer.usage.total_tokens == 7 + n_written and answer.model == "tiny"


def test_several_choices_differ_and_a_seed_repeats_them(client):
    first, again = (client.completions.create(model="tiny", prompt="Hi", n=3, **SETTINGS) for _ in range(2))
    texts = [choice.text for choice in first.choices]
    assert texts == [choice.text for choice in again.choices] and len(set(texts)) > 1
    assert [choice.index for choice in first.choices] == [0, 1, 2] and first.usage.prompt_tokens == 2


def test_a_stop_sequence_is_not_part_of_the_text(client, server):
    whole = server.model.complete(["Hello"], **SETTINGS)[0].text
    stop = whole[4:6]
    answer = client.completions.create(model="tiny", prompt="Hello", stop=stop, **SETTINGS).choices[0]
    assert answer.text == whole[: whole.index(stop)] and answer.finish_reason == "stop"


@pytest.mark.parametrize("stop", [None, "\x00", ["zzzz"]])
def test_the_pieces_of_a_stream_are_the_whole_text(client, stop):
    asked = {"model": "tiny", "prompt": "Hello", "stop": stop, **SETTINGS, "n": 2}
    whole = client.completions.create(**asked)
    texts, reasons, usage = ["", ""], [None, None], None
    for event in client.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        usage = event.usage or usage
        for choice in event.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [choice.text for choice in whole.choices] and any(texts)
    assert all(event.usage is None for event in client.completions.create(**asked, stream=True))  # it was not asked for
    assert reasons == [choice.finish_reason for choice in whole.choices] and usage == whole.usage


def test_a_stream_holds_back_what_may_become_a_stop_sequence(server):
    whole = server.model.complete(["Hello"], **SETTINGS)[0].text
    stop = [whole[5:8] + "?"]  # begins, and then goes on in another way
    pieces = list(server.model.pieces(server.model.encode("Hello"), stop=stop, **SETTINGS))
    assert "".join(pieces) == whole and not any(piece.endswith(whole[5:7]) for piece in pieces)


def test_chats_are_written_with_the_template(client, server):
    messages = [{"role": "user", "content": [{"type": "text", "text": part} for part in "Hi"]}]
    answer = client.chat.completions.create(model="tiny", messages=messages, max_completion_tokens=9, seed=1)
    (pieces, ids) = ([], server.model.texts.encode_chat([{"role": "user", "content": "Hi"}]))
    for event in client.chat.completions.create(model="tiny", messages=messages, max_tokens=9, seed=1, stream=True):
        pieces += [choice.delta.content or "" for choice in event.choices]
    assert "".join(pieces) == answer.choices[0].message.content
    assert answer.usage.prompt_tokens == len(ids) and answer.choices[0].message.role == "assistant"


def test_a_chat_ends_with_the_answer_or_the_context_and_shows_no_special_tokens(client, server, monkeypatch):
    asked = []
    pieces = server.model.pieces
    monkeypatch.setattr(server.model, "pieces", lambda ids, **more: asked.append(more) or pieces(ids, **more))
    for limit in ({"max_tokens": 1}, {}):
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], **limit)
    client.completions.create(model="tiny", prompt="Hi", max_tokens=1)
    chat, whole, text = asked
    n_read = len(server.model.texts.encode_chat([{"role": "user", "content": "Hi"}]))
    assert whole["max_tokens"] == 64 - n_read  # what the context has left
    assert 256 in chat["stop_token_ids"] and 256 in chat["skipped_token_ids"]
    assert not {"stop_token_ids", "skipped_token_ids"} & set(text)


def test_an_answer_ends_before_the_stop_strings_of_the_model_too(other_client, other, monkeypatch):
    def pieces(ids, stop, **_):
        asked.append(stop)
        yield "a"
        return Completion("a", 1, 1, "stop")

    asked = []
    monkeypatch.setattr(other.model, "pieces", pieces)
    for stop in (None, "b", ["b", "c"]):
        other_client.chat.completions.create(model="owner/name", messages=HI, stop=stop)
        other_client.completions.create(model="owner/name", prompt="Hi", stop=stop)
    assert asked == [("[end]",), (), ("b", "[end]"), ("b",), ("b", "c", "[end]"), ("b", "c")]


def test_a_chat_without_a_limit_fills_the_context(client):
    answer = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], seed=1)
    assert 1 <= answer.usage.completion_tokens <= 64


@pytest.mark.parametrize(
    ("fields", "param", "sentence"),
    [
        ({"max_tokens": 0}, "max_tokens", "max_tokens must be a whole number from 1 to"),
        ({"max_tokens": True}, "max_tokens", "max_tokens must be a whole number"),
        ({"temperature": 3}, "temperature", "from 0 to 2"),
        ({"top_p": 0}, "top_p", "top_p must be a number"),
        ({"n": 129}, "n", "n must be a whole number from 1 to 128"),
        ({"prompt": ["a"] * 129}, "prompt", "a list of 1 to 128 of these"),
        ({"prompt": ["a"] * 43, "n": 3}, "n", "there are 129 choices"),
        ({"stop": ["a"] * 5}, "stop", "at most 4 texts"),
        ({"stop": [""]}, "stop[0]", "not empty"),
        ({"prompt": []}, "prompt", "a text, a list of 1 to 64 ids below 257, or a list"),
        ({"prompt": [300]}, "prompt", "ids below 257"),
        ({"prompt": [-1]}, "prompt", "ids below 257"),
        ({"prompt": ""}, None, "has no tokens"),
        ({"prompt": "<|end|>"}, None, "<|end|>"),
        ({"prompt": "a" * 65}, None, "has 65 tokens; the context of the model has 64"),
        ({"prompt": "a" * 65, "stream": True}, None, "has 65 tokens"),
        ({"prompt": [1.5]}, "prompt", "ids below 257"),
        ({"prompt": [[1], ["a"]]}, "prompt", "ids below 257"),
        ({"logprobs": 3}, "logprobs", "logprobs is not supported; it can only be false or null"),
        ({"logprobs": 0}, "logprobs", "logprobs is not supported"),
        ({"logprobs": 1}, "logprobs", "logprobs is not supported"),
        ({"echo": 0}, "echo", "echo is not supported"),
        ({"seed": -(2**63) - 1}, "seed", "seed must be a whole number from -9223372036854775808 to"),
        ({"seed": 10**40}, "seed", "seed must be a whole number"),
        ({"seed": 0.5}, "seed", "seed must be a whole number"),
        ({"temperature": -1e-300}, "temperature", "from 0 to 2"),
        ({"top_p": -0.1}, "top_p", "above 0"),
        ({"max_tokens": 10**40}, "max_tokens", "from 1 to 32768"),
        ({"stream_options": {"usage": True}}, "stream_options.usage", "no parameter"),
        ({"presence_penalty": 1.5}, "presence_penalty", "not supported"),
        ({"extra_body": {"top_k": 3}}, "top_k", "'top_k' is no parameter"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_names_the_parameter(client, fields, param, sentence):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{"model": "tiny", "prompt": "Hi", **fields})
    assert caught.value.param == param and sentence in caught.value.body["message"]
    assert caught.value.type == "invalid_request_error"


def test_what_asks_for_nothing_is_accepted(client):
    client.completions.create(model="tiny", prompt="Hi", presence_penalty=0, best_of=1, user="somebody", max_tokens=1)
    nothing = {"presence_penalty": None, "echo": None}
    client.completions.create(model="tiny", prompt="Hi", max_tokens=1, extra_body=nothing)


def test_an_unknown_model_and_a_model_without_a_template_are_refused(client):
    with pytest.raises(openai.NotFoundError, match="'gpt-5' does not exist; this server has 'tiny'"):
        client.completions.create(model="gpt-5", prompt="Hi")
    with (
        serving(tiny(), "plain") as other,
        openai.OpenAI(base_url=other.url, api_key="any", max_retries=0) as client,
        pytest.raises(openai.BadRequestError, match="no chat template"),
    ):
        client.chat.completions.create(model="plain", messages=[{"role": "user", "content": "Hi"}])


def ask(server, method="POST", path="/v1/completions", body=b"{}", **headers):
    headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): v for name, v in headers.items()}
    connection = http.client.HTTPConnection(*server.server_address, timeout=60)
    connection.request(method, path, body if isinstance(body, bytes) else json.dumps(body), headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    if response.headers.get_content_type() == "text/event-stream":
        return response.status, {"error": {"message": content.decode()}}
    return response.status, json.loads(content)


def message_of(answer):
    """The sentence of an error, which has the form of OpenAI's."""
    error = answer["error"]
    assert error.keys() == {"message", "type", "param", "code"} and "\n" not in error["message"]
    return error["message"]


@pytest.mark.parametrize(
    ("request_fields", "status", "sentence"),
    [
        ({"body": b"{"}, 400, "the body is not JSON"),
        ({"body": b""}, 400, "the body is not JSON"),
        ({"body": b"[" * 100_000}, 400, "nested too deeply"),
        ({"body": b"[]"}, 400, "must be a JSON object"),
        ({"body": b'{"model": "\xff"}'}, 400, "in UTF-8"),
        ({"body": '{"model": "tiny"}'.encode("utf-16")}, 400, "in UTF-8"),
        ({"body": b'{"model": "tiny", "prompt": "\xed\xa0\x80"}'}, 400, "in UTF-8"),
        ({"body": b'{"model": "tiny", "prompt": "\\ud800"}'}, 400, "in UTF-8"),
        ({"body": b'{"model": "tiny", "prompt": "Hi", "\\udc00": 1}'}, 400, "in UTF-8"),
        ({"body": b'{"model": "tiny", "prompt": "Hi", "top_p": NaN}'}, 400, "finite numbers"),
        ({"body": b'{"model": "tiny", "prompt": "Hi", "temperature": -Infinity}'}, 400, "finite numbers"),
        ({"body": b'{"model": "tiny", "prompt": "Hi", "temperature": 1e999}'}, 400, "finite numbers"),
        ({"body": b'{"model": "tiny", "prompt": "Hi", "seed": ' + b"9" * 5000 + b"}"}, 400, "the body is not JSON"),
        ({}, 400, "model is missing"),
        ({"Content_Type": "text/plain"}, 415, "application/json"),
        ({"Content_Type": "application/jsonx"}, 415, "application/json"),
        ({"Content_Length": "99999999999"}, 413, "the most are"),
        ({"Content_Length": "-1"}, 400, "Invalid HTTP request"),
        ({"Content_Length": "2, 3"}, 400, "Invalid HTTP request"),
        ({"Content_Length": "x"}, 400, "Invalid HTTP request"),
        ({"body": b" " * 10_000_001}, 413, "the most are 10000000 bytes"),
        ({"Host": "evil.example"}, 403, "this computer alone"),
        ({"Host": "localhost.evil.example:80"}, 403, "this computer alone"),
        ({"Host": "evil.example", "path": "/v1/none"}, 403, "this computer alone"),
        ({"path": "/v1/embeddings"}, 404, "there is no POST /v1/embeddings"),
        ({"path": "/../../etc/passwd", "method": "GET"}, 404, "there is no GET"),
        ({"method": "GET"}, 405, "there is no GET /v1/completions"),
        ({"method": "DELETE"}, 405, "there is no DELETE"),
        ({"method": "BREW", "path": "/"}, 404, "there is no BREW"),
    ],
)
def test_what_is_no_request_gets_an_error_as_json(server, request_fields, status, sentence):
    found, answer = ask(server, **request_fields)
    assert found == status and sentence in message_of(answer)


POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b'{"model": "tiny", "prompt": "Hi", "max_tokens": 1}'


@pytest.mark.parametrize(
    ("content", "status", "sentence"),
    [
        (POST + b"\r\n", 400, "the body is not JSON"),
        (POST + b"Content-Length: 9\r\n\r\n{", 400, "ended in the middle"),
        (POST, 400, "ended in the middle"),
        (b"hello\r\n\r\n", 400, "Invalid HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400, "Invalid HTTP request"),
        (b"GET /v1/models HTTP/1.1\r\n\r\n", 400, "Invalid HTTP request"),  # no Host
        (b"GET / HTTP/1.0\r\n\r\n", 403, "this computer alone"),
        (POST + b"X: " + b"a" * 200_000, 400, "Invalid HTTP request"),
        (CHUNKED + b"zz\r\n", 400, "Invalid HTTP request"),
        (CHUNKED + b"1000000\r\n" + b" " * 2**24 + b"\r\n0\r\n\r\n", 413, "the most are"),
        (POST + b"Content-Length: 2\r\nTransfer-Encoding: gzip\r\n\r\n{}", 400, "Invalid HTTP request"),
        (CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), 200, None),
        (POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY), 200, None),
    ],
)
def test_what_is_no_http_gets_an_answer_and_so_do_bodies_in_chunks(server, content, status, sentence):
    with socket.create_connection(server.server_address, timeout=60) as connection:
        sender = threading.Thread(target=connection.sendall, args=(content,))
        sender.start()
        if sentence == "ended in the middle":
            sender.join()
            connection.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(connection)
        response.begin()
        answer = json.loads(response.read())
        sender.join()
    assert response.status == status and (sentence is None or sentence in message_of(answer))


def test_another_method_is_told_which_there_are(server):
    connection = http.client.HTTPConnection(*server.server_address, timeout=60)
    connection.request("TRACE", "/v1/chat/completions")
    response = connection.getresponse()
    assert response.status == 405 and response.headers["Allow"] == "POST"


def test_after_a_refusal_the_rest_of_a_body_is_not_read_as_a_request(server):
    connection = http.client.HTTPConnection(*server.server_address, timeout=60)
    for _ in range(2):
        connection.request("POST", "/v1/none", b"x" * 1000, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 404 and response.read()
    connection.request("GET", "/v1/models/?limit=3")
    assert connection.getresponse().status == 200


@pytest.mark.parametrize("depth", [200, 900, 20_000])
@pytest.mark.parametrize("field", ["metadata", "messages", "tools", "stop"])
def test_deep_nesting_is_no_failure(server, other, field, depth):
    deep = {"metadata": '{"a":' * depth + "1" + "}" * depth, "stop": "[" * depth + "]" * depth}
    deep |= {"messages": f'[{{"role": "user", "content": {deep["stop"]}}}]'}
    function = f'{{"name": "f", "parameters": {deep["metadata"]}}}'
    deep |= {"tools": f'[{{"type": "function", "function": {function}}}]'}
    body = {"model": '"owner/name"', "messages": json.dumps(HI), "max_tokens": "1"} | {field: deep[field]}
    body = ", ".join(f'"{name}": {value}' for name, value in body.items())
    status, answer = ask(other, path="/v1/chat/completions", body=f"{{{body}}}".encode())
    assert status in (200, 400) and (status == 200 or message_of(answer))
    assert status == 200 or field != "metadata" or depth > 200


def test_a_body_that_does_not_arrive_and_more_requests_than_can_be_answered(server, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(server_module, "PATIENCE", 0.1)
        with socket.create_connection(server.server_address, timeout=60) as connection:
            connection.sendall(POST + b"Content-Length: 9\r\n\r\n{")
            assert connection.recv(1000).startswith(b"HTTP/1.1 408")
    with monkeypatch.context() as patch:
        patch.setattr(server_module, "MAX_REQUESTS", 0)
        status, answer = ask(server)
        assert status == 503 and "try again later" in message_of(answer) and answer["error"]["type"] == "server_error"


# --- The table of fields ---


@pytest.mark.parametrize(
    ("home", "records"),
    [
        ("completions", [completion_create_params.CompletionCreateParamsNonStreaming]),
        ("completions", [completion_create_params.CompletionCreateParamsStreaming]),
        ("chat", [chat.completion_create_params.CompletionCreateParamsNonStreaming]),
        ("chat", [chat.completion_create_params.CompletionCreateParamsStreaming]),
        ("message", [*typing.get_args(chat.ChatCompletionMessageParam)]),
    ],
)
def test_the_table_has_every_field_of_the_official_client(home, records):
    names = {name for record in records for name in typing.get_type_hints(record)}
    if home == "message":
        names |= chat.ChatCompletionMessage.model_fields.keys() | {"reasoning_content"}
    assert names == fields_of(home).keys()


NOT_HONOURED = [
    (home, name, field)
    for home in ("completions", "chat", "message")
    for name, field in fields_of(home).items()
    if field.policy != "honoured"
]


@pytest.mark.parametrize(("home", "name", "field"), NOT_HONOURED, ids=lambda value: value if type(value) is str else "")
def test_what_asks_for_nothing_is_accepted_and_all_else_is_refused(server, home, name, field):
    def complete(value):
        body = {"model": "tiny", "prompt": "Hi", "max_tokens": 1}
        if home != "completions":
            message = {"role": "assistant", "content": "Hi"} | ({name: value} if home == "message" else {})
            body = {"model": "tiny", "messages": [message], "max_tokens": 1}
        body |= {} if home == "message" else {name: value}
        path = "/v1/completions" if home == "completions" else "/v1/chat/completions"
        return ask(server, path=path, body=body)

    plain = jsonschema.Draft202012Validator(field.schema)
    values = [
        None,
        0,
        1,
        False,
        True,
        "",
        "medium",
        "auto",
        [],
        ["text"],
        {},
        {"type": "text"},
        0.5,
        "x",
        ["x"],
        {"x": 1},
    ]
    for value in values:
        status, answer = complete(value)
        assert status == (200 if value is None or plain.is_valid(value) else 400), value
        if status == 400:
            param = f"messages[0].{name}" if home == "message" else name
            said = "must be" if field.policy == "ignored" else "is not supported"
            assert answer["error"]["param"] == param and f"{param} {said}" in message_of(answer)


def test_null_means_the_default(server):
    nulls = {name: None for name in fields_of("completions")}
    body = {"model": "tiny", "prompt": "Hi", "temperature": 0}
    (status, first), (_, again) = (ask(server, body={**more, **body}) for more in ({}, nulls))
    assert status == 200 and first["choices"] == again["choices"] and first["usage"]["completion_tokens"] == 16
    nulls = {name: None for name in fields_of("chat")}
    message = {name: None for name in fields_of("message")} | HI[0]
    body = {"model": "tiny", "temperature": 0, "messages": [message]}
    (status, first), (_, again) = (ask(server, path="/v1/chat/completions", body={**m, **body}) for m in ({}, nulls))
    assert status == 200 and first["choices"] == again["choices"]
    for required in ({"model": None}, {"messages": None}, {"messages": [{"role": None, "content": "a"}]}):
        assert ask(server, path="/v1/chat/completions", body=body | required)[0] == 400


@pytest.mark.parametrize("value", [1e-8, 1e-300, 5e-324])
@pytest.mark.parametrize("field", ["temperature", "top_p"])
def test_the_smallest_numbers_take_the_most_probable_tokens(client, field, value):
    asked = {"model": "tiny", "prompt": "Hello", "max_tokens": 12, "seed": 1}
    greedy = client.completions.create(**asked, temperature=0)
    assert client.completions.create(**asked, **{field: value}).choices == greedy.choices


def test_whole_numbers_may_be_written_as_floats_and_seeds_may_be_negative(client):
    asked = {"model": "tiny", "prompt": "Hello"}
    floats = client.completions.create(**asked, max_tokens=5.0, n=2.0, seed=3.0)
    whole = client.completions.create(**asked, max_tokens=5, n=2, seed=3)
    assert floats.choices == whole.choices and floats.usage == whole.usage
    assert (
        client.completions.create(**asked, extra_body={"prompt": [72.0, 105.0]}, max_tokens=1).usage.prompt_tokens == 2
    )
    for seed in (-(2**63), -1, 2**63, 2**64):
        first, again = (client.completions.create(**asked, max_tokens=5, n=2, seed=seed) for _ in range(2))
        assert first.choices == again.choices


def test_the_document_describes_the_requests(server):
    status, document = ask(server, "GET", "/openapi.json")
    assert status == 200 and document["openapi"] == "3.1.0"
    for path, home in {"/v1/completions": "completions", "/v1/chat/completions": "chat"}.items():
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["properties"].keys() == fields_of(home).keys()
        for name, field in fields_of(home).items():
            assert schema["properties"][name]["description"] == f"{field.summary} ({field.policy})"


# --- Messages and tools ---

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def seen(other, monkeypatch):
    """What the template showed of each request."""
    found, pieces = [], other.model.pieces

    def watched(ids, **more):
        found.append(other.model.texts.tokenizer.decode(ids))
        return pieces(ids, **more)

    monkeypatch.setattr(other.model, "pieces", watched)
    return found


def test_the_template_sees_the_fields_of_messages(other_client, seen):
    messages = [
        {"role": "user", "name": "Mia", "content": [{"type": "text", "text": part} for part in ("Wea", "ther?")]},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "Ask."},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        {"role": "assistant", "tool_calls": [CALL | {"function": {"name": "weather", "arguments": "{oops"}}]},
    ]
    other_client.chat.completions.create(model="owner/name", messages=messages, max_tokens=1)
    called = CALL | {"function": {"name": "weather", "arguments": {"city": "Paris"}}}  # as templates expect it
    user, assistant, tool, broken = json.loads(seen[0])
    assert user == {"role": "user", "name": "Mia", "content": "Weather?"}
    assert assistant.pop("thinking") == assistant["reasoning_content"] == "Ask."
    assert assistant == {"role": "assistant", "tool_calls": [called], "reasoning_content": "Ask."}
    assert tool == messages[2] and broken == messages[3]


def test_an_answer_can_be_sent_back_as_a_message(client):
    answer = client.chat.completions.create(model="tiny", messages=HI, max_tokens=1, seed=1).choices[0].message
    assert answer.refusal is None and answer.content is not None
    for message in (answer, answer.model_dump(), answer.model_dump(exclude_none=True)):
        assert client.chat.completions.create(model="tiny", messages=[*HI, message], max_tokens=1).choices


def test_tools_are_described_by_the_template_if_it_can(client, other_client, seen):
    asked = {"messages": HI, "max_tokens": 1, "tools": [TOOL]}
    for more in ({}, {"tool_choice": "auto"}, {"tool_choice": "none"}, {"tools": []}):
        other_client.chat.completions.create(model="owner/name", **(asked | more))
    shown = json.dumps(HI)
    assert seen == [shown + json.dumps([TOOL])] * 2 + [shown] * 2
    with pytest.raises(openai.BadRequestError, match="the chat template of this model has no tools") as caught:
        client.chat.completions.create(model="tiny", **asked)
    assert caught.value.param == "tools"
    client.chat.completions.create(model="tiny", **(asked | {"tool_choice": "none"}))


@pytest.mark.parametrize(
    ("fields", "param", "sentence"),
    [
        ({"messages": []}, "messages", "messages must be a list of 1 to 2048 messages"),
        ({"messages": "Hi"}, "messages", "messages must be a list"),
        ({"messages": ["Hi"]}, "messages[0]", "must be a message with a content, or with tool_calls"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role", "messages[0].role is missing"),
        ({"messages": [{"role": "u", "content": "Hi"}]}, "messages[0].role", 'must be "developer", "system", "user"'),
        ({"messages": [{"role": "user"}]}, "messages[0]", "a message with a content, or with tool_calls"),
        ({"messages": [*HI, {"role": "user", "content": None}]}, "messages[1]", "a message with a content"),
        ({"messages": [{"role": "assistant", "tool_calls": []}]}, "messages[0]", "a message with a content"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content", "must be a text, or a list of parts"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "a list of parts"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
            "is missing",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]},
            "messages[0].content[0].text",
            "must be a text",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "text": ""}]}]},
            "messages[0].content[0].type",
            'must be "text"',
        ),
        ({"messages": [HI[0] | {"mood": "good"}]}, "messages[0].mood", "'messages[0].mood' is no parameter"),
        ({"messages": [HI[0] | {"name": 3}]}, "messages[0].name", "must be a text"),
        (
            {"messages": [HI[0] | {"tool_calls": [{"id": "a", "type": "custom", "custom": {}}]}]},
            "messages[0].tool_calls[0].type",
            'must be "function"',
        ),
        (
            {"messages": [HI[0] | {"function_call": {}}]},
            "messages[0].function_call",
            "not supported; it can only be null",
        ),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type", 'must be "function"'),
        ({"tools": [TOOL | {"function": {"name": "f", "strict": True}}]}, "tools[0].function.strict", "must be false"),
        ({"tool_choice": "required"}, "tool_choice", 'must be "auto", or "none"'),
        ({"tool_choice": "required", "messages": HI * 2049}, None, "must be"),
        ({"messages": [{"role": "user", "content": "<|end|>"}]}, None, "<|end|>"),
        ({"messages": [HI[0] | {"name": "<|end|>"}]}, None, "<|end|>"),
        ({"tools": [TOOL | {"function": {"name": "f", "parameters": {"<|end|>": 1}}}]}, None, "<|end|>"),
        ({"top_logprobs": False}, "top_logprobs", "top_logprobs is not supported; it can only be 0 or null"),
    ],
)
def test_what_is_wrong_in_a_chat_is_one_sentence(other, fields, param, sentence):
    body = {"model": "owner/name", "messages": HI, "max_tokens": 1} | fields
    status, answer = ask(other, path="/v1/chat/completions", body=body)
    assert status == 400 and sentence in message_of(answer)
    assert param is None or answer["error"]["param"] == param


# --- Everything that may be sent ---

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["\ud800", 10**30, 1e-300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def valid(schema):
    """Values of a schema of the kinds that the document has."""
    match schema:
        case {"const": value}:
            return st.just(value)
        case {"enum": found}:
            return st.sampled_from(found)
        case {"type": "object", "properties": properties}:
            required = {name: valid(properties[name]) for name in schema["required"]}
            optional = {name: valid(one) for name, one in properties.items() if name not in required}
            return st.fixed_dictionaries(required, optional=optional)
        case {"anyOf": schemas}:
            return st.one_of(*map(valid, schemas))
        case {"type": "array", "items": items}:
            return st.lists(valid(items), min_size=schema["minItems"], max_size=min(schema["maxItems"], 3))
        case {"type": "integer"}:
            return st.integers(schema["minimum"], schema["maximum"])
        case {"type": "number"}:
            return st.floats(schema.get("minimum", 1e-300), schema["maximum"])
        case {"type": "string"}:
            return st.text(st.characters(exclude_categories=["Cs"]), min_size=schema.get("minLength", 0), max_size=9)
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "object"}:
            return st.dictionaries(st.text(max_size=3), JUNK, max_size=schema.get("maxProperties", 2))
        case {"type": "null"}:
            return st.none()
    raise AssertionError(schema)


@st.composite
def bodies(draw, schema):
    """A body after its schema, in which up to two values may have been changed."""
    body = copy.deepcopy(draw(valid(schema)))
    for _ in range(draw(st.integers(0, 2))):
        holder = body
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if not isinstance(holder[key], dict | list) or draw(st.booleans()):
                if draw(st.booleans()):
                    holder[key] = draw(JUNK)
                else:
                    del holder[key]
                break
            holder = holder[key]
    return body


@pytest.mark.parametrize(("path", "of"), [("/v1/completions", "server"), ("/v1/chat/completions", "other")])
def test_no_body_makes_it_fail_and_the_document_says_what_is_wrong(request, monkeypatch, path, of):
    server = request.getfixturevalue(of)
    pieces = server.model.pieces
    monkeypatch.setattr(server.model, "pieces", lambda ids, **more: pieces(ids, **{**more, "max_tokens": 1}))
    monkeypatch.setattr(server_module, "MAX_CHOICES", 3)
    _, document = ask(server, "GET", "/openapi.json")
    schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    plain, found = jsonschema.Draft202012Validator(schema), set()

    @settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
    @given(bodies(schema))
    def check(body):
        status, answer = ask(server, path=path, body=body)
        is_valid = plain.is_valid(body)
        assert status in (200, 400) + (404,) * (body.get("model") != server.name), answer
        assert is_valid or status != 200, "the document forbids this"
        if status != 200:
            says = message_of(answer)
            assert not is_valid or "token" in says or "choices" in says or "UTF-8" in says, "the document allows this"
        found.add((status, is_valid))

    check()
    assert {(200, True), (400, False)} <= found


def test_a_failure_of_the_model_is_an_error_of_the_server_and_it_goes_on(server, client, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(server.model, "pieces", lambda *_, **__: 1 / 0)
        with pytest.raises(openai.InternalServerError, match="the server failed: ZeroDivisionError"):
            client.completions.create(model="tiny", prompt="Hi")
    assert client.completions.create(model="tiny", prompt="Hi", max_tokens=1).choices


def test_requests_at_the_same_time_get_their_own_answers(client):
    found, asked = {}, [f"prompt {i}" for i in range(6)]

    def complete(prompt):
        found[prompt] = client.completions.create(model="tiny", prompt=prompt, **SETTINGS).choices[0].text

    threads = [threading.Thread(target=complete, args=(prompt,)) for prompt in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = {p: client.completions.create(model="tiny", prompt=p, **SETTINGS).choices[0].text for p in asked}
    assert found == alone


def test_a_failure_in_the_middle_of_a_stream_is_its_last_event(client, server, monkeypatch, capsys):
    def fails(ids, **_):
        yield "a"
        raise ZeroDivisionError

    monkeypatch.setattr(server.model, "pieces", fails)
    stream = client.completions.create(model="tiny", prompt="Hi", stream=True)
    assert next(stream).choices[0].text == "a"
    with pytest.raises(openai.APIError, match="the server failed: ZeroDivisionError"):
        next(stream)
    assert "in fails" in capsys.readouterr().err


# --- Clients that leave, or do not read ---


@pytest.fixture
def endless(server, monkeypatch):
    """A model that writes for ever; it counts its pieces and the completions that have ended."""
    count = {"pieces": 0, "ended": 0, "at once": 0}

    def pieces(ids, **_):
        try:
            while True:
                count["pieces"] += 1
                time.sleep(0.001)
                yield "a" * 10_000
        finally:
            count["ended"] += 1

    monkeypatch.setattr(server.model, "pieces", pieces)
    return count


def post(server, **more):
    """A connection on which a request was sent."""
    body = json.dumps({"model": "tiny", "prompt": "Hi"} | more).encode()
    connection = socket.create_connection(server.server_address, timeout=60)
    connection.sendall(POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    return connection


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_its_answer(server, endless, stream):
    with post(server, stream=stream):
        until(lambda: endless["pieces"] > 3)
        assert endless["ended"] == 0
    until(lambda: endless["ended"] == 1)


def test_a_client_that_does_not_read_stops_its_answer_only(server, endless, monkeypatch):
    """Nothing is written ahead of it; others go on; in the end it is given up."""
    with monkeypatch.context() as patch:
        patch.setattr(server_module, "PATIENCE", 0.5)
        with post(server, stream=True):
            until(lambda: endless["ended"] == 1)
            assert endless["pieces"] * 10_000 < 20_000_000  # what the buffers of sockets hold
            assert ask(server, "GET", "/v1/models")[0] == 200


def test_a_slow_reader_gets_all_of_its_answer(server, monkeypatch):
    def pieces(ids, **_):
        for i in range(1000):
            yield f"{i:03}" * 1000
        return Completion("", 2, 1000, "stop")

    monkeypatch.setattr(server.model, "pieces", pieces)
    with post(server, stream=True) as connection:
        response, found = http.client.HTTPResponse(connection), b""
        response.begin()
        while chunk := response.read(100_000):
            found += chunk
            time.sleep(0.005)
    events = [json.loads(line[6:]) for line in found.decode().split("\n\n")[:-2]]
    assert found.endswith(b"data: [DONE]\n\n") and events[-1]["choices"][0]["finish_reason"] == "stop"
    assert "".join(event["choices"][0]["text"] for event in events) == "".join(f"{i:03}" * 1000 for i in range(1000))


def test_more_requests_than_threads_take_turns(server, monkeypatch):
    running, most, begun, end = set(), set(), set(), threading.Event()

    def pieces(ids, max_tokens, **_):
        me = object()
        while max_tokens > 1 and not end.is_set():
            running.add(me)
            begun.add(me)
            most.add(len(running))
            time.sleep(0.002)
            running.discard(me)
            yield "a"
        return Completion("a", 2, 1, "stop")

    monkeypatch.setattr(server.model, "pieces", pieces)
    n = 2 * server_module.MAX_THREADS
    connections = [post(server, max_tokens=2) for _ in range(n)]
    until(lambda: len(begun) == n)  # although none of them ends
    assert ask(server, body={"model": "tiny", "prompt": "Hi", "max_tokens": 1})[0] == 200
    end.set()
    for connection in connections:
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert json.loads(response.read())["choices"][0]["text"] == "a"
        connection.close()
    assert 1 < max(most) <= server_module.MAX_THREADS


def test_a_client_that_leaves_in_the_middle_does_not_stop_the_server(client):
    stream = client.completions.create(model="tiny", prompt="Hi", max_tokens=60, stream=True)
    next(iter(stream))
    stream.close()
    assert client.completions.create(model="tiny", prompt="Hi", max_tokens=1).choices


# --- The server itself ---


def test_the_address_is_known_before_it_serves_and_is_free_afterwards(server):
    model = server.model
    with pytest.raises(OSError, match="in use"):
        CompletionServer(model, "tiny", port=server.server_address[1])
    with pytest.raises(ValueError, match="port=65536 must be from 0 to 65535"):
        CompletionServer(model, "tiny", port=65536)
    with CompletionServer(model, "tiny", port=0, quiet=True) as first:
        assert first.url == f"http://127.0.0.1:{first.server_address[1]}/v1" and first.server_address[1] > 0
    first.serve_forever()  # it was shut down, so that it returns at once
    with CompletionServer(model, "tiny", port=first.server_address[1]) as again:
        assert again.url == first.url


def test_it_listens_at_ipv6_and_elsewhere(server):
    try:
        listening = CompletionServer(server.model, "tiny", host="::1", port=0, quiet=True)
    except OSError:
        pytest.skip("this computer has no IPv6")
    with listening as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        assert other.url.startswith("http://[::1]:")
        with openai.OpenAI(base_url=other.url, api_key="any", max_retries=0) as client:
            assert [model.id for model in client.models.list()] == ["tiny"]
        assert ask(other, "GET", "/v1/models", Host="evil.example")[0] == 403
        other.shutdown()
        thread.join()


def test_it_ends_although_an_answer_has_no_end(server, monkeypatch, caplog):
    model = copy.copy(server.model)
    model.pieces = functools.partial(endless_pieces, ended := threading.Event())
    with serving(model, "tiny") as other:
        connection = post(other, stream=True)
        assert connection.recv(1000)
    assert ended.wait(60)
    connection.close()


def endless_pieces(ended, ids, **_):
    try:
        while True:
            time.sleep(0.001)
            yield "a"
    finally:
        ended.set()


def test_requests_are_logged_unless_it_is_quiet(server, capsys):
    ask(server, "GET", "/v1/models")
    assert not capsys.readouterr().err
    with CompletionServer(server.model, "tiny", port=0) as loud:
        thread = threading.Thread(target=loud.serve_forever)
        thread.start()
        ask(loud, "GET", "/v1/models/%1b")
        loud.shutdown()
        thread.join()
    assert capsys.readouterr().err == "127.0.0.1 GET /v1/models/%1b 404\n"


def test_without_its_packages_the_command_says_what_to_install(monkeypatch, capsys):
    from llm_anatomy.__main__ import main

    monkeypatch.delitem(sys.modules, "llm_anatomy.data_generation.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "story_rope"]) == 2
    sentence = "the server needs uvicorn, which is not installed; run pip install 'llm_anatomy[serving]'\n"
    assert capsys.readouterr().err == sentence


def test_its_help_says_what_happens_to_each_field(capsys):
    from llm_anatomy.__main__ import main

    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    words = capsys.readouterr().out.replace(",", " ").replace(".", " ").split()
    assert {name for (home, _), rows in TABLE.items() if home != "message" for name in rows} <= {*words}


def test_the_package_of_generators_needs_no_server():
    script = "import sys, llm_anatomy.data_generation.api_fields\n"
    script += "sys.exit(str({'starlette', 'uvicorn', 'jsonschema'} & {*sys.modules} or '') or 0)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
