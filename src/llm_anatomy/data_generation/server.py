"""A small server with OpenAI's API for one model: completions, chats, and both of them piece by piece.

It is made for tests, for classrooms and for one's own computer: some hundred clients at a time, and no accounts. What
it knows of the API is the table in :mod:`~llm_anatomy.data_generation.api_fields`; it serves it as an OpenAPI document
at ``/openapi.json``. It never parses calls of tools: they are left in the text of an answer, as the model writes them.
It needs the packages of the extra ``serving``.
"""

import ipaddress
import json
import re
import socket
import sys
import threading
import time
import traceback
import uuid
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from functools import partial
from typing import Any, Literal, NamedTuple

import anyio
import anyio.to_thread
import h11
import uvicorn
from jsonschema import Draft202012Validator, ValidationError, validators
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from llm_anatomy.data_generation import api_fields
from llm_anatomy.data_generation.api_fields import IGNORED, MAX_CHOICES, MAX_TOKENS, NEUTRAL, NOTHING, fields_of, phrase
from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.data_generation.local_model import LocalModel

__all__ = ["IGNORED", "MAX_BODY", "NEUTRAL", "NOT_FOUND", "CompletionServer"]

MAX_BODY, MAX_REQUESTS, MAX_THREADS = 10_000_000, 1000, 8
PATIENCE = 60.0
"""Seconds within which a client must send its body, and take each piece of an answer."""

LEAST_TEMPERATURE, LEAST_TOP_P = 1e-5, 1e-6
"""Below them only the most probable token has a chance, but quotients overflow and sums are rounded to 0."""

NOT_FOUND = "model_not_found"


class _Problem(Exception):
    """What is wrong with a request."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None):
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    @classmethod
    def of(cls, error: Exception) -> "_Problem":
        match error:
            case _Problem():
                return error
            case ClientDisconnect():
                return cls(400, "the client has left")
            case RecursionError():
                return cls(400, "the body is nested too deeply")
            case ValueError():  # of the model: a prompt that is too long, and the like
                return cls(400, str(error)[:1000])
        traceback.print_exception(error)
        return cls(500, f"the server failed: {type(error).__name__}")

    def content(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        return JSONResponse(self.content(), self.status, headers)


class CompletionServer:
    """Serves one model at ``/v1/models``, ``/v1/completions`` and ``/v1/chat/completions``.

    It listens as soon as it is made, and answers while :meth:`serve_forever` runs.

    Args:
        model: what continues the prompts; requests take turns, token by token.
        name: of the model, which requests must state.
        host, port: where the server listens; port 0 takes a free one.
        quiet: whether requests are not logged.

    Raises:
        OSError: if the address is taken.
        ValueError: if there is no such port.

    Source: the reference of OpenAI's API; GT-46.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.checkpoints.texts import Texts
    >>> from llm_anatomy.models.transformer import Transformer
    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=256, position="alibi"))
    >>> with CompletionServer(LocalModel(model, Texts(tokenizer=ByteTokenizer())), "tiny", port=0) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, model: LocalModel, name: str, *, host: str = "127.0.0.1", port: int = 8000, quiet: bool = False):
        if not 0 <= port < 2**16:
            raise ValueError(f"{port=} must be from 0 to {2**16 - 1}")
        self.model, self.name, self._is_serving = model, name, threading.Lock()
        settings: dict[str, Any] = {"http": _Protocol, "ws": "none", "lifespan": "off", "proxy_headers": False}
        settings |= {"log_config": None, "log_level": "error", "access_log": False, "server_header": False}
        settings |= {"timeout_keep_alive": int(PATIENCE), "timeout_graceful_shutdown": 1}
        self._server = uvicorn.Server(uvicorn.Config(_Application(model, name, quiet), **settings))
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=2048)
        self.server_address = self._socket.getsockname()[:2]

    def __enter__(self) -> "CompletionServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._socket.close()

    @property
    def url(self) -> str:
        """The address that clients need, with the version of the API."""
        host, port = self.server_address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"

    def serve_forever(self) -> None:
        """Answer requests until another thread calls :meth:`shutdown`, or until Ctrl-C."""
        with self._is_serving:
            if not self._server.should_exit:
                self._server.run(sockets=[self._socket])

    def shutdown(self) -> None:
        """Stop serving; what is being answered has a second to end."""
        self._server.should_exit = True
        with self._is_serving:
            pass


