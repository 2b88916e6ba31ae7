"""Instruction data: conversations become rows of tokens, of which the model learns to predict the assistant's alone.

A conversation is a list of messages such as ``{"role": "user", "content": "Hi"}``. How it is written as one text, is
said by a function ``render(messages, add_generation_prompt=…)``, mostly the chat template of a checkpoint
(:class:`~llm_anatomy.models.checkpoints.chat.ChatTemplate`).
"""

import contextlib
import re
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.training.data.tokenization import Document, Encoder, special_tokens_of

Render = Callable[..., str]
"""``render(messages, add_generation_prompt=False)`` writes a conversation as one text; with True, the text ends with
the beginning of the assistant's answer."""

ASSISTANT = "assistant"

BEGIN, END = "\ue000", "\ue001"
"""Two private characters of Unicode, between which an answer is written to find where the template puts it."""


class ConversationEncoder(Encoder):
    """Encodes conversations, marks the tokens that the model learns to predict, and packs them into rows.

    No row divides a conversation, unless it is longer than a row; then its end is left out. The rest of a row is filled
    with padding, a document of its own. So attention has to stay within documents.

    Args:
        tokenizer: of the texts.
        render: writes a conversation as one text. With several workers it must be picklable, as a method is.
        row_length: number of tokens of a row, as many as a sequence has in training.
        loss: ``"responses"``, to learn only what the assistant says, from the end of the generation prompt on, and the
            token that ends it, also if the template writes this token with the next message; or, if the template has no
            such token, what it writes after an answer; or ``"all"``, to learn the whole text.
        padding: the id that fills a row.

    Raises:
        ValueError: if ``loss`` is another word; when it encodes, for messages that are malformed or that the template
            refuses, and if the template writes the same messages in two ways.

    Source: Ouyang et al. (2022), section 3.4; for packing without division, Ding et al. (2024), "Fewer truncations
    improve language modeling", section 3; GT-45.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> def render(messages, add_generation_prompt=False):
    ...     return "".join(f"{m['role'][0]}:{m['content']};" for m in messages) + "a:" * add_generation_prompt
    >>> encode = ConversationEncoder(ByteTokenizer(), render, row_length=12)
    >>> ((document, rest),) = encode([[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]])
    >>> bytes(document.ids.tolist()), bytes(document.ids[document.targets].tolist()), len(rest.ids)
    (b'u:Hi;a:Ho;', b'Ho;', 2)
    """

    def __init__(
        self, tokenizer: Tokenizer, render: Render, row_length: int, *, loss: str = "responses", padding: int = 0
    ):
        if loss not in ("responses", "all"):
            raise ValueError(f"{loss=} must be 'responses' or 'all'")
        if row_length < 1:
            raise ValueError(f"{row_length=} must be at least 1")
        self.tokenizer, self.render = tokenizer, render
        self.row_length: int = row_length
        self.loss, self.padding = loss, padding
        self.settings = {"loss": loss, "padding": padding}
        self._special = special_tokens_of(tokenizer)

    def __call__(self, documents: Sequence[Any]) -> list[list[Document]]:
        """Encode conversations as rows. Of those in which nothing is to be learned, none is left."""
        encoded = [self.encode(conversation) for conversation in documents]
        cut = [
            Document(ids[: self.row_length], targets[: self.row_length])
            for ids, targets in encoded
            if targets is not None and targets[: self.row_length].any()
        ]
        return [[*row, *self._fill(row)] for row in packed(cut, self.row_length)]

    def encode(self, conversation: Sequence[Mapping[str, Any]]) -> Document:
        """Encode one conversation.

        Special tokens in messages are left out: the template alone writes them, and says who speaks.
        """
        messages = [self._message(i, message) for i, message in enumerate(_checked(conversation))]
        text = self.render(messages, add_generation_prompt=False)
        answers = [i for i, message in enumerate(messages) if message["role"] == ASSISTANT]
        spans = []
        for i in answers if self.loss == "responses" else ():
            begin, end, ending = self._span(messages, i, text)
            spans.append((begin, end + len(ending)))
            if not text.startswith(ending, end):  # which the next message would bring
                text = text[:end] + ending
        ids = self._ids(text)
        targets = np.full(len(ids), self.loss == "all")
        targets[:1] = False  # nothing comes before it
        for begin, end in spans:
            targets[max(1, self._n_common(ids, text[:begin])) : self._n_common(ids, text[:end])] = True
        return Document(np.asarray(ids, dtype=np.uint32), targets)

    def _span(self, messages: list[dict[str, Any]], i: int, text: str) -> tuple[int, int, str]:
        """Where an answer begins and ends in the text, and what ends it there."""
        prompt = self.render(messages[:i], add_generation_prompt=True) if i else ""
        answered = self.render(messages[: i + 1], add_generation_prompt=False)
        problem = ValueError(
            f"the chat template writes message {i}, an answer, in another way once the next ones follow, "
            "or not after its own generation prompt; so it does not say which tokens are the answer"
        )
        content = messages[i].get("content")
        if not isinstance(content, str):  # such as calls of tools, which only the template writes
            if not (text.startswith(answered) and answered.startswith(prompt)):
                raise problem
            return len(prompt), len(answered), ""
        marked = [*messages[:i], messages[i] | {"content": f"{BEGIN}{content}{END}"}, *messages[i + 1 :]]
        before, _, rest = self.render(marked, add_generation_prompt=False).partition(BEGIN)
        inner, _, after = rest.partition(END)
        end = len(text) - len(after)
        is_found = text == before + text[len(before) : end] + after and BEGIN not in rest and END not in after
        if not is_found or text[len(before) : end].strip() != inner.strip() or not text.startswith(prompt):
            raise problem
        ending = self._ending(text[end:])
        if not ending and i == len(messages) - 1:
            with contextlib.suppress(ValueError):  # a template may refuse another message
                longer = self.render([*messages, {"role": "user", "content": "Go on."}], add_generation_prompt=False)
                ending = self._ending(longer[end:]) if longer.startswith(text[:end]) else ""
        if not ending and not text.startswith(answered):
            raise problem
        return len(prompt) if i else len(before), end, ending or answered[end:]

    def _ending(self, after: str) -> str:
        """The token with which what follows an answer begins, and the space before it; empty if it is none."""
        tokens = sorted(filter(str.strip, self.tokenizer.added_tokens), key=len, reverse=True)
        found = re.match(rf"\s*(?:{'|'.join(map(re.escape, tokens))})", after) if tokens else None
        return found[0] if found else ""

    def _n_common(self, ids: list[int], beginning: str) -> int:
        """How many of the tokens a beginning of the text has too, which a token may cross."""
        of_beginning = self._ids(beginning)
        pairs = enumerate(zip(ids, of_beginning, strict=False))
        return next((i for i, (a, b) in pairs if a != b), min(len(ids), len(of_beginning)))

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, allowed_special="all")

    def _message(self, number: int, message: Any) -> dict[str, Any]:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError(f"message {number} must be an object with a role and a content, not {message!r:.60}")
        return {key: self._without_special_tokens(value) for key, value in message.items()}

    def _without_special_tokens(self, value: Any) -> Any:
        if isinstance(value, str):
            while self._special and self._special.search(value):  # what is left may join to a special token again
                value = self._special.sub("", value)
        elif isinstance(value, Mapping):
            value = {key: self._without_special_tokens(entry) for key, entry in value.items()}
        elif isinstance(value, list):
            value = [self._without_special_tokens(entry) for entry in value]
        return value

    def _fill(self, row: Sequence[Document]) -> list[Document]:
        n = self.row_length - sum(len(document.ids) for document in row)
        return [Document(np.full(n, self.padding, dtype=np.uint32), np.zeros(n, dtype=bool))] if n else []


