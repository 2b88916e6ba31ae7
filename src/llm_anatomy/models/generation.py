r"""Text generation: choosing one token after the other from the scores of a model.

``stream`` lets a sampler (see ``models.sampling``) choose the next token of each row, from the prompts until every row
has finished. ``generate`` collects what ``stream`` yields. ``beam_search`` keeps several continuations of each prompt
instead of one.
"""

import math
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import torch
from einops import rearrange
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.before_transformers import MambaConfig
from llm_anatomy.models.block import EncoderOutput
from llm_anatomy.models.sampling import greedy
from llm_anatomy.models.transformer import ModelCache, Transformer
from llm_anatomy.shapes import Bool, Float, Int, Tensor

FinishReason = Literal["stop_token", "stop_string", "length"]

Prompts = Tensor | Sequence[Sequence[int] | Tensor]
"""Token ids: a list of lists or of 1-D tensors; a 2-D tensor, whose rows are prompts; or a 1-D tensor, one prompt."""

# --- Models and their steps ---


@runtime_checkable
class GenerationCache(Protocol):
    """What a model keeps of the tokens that it has read, one row for each sequence.

    Source: the interface that :func:`stream` and :func:`beam_search` need.

    >>> from llm_anatomy.models.before_transformers import MambaCache
    >>> isinstance(MambaCache(), GenerationCache)
    True
    """

    def reorder(self, rows: Int[Tensor, "rows"]) -> None:
        """Let row i continue from what row ``rows[i]`` holds; the two have the same source."""
        ...

    def repeat_interleave(self, repeats: int) -> None:
        """Repeat each row, with its copies next to each other."""
        ...