class _Protocol(H11Protocol):
    """Answers in JSON also what is not HTTP, or ends in the middle."""

    def eof_received(self) -> None:
        state = self.conn.their_state
        if state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0]):
            self.send_400_response("The connection ended in the middle of the request.")

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            content = json.dumps(_Problem(400, msg).content()).encode()
            headers = {"Content-Type": "application/json", "Content-Length": f"{len(content)}", "Connection": "close"}
            head = h11.Response(status_code=400, headers=[*headers.items()], reason=b"Bad Request")
            for event in (head, h11.Data(data=content), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class _Asked(NamedTuple):
    """What a body asks for; none of the completions is begun."""

    completions: list[Generator[str, None, Completion]]
    n: int
    n_read: int
    stream: bool
    with_usage: bool
    is_chat: bool


class _Events(StreamingResponse):
    """Server-sent events; if the client leaves, their source ends as well."""

    async def stream_response(self, send: Send) -> None:
        assert isinstance(self.body_iterator, AsyncGenerator)
        async with aclosing(self.body_iterator):
            await super().stream_response(send)


class _Application:
    """What uvicorn calls for each request."""

    def __init__(self, model: LocalModel, name: str, quiet: bool):
        self.model, self.name, self.quiet, self.started = model, name, quiet, int(time.time())
        self.n_requests, self.limiter = 0, anyio.CapacityLimiter(MAX_THREADS)
        sizes = model.model.config.n_vocab, model.model.config.n_ctx
        schemas = {home: api_fields.request_schema(home, name, *sizes) for home in ("completions", "chat")}
        self.validators = {home: _Validator(schema) for home, schema in schemas.items()}
        document = api_fields.openapi(name, schemas)
        routes = [
            Route("/v1/models", lambda _: JSONResponse({"object": "list", "data": [self._card()]})),
            Route("/v1/models/{model:path}", self._model),
            Route("/v1/completions", partial(self._answer, home="completions"), methods=["POST"]),
            Route("/v1/chat/completions", partial(self._answer, home="chat"), methods=["POST"]),
            Route("/openapi.json", lambda _: JSONResponse(document)),
        ]
        self.app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_path})
        self.app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            if message["type"] == "http.response.start" and not self.quiet:
                path = scope["raw_path"].decode("ascii", "replace")
                print(scope["client"][0], scope["method"], path, message["status"], file=sys.stderr, flush=True)
            with anyio.fail_after(PATIENCE):
                await send(message)

        self.n_requests += 1
        scope["path"] = scope["path"].rstrip("/")
        try:
            self._check_host(scope)
            if self.n_requests > MAX_REQUESTS:
                raise _Problem(503, f"{MAX_REQUESTS} requests are being answered; try again later")
            await self.app(scope, receive, send_in_time)
        except _Problem as problem:
            await problem.response()(scope, receive, send_in_time)
        except TimeoutError:
            pass  # the client does not read its answer
        finally:
            self.n_requests -= 1

    @staticmethod
    def _check_host(scope: Scope) -> None:
        """A page on the web that lets its name point to this computer does not get through."""
        listens, host = scope["server"][0], Request(scope).headers.get("host", "")
        host = re.sub(r":\d*$", "", host).lower().strip("[]")
        if ipaddress.ip_address(listens).is_loopback and host not in ("localhost", "127.0.0.1", listens):
            raise _Problem(403, "this server is for this computer alone; its address is localhost")

    # --- What is answered ---

    def _card(self) -> dict[str, Any]:
        return {"id": self.name, "object": "model", "created": self.started, "owned_by": "llm_anatomy"}

    async def _model(self, request: Request) -> Response:
        problem = self._unknown_model(request.path_params["model"])
        return problem.response() if problem else JSONResponse(self._card())

    def _unknown_model(self, asked: object) -> _Problem | None:
        if not isinstance(asked, str) or asked == self.name:
            return None
        message = f"the model {asked[:80]!r} does not exist; this server has {self.name!r}"
        return _Problem(404, message, "model", NOT_FOUND)

    async def _answer(self, request: Request, home: Literal["completions", "chat"]) -> Response:
        try:
            return await self._answered(request, home)
        except Exception as error:
            return _Problem.of(error).response()

    async def _answered(self, request: Request, home: Literal["completions", "chat"]) -> Response:
        body = await _body(request)
        asked = await anyio.to_thread.run_sync(self._asked, body, home, limiter=self.limiter)
        kind = f"chat.completion{'.chunk' * asked.stream}" if asked.is_chat else "text_completion"
        name = f"{'chatcmpl' if asked.is_chat else 'cmpl'}-{uuid.uuid4().hex}"
        head = {"id": name, "object": kind, "created": int(time.time()), "model": self.name}
        if asked.stream:
            events = self._events(request, asked, head)
            return _Events(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        choices, n_written = [], 0
        async with aclosing(self._pieces(request, asked)) as pieces:
            async for index, piece in pieces:
                if isinstance(piece, Completion):
                    n_written += piece.n_tokens
                    message = {"message": {"role": "assistant", "content": piece.text, "refusal": None}}
                    text = message if asked.is_chat else {"text": piece.text}
                    choices.append({"index": index, **text, "logprobs": None, "finish_reason": piece.finish_reason})
        return JSONResponse(head | {"choices": choices, "usage": _usage(asked.n_read, n_written)})

    async def _events(self, request: Request, asked: _Asked, head: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        head, n_written = head | ({"usage": None} if asked.with_usage else {}), 0

        def chunk(index: int, text: str, delta: dict[str, str], reason: str | None = None) -> bytes:
            piece = {"delta": delta} if asked.is_chat else {"text": text}
            choice = {"index": index, **piece, "logprobs": None, "finish_reason": reason}
            return _event(head | {"choices": [choice]})

        try:
            for index in range(asked.n if asked.is_chat else 0):
                yield chunk(index, "", {"role": "assistant", "content": ""})
            async with aclosing(self._pieces(request, asked)) as pieces:
                async for index, piece in pieces:
                    if isinstance(piece, Completion):
                        n_written += piece.n_tokens
                        yield chunk(index, "", {}, piece.finish_reason)
                    else:
                        yield chunk(index, piece, {"content": piece})
            if asked.with_usage:
                yield _event(head | {"choices": [], "usage": _usage(asked.n_read, n_written)})
            yield b"data: [DONE]\n\n"
        except Exception as error:  # too late for a status
            yield _event(_Problem.of(error).content())

    async def _pieces(self, client: Request, asked: _Asked) -> AsyncGenerator[tuple[int, str | Completion], None]:
        """The pieces of all completions, one after the other; after its pieces, each completion."""
        for index, completion in enumerate(asked.completions):
            with closing(completion):
                piece = ""
                while not isinstance(piece, Completion):
                    if await client.is_disconnected():
                        raise ClientDisconnect
                    piece = await anyio.to_thread.run_sync(_next, completion, limiter=self.limiter)
                    yield index, piece

    # --- What is asked ---

    def _asked(self, body: bytes, home: Literal["completions", "chat"]) -> _Asked:
        """Understand a body; what cannot be generated is refused here."""
        fields = _parsed(body)
        if problem := self._unknown_model(fields.get("model")):
            raise problem
        for error in self.validators[home].iter_errors(fields):
            raise _Problem(400, *_sentence(error, home))
        given = {name: field.schema["default"] for name, field in fields_of(home).items() if "default" in field.schema}
        given |= {name: value for name, value in fields.items() if value is not None}
        n, seed, stop = int(given["n"]), given.get("seed"), given.get("stop", ())
        stop, ends = (stop,) if isinstance(stop, str) else tuple(stop), dict[str, Any]()
        if home == "chat":
            texts, prompts = self.model.texts, [self._conversation(given)]
            special = () if texts.tokenizer is None else texts.tokenizer.special_tokens.values()
            ends = {"stop_token_ids": texts._end_of_answer(), "skipped_token_ids": tuple(special)}
            stop += tuple(texts.stop_strings)
        else:
            prompts = self._prompts(given["prompt"])
        if len(prompts) * n > MAX_CHOICES:
            raise _Problem(400, f"there are {len(prompts) * n} choices; the most are {MAX_CHOICES}", "n")
        completions = [
            self.model.pieces(
                ids,
                max_tokens=int(given["max_tokens"]),
                stop=stop,
                temperature=float(given["temperature"]) if given["temperature"] >= LEAST_TEMPERATURE else 0.0,
                top_p=max(float(given["top_p"]), LEAST_TOP_P),
                seed=None if seed is None else (int(seed) + i) % 2**63,
                **ends,
            )
            for i, ids in enumerate(ids for ids in prompts for _ in range(n))
        ]
        with_usage = given.get("stream_options", {}).get("include_usage", False)
        n_read = sum(map(len, prompts))  # a prompt counts once, whatever n is
        return _Asked(completions, n, n_read, given["stream"], with_usage, home == "chat")

    def _prompts(self, prompt: str | list[Any]) -> list[list[int]]:
        prompts = prompt if isinstance(prompt, list) and isinstance(prompt[0], str | list) else [prompt]
        return [self.model.encode(one) if isinstance(one, str) else [int(i) for i in one] for one in prompts]

    def _conversation(self, given: dict[str, Any]) -> list[int]:
        """The ids of a conversation as the chat template writes it; by default, its answer may fill the context."""
        texts, n_ctx = self.model.texts, self.model.model.config.n_ctx
        tools = given.get("tools") if given["tool_choice"] == "auto" else None
        if tools and texts.chat_template and "tools" not in texts.chat_template.template_named(tools=tools):
            raise _Problem(400, "the chat template of this model has no tools", "tools")
        ids = texts.encode_chat([_message(m) for m in given["messages"]], **({"tools": tools} if tools else {}))
        default = 1024 if n_ctx is None else min(max(1, n_ctx - len(ids)), MAX_TOKENS)
        given["max_tokens"] = given.get("max_completion_tokens", given.get("max_tokens", default))
        return ids


async def _no_such_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _Problem(error.status_code, f"there is no {request.method} {request.url.path[:80]}").response(error.headers)


async def _body(request: Request) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _Problem(415, "the header Content-Type must be application/json")
    body, n_bytes = bytearray(), int(request.headers.get("content-length", 0))
    stream = request.stream()
    try:
        with anyio.fail_after(PATIENCE):
            while n_bytes <= MAX_BODY and (chunk := await anext(stream, b"")):
                body += chunk
                n_bytes = max(n_bytes, len(body))
    except TimeoutError:
        raise _Problem(408, f"the body did not arrive within {PATIENCE:.0f} seconds") from None
    if n_bytes > MAX_BODY:
        raise _Problem(413, f"the body is too long; the most are {MAX_BODY} bytes")
    return bytes(body)


def _message(fields: dict[str, Any]) -> dict[str, Any]:
    """A message as templates expect it: its content is one text, and the arguments of calls are objects."""
    known = fields_of("message")
    message = {name: v for name, v in fields.items() if v is not None and known[name].policy == "honoured"}
    if isinstance(message.get("content"), list):
        message["content"] = "".join(part["text"] for part in message["content"])
    if "tool_calls" in message:
        functions = [call["function"] for call in message["tool_calls"]]
        functions = [function | {"arguments": _arguments(function["arguments"])} for function in functions]
        message["tool_calls"] = [
            call | {"function": function} for call, function in zip(message["tool_calls"], functions, strict=True)
        ]
    return message


def _arguments(text: str) -> dict[str, Any] | str:
    try:
        return _parsed(text.encode())
    except _Problem:  # a model may write what is not JSON
        return text


def _next(pieces: Generator[str, None, Completion]) -> str | Completion:
    try:
        return next(pieces)
    except StopIteration as end:
        return end.value


def _usage(n_read: int, n_written: int) -> dict[str, int]:
    return {"prompt_tokens": n_read, "completion_tokens": n_written, "total_tokens": n_read + n_written}


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


# --- Validation ---


def _parsed(body: bytes) -> dict[str, Any]:
    """A JSON object, whose texts are Unicode and whose numbers are finite."""
    try:
        found = json.loads(body.decode(), parse_float=_finite, parse_constant=_finite)
        json.dumps(found, ensure_ascii=False).encode()  # no half of a surrogate pair
    except ValueError:
        raise _Problem(400, "the body is not JSON, in UTF-8 and with finite numbers") from None
    if not isinstance(found, dict):
        raise _Problem(400, "the body must be a JSON object")
    return found


def _finite(text: str) -> float:
    if abs(number := float(text)) < float("inf"):
        return number
    raise ValueError(text)


def _any_of(validator: Any, schemas: list[dict[str, Any]], value: Any, _: Any) -> Iterator[ValidationError]:
    """As in JSON Schema, but only schemas for values of this type are tried; if there is one, it says what is wrong."""
    parts = [part for part in schemas if "type" not in part or validator.is_type(value, part["type"])]
    if len(parts) == 1:
        yield from validator.descend(value, parts[0])
    elif not any(validator.evolve(schema=part).is_valid(value) for part in parts):
        yield ValidationError("")


def _items(validator: Any, schema: dict[str, Any], values: Any, _: Any) -> Iterator[ValidationError]:
    """As in JSON Schema, but a long list of ids does not take long."""
    if schema.get("type") == "integer" and all(type(i) is int and 0 <= i <= schema["maximum"] for i in values):
        return
    for index, value in enumerate(values):
        yield from validator.descend(value, schema, path=index)


_Validator = validators.extend(Draft202012Validator, {"anyOf": _any_of, "items": _items})


def _sentence(error: Any, home: Literal["completions", "chat"]) -> tuple[str, str]:
    """What is wrong, and with which parameter."""
    path, schema, value = list(error.absolute_path), error.schema, error.instance
    if error.validator == "required":
        path.append(next(name for name in error.validator_value if name not in value))
    if error.validator == "additionalProperties":
        path.append(min(value.keys() - schema["properties"].keys())[:80])
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
    if error.validator == "required":
        return f"{param} is missing", param
    if error.validator == "additionalProperties":
        return f"{param!r} is no parameter that this server knows", param
    is_message = path[0] == "messages" and len(path) > 2
    field = fields_of("message" if is_message else home)[path[2] if is_message else path[0]]
    if field.policy in ("neutral", "refused"):
        allowed = dict.fromkeys([phrase(field.schema), phrase(NOTHING)])
        return f"{param} is not supported; it can only be {' or '.join(allowed)}", param
    return f"{param} must be {phrase(schema)}", param
