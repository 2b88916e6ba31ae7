"""A model behind an OpenAI-compatible server: a request is sent again where that helps, and no answer is paid twice."""

import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.files import JsonLines

TRANSIENT = frozenset({408, 409, 429, *range(500, 600)})
"""The HTTP statuses after which the same request may succeed later."""

LONGEST_WAIT = 8.0
"""Seconds; the library ``openai`` waits no longer before it tries again, unless the server asks it to."""


class Journal:
    """The answers of a server, written down as they arrive, so that a program that is started again has them.

    Each line of the file holds the key of a request and its completion, and is on the disk before the completion is
    used. What a kill loses are the answers of the requests that are under way at that moment.

    Args:
        path: a JSONL file that is made, or continued if it exists.

    Raises:
        ValueError: for a line that is no entry of a journal.

    Source: the write-ahead logs of databases; GT-46.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Journal(f"{folder}/a.jsonl").add("key", Completion("Hi", 3, 1, "stop"))
    ...     Journal(f"{folder}/a.jsonl").find("key")
    Completion(text='Hi', n_prompt_tokens=3, n_tokens=1, finish_reason='stop')
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._lines = JsonLines(path, sync=True)
        exists, problem = self._lines.path.exists(), "this is no entry of a journal"
        self._found = dict(self._lines.read(_entry, problem=problem)) if exists else {}

    def __len__(self) -> int:
        return len(self._found)

    def find(self, key: str) -> Completion | None:
        """Return the completion that was written down for a request; None if there is none."""
        return self._found.get(key)

    def add(self, key: str, completion: Completion) -> None:
        """Write down a completion."""
        self._lines.append([key, *completion])
        self._found[key] = completion


def _entry(line: Any) -> tuple[str, Completion]:
    return line[0], Completion(*line[1:])


class RateLimit:
    """Spreads requests, or their tokens, evenly over time, so that no minute has more than are allowed.

    Args:
        per_minute: how many are allowed in a minute.
        clock, sleep: return the time, and wait, both in seconds.

    Raises:
        ValueError: if none are allowed.

    Source: the rate limits of OpenAI's API, in requests and tokens per minute; GT-46.

    >>> waits = []
    >>> limit = RateLimit(60, clock=lambda: 0.0, sleep=waits.append)
    >>> limit.wait(1), limit.wait(5), limit.wait(1), waits
    (None, None, None, [0.0, 1.0, 6.0])
    """

    def __init__(
        self,
        per_minute: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ):
        if not per_minute > 0:
            raise ValueError(f"{per_minute=} must be above 0")
        self._seconds_each, self._clock, self._sleep = 60 / per_minute, clock, sleep
        self._free, self._lock = clock(), threading.Lock()

    def wait(self, amount: float) -> None:
        """Wait until so many more are allowed."""
        with self._lock:
            now = self._clock()
            start = max(now, self._free)
            self._free = start + amount * self._seconds_each
        self._sleep(start - now)


class OpenAIServer:
    r"""A generator behind a server with OpenAI's API for completions or chats, such as vLLM's, Ollama's, or that of
    ``python -m llm_anatomy serve``.

    The library ``openai`` sends the requests. One that fails for a reason that may pass is sent again: when the
    connection breaks, when no answer comes in time, and after the statuses 408, 409, 429 and those from 500 on, unless
    the header ``x-should-retry`` says otherwise. Before attempt :math:`k + 1` the library waits for as long as the
    header ``Retry-After`` says, or for a random time of

    .. math:: U(\tfrac{3}{4}, 1) \cdot \min(8, 2^{k - 2}) \text{ seconds},

    so that the requests of many programs do not come back at the same time. If a server asks to wait for longer than
    two minutes, the request fails. A redirect counts as a refusal, so that no other host receives the key.

    Args:
        url: the address of the API, with its version, such as ``http://127.0.0.1:8000/v1``.
        model: the name of the model there.
        chat: whether the model is asked through ``chat/completions``, with each prompt as a message of the user.
        api_key: sent as a bearer token, and never written down; by default the environment variable ``OPENAI_API_KEY``.
            With an empty key, as local servers allow it, no header ``Authorization`` is sent.
        journal: a file in which each answer is written down. A request that is made again after a restart is answered
            from it: the n-th request with the same content has the n-th answer.
        concurrency: the most requests that are under way at once.
        requests_per_minute, tokens_per_minute: limits, by default none. A request counts with the tokens of its prompt,
            estimated as a quarter of its bytes, and with ``max_tokens``, as providers count it.
        timeout: seconds without an answer, after which a connection is given up.
        max_retries: how often a request is sent again.
        more: further fields of each request, such as ``{"presence_penalty": 2}``, the paper's setting.
        sleep: waits for the limits, in seconds.

    Raises:
        ValueError: if ``openai`` is not installed, for an address that is not one of HTTP, for a key that no header can
            have, and for arguments out of range; from :meth:`complete`, if the server refuses a request or answers in
            another form.
        ConnectionError: from :meth:`complete`, if a request fails again and again.

    Source: the reference of OpenAI's API, and version 3 of its library for Python; the appendix of Wang et al. (2022)
    on querying the model; Brooker (2015), "Exponential backoff and jitter"; GT-46.

    >>> server = OpenAIServer("http://127.0.0.1:8000/v1", "story-model", api_key="")
    >>> server.model
    'story-model'
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        chat: bool = False,
        api_key: str | None = None,
        journal: str | os.PathLike[str] | None = None,
        concurrency: int = 4,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        timeout: float = 120.0,
        max_retries: int = 8,
        more: Mapping[str, Any] | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url=} must be an address such as http://127.0.0.1:8000/v1")
        if concurrency < 1:
            raise ValueError(f"{concurrency=} must be at least 1")
        if max_retries < 0:
            raise ValueError(f"{max_retries=} must be at least 0")
        self.url, self.model, self.chat, self.more = url.rstrip("/"), model, chat, dict(more or {})
        self._key = os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key
        self._journal = None if journal is None else Journal(journal)
        if not (self._key.isascii() and self._key.isprintable()):
            raise ValueError("the API key must be printable ASCII; perhaps it ends with a line break")
        self._openai = _import_openai()
        self._concurrency, self._timeout, self._max_retries = concurrency, timeout, max_retries
        self._requests = None if requests_per_minute is None else RateLimit(requests_per_minute, sleep=sleep)
        self._tokens = None if tokens_per_minute is None else RateLimit(tokens_per_minute, sleep=sleep)
        self._n_times = Counter[str]()

    def complete(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> list[Completion]:
        """Continue each prompt; the arguments are those of
        :class:`~llm_anatomy.data_generation.generators.TextGenerator`. The i-th prompt has the seed ``seed + i``.
        """
        bodies = []
        for i, prompt in enumerate(prompts):
            body: dict[str, Any] = {"model": self.model, "max_tokens": max_tokens}
            body |= {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
            body |= {"temperature": temperature, "top_p": top_p}
            body |= ({"stop": list(stop)} if stop else {}) | ({} if seed is None else {"seed": seed + i})
            bodies.append(body | self.more)
        keys = [self._key_of(body) for body in bodies]
        stopped = threading.Event()
        with self._client(stopped) as client, ThreadPoolExecutor(self._concurrency) as threads:
            asked = [threads.submit(self._answer, key, body, client) for key, body in zip(keys, bodies, strict=True)]
            try:
                return [answer.result() for answer in asked]
            except BaseException:  # answers that are under way are waited for, since they will be paid
                stopped.set()
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    @property
    def _path(self) -> str:
        return "chat/completions" if self.chat else "completions"

    def _key_of(self, body: Mapping[str, Any]) -> str:
        """A hash of the request, and how often it was made before."""
        content = json.dumps([self._path, body], sort_keys=True).encode()
        digest = hashlib.sha256(content).hexdigest()
        self._n_times[digest] += 1
        return f"{digest} {self._n_times[digest]}"

    def _client(self, stopped: threading.Event) -> Any:
        """A client of the library ``openai``, each attempt of which waits for the limits."""

        def before_an_attempt(request: Any) -> None:
            if self._requests is not None:
                self._requests.wait(1)
            if self._tokens is not None:
                self._tokens.wait(len(request.content) / 4 + json.loads(request.content)["max_tokens"])
            if stopped.is_set():
                raise _Stopped
            if not self._key:
                request.headers.pop("Authorization", None)

        return self._openai.OpenAI(
            base_url=self.url,
            api_key=self._key or "none",  # the library insists on one
            timeout=self._timeout,
            max_retries=self._max_retries,
            http_client=self._openai.DefaultHttpxClient(
                follow_redirects=False, event_hooks={"request": [before_an_attempt]}
            ),
        )

    def _answer(self, key: str, body: Mapping[str, Any], client: Any) -> Completion:
        found = None if self._journal is None else self._journal.find(key)
        if found is None:
            found = self._completion(self._send(body, client))
            if self._journal is not None:
                self._journal.add(key, found)
        return found

    def _send(self, body: Mapping[str, Any], client: Any) -> bytes:
        """The server's answer to a request, which is sent until there is one."""
        api, asked = (client.chat.completions, "messages") if self.chat else (client.completions, "prompt")
        required = {name: body[name] for name in ("model", asked)}
        try:
            return api.with_raw_response.create(**required, extra_body=body).http_response.content
        except self._openai.APIStatusError as error:
            problem = f"{error.status_code} {error.response.reason_phrase}: {_message(error)}".rstrip(": ")
            failed, refused = error, error.status_code not in TRANSIENT or error.code == "insufficient_quota"
        except self._openai.APIConnectionError as error:
            problem = str(error.__cause__ or error) or type(error.__cause__).__name__
            failed, refused = error, False
        problem = problem.replace(self._key, "…") if self._key else problem
        if refused:
            raise ValueError(f"{self.url} refuses the request ({problem})")
        n = int(failed.request.headers.get("x-stainless-retry-count", self._max_retries)) + 1
        raise ConnectionError(f"{self.url} gave no answer in {n} attempt{'s' * (n > 1)} ({problem})")

    def _completion(self, content: bytes) -> Completion:
        try:
            answer = json.loads(content)
            choice, usage = answer["choices"][0], answer["usage"]
            text = choice["message"]["content"] if self.chat else choice["text"]
            reason = "length" if choice["finish_reason"] == "length" else "stop"
            return Completion(str(text or ""), int(usage["prompt_tokens"]), int(usage["completion_tokens"]), reason)
        except (ValueError, KeyError, IndexError, TypeError):
            raise ValueError(f"{self.url} answers in another form than OpenAI's API: {content[:80]!r}") from None


class _Stopped(BaseException):
    """Another request has failed. Before its version 3, the library tries again after every other exception."""


def _message(error: Any) -> str:
    """What the server says about an error, in one line."""
    said = error.body.get("message") if isinstance(error.body, dict) else None
    return " ".join(str(said or error.response.text).split())[:500]


def _import_openai() -> Any:
    try:
        import openai
    except ImportError:
        raise ValueError("models behind a server need openai (pip install 'llm_anatomy[data]')") from None
    return openai
