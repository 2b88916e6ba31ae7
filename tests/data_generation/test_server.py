"""The server: the official client reads its answers, and what it refuses is JSON with a sentence."""

import http.client
import json
import threading
from contextlib import contextmanager

import pytest
import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.data_generation.local_model import LocalModel
from llm_anatomy.data_generation.server import CompletionServer
from llm_anatomy.models.checkpoints.chat import ChatTemplate
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.tokenizers.simple import ByteTokenizer

openai = pytest.importorskip("openai")
CHATML = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|end|>{% endfor %}<assistant>"


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
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
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
def client(server):
    with openai.OpenAI(base_url=server.url, api_key="any", max_retries=0) as client:
        yield client


SETTINGS = {"max_tokens": 12, "temperature": 0.7, "seed": 3}


def test_the_official_client_finds_the_model(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-5")


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


def test_a_chat_without_a_limit_fills_the_context(client):
    answer = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], seed=1)
    assert 1 <= answer.usage.completion_tokens <= 64


@pytest.mark.parametrize(
    ("fields", "param", "sentence"),
    [
        ({"max_tokens": 0}, "max_tokens", "max_tokens must be a number from 1 to"),
        ({"max_tokens": True}, "max_tokens", "max_tokens must be a number"),
        ({"temperature": 3}, "temperature", "from 0 to 2"),
        ({"top_p": 0}, "top_p", "top_p must be a number"),
        ({"n": 129}, "n", "n must be a number from 1 to 128"),
        ({"prompt": ["a"] * 129}, "n", "there are 129 choices"),
        ({"prompt": ["a"] * 43, "n": 3}, "n", "there are 129 choices"),
        ({"stop": ["a"] * 5}, "stop", "at most four"),
        ({"stop": [""]}, "stop", "at most four"),
        ({"prompt": []}, "prompt", "a text, a list of ids"),
        ({"prompt": [300]}, "prompt", "ids below 257"),
        ({"prompt": [-1]}, "prompt", "ids below 257"),
        ({"prompt": ""}, None, "has no tokens"),
        ({"prompt": "<|end|>"}, None, "<|end|>"),
        ({"prompt": "a" * 65}, None, "has 65 tokens; the context of the model has 64"),
        ({"prompt": "a" * 65, "stream": True}, None, "has 65 tokens"),
        ({"logprobs": 3}, "logprobs", "logprobs is not supported"),
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
    connection = http.client.HTTPConnection(*server.server_address, timeout=30)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())["error"]["message"]


@pytest.mark.parametrize(
    ("request_fields", "status", "sentence"),
    [
        ({"body": b"{"}, 400, "the body is not JSON"),
        ({"body": b"[" * 100_000}, 400, "the body is not JSON"),
        ({"body": b"[]"}, 400, "must be a JSON object"),
        ({}, 400, "model is missing"),
        ({"Content_Type": "text/plain"}, 415, "application/json"),
        ({"Content_Length": "99999999999"}, 413, "the most are"),
        ({"Content_Length": "-1"}, 411, "Content-Length"),
        ({"Host": "evil.example"}, 403, "this computer alone"),
        ({"path": "/v1/embeddings"}, 404, "there is no POST /v1/embeddings"),
        ({"path": "/../../etc/passwd", "method": "GET"}, 404, "there is no GET"),
        ({"method": "GET"}, 405, "there is no GET /v1/completions"),
        ({"method": "DELETE"}, 501, "Unsupported method"),
    ],
)
def test_what_is_no_request_gets_an_error_as_json(server, request_fields, status, sentence):
    found, message = ask(server, **request_fields)
    assert found == status and sentence in message


def test_after_a_refusal_the_connection_is_closed_since_a_body_may_be_left(server):
    connection = http.client.HTTPConnection(*server.server_address, timeout=30)
    for _ in range(2):
        connection.request("POST", "/v1/none", b"x" * 1000, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 404 and response.headers["Connection"] == "close" and response.read()
    connection.request("GET", "/v1/models/?limit=3")
    assert connection.getresponse().status == 200


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


def test_a_client_that_leaves_in_the_middle_does_not_stop_the_server(client):
    stream = client.completions.create(model="tiny", prompt="Hi", max_tokens=60, stream=True)
    next(iter(stream))
    stream.close()
    assert client.completions.create(model="tiny", prompt="Hi", max_tokens=1).choices
