"""A checkpoint on this computer as a generator of texts."""

import os
import threading
from collections.abc import Collection, Generator, Iterator, Sequence
from typing import Any, TypeVar

from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.deprecation import renamed_arguments
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.checkpoints.writing import UNFINISHED, Written, in_batches, in_pieces
from llm_anatomy.models.generation import GenerativeModel, stream
from llm_anatomy.models.loading import load
from llm_anatomy.models.sampling import make_sampler

__all__ = ["UNFINISHED", "LocalModel"]

T = TypeVar("T")


class LocalModel:
    """A decoder with its tokenizer, which continues prompts in batches or one of them piece by piece.

    Args:
        model: a decoder.
        texts: with a tokenizer.
        batch_size: the most prompts that are continued at once.

    Raises:
        ValueError: if there is no tokenizer, or the model is an encoder-decoder; from its methods, for a prompt that is
            empty, does not fit into the context, or contains special tokens.

    Source: the parameters of OpenAI's completions API; GT-46.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.transformer import Transformer
    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=256, position="alibi"))
    >>> local = LocalModel(model, Texts(tokenizer=ByteTokenizer()))
    >>> [(c.n_prompt_tokens, c.n_tokens) for c in local.complete(["Hello", "Hi"], max_tokens=3)]
    [(5, 3), (2, 3)]
    """

    def __init__(self, model: GenerativeModel, texts: Texts, *, batch_size: int = 8):
        if texts.tokenizer is None:
            raise ValueError(f"texts cannot be generated: {texts.note}")
        if model.config.kind != "decoder":
            raise ValueError(f"texts are continued by a decoder, and not by an {model.config.kind}")
        if batch_size < 1:
            raise ValueError(f"{batch_size=} must be at least 1")
        self.model, self.texts, self.batch_size = model, texts, batch_size
        self._tokenizer, self._lock = texts.tokenizer, threading.Lock()

    @classmethod
    @renamed_arguments(weights="quantize")
    def open(
        cls, name_or_path: str | os.PathLike[str], *, quantize: str | None = None, **settings: Any
    ) -> "LocalModel":
        """Load a model.

        Args:
            name_or_path: as for :func:`~llm_anatomy.models.loading.load`.
            quantize: None, ``"bfloat16"``, ``"int8"`` or ``"int4"``, as for
                :func:`~llm_anatomy.models.inference.for_inference`; the inference-optimized model is used if
                there is one.
            settings: of ``load``, such as ``dtype`` and ``device``.
        """
        checkpoint = load(name_or_path, **settings).for_inference(quantize=quantize)
        return cls(checkpoint._generative, checkpoint.texts)

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
        :class:`~llm_anatomy.data_generation.generators.TextGenerator`. With a seed, the same prompts have the same
        completions, as long as the batch size is the same.
        """
        encoded = [self._checked(self.encode(prompt)) for prompt in prompts]
        found = in_batches(
            self.model,
            self._tokenizer,
            encoded,
            batch_size=self.batch_size,
            max_new_tokens=max_tokens,
            sampler=self._sampler(temperature, top_p, seed),
            stop_token_ids=self.texts.stop,
            stop_strings=stop,
            overflow="stop",
        )
        return [_completion(len(encoded[i]), written) for i, written in self._in_turns(found)]

    def encode(self, prompt: str) -> list[int]:
        """Return the ids of a prompt, with those that the model expects before a text."""
        return self.texts.encode_prompt(prompt)

    def pieces(
        self,
        ids: Sequence[int],
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int | None = None,
        stop_token_ids: Collection[int] = (),
        skipped_token_ids: Collection[int] = (),
    ) -> Generator[str, None, Completion]:
        """Continue one prompt, and yield what is written piece by piece; the value at the end is the completion.

        A piece is held back as long as it may be the beginning of a stop sequence. Several threads may generate at the
        same time: they take turns, token by token.

        Args:
            ids: of the prompt, from :meth:`encode` or ``texts.encode_chat``.
            max_tokens, stop, temperature, top_p, seed: as in :meth:`complete`.
            stop_token_ids: further tokens that end the completion.
            skipped_token_ids: tokens that are left out of the text.
        """
        steps = stream(
            self.model,
            [self._checked(ids)],
            max_new_tokens=max_tokens,
            sampler=self._sampler(temperature, top_p, seed),
            stop_token_ids={*self.texts.stop, *stop_token_ids},
            overflow="stop",
        )
        return self._completed(steps, list(ids), stop, skipped_token_ids)

    def _completed(self, steps, ids: list[int], stop, skipped) -> Generator[str, None, Completion]:
        steps = self._in_turns(steps)
        written = yield from in_pieces(steps, self._tokenizer, ids, skipped=skipped, stop_strings=stop)
        return _completion(len(ids), written)

    def _checked(self, ids: Sequence[int]) -> list[int]:
        n_ctx = self.model.config.n_ctx
        if n_ctx is not None and len(ids) > n_ctx:
            raise ValueError(f"a prompt has {len(ids)} tokens; the context of the model has {n_ctx}")
        return list(ids)

    def _in_turns(self, generated: Iterator[T]) -> Iterator[T]:
        """The same, where no two threads compute the next item, a token or a batch, at the same time."""
        while True:
            with self._lock:
                item = next(generated, None)
            if item is None:
                return
            yield item

    def _sampler(self, temperature: float, top_p: float, seed: int | None):
        return make_sampler(temperature, top_p=top_p, seed=seed, device=next(self.model.parameters()).device)


def _completion(n_prompt_tokens: int, written: Written) -> Completion:
    reason = "length" if written.finish_reason == "length" else "stop"
    return Completion(written.text, n_prompt_tokens, len(written.ids), reason)
