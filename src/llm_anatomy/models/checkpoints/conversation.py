"""A conversation with a model: the messages so far, and answers that are generated piece by piece."""

from collections.abc import Collection, Generator
from typing import Any, Literal

from llm_anatomy.models.checkpoints.chat import Message
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.checkpoints.writing import Written
from llm_anatomy.models.generation import FinishReason, GenerativeModel


class Conversation:
    """Messages that the user and a model exchange.

    Each answer is generated from the whole conversation, which is read again: its text may change with each message, in
    whatever way the template likes, so that no cache of the earlier text is kept.

    Args:
        model: a decoder.
        texts: with a tokenizer and a chat template.
        system: what the model is told before the first message.
        max_new_tokens: of an answer.
        overflow: what to do when the context is full. ``"slide"`` leaves out the oldest messages, with their answers,
            and drops the oldest tokens where a single answer is too long. ``"stop"`` ends the answer there, and refuses
            the next message.
        allowed_special: the special tokens that messages may contain, or "all"; by default they may contain none.
        settings: of :func:`~llm_anatomy.models.generation.stream`, such as ``sampler``.

    Raises:
        ValueError: if there is no tokenizer or no chat template, and if the template or the tokenizer refuses the
            system message.

    Source: the documentation of transformers, "Chat basics".

    >>> import torch
    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.checkpoints.chat import ChatTemplate
    >>> from llm_anatomy.models.transformer import Transformer
    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> template = ChatTemplate(templates={"default": "{% for m in messages %}{{ m.content }}\\n{% endfor %}"})
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=256, position="alibi"))
    >>> conversation = Conversation(model, Texts(tokenizer=ByteTokenizer(), chat_template=template), max_new_tokens=3)
    >>> answer = conversation.answer("Hi")
    >>> [message["role"] for message in conversation.messages], conversation.messages[1]["content"] == answer
    (['user', 'assistant'], True)
    """

    def __init__(
        self,
        model: GenerativeModel,
        texts: Texts,
        *,
        system: str | None = None,
        max_new_tokens: int,
        overflow: str = "slide",
        allowed_special: Collection[str] | Literal["all"] = (),
        **settings: Any,
    ):
        self.model, self.texts, self.system = model, texts, system
        self.max_new_tokens, self.overflow, self.allowed_special = max_new_tokens, overflow, allowed_special
        self.settings = settings
        self.reset()
        self._messages_that_fit(
            [*self.messages, {"role": "user", "content": "Hi"}]
        )  # refuses what no message could change

    def reset(self) -> None:
        """Forget all messages but the system's."""
        self.messages: list[Message] = [] if self.system is None else [{"role": "system", "content": self.system}]
        self.finish_reason: FinishReason | None = None
        """Why the last answer ended; None if it was left."""
        self.n_left_out = 0
        """The number of messages that no longer fit into the context at the last answer."""

    def ask(self, content: str) -> Generator[str, None, None]:
        """Say something to the model, and yield its answer piece by piece.

        The message counts once the first piece is taken. If the caller leaves the answer, the conversation goes on
        with what was generated before.

        Raises:
            ValueError: if the message is refused, with which the conversation is as before.
        """
        messages, n_left_out = self._messages_that_fit([*self.messages, {"role": "user", "content": content}])
        pieces = self.texts.reply(
            self.model,
            messages,
            max_new_tokens=self.max_new_tokens,
            overflow=self.overflow,
            allowed_special=self.allowed_special,
            **self.settings,
        )
        self.n_left_out = n_left_out
        return self._answer(messages, pieces)

    def answer(self, content: str) -> str:
        """Say something to the model, and return its whole answer; as :meth:`ask`."""
        return "".join(self.ask(content))

    def _answer(self, messages: list[Message], pieces: Generator[str, None, Written]) -> Generator[str, None, None]:
        answer, self.messages, self.finish_reason = [], messages, None
        try:
            while True:
                answer.append(next(pieces))
                yield answer[-1]
        except StopIteration as end:
            self.finish_reason = end.value.finish_reason
        finally:
            self.messages = [*self.messages, {"role": "assistant", "content": self._ordinary("".join(answer))}]

    def _ordinary(self, text: str) -> str:
        """The text without special tokens: the model may have spelled one with ordinary tokens."""
        tokenizer = self.texts.tokenizer
        for _ in text:  # what is left may join to a special token again
            found = [token for token in (tokenizer.special_tokens if tokenizer else ()) if token in text]
            for token in found:
                text = text.replace(token, "")
            if not found:
                break
        return text

    def _messages_that_fit(self, messages: list[Message]) -> tuple[list[Message], int]:
        """The messages of which the context holds all tokens, and the number of older ones that were left out."""
        n_ctx, n_system, n_left_out = self.model.config.n_ctx, 0 if self.system is None else 1, 0
        while True:
            n_tokens = len(self.texts.encode_chat(messages, allowed_special=self.allowed_special))
            if n_ctx is None:
                return messages, 0
            spare = min(self.max_new_tokens, n_ctx // 2)  # for the answer
            if self.overflow != "slide" or n_tokens + spare - 1 <= n_ctx or len(messages) <= n_system + 2:
                break
            messages = messages[:n_system] + messages[n_system + 2 :]  # a message and its answer
            n_left_out += 2
        if n_tokens > n_ctx:
            raise ValueError(f"the conversation has {n_tokens} tokens, more than the context, n_ctx={n_ctx}")
        return messages, n_left_out
