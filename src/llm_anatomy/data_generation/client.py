"""A model behind an OpenAI-compatible server: its answers are asked for again where that helps, and never paid twice.

Only the standard library is used.
"""

import hashlib
import http.client
import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llm_anatomy.data_generation.generators import Completion

TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""The HTTP statuses after which the same request may succeed later."""

LONGEST_WAIT = 60.0
"""Seconds; backoff does not grow beyond, but a server may ask for more."""


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
    ...     Journal(Path(folder, "a.jsonl")).add("key", Completion("Hi", 3, 1, "stop"))
    ...     Journal(Path(folder, "a.jsonl")).find("key")
    Completion(text='Hi', n_prompt_tokens=3, n_tokens=1, finish_reason='stop')
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path, self._lock, self._found = Path(path), threading.Lock(), dict[str, Completion]()
        content = self._path.read_bytes() if self._path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]  # a line without its end was being written at a kill
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                key, *answer = json.loads(line)
                self._found[key] = Completion(*answer)
            except (ValueError, TypeError):
                raise ValueError(f"{self._path.name}, line {number}: this is no entry of a journal") from None
        if len(whole) < len(content):
            os.truncate(self._path, len(whole))

    def __len__(self) -> int:
        return len(self._found)

    def find(self, key: str) -> Completion | None:
        """Return the completion that was written down for a request; None if there is none."""
        return self._found.get(key)

    def add(self, key: str, completion: Completion) -> None:
        """Write down a completion."""
        line = json.dumps([key, *completion], ensure_ascii=False).encode() + b"\n"
        with self._lock, self._path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
            self._found[key] = completion


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

    A request that fails for a reason that may pass is sent again: when the connection breaks, when no answer comes in
    time, and after the statuses 408, 409, 425, 429, 500, 502, 503 and 504. Before attempt :math:`k + 1` it waits for as
    long as the header ``Retry-After`` says, or for a random time of

    .. math:: U(\tfrac{1}{2}, 1) \cdot \min(60, 2^{k}) \text{ seconds},

    so that the requests of many programs do not come back at the same time.

    Args:
        url: the address of the API, with its version, such as ``http://127.0.0.1:8000/v1``.
        model: the name of the model there.
        chat: whether the model is asked through ``chat/completions``, with each prompt as a message of the user.
        api_key: sent as a bearer token, and never written down; by default the environment variable ``OPENAI_API_KEY``.
        journal: a file in which each answer is written down. A request that is made again after a restart is answered
            from it: the n-th request with the same content has the n-th answer.
        concurrency: the most requests that are under way at once.
        requests_per_minute, tokens_per_minute: limits, by default none. A request counts with the tokens of its prompt,
            estimated as a quarter of its bytes, and with ``max_tokens``, as providers count it.
        timeout: seconds without an answer, after which a connection is given up.
        max_retries: how often a request is sent again.
        more: further fields of each request, such as ``{"presence_penalty": 2}``, the paper's setting.

    Raises:
        ValueError: for an address that is not one of HTTP, and for arguments out of range; from :meth:`complete`, if
            the server refuses a request or answers in another form.
        ConnectionError: from :meth:`complete`, if a request fails again and again.

    Source: the reference of OpenAI's API; the appendix of Wang et al. (2022) on querying the model; Brooker (2015),
    "Exponential backoff and jitter"; GT-46.

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
        self._concurrency, self._timeout, self._max_retries, self._sleep = concurrency, timeout, max_retries, sleep
        self._requests = None if requests_per_minute is None else RateLimit(requests_per_minute, sleep=sleep)
        self._tokens = None if tokens_per_minute is None else RateLimit(tokens_per_minute, sleep=sleep)
        self._n_times = Counter[str]()
        self._opener = urllib.request.build_opener(_NoRedirects)

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
        with ThreadPoolExecutor(self._concurrency) as threads:
            asked = [threads.submit(self._answer, key, body, stopped) for key, body in zip(keys, bodies, strict=True)]
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

    def _answer(self, key: str, body: Mapping[str, Any], stopped: threading.Event) -> Completion:
        found = None if self._journal is None else self._journal.find(key)
        if found is None:
            found = self._completion(self._send(body, stopped))
            if self._journal is not None:
                self._journal.add(key, found)
        return found

    def _send(self, body: Mapping[str, Any], stopped: threading.Event) -> bytes:
        """The server's answer to a request, which is sent until there is one."""
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        for attempt in range(self._max_retries + 1):
            if self._requests is not None:
                self._requests.wait(1)
            if self._tokens is not None:
                self._tokens.wait(len(content) / 4 + body["max_tokens"])
            asked, seconds = None, random.uniform(0.5, 1) * min(LONGEST_WAIT, 2.0**attempt)
            try:
                request = urllib.request.Request(f"{self.url}/{self._path}", content, headers)
                with self._opener.open(request, timeout=self._timeout) as response:
                    return response.read()
            except urllib.error.HTTPError as error:
                message, code = _message(error)
                problem = f"{error.code} {error.reason}: {message}".rstrip(": ")
                if error.code not in TRANSIENT or code == "insufficient_quota":
                    raise ValueError(f"{self.url} refuses the request ({problem})") from None
                asked = _retry_after(error.headers.get("Retry-After"))
            except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
                problem = str(getattr(error, "reason", "") or error) or type(error).__name__
            if stopped.is_set():
                break
            if attempt < self._max_retries:
                self._sleep(seconds if asked is None else asked)
        raise ConnectionError(f"{self.url} gave no answer in {attempt + 1} attempts ({problem})")

    def _completion(self, content: bytes) -> Completion:
        try:
            answer = json.loads(content)
            choice, usage = answer["choices"][0], answer["usage"]
            text = choice["message"]["content"] if self.chat else choice["text"]
            reason = "length" if choice["finish_reason"] == "length" else "stop"
            return Completion(str(text or ""), int(usage["prompt_tokens"]), int(usage["completion_tokens"]), reason)
        except (ValueError, KeyError, IndexError, TypeError):
            raise ValueError(f"{self.url} answers in another form than OpenAI's API: {content[:80]!r}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Another address does not get the key."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        return None


def _message(error: urllib.error.HTTPError) -> tuple[str, str | None]:
    """What the server says about an error, in one line, and its code."""
    content = b""
    try:
        content = error.read(10_000)
        found = json.loads(content)["error"]
        return " ".join(str(found["message"]).split()), found.get("code")
    except (ValueError, KeyError, TypeError, AttributeError, OSError, http.client.HTTPException):
        return " ".join(content.decode(errors="replace").split())[:200], None


def _retry_after(value: str | None) -> float | None:
    """The seconds that a server asks to wait, which it says as a number or as a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