def _checked(conversation: Any) -> Sequence[Any]:
    if not isinstance(conversation, list) or not conversation:
        raise ValueError(f"a conversation must be a list of messages, at least one, not {conversation!r:.60}")
    return conversation


def packed(documents: Sequence[Document], row_length: int) -> list[list[Document]]:
    """Distribute documents over few rows, none of which is longer than ``row_length`` tokens.

    The longest document comes first, and each goes into the row in which it leaves the least room (best-fit
    decreasing).

    Args:
        documents: each of at most ``row_length`` tokens.
        row_length: number of tokens of a row.

    Source: Johnson (1974), "Near-optimal bin packing algorithms"; Ding et al. (2024), section 3; GT-45.

    >>> rows = packed([Document(np.zeros(n)) for n in (3, 5, 2, 4, 6)], row_length=8)
    >>> [[len(document.ids) for document in row] for row in rows]
    [[6, 2], [5, 3], [4]]
    """
    rows: list[list[Document]] = []
    room: list[tuple[int, int]] = []  # of each row that is not full, sorted
    for document in sorted(documents, key=lambda document: -len(document.ids)):
        at = bisect_left(room, (len(document.ids), -1))
        left, number = room.pop(at) if at < len(room) else (row_length, len(rows))
        if number == len(rows):
            rows.append([])
        rows[number].append(document)
        if left > len(document.ids):
            insort(room, (left - len(document.ids), number))
    return rows
