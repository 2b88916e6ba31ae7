"""From new ids to text: piece by piece, or a batch of prompts at a time."""

from collections.abc import Collection, Generator, Iterator, Sequence
from typing import Any, NamedTuple

from llm_anatomy.models.generation import FinishReason, GenerativeModel, Step, generate
from llm_anatomy.tokenizers.base import Tokenizer

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a tokenizer writes for bytes that are no character, or not yet one."""

CONTEXT = 8
"""So many tokens of the prompt are decoded with the new ones: a tokenizer may drop the first space of a text."""


class Written(NamedTuple):
    """What a model wrote after one prompt.

    Args:
        text: without the prompt, the stop token and the stop string.
        ids: all new tokens, the stop token included.
        finish_reason: why the text ended.

    Source: :class:`~llm_anatomy.models.generation.Generation`.

    >>> Written(" so.", [12, 7], "stop_token").text
    ' so.'
    """

    text: str
    ids: list[int]
    finish_reason: FinishReason


def in_pieces(
    steps: Iterator[Step],
    tokenizer: Tokenizer,
    known: Sequence[int],
    *,
    skipped: Collection[int] = (),
    stop_strings: Collection[str] = (),
) -> Generator[str, None, Written]:
    """Yield the text that new tokens add to a prompt. The pieces, joined, are the text of the value at the end.

    Text is held back as long as more tokens may change it: until all bytes of a character are there, and while it may
    be the beginning of a stop string.

    Args:
        steps: of one row, from :func:`~llm_anatomy.models.generation.stream`.
        tokenizer: of the model.
        known: the ids of the prompt.
        skipped: ids that are left out of the text, such as those of special tokens.
        stop_strings: the text ends before the first of these.

    Source: the class ``DecodeStream`` of Hugging Face's tokenizers.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> steps = [Step([byte], [None], None) for byte in "né.".encode()]
    >>> list(in_pieces(iter(steps), ByteTokenizer(), []))
    ['n', 'é', '.']
    """
    ids, text, n_yielded, finish_reason = list[int](), "", 0, "length"
    for step in steps:
        ids += [i for i in step.ids if i is not None]
        finish_reason = step.finish_reason[0] or "length"
        kept = ids[:-1] if finish_reason == "stop_token" else ids
        text, is_cut = _before_stop(_added(tokenizer, known, kept, skipped), stop_strings)
        if is_cut:
            finish_reason = "stop_string"
            break
        whole, n_sure = _without_last_bytes(tokenizer, kept), len(text)
        if len(whole) < len(kept):
            n_sure = min(n_sure, len(_added(tokenizer, known, whole, skipped)))
        n_sure = len(text[:n_sure].rstrip(UNFINISHED)) - _n_held_back(text, stop_strings)
        if n_sure > n_yielded:
            yield text[n_yielded:n_sure]
            n_yielded = n_sure
    if len(text) > n_yielded:
        yield text[n_yielded:]
    return Written(text, ids, finish_reason)


def in_batches(
    model: GenerativeModel,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    *,
    batch_size: int,
    skipped: Collection[int] = (),
    stop_strings: Collection[str] = (),
    alone: bool = False,
    **settings: Any,
) -> Iterator[tuple[int, Written]]:
    """Continue prompts in batches, in their order, and yield the number of each with what was written after it.

    Args:
        model: a decoder.
        tokenizer: of the model.
        prompts: the ids of each, at least one.
        batch_size: number of prompts in a batch.
        skipped, stop_strings: as for :func:`in_pieces`.
        alone: whether new ids are decoded without the prompt, which may drop a space at their beginning.
        settings: of :func:`~llm_anatomy.models.generation.stream`; ``max_new_tokens`` must be among them.

    Raises:
        ValueError: as ``stream`` does.

    Source: as :func:`~llm_anatomy.models.generation.generate`.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.transformer import Transformer
    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=256, position="alibi"))
    >>> found = in_batches(model, ByteTokenizer(), [[72, 105], [72], [88]], batch_size=2, max_new_tokens=3)
    >>> [(number, len(written.ids)) for number, written in found]
    [(0, 3), (1, 3), (2, 3)]
    """
    for start in range(0, len(prompts), batch_size):
        batch = prompts[start : start + batch_size]
        found = generate(model, batch, stop_strings=stop_strings, decode=tokenizer.decode, **settings)
        for i, (known, ids, reason) in enumerate(zip(batch, found.ids, found.finish_reason, strict=True)):
            kept = ids[:-1] if reason == "stop_token" else ids
            text = _added(tokenizer, [] if alone else known, kept, skipped)
            text, is_cut = _before_stop(text, stop_strings)
            yield start + i, Written(text, ids, "stop_string" if is_cut else reason)


def _added(tokenizer: Tokenizer, known: Sequence[int], new: Sequence[int], skipped: Collection[int]) -> str:
    """The text that new ids add to that of known ones; the embeddings may have more rows than there are tokens."""
    known = known[-CONTEXT:]
    kept = [i for i in new if i < tokenizer.n_vocab and i not in skipped]
    return tokenizer.decode([*known, *kept])[len(tokenizer.decode(known)) :]


def _without_last_bytes(tokenizer: Tokenizer, ids: Sequence[int]) -> Sequence[int]:
    end = len(ids)
    while end and ids[end - 1] in tokenizer.byte_fallback_ids:
        end -= 1
    return ids[:end]


def _before_stop(text: str, stop_strings: Collection[str]) -> tuple[str, bool]:
    """The text before the first stop string, and whether there is one."""
    ends = [text.index(string) for string in stop_strings if string in text]
    return (text[: min(ends)], True) if ends else (text, False)


def _n_held_back(text: str, stop_strings: Collection[str]) -> int:
    """How many characters at the end of the text may be the beginning of a stop string."""
    lengths = (n for s in stop_strings for n in range(min(len(s), len(text)), 0, -1) if text[-n:] == s[:n])
    return max(lengths, default=0)