@runtime_checkable
class GenerativeModel(Protocol):
    """A model that can generate, such as :class:`~llm_anatomy.models.transformer.Transformer`, unless it is an encoder,
    and :class:`~llm_anatomy.models.before_transformers.MambaLM`.

    Source: the interface that :func:`stream` and :func:`beam_search` need.

    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> isinstance(model, GenerativeModel)
    True
    """

    @property
    def config(self) -> ModelConfig | MambaConfig:
        """The description of the model, with ``kind``, ``n_vocab`` and ``n_ctx``."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters, as in ``nn.Module``."""
        ...

    def new_cache(self, batch: int, n_slots: int, n_source: int | None = None) -> GenerationCache:
        """Make an empty cache for ``n_slots`` tokens, and for a source of ``n_source`` tokens."""
        ...

    def __call__(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        source: EncoderOutput | None = None,
        cache: Any = None,
        logits_to_keep: int = 0,
    ) -> Any:
        """Read tokens into a cache from ``new_cache``, and compute the logits of the last ``logits_to_keep``."""
        ...

    def hidden_states(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        source: EncoderOutput | None = None,
        cache: Any = None,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], Any]:
        """Read tokens into a cache from ``new_cache``; the first result is the hidden states after the last block."""
        ...

    def logits(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute a score for every token of the vocabulary from those hidden states."""
        ...


def next_logits(
    model: GenerativeModel,
    ids: Int[Tensor, "batch tokens"],
    cache: GenerationCache,
    source: EncoderOutput | None = None,
    attention_mask: Bool[Tensor, "batch tokens"] | None = None,
) -> Float[Tensor, "batch n_vocab"]:
    """Read tokens into the cache, and compute the logits of the token that follows the last of them.

    Logits of the other tokens are not computed, which saves most products with the vocabulary in a long prompt. A
    decoding step is this function with one new token. ``torch.compile(next_logits, dynamic=True)`` makes one graph for
    all steps, since the length of the cache is then not part of what is compiled.

    Args:
        model: a decoder or encoder-decoder.
        ids: the new tokens.
        cache: from ``model.new_cache``; holds the tokens before them.
        source: from ``model.encode``, for an encoder-decoder.
        attention_mask: True for a token, False for padding; by default there is no padding.

    Source: Pope et al. (2022), section 2 (prefill and decode); CMU-10.

    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> with torch.inference_mode():
    ...     tuple(next_logits(model, torch.tensor([[1, 2, 3]]), model.new_cache(batch=1, n_slots=4)).shape)
    (1, 5)
    """
    return model(ids, attention_mask=attention_mask, source=source, cache=cache, logits_to_keep=1)[:, 0]


class _CachedModel:
    """A model with its cache and, for an encoder-decoder, the encoded sources: a prefill, then one step per token."""

    @torch.inference_mode()
    def __init__(
        self,
        model: GenerativeModel,
        sources: Sequence[Sequence[int]] | None = None,
        step: Callable[..., Tensor] = next_logits,
    ):
        self.model, self._step = model, step
        self.device = next(model.parameters()).device
        self.n_ctx = sys.maxsize if model.config.n_ctx is None else model.config.n_ctx
        self.n_free_slots = 0
        self.source = None
        if sources is not None:
            self.source = cast(Any, model).encode(*_left_pad(sources, self.device))

    def prefill(self, texts: Sequence[Sequence[int]], n_more: int) -> Float[Tensor, "batch n_vocab"]:
        """Read all texts into a new cache, with space for ``n_more`` tokens or as many as the context allows."""
        ids, attention_mask = _left_pad(texts, self.device)
        n_slots = min(self.n_ctx, ids.shape[1] + n_more)
        n_source = None if self.source is None else self.source.hidden_states.shape[1]
        self.cache = self.model.new_cache(len(ids), n_slots, n_source)
        self.n_free_slots = n_slots - ids.shape[1]
        return next_logits(self.model, ids, self.cache, self.source, attention_mask)

    @property
    def must_read_anew(self) -> bool:
        """Whether the cache is full, or no longer holds when the longest text gets one more token."""
        model = getattr(self.model, "_orig_mod", self.model)  # that of torch.compile
        if isinstance(model, Transformer) and isinstance(self.cache, ModelCache):
            holds = model.cache_stays_valid(self.cache.length, self.cache.length + 1)
            return self.n_free_slots == 0 or not holds
        return self.n_free_slots == 0

    def step(self, ids: Int[Tensor, "batch"]) -> Float[Tensor, "batch n_vocab"]:
        """Read one more token of each text."""
        self.n_free_slots -= 1
        return self._step(self.model, ids[:, None], self.cache, self.source)

    def repeat_interleave(self, repeats: int) -> None:
        """Repeat each row of the cache and of the source, with its copies next to each other."""
        self.cache.repeat_interleave(repeats)
        self.source = None if self.source is None else self.source.repeat_interleave(repeats)


def _left_pad(texts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Ids (batch, longest) with padding on the left, and the attention mask, None if there is no padding."""
    longest = max(map(len, texts))
    ids = torch.tensor([[0] * (longest - len(text)) + list(text) for text in texts], device=device)
    if all(len(text) == longest for text in texts):
        return ids, None
    n_padding = torch.tensor([[longest - len(text)] for text in texts], device=device)
    return ids, torch.arange(longest, device=device) >= n_padding


# --- One continuation of each prompt ---


class Step(NamedTuple):
    """One new token for each row that has not finished.

    Source: the loop of :func:`stream`.

    >>> Step(ids=[3, None], finish_reason=[None, "stop_token"], log_probs=None).ids
    [3, None]
    """

    ids: list[int | None]
    """The new token of each row; None for a row that finished in an earlier step."""

    finish_reason: list[FinishReason | None]
    """Why each row finished, in this step or an earlier one; None for a row that has not finished."""

    log_probs: list[float | None] | None
    """Log-probability of each new token under the logits of the model, before any processor; None unless requested."""


@dataclass(frozen=True)
class Generation:
    """The continuations of all prompts.

    Source: the result of :func:`generate`.

    >>> Generation(ids=[[5, 2], [7]], finish_reason=["length", "stop_token"]).ids[1]
    [7]
    """

    ids: list[list[int]]
    """The new tokens of each row, including a stop token; neither prompt nor padding."""

    finish_reason: list[FinishReason]
    """Why each row finished: with a stop token, a stop string, or because it reached ``max_new_tokens``."""

    log_probs: list[list[float]] | None = None
    """Log-probability of each new token under the logits of the model, before any processor; None unless requested."""


def stream(
    model: GenerativeModel,
    prompts: Prompts,
    *,
    max_new_tokens: int,
    sampler: Callable[[Tensor, Tensor], Tensor] = greedy,
    stop_token_ids: Collection[int] = (),
    stop_strings: Collection[str] = (),
    decode: Callable[[list[int]], str] | None = None,
    overflow: str = "refuse",
    sources: Prompts | None = None,
    log_probs: bool = False,
    step: Callable[..., Tensor] = next_logits,
) -> Iterator[Step]:
    r"""Generate one token of each row at a time: read the prompts in one pass (prefill), then each new token alone.

    .. math:: w_{t+1} = \mathrm{choose}(z_t), \quad z_t = \mathrm{logits}(w_t \mid \mathrm{cache}(w_0 \dots w_{t-1}))

    Args:
        model: a decoder or encoder-decoder.
        prompts: the token ids of each row, at least one each: a list of lists or of 1-D integer tensors, a 2-D integer
            tensor, or a 1-D integer tensor, which is one prompt. They may differ in length: short ones are padded on
            the left. For an encoder-decoder, these are the first tokens of the target, such as its start token.
        max_new_tokens: maximal number of new tokens of each row, at least 1.
        sampler: ``greedy``, ``Sampler(...)``, or any function of ``(logits, seen)`` that returns one id for each row.
        stop_token_ids: a row finishes with the first of these that it generates.
        stop_strings: a row finishes when its new tokens, decoded, contain one of these; the prompt does not count.
        decode: a function from ids to text, required for ``stop_strings``. In each step, it is called with all new
            tokens of each row.
        overflow: what to do if prompt and new tokens exceed ``n_ctx``. ``"refuse"`` raises an error before anything is
            computed. ``"stop"`` finishes a row whose context is full, with the reason ``"length"``. ``"slide"`` drops
            all but the newest ``n_ctx // 2`` tokens of such a row, and reads the batch again, since its positions have
            changed and no cached key is valid. One such prefill every ``n_ctx // 2`` steps costs about as much as
            reading each token twice; dropping one token at a time would cost a prefill in each step.
        sources: the token ids of the source of each row, for an encoder-decoder, in a form that prompts may have.
        log_probs: whether steps contain log-probabilities.
        step: computes all steps after the prefill, such as ``torch.compile(next_logits, dynamic=True)``.

    Returns:
        An iterator over the steps, which ends when all rows have finished.

    Raises:
        ValueError: for an argument that is not allowed, immediately, and not only when the first step is requested.

    Source: Vaswani et al. (2017), section 3.1 (auto-regressive); Pope et al. (2022), section 2; UCL-10, CMU-10.

    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="alibi"))
    >>> for step in stream(model, [[1, 2], [3]], max_new_tokens=3):
    ...     print(len(step.ids), step.finish_reason)
    2 [None, None]
    2 [None, None]
    2 ['length', 'length']
    """
    prompts, sources = _as_lists("prompts", prompts), None if sources is None else _as_lists("sources", sources)
    _check_arguments(model, prompts, max_new_tokens, stop_token_ids, sources)
    if stop_strings and decode is None:
        raise ValueError("decode=None must be given with stop_strings: a function from ids to text")
    if "" in stop_strings:
        raise ValueError(f"{stop_strings=} must not contain the empty string, which every text contains")
    if overflow not in ("refuse", "stop", "slide"):
        raise ValueError(f"{overflow=} must be 'refuse', 'stop' or 'slide'")
    if overflow != "slide":
        n_needed = max_new_tokens if overflow == "refuse" else 1
        _check_capacity(model, prompts, n_needed, remedy="; overflow='slide' drops the oldest tokens")
    limits = [max_new_tokens] * len(prompts)
    if overflow == "stop" and model.config.n_ctx is not None:  # the last new token is never read
        limits = [min(max_new_tokens, model.config.n_ctx - len(prompt) + 1) for prompt in prompts]

    def finish_reason_of(row: int, new_ids: list[int]) -> FinishReason | None:
        if new_ids[-1] in stop_token_ids:
            return "stop_token"
        if stop_strings and decode is not None:
            text = decode(new_ids)
            if any(string in text for string in stop_strings):
                return "stop_string"
        return "length" if len(new_ids) == limits[row] else None

    cached_model = _CachedModel(model, sources, step)
    return _stream(cached_model, prompts, max(limits), sampler, finish_reason_of, log_probs)


def generate(model: GenerativeModel, prompts: Prompts, **settings: Any) -> Generation:
    """Generate a continuation of each prompt, and return when all rows have finished.

    Args:
        model, prompts: as in :func:`stream`.
        settings: all other arguments of :func:`stream`; ``max_new_tokens`` is required.

    Source: as :func:`stream`; UCL-10, CMU-10.

    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="alibi"))
    >>> from llm_anatomy.models.sampling import Sampler, Temperature, TopP
    >>> generation = generate(model, [[1, 2], [3]], max_new_tokens=3, sampler=Sampler(Temperature(0.7), TopP(0.9)))
    >>> [len(ids) for ids in generation.ids], generation.finish_reason
    ([3, 3], ['length', 'length'])
    """
    steps = list(stream(model, prompts, **settings))
    finish_reason: list[FinishReason] = [
        reason for reason in steps[-1].finish_reason if reason
    ]  # there is no None left
    log_probs = _by_row([step.log_probs for step in steps if step.log_probs is not None])
    return Generation(_by_row([step.ids for step in steps]), finish_reason, log_probs or None)


T = TypeVar("T")


def _by_row(steps: list[list[T | None]]) -> list[list[T]]:
    """Turn a list with one value for each row, for each step, into a list of each row's values."""
    return [[value for value in row if value is not None] for row in zip(*steps, strict=True)]


def _stream(
    model: _CachedModel,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    sampler: Callable[[Tensor, Tensor], Tensor],
    finish_reason_of: Callable[[int, list[int]], FinishReason | None],
    return_log_probs: bool,
) -> Iterator[Step]:
    texts, new_ids = [list(prompt) for prompt in prompts], [[] for _ in prompts]
    finish_reason: list[FinishReason | None] = [None] * len(prompts)
    seen = torch.zeros(len(prompts), model.model.config.n_vocab, dtype=torch.bool, device=model.device)
    for row, prompt in zip(seen, prompts, strict=True):
        row[torch.tensor(prompt, device=model.device)] = True
    chosen = None
    for n_more in reversed(range(max_new_tokens)):  # the last token is generated, but never read
        unfinished = [reason is None for reason in finish_reason]
        with torch.inference_mode():  # ends before the yield, so that the caller's mode holds between the steps
            if chosen is None or model.must_read_anew:
                texts = [_slide(t, model.n_ctx) if here else t[-1:] for t, here in zip(texts, unfinished, strict=True)]
                logits = model.prefill(texts, n_more)
            else:
                logits = model.step(chosen)
            chosen = _checked_choice(sampler(logits, seen), len(texts))  # (batch,)
            seen.scatter_(1, chosen[:, None], True)
            ids, log_probs = chosen.tolist(), None
            if return_log_probs:
                log_probs = logits.float().log_softmax(-1).gather(1, chosen[:, None])[:, 0].tolist()
                log_probs = _where(unfinished, log_probs)
        for row, is_unfinished in enumerate(unfinished):
            if is_unfinished:
                new_ids[row].append(ids[row])
                texts[row].append(ids[row])
                finish_reason[row] = finish_reason_of(row, new_ids[row])
        yield Step(_where(unfinished, ids), list(finish_reason), log_probs)
        if None not in finish_reason:
            return


def _checked_choice(chosen: Any, batch: int) -> Int[Tensor, "batch"]:
    if not isinstance(chosen, Tensor) or chosen.shape != (batch,) or chosen.is_floating_point():
        what = f"{chosen.dtype} {tuple(chosen.shape)}" if isinstance(chosen, Tensor) else type(chosen).__name__
        raise ValueError(
            f"sampler returned {what}; it must return the id of one token for each of {batch} rows, as "
            "Sampler(Temperature(0.7)) does"
        )
    return chosen


def _where(condition: list[bool], values: list[T]) -> list[T | None]:
    return [value if holds else None for holds, value in zip(condition, values, strict=True)]


def _slide(text: list[int], n_ctx: int) -> list[int]:
    """The tokens that are kept: all if they fit into the context, otherwise the newest ones, half of the context."""
    return text if len(text) <= n_ctx else text[-max(1, n_ctx // 2) :]


def _as_lists(name: str, texts: Any) -> list[list[Any]]:
    """The ids of each text as a list, whose entries :func:`_check_arguments` checks."""
    if isinstance(texts, Tensor) and texts.ndim in (1, 2):
        texts = torch.atleast_2d(texts).unbind()
    if not isinstance(texts, Sequence) or isinstance(texts, str):
        raise ValueError(f"{name}={texts!r:.60} must be lists of ids, as in {name}=[[1, 2], [3]], or a tensor of them")
    return [_as_list(f"{name}[{row}]", text) for row, text in enumerate(texts)]


def _as_list(name: str, text: Any) -> list[Any]:
    if isinstance(text, Tensor):
        if text.ndim != 1 or text.is_floating_point() or text.is_complex() or text.dtype == torch.bool:
            raise ValueError(f"{name} is {text.dtype} {tuple(text.shape)}; a tensor of ids must be integers (tokens,)")
        return text.tolist()
    if not isinstance(text, Sequence) or isinstance(text, str):
        raise ValueError(f"{name} is {text!r:.60}; it must be a list of ids or a 1-D tensor")
    return list(text)


def _check_arguments(
    model: GenerativeModel,
    prompts: Sequence[Sequence[object]],
    max_new_tokens: int,
    stop_token_ids: Collection[object],
    sources: Sequence[Sequence[object]] | None,
) -> None:
    config = model.config
    if config.kind == "encoder":
        raise ValueError("a model with kind='encoder' cannot generate; it must be 'decoder' or 'encoder-decoder'")
    if (config.kind == "encoder-decoder") != (sources is not None):
        raise ValueError(f"sources must be given for an encoder-decoder, and only then; kind={config.kind!r}")
    if not getattr(config, "unembedding", True):
        raise ValueError("unembedding=False: this model has hidden states and no logits")
    if max_new_tokens < 1:
        raise ValueError(f"{max_new_tokens=} must be at least 1")
    if len(prompts) == 0:
        raise ValueError("prompts holds 0 texts; it must hold at least one")
    if sources is not None and len(sources) != len(prompts):
        raise ValueError(f"sources holds {len(sources)} texts; it must hold one for each of the {len(prompts)} prompts")
    for name, texts in {"prompts": prompts, "sources": sources or []}.items():
        for row, text in enumerate(texts):
            if len(text) == 0:
                raise ValueError(f"{name}[{row}] is empty; it must hold at least one token, such as a start token")
            _check_ids(f"{name}[{row}]", text, config.n_vocab)
    _check_ids("stop_token_ids", stop_token_ids, config.n_vocab)
    if sources is not None and config.n_ctx is not None and max(map(len, sources)) > config.n_ctx:
        raise ValueError(f"sources hold a text of {max(map(len, sources))} tokens, more than n_ctx={config.n_ctx}")


def _check_ids(name: str, ids: Collection[object], n_vocab: int) -> None:
    for i in ids:
        if not (type(i) is int and 0 <= i < n_vocab):
            raise ValueError(f"{name} holds {i!r}; ids must be integers from 0 to n_vocab - 1 = {n_vocab - 1}")


def _check_capacity(
    model: GenerativeModel, prompts: Sequence[Sequence[int]], max_new_tokens: int, remedy: str = ""
) -> None:
    n_ctx, longest = model.config.n_ctx, max(map(len, prompts))
    n_positions = longest + max_new_tokens - 1  # the last new token is never read
    if n_ctx is not None and longest > n_ctx:
        raise ValueError(f"a prompt of {longest} tokens is longer than n_ctx={n_ctx}{remedy}")
    if n_ctx is not None and n_positions > n_ctx:
        raise ValueError(
            f"max_new_tokens={max_new_tokens} after a prompt of {longest} tokens takes {n_positions} positions, "
            f"more than n_ctx={n_ctx}{remedy}"
        )


# --- Beam search ---


class Hypothesis(NamedTuple):
    """A continuation that beam search has found.

    Source: the result of :func:`beam_search`.

    >>> Hypothesis(ids=[4, 1], score=-0.6, log_prob=-1.2, finish_reason="stop_token").score
    -0.6
    """

    ids: list[int]
    """The new tokens, including a stop token."""

    score: float
    """The log-probability divided by a power of the length."""

    log_prob: float
    """Log-probability of all new tokens together."""

    finish_reason: FinishReason
    """``"stop_token"`` or ``"length"``."""


@torch.inference_mode()
def beam_search(
    model: GenerativeModel,
    prompts: Prompts,
    *,
    max_new_tokens: int,
    n_beams: int,
    stop_token_ids: Collection[int] = (),
    length_penalty: float = 1.0,
    early_stopping: bool = True,
    sources: Prompts | None = None,
) -> list[list[Hypothesis]]:
    r"""Search for the most likely continuations, keeping the best few of each prompt in every step.

    .. math:: \mathrm{score}(w_1 \dots w_n) = \frac{1}{n^\alpha} \sum_{t=1}^{n} \log P(w_t \mid w_0 \dots w_{t-1})

    Each step ranks all one-token extensions of a prompt's running beams. Those among the best ``n_beams`` that end with
    a stop token become finished hypotheses; the best ``n_beams`` of the others are the next running beams. With one
    beam, this is greedy decoding.

    Args:
        model, prompts, max_new_tokens, sources: as in :func:`stream`; prompt and new tokens must fit into ``n_ctx``.
        n_beams: number of running beams of each prompt, at least 1.
        stop_token_ids: a beam finishes with the first of these; the stop token counts in its length and its score.
        length_penalty: α, at least 0. At 0 the score is the log-probability itself, which favours short continuations;
            at 1 it is the mean over the tokens.
        early_stopping: True to stop when there are ``n_beams`` finished hypotheses; False to go on until no running
            beam can reach a better score than those, which takes longer and loses nothing that the beams contain.

    Returns:
        For each prompt up to ``n_beams`` hypotheses, the best first.

    Raises:
        ValueError: for an argument that is not allowed, before anything is computed.

    Source: Graves (2012), "Sequence transduction with recurrent neural networks", section 2.5; Sutskever et al. (2014),
    section 3.2; Wu et al. (2016), section 7, whose penalty is :math:`((5 + n) / 6)^\alpha`; UCL-30, UCL-31.

    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="alibi"))
    >>> first, second, third = beam_search(model, [[1, 2]], max_new_tokens=4, n_beams=3)[0]
    >>> first.score >= second.score >= third.score, len(first.ids), first.finish_reason
    (True, 4, 'length')
    """
    prompts, sources = _as_lists("prompts", prompts), None if sources is None else _as_lists("sources", sources)
    _check_arguments(model, prompts, max_new_tokens, stop_token_ids, sources)
    _check_capacity(model, prompts, max_new_tokens)
    if n_beams < 1:
        raise ValueError(f"{n_beams=} must be at least 1")
    if not 0 <= length_penalty < math.inf:
        raise ValueError(f"{length_penalty=} must be at least 0 and finite")
    n_vocab, stop_ids = model.config.n_vocab, set(stop_token_ids)
    if len(stop_ids) == n_vocab:
        raise ValueError("stop_token_ids must leave a token of the vocabulary with which a beam can go on")
    cached_model = _CachedModel(model, sources)
    searches = [_BeamSearch(n_beams, max_new_tokens, stop_ids, length_penalty, early_stopping) for _ in prompts]
    logits = cached_model.prefill(prompts, max_new_tokens - 1).repeat_interleave(n_beams, 0)
    cached_model.repeat_interleave(n_beams)  # row i * n_beams + j is beam j of prompt i
    n_best = n_beams * min(n_vocab, 1 + len(stop_ids))  # of so many, at least n_beams do not end with a stop token
    while True:
        log_probs = torch.tensor([beam.log_prob for s in searches for beam in s.running], device=cached_model.device)
        log_probs = log_probs[:, None] + logits.float().log_softmax(-1)
        log_probs = rearrange(log_probs, "(prompts beams) n_vocab -> prompts (beams n_vocab)", beams=n_beams)
        for search, best, indices in zip(searches, *(x.tolist() for x in log_probs.topk(n_best)), strict=True):
            search.extend([(total, *divmod(index, n_vocab)) for total, index in zip(best, indices, strict=True)])
        if all(search.is_done for search in searches):
            return [search.finished for search in searches]
        rows = [i * n_beams + parent for i, search in enumerate(searches) for parent in search.parents]
        beams = [beam.ids for search in searches for beam in search.running]
        if cached_model.must_read_anew:
            texts = [[*prompts[row // n_beams], *ids] for row, ids in enumerate(beams)]
            logits = cached_model.prefill(texts, max_new_tokens - len(beams[0]) - 1)
        else:
            cached_model.cache.reorder(torch.tensor(rows, device=cached_model.device))
            logits = cached_model.step(torch.tensor([ids[-1] for ids in beams], device=cached_model.device))


class _Beam(NamedTuple):
    ids: list[int]
    log_prob: float


class _BeamSearch:
    """The search for one prompt: its running beams, and the best finished hypotheses."""

    def __init__(
        self, n_beams: int, max_new_tokens: int, stop_ids: set[int], length_penalty: float, early_stopping: bool
    ):
        self.n_beams, self.max_new_tokens, self.stop_ids = n_beams, max_new_tokens, stop_ids
        self.length_penalty, self.early_stopping = length_penalty, early_stopping
        impossible = _Beam([], -math.inf)
        self.running = [_Beam([], 0.0)] + [impossible] * (n_beams - 1)  # at first all beams are equal, and one counts
        self.parents = list(range(n_beams))
        self.finished: list[Hypothesis] = []
        self.is_done = False

    def extend(self, candidates: list[tuple[float, int, int]]) -> None:
        """Take the next step, from candidates (log-probability, parent beam, token), the best first."""
        if self.is_done:
            return  # the beams are still read, along with those of other prompts, but nothing changes
        beams = [(_Beam([*self.running[parent].ids, token], total), parent) for total, parent, token in candidates]
        self._finish([beam for beam, _ in beams[: self.n_beams] if beam.ids[-1] in self.stop_ids], "stop_token")
        running = [(beam, parent) for beam, parent in beams if beam.ids[-1] not in self.stop_ids][: self.n_beams]
        self.running, self.parents = [beam for beam, _ in running], [parent for _, parent in running]
        if len(self.running[0].ids) == self.max_new_tokens:
            self._finish(self.running, "length")
            self.is_done = True
        elif len(self.finished) == self.n_beams:
            self.is_done = self.early_stopping or self.finished[-1].score >= self._highest_attainable_score()

    def _finish(self, beams: list[_Beam], finish_reason: FinishReason) -> None:
        possible = [beam for beam in beams if beam.log_prob > -math.inf]
        found = [Hypothesis(ids, self._score(total, len(ids)), total, finish_reason) for ids, total in possible]
        self.finished = sorted(self.finished + found, key=lambda hypothesis: -hypothesis.score)[: self.n_beams]

    def _score(self, log_prob: float, n_tokens: int) -> float:
        return log_prob / n_tokens**self.length_penalty

    def _highest_attainable_score(self) -> float:
        """The score of the best running beam if it reached the full length and every further token were certain."""
        return self._score(self.running[0].log_prob, self.max_new_tokens)
