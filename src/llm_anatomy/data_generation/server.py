"""A small server with OpenAI's API for one model: completions, chats, and both of them piece by piece.

It is made for tests, for classrooms and for one's own computer: a few clients at a time, and no accounts. Only the
standard library is used.
"""

import json
import math
import time
import traceback
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, NoReturn

from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.data_generation.local_model import LocalModel

MAX_BODY = 10_000_000
MAX_CHOICES, MAX_TOKENS = 128, 32_768
IGNORED = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
NEUTRAL = {"frequency_penalty": 0, "presence_penalty": 0, "logit_bias": {}, "echo": False, "logprobs": (None, False)}
NEUTRAL |= {"suffix": None, "best_of": (None, 1), "tools": (None, []), "response_format": (None, {"type": "text"})}
"""What is not supported, with the values that ask for nothing."""


class _Problem(Exception):
    """What is wrong with a request."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None):
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


class _Request(NamedTuple):
    """What a body asks for: prompts as ids, and how each of them is continued."""

    prompts: list[list[int]]
    n: int
    stream: bool
    with_usage: bool
    settings: dict[str, Any]


class CompletionServer(ThreadingHTTPServer):
    """Serves one model at ``/v1/models``, ``/v1/completions`` and ``/v1/chat/completions``.

    Args:
        model: what continues the prompts; requests take turns, token by token.
        name: of the model, which requests must state.
        host, port: where the server listens; port 0 takes a free one.
        quiet: whether requests are not logged.

    Raises:
        OSError: if the address is taken.

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

    daemon_threads = True

    def __init__(self, model: LocalModel, name: str, *, host: str = "127.0.0.1", port: int = 8000, quiet: bool = False):
        super().__init__((host, port), _Handler)
        self.model, self.name, self.quiet, self.started = model, name, quiet, int(time.time())

    @property
    def url(self) -> str:
        """The address that clients need, with the version of the API."""
        host = self.server_address[0]
        return f"http://{host}:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: CompletionServer
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds without a byte, after which a connection is closed

    def do_GET(self) -> None:
        self._answer({"/v1/models": self._models, f"/v1/models/{self.server.name}": self._model})

    def do_POST(self) -> None:
        self._answer({"/v1/completions": self._completions, "/v1/chat/completions": self._chat})

    def log_message(self, format: str, *args: Any) -> None:
        if not self.server.quiet:
            super().log_message(format, *args)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class refuses, such as another method, gets JSON too."""
        self.is_begun = False
        self._refused(_Problem(int(code), message or self.responses.get(code, ("the request is refused",))[0]))

    def _answer(self, routes: dict[str, Callable[[], None]]) -> None:
        self.is_begun = False
        try:
            self._check_host()
            path = self.path.partition("?")[0].rstrip("/")
            if path not in routes:
                known = path in ("/v1/models", "/v1/completions", "/v1/chat/completions")
                _refuse(405 if known else 404, f"there is no {self.command} {path[:80]}")
            routes[path]()
        except _Problem as problem:
            self._refused(problem)
        except ValueError as error:  # of the model: a prompt that is too long, and the like
            self._refused(_Problem(400, str(error)))
        except OSError:  # the client has left
            raise
        except Exception as error:
            self.log_error("%s", traceback.format_exc())
            self._refused(_Problem(500, f"the server failed: {type(error).__name__}"))

    def _refused(self, problem: _Problem) -> None:
        self.close_connection = True  # the body may not have been read
        kind = "invalid_request_error" if problem.status < 500 else "server_error"
        error = {"message": str(problem), "type": kind, "param": problem.param, "code": problem.code}
        if self.is_begun:
            self._event({"error": error})
        else:
            self._send({"error": error}, problem.status)

    def _check_host(self) -> None:
        """A page on the web that lets its name point to this computer does not get through."""
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        listens = str(self.server.server_address[0])
        if listens.startswith("127.") and host not in ("localhost", "127.0.0.1", listens):
            _refuse(403, "this server is for this computer alone; its address is localhost")

    # --- What is answered ---

    def _models(self) -> None:
        self._send({"object": "list", "data": [self._card()]})

    def _model(self) -> None:
        self._send(self._card())

    def _card(self) -> dict[str, Any]:
        return {"id": self.server.name, "object": "model", "created": self.server.started, "owned_by": "llm_anatomy"}

    def _completions(self) -> None:
        body = _Body(self._body(), self.server.name)
        prompts = [self._ids(prompt) for prompt in body.prompts()]
        request = body.request(prompts, default_tokens=16)
        self._write(request, "text_completion", f"cmpl-{uuid.uuid4().hex}", lambda text: {"text": text}, None)

    def _chat(self) -> None:
        body = _Body(self._body(), self.server.name)
        texts = self.server.model.texts
        ids = texts.encode_chat(body.messages())
        n_ctx = self.server.model.model.config.n_ctx
        request = body.request([ids], default_tokens=1024 if n_ctx is None else max(1, n_ctx - len(ids)))
        special = () if texts.tokenizer is None else texts.tokenizer.special_tokens.values()
        request.settings.update(stop_token_ids=texts._end_of_answer(), skipped_token_ids=tuple(special))
        self._write(
            request,
            "chat.completion",
            f"chatcmpl-{uuid.uuid4().hex}",
            lambda text: {"message": {"role": "assistant", "content": text}},
            lambda text: {"delta": {"content": text}},
        )

    def _ids(self, prompt: str | list[int]) -> list[int]:
        model = self.server.model
        if isinstance(prompt, str):
            return model.encode(prompt)
        n_vocab = model.model.config.n_vocab
        if not prompt or not all(type(i) is int and 0 <= i < n_vocab for i in prompt):
            _refuse(400, f"prompt must be a text or a list of ids below {n_vocab}", "prompt")
        return prompt

    def _write(self, request: _Request, kind: str, name: str, whole: Callable, piece: Callable | None) -> None:
        """Generate all choices, and send them at the end or piece by piece."""
        head = {"id": name, "created": int(time.time()), "model": self.server.name}
        is_chat, generated = piece is not None, self._generated(request)
        if request.stream:
            head["object"] = f"{kind}.chunk" if is_chat else kind
            self._begin_stream()
            if is_chat:
                for i in range(request.n):
                    first = {"index": i, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
                    self._event(head | {"choices": [first]})
        else:
            head["object"] = kind
        choices, completions = list[dict[str, Any]](), list[Completion]()
        for index, completion in enumerate(generated):
            with closing(completion) as pieces:
                done = None
                while done is None:
                    try:
                        text = next(pieces)
                    except StopIteration as end:
                        done = end.value
                        break
                    if request.stream:
                        choice = {"index": index, "finish_reason": None, **(piece or whole)(text)}
                        self._event(head | {"choices": [choice]})
            completions.append(done)
            last = {"index": index, "logprobs": None, "finish_reason": done.finish_reason}
            if request.stream:
                nothing = {"delta": {}} if is_chat else {"text": ""}
                self._event(head | {"choices": [last | nothing]})
            else:
                choices.append(last | whole(done.text))
        n_read = sum(len(prompt) for prompt in request.prompts)  # a prompt counts once, whatever n is
        n_written = sum(completion.n_tokens for completion in completions)
        usage = {"prompt_tokens": n_read, "completion_tokens": n_written, "total_tokens": n_read + n_written}
        if not request.stream:
            return self._send(head | {"choices": choices, "usage": usage})
        if request.with_usage:
            self._event(head | {"choices": [], "usage": usage})
        self._event("[DONE]")

    def _generated(self, request: _Request) -> list[Generator[str, None, Completion]]:
        """The choices, none of which is begun; but what cannot be generated is refused here."""
        seed, prompts = request.settings.pop("seed"), [p for p in request.prompts for _ in range(request.n)]
        seeds = [None if seed is None else (seed + i) % 2**63 for i in range(len(prompts))]
        pieces = self.server.model.pieces
        return [pieces(prompt, seed=own, **request.settings) for prompt, own in zip(prompts, seeds, strict=True)]

    # --- HTTP ---

    def _body(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            _refuse(415, "the header Content-Type must be application/json")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            _refuse(411, "the header Content-Length must say how many bytes the body has")
        if int(length) > MAX_BODY:
            _refuse(413, f"the body has {length[:20]} bytes; the most are {MAX_BODY}")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            _refuse(400, "the body is not JSON")
        if not isinstance(body, dict):
            _refuse(400, "the body must be a JSON object")
        return body

    def _send(self, answer: dict[str, Any], status: int = 200) -> None:
        content = json.dumps(answer, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def _begin_stream(self) -> None:
        self.is_begun = self.close_connection = True  # the end of the stream is the end of the connection
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()

    def _event(self, data: Any) -> None:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()


def _refuse(status: int, message: str, param: str | None = None, code: str | None = None) -> NoReturn:
    raise _Problem(status, message, param, code)


class _Body:
    """The fields of a request, each of which is checked as it is taken."""

    def __init__(self, fields: dict[str, Any], model: str):
        self.fields = {name: value for name, value in fields.items() if name not in IGNORED}
        for name, neutral in NEUTRAL.items():
            value = self.fields.pop(name, None)
            if value is not None and value not in (neutral if isinstance(neutral, tuple) else (neutral,)):
                _refuse(400, f"{name} is not supported", name)
        asked = self._take("model", str)
        if asked != model:
            _refuse(404, f"the model {asked[:80]!r} does not exist; this server has {model!r}", "model", NOT_FOUND)

    def prompts(self) -> list[Any]:
        """The prompts of a completion, each a text or a list of ids."""
        prompt = self.fields.pop("prompt", None)
        is_one = isinstance(prompt, str) or isinstance(prompt, list) and prompt and type(prompt[0]) is int
        prompts = [prompt] if is_one else prompt
        if not isinstance(prompts, list) or not prompts or not all(isinstance(p, str | list) for p in prompts):
            _refuse(400, "prompt must be a text, a list of ids, or a list of these", "prompt")
        return prompts

    def messages(self) -> list[dict[str, Any]]:
        """The messages of a chat; their contents may be lists of parts, all of them texts."""
        found = []
        for message in self._take("messages", list):
            content = message.get("content") if isinstance(message, dict) else None
            if isinstance(content, list) and all(isinstance(p, dict) and p.get("type") == "text" for p in content):
                content = "".join(str(part.get("text", "")) for part in content)
            if not isinstance(content, str) or not isinstance(message.get("role"), str):
                _refuse(400, "each of the messages must have a role and a content, which are texts", "messages")
            found.append({"role": message["role"], "content": content})
        if not found:
            _refuse(400, "messages must not be empty", "messages")
        return found

    def request(self, prompts: list[list[int]], *, default_tokens: int) -> _Request:
        """Everything else; a field that is left over is refused."""
        newer = self.fields.pop("max_completion_tokens", None)
        if newer is not None:
            self.fields["max_tokens"] = newer
        options = self._take("stream_options", dict, {})
        request = _Request(
            prompts,
            n=self._number("n", int, 1, 1, MAX_CHOICES),
            stream=self._take("stream", bool, False),
            with_usage=options.get("include_usage") is True,
            settings={
                "max_tokens": self._number("max_tokens", int, default_tokens, 1, MAX_TOKENS),
                "temperature": self._number("temperature", float, 1.0, 0, 2),
                "top_p": self._number("top_p", float, 1.0, 1e-6, 1),
                "seed": self._number("seed", int, None, -(2**63), 2**64),
                "stop": self._stop(),
            },
        )
        if self.fields:
            name = min(self.fields)
            _refuse(400, f"{name[:80]!r} is no parameter that this server knows", name[:80])
        if len(prompts) * request.n > MAX_CHOICES:
            _refuse(400, f"there are {len(prompts) * request.n} choices; the most are {MAX_CHOICES}", "n")
        return request

    def _take(self, name: str, kind: type, default: Any = None) -> Any:
        value = self.fields.pop(name, None)
        if value is None and default is not None:
            return default
        if not isinstance(value, kind):
            _refuse(400, f"{name} " + ("is missing" if value is None else f"must be of type {kind.__name__}"), name)
        return value

    def _number(self, name: str, kind: type, default: Any, least: float, most: float) -> Any:
        value = self.fields.pop(name, None)
        if value is None:
            return default
        is_number = type(value) is int or (kind is float and type(value) is float and math.isfinite(value))
        if not is_number or not least <= value <= most:
            _refuse(400, f"{name} must be a number from {least} to {most}", name)
        return kind(value)

    def _stop(self) -> Sequence[str]:
        stop = self.fields.pop("stop", None)
        stop = [stop] if isinstance(stop, str) else stop or []
        if not isinstance(stop, list) or len(stop) > 4 or not all(isinstance(s, str) and s for s in stop):
            _refuse(400, "stop must be a text or a list of at most four", "stop")
        return stop


NOT_FOUND = "model_not_found"
