r"""Generation: from a model that scores the next token to a text.

Three things make a generator, and each is an object or a function of its own: what changes the logits (the filters),
what chooses a token from them (``greedy`` or ``Sample``), and the loop that reads, chooses and stops (``stream``, and
``generate``, which collects what it yields). ``beam_search`` keeps several texts at a time instead.

Legend of shapes: ``batch``, ``n_vocab``. ``seen`` says for each row which tokens of the vocabulary its text holds.
"""

import math
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from einops import rearrange, repeat

from llm_anatomy.models.before_transformers import MambaLM
from llm_anatomy.models.block import EncoderOutput
from llm_anatomy.models.transformer import ModelCache, Transformer
from llm_anatomy.shapes import Bool, Float, Int, Tensor

# --- Filters: logits in, logits out. In the usual order: RepetitionPenalty, Temperature, TopK, TopP, MinP ---


@dataclass(frozen=True)
class RepetitionPenalty:
    r"""Make what the text holds already less likely, once, however often it holds it.

    .. math:: z_i' = \begin{cases} z_i / \theta & z_i > 0 \\ z_i\, \theta & z_i \leq 0 \end{cases}
        \quad \text{for } i \text{ in the text}

    The paper divides in both cases; a negative logit would then become more likely, and so practice multiplies it.

    Args:
        penalty: θ, above 0; 1 changes nothing, the paper takes 1.2.

    Raises:
        ValueError: for another penalty.

    Source: Keskar et al. (2019), "CTRL", section 4.1.

    >>> RepetitionPenalty(2.0)(torch.tensor([[4.0, 4.0, -1.0]]), torch.tensor([[False, True, True]])).tolist()
    [[4.0, 2.0, -2.0]]
    """

    penalty: float

    def __post_init__(self):
        if not 0 < self.penalty < math.inf:
            raise ValueError(f"penalty={self.penalty} must be above 0 and finite")

    def __call__(
        self, logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"]
    ) -> Float[Tensor, "batch n_vocab"]:
        less_likely = torch.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return torch.where(seen, less_likely, logits)


@dataclass(frozen=True)
class Temperature:
    r"""Sharpen the distribution (below 1) or flatten it (above 1).

    .. math:: z_i' = z_i / T, \qquad T \to 0: \; z_i' = \begin{cases} 0 & z_i = \max_j z_j \\ -\infty \end{cases}

    Args:
        temperature: T, from 0, which leaves the likeliest token alone.

    Raises:
        ValueError: for another temperature.

    Source: Ackley et al. (1985), "A learning algorithm for Boltzmann machines", section 2; Holtzman et al. (2020),
    section 5.3.

    >>> Temperature(0.5)(torch.tensor([[1.0, 3.0]])).tolist(), Temperature(0.0)(torch.tensor([[1.0, 3.0]])).tolist()
    ([[2.0, 6.0]], [[-inf, 0.0]])
    """

    temperature: float

    def __post_init__(self):
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature} must be at least 0 and finite")

    def __call__(
        self, logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"] | None = None
    ) -> Float[Tensor, "batch n_vocab"]:
        if self.temperature == 0:
            return torch.zeros_like(logits).masked_fill(logits < logits.amax(-1, keepdim=True), -math.inf)
        return logits / self.temperature


@dataclass(frozen=True)
class TopK:
    r"""Leave the k likeliest tokens, and those as likely as the last of them.

    .. math:: V^{(k)} = \{ i : z_i \geq z_{(k)} \}, \quad z_{(k)} \text{ the } k\text{-th largest}

    Args:
        k: from 1; from ``n_vocab`` on it leaves all.

    Raises:
        ValueError: for k below 1.

    Source: Fan et al. (2018), section 5.4.

    >>> TopK(2)(torch.tensor([[1.0, 3.0, 2.0]])).tolist()
    [[-inf, 3.0, 2.0]]
    """

    k: int

    def __post_init__(self):
        if self.k < 1:
            raise ValueError(f"k={self.k} must be at least 1")

    def __call__(
        self, logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"] | None = None
    ) -> Float[Tensor, "batch n_vocab"]:
        last = logits.topk(min(self.k, logits.shape[-1]))[0][:, -1:]  # (batch, 1)
        return logits.masked_fill(logits < last, -math.inf)


@dataclass(frozen=True)
class TopP:
    r"""Nucleus sampling: leave the fewest tokens, the likeliest first, that together have probability p.

    .. math:: V^{(p)} = \text{the smallest } V \text{ with } \sum_{i \in V} P(i) \geq p

    Args:
        p: above 0, at most 1, which leaves all.

    Raises:
        ValueError: for another p.

    Source: Holtzman et al. (2020), section 3.1.

    >>> TopP(0.6)(torch.tensor([[0.5, 0.2, 0.3]]).log()).softmax(-1).tolist()
    [[0.625, 0.0, 0.375]]
    """

    p: float

    def __post_init__(self):
        if not 0 < self.p <= 1:
            raise ValueError(f"p={self.p} must be above 0 and at most 1")

    def __call__(
        self, logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"] | None = None
    ) -> Float[Tensor, "batch n_vocab"]:
        if self.p == 1:  # a sum may pass 1 by rounding
            return logits
        likeliest_first, order = logits.float().sort(descending=True, stable=True)
        probabilities = likeliest_first.softmax(-1)
        goes = probabilities.cumsum(-1) - probabilities >= self.p  # those before it suffice
        return logits.masked_fill(goes.scatter(-1, order, goes), -math.inf)


@dataclass(frozen=True)
class MinP:
    r"""Leave tokens that are at least so likely, measured by the likeliest: many where the model is unsure, few where
    it is sure.

    .. math:: V = \{ i : P(i) \geq p\, \max_j P(j) \}

    Args:
        p: above 0, at most 1, which leaves the likeliest.

    Raises:
        ValueError: for another p.

    Source: Nguyen et al. (2024), "Turning up the heat", section 3.

    >>> MinP(0.5)(torch.tensor([[0.5, 0.2, 0.3]]).log()).softmax(-1).tolist()
    [[0.625, 0.0, 0.375]]
    """

    p: float

    def __post_init__(self):
        if not 0 < self.p <= 1:
            raise ValueError(f"p={self.p} must be above 0 and at most 1")

    def __call__(
        self, logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"] | None = None
    ) -> Float[Tensor, "batch n_vocab"]:
        return logits.masked_fill(logits < logits.amax(-1, keepdim=True) + math.log(self.p), -math.inf)


LogitsProcessor = Callable[[Tensor, Tensor], Tensor]


# --- Choosing a token ---


def greedy(
    logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"] | None = None
) -> Int[Tensor, "batch"]:
    r"""The likeliest token, the first of those that are equally likely.

    .. math:: w = \arg\max_i z_i

    Filters that leave the order of the tokens leave this choice. For those that do not there is
    ``Sample(RepetitionPenalty(1.2), Temperature(0.0))``.

    Args:
        logits: of the next token.
        seen: plays no part.

    Source: Holtzman et al. (2020), section 2.

    >>> greedy(torch.tensor([[1.0, 3.0, 2.0]])).tolist()
    [1]
    """
    return logits.argmax(-1)


class Sample:
    r"""A token drawn from the distribution that the filters leave.

    .. math:: w \sim \mathrm{softmax}(z')

    Args:
        filters: applied in this order. Usual are ``RepetitionPenalty``, ``Temperature``, ``TopK``, ``TopP``, ``MinP``,
            each of which sees the probabilities that those before it have left.
        generator: where chance comes from, on the device of the model; PyTorch's own by default. One seed gives one
            text for one batch; in another batch a row gets other draws.

    Source: Holtzman et al. (2020), sections 3 and 5.

    >>> sampler = Sample(Temperature(0.7), TopK(2), generator=torch.Generator().manual_seed(0))
    >>> logits = torch.tensor([[1.0, 3.0, 2.0]]).expand(9, 3)
    >>> sampler(logits, torch.zeros(9, 3, dtype=torch.bool)).tolist().count(0)
    0
    """

    def __init__(self, *filters: LogitsProcessor, generator: torch.Generator | None = None):
        self.filters, self.generator = filters, generator

    def __call__(
        self, logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"]
    ) -> Int[Tensor, "batch"]:
        logits = logits.float()
        for change in self.filters:
            logits = change(logits, seen)
        return torch.multinomial(logits.softmax(-1), 1, generator=self.generator)[:, 0]


# --- The loop ---


def next_logits(
    model: Transformer | MambaLM,
    ids: Int[Tensor, "batch tokens"],
    cache: ModelCache,
    source: EncoderOutput | None = None,
    attention_mask: Bool[Tensor, "batch tokens"] | None = None,
) -> Float[Tensor, "batch n_vocab"]:
    """Read tokens into the cache, and score what follows the last: the vocabulary is read once, not for each token.

    A step of decoding is this function with one token. ``torch.compile(next_logits, dynamic=True)`` makes one graph of
    it, for every step: ``dynamic`` says that the length of the cache is not part of what is compiled.

    Args:
        model: a decoder or encoder-decoder.
        ids: the new tokens.
        cache: from ``model.new_cache``; holds what came before.
        source: from ``model.encode``, for an encoder-decoder.
        attention_mask: False for padding; all are tokens by default.

    Source: Pope et al. (2022), section 2 (prefill and decode); CMU-10.

    >>> from llm_anatomy.config import ModelConfig
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> with torch.inference_mode():
    ...     tuple(next_logits(model, torch.tensor([[1, 2, 3]]), model.new_cache(batch=1, n_slots=4)).shape)
    (1, 5)
    """
    x, _ = model.read(ids, attention_mask=attention_mask, source=source, cache=cache)
    return model.logits(x[:, -1:])[:, 0]


def store_by_columns(model: torch.nn.Module) -> None:
    """Store weight matrices column by column, in place: the same numbers and shapes, in another order in memory.

    A step of decoding has few rows, one for each text, and a CPU's matrix product is then faster over weights that lie
    in the order of (in, out), by up to two for a batch of 8. Training has many rows, and needs none of this.

    Args:
        model: of any kind; what it computes stays the same.

    Source: no paper; measured in ``benchmarks/generation.py``.

    >>> layer = torch.nn.Linear(3, 5)
    >>> store_by_columns(layer)
    >>> tuple(layer.weight.shape), layer.weight.stride()
    ((5, 3), (1, 5))
    """
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data = parameter.data.t().contiguous().t()


class Step(NamedTuple):
    """One token for each row that still goes on.

    Source: the loop of :func:`stream`.

    >>> Step(ids=[3, None], finish_reason=["stop_token", "stop_token"], log_probs=None).ids
    [3, None]
    """

    ids: list[int | None]
    """None for a row that stopped before."""

    finish_reason: list[str | None]
    """Why each row has stopped, with this token or before: ``"stop_token"``, ``"stop_string"`` or ``"length"``; None
    while it goes on."""

    log_probs: list[float | None] | None
    """Log-probability of each token by the model's own logits, before any filter, where they were asked for."""


@dataclass(frozen=True)
class Generation:
    """What was written after each prompt.

    Source: the loop of :func:`generate`.

    >>> Generation(ids=[[5, 2], [7]], finish_reason=["max_new_tokens", "stop_token"]).ids[1]
    [7]
    """

    ids: list[list[int]]
    """The new tokens of each row, the one that stopped it included; no prompt, no padding."""

    finish_reason: list[str]
    """Why each row stopped: ``"stop_token"``, ``"stop_string"`` or ``"length"``."""

    log_probs: list[list[float]] | None = None
    """Of each token, by the model's own logits, where they were asked for."""


def stream(
    model: Transformer | MambaLM,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    sampler: Callable[[Tensor, Tensor], Tensor] = greedy,
    stop_tokens: Collection[int] = (),
    stop_strings: Collection[str] = (),
    decode: Callable[[list[int]], str] | None = None,
    overflow: str = "refuse",
    sources: Sequence[Sequence[int]] | None = None,
    log_probs: bool = False,
    step: Callable[..., Tensor] = next_logits,
) -> Iterator[Step]:
    r"""Write after each prompt, one token a row at a time: read the prompts in one pass, then each new token alone.

    .. math:: w_{t+1} = \mathrm{choose}(z_t), \quad z_t = \mathrm{logits}(w_t \mid \mathrm{cache}(w_0 \dots w_{t-1}))

    Args:
        model: a decoder or encoder-decoder.
        prompts: ids of each row, at least one; of any lengths, since short ones are padded on the left. For an
            encoder-decoder the first tokens of the target, its start token for instance.
        max_new_tokens: how many tokens at most, from 1.
        sampler: ``greedy``, ``Sample(...)``, or what else takes logits and ``seen`` and returns (batch,) ids.
        stop_tokens: a row that writes one of them stops.
        stop_strings: a row stops when what it wrote, decoded, holds one of them; prompts do not count.
        decode: from ids to text; needed for ``stop_strings``. Called with all new ids of a row in each step.
        overflow: what to do when the text would pass ``n_ctx``. ``"refuse"``: an error before anything is read.
            ``"slide"``: a row that is full keeps its newest ``n_ctx // 2`` tokens, and the batch is read anew.
            Positions have changed, so nothing cached can stay; dropping half at once makes that one prefill in ``n_ctx
            // 2`` steps, about as much work as reading each token twice, where dropping one at a time would be a
            prefill a step.
        sources: ids of the source of each row, for an encoder-decoder.
        log_probs: whether steps hold log-probabilities.
        step: what runs the steps after the prompts: ``torch.compile(next_logits, dynamic=True)``, for instance.

    Returns:
        An iterator of steps; it ends when all rows have stopped.

    Raises:
        ValueError: naming the argument, before anything is read, even before the first step is asked for.

    Source: Vaswani et al. (2017), section 3.1 (auto-regressive); Pope et al. (2022), section 2; UCL-10, CMU-10.

    >>> from llm_anatomy.config import ModelConfig
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="alibi"))
    >>> for step in stream(model, [[1, 2], [3]], max_new_tokens=3):
    ...     print(len(step.ids), step.finish_reason)
    2 [None, None]
    2 [None, None]
    2 ['length', 'length']
    """
    _check_arguments(model, prompts, max_new_tokens, stop_tokens, sources)
    if stop_strings and decode is None:
        raise ValueError("decode=None must be given, from ids to text, for stop_strings")
    if "" in stop_strings:
        raise ValueError(f"{stop_strings=} must hold no empty string, which every text holds")
    if overflow not in ("refuse", "slide"):
        raise ValueError(f"{overflow=} must be 'refuse' or 'slide'")
    if overflow == "refuse":
        _check_capacity(model, prompts, max_new_tokens, remedy="; overflow='slide' drops the oldest tokens")

    def reason_to_finish(new: list[int]) -> str | None:
        if new[-1] in stop_tokens:
            return "stop_token"
        if stop_strings and any(string in decode(new) for string in stop_strings):
            return "stop_string"
        return "length" if len(new) == max_new_tokens else None

    reader = _Reader(model, sources, step)
    return _stream(reader, prompts, max_new_tokens, sampler, reason_to_finish, log_probs)


def generate(model: Transformer | MambaLM, prompts: Sequence[Sequence[int]], **settings) -> Generation:
    """Write after each prompt, and return when all rows have stopped.

    Args:
        model, prompts: as in :func:`stream`.
        settings: all others of :func:`stream`; ``max_new_tokens`` must be among them.

    Source: as :func:`stream`; UCL-10, CMU-10.

    >>> from llm_anatomy.config import ModelConfig
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="alibi"))
    >>> written = generate(model, [[1, 2], [3]], max_new_tokens=3, sampler=Sample(Temperature(0.7), TopP(0.9)))
    >>> [len(ids) for ids in written.ids], written.finish_reason
    ([3, 3], ['length', 'length'])
    """
    steps = list(stream(model, prompts, **settings))

    def of_row(values: Sequence[list]) -> list[list]:
        return [[value for value in row if value is not None] for row in zip(*values, strict=True)]

    log_probs = of_row([step.log_probs for step in steps]) if steps[0].log_probs else None
    return Generation(of_row([step.ids for step in steps]), steps[-1].finish_reason, log_probs)


def _stream(
    reader: "_Reader", prompts, max_new_tokens: int, sampler, reason_to_finish, log_probs: bool
) -> Iterator[Step]:
    texts, new, finish_reason = [list(prompt) for prompt in prompts], [[] for _ in prompts], [None] * len(prompts)
    seen = torch.zeros(len(prompts), reader.model.config.n_vocab, dtype=torch.bool, device=reader.device)
    for row, prompt in zip(seen, prompts, strict=True):
        row[torch.tensor(prompt, device=reader.device)] = True
    for n_more in reversed(range(max_new_tokens)):  # the last token is written, not read
        goes_on = [reason is None for reason in finish_reason]
        with torch.inference_mode():  # ends before the yield: between the steps the mode is the caller's
            if reader.is_full:  # as it is at first
                texts = [_slid(t, reader.n_ctx) if on else t[-1:] for t, on in zip(texts, goes_on, strict=True)]
                logits = reader.read(texts, n_more)
            else:
                logits = reader.read_one_more(chosen)
            chosen = sampler(logits, seen)  # (batch,)
            seen.scatter_(1, chosen[:, None], True)
            ids, scores = chosen.tolist(), None
            if log_probs:
                scores = _where(goes_on, logits.float().log_softmax(-1).gather(1, chosen[:, None])[:, 0].tolist())
        for row in range(len(prompts)):
            if goes_on[row]:
                new[row].append(ids[row])
                texts[row].append(ids[row])
                finish_reason[row] = reason_to_finish(new[row])
        yield Step(_where(goes_on, ids), list(finish_reason), scores)
        if None not in finish_reason:
            return


def _where(goes_on: list[bool], values: list) -> list:
    return [value if on else None for on, value in zip(goes_on, values, strict=True)]


def _slid(text: list[int], n_ctx: int) -> list[int]:
    """What is kept of a text: all of it where it fits, its newest half of the context where not."""
    return text if len(text) <= n_ctx else text[-max(1, n_ctx // 2) :]


class _Reader:
    """A model, its cache, and the sources of the rows."""

    @torch.inference_mode()
    def __init__(self, model: Transformer | MambaLM, sources=None, step: Callable[..., Tensor] = next_logits):
        self.model, self.step, self.device = model, step, model.embedding.weight.device
        self.n_ctx = sys.maxsize if model.config.n_ctx is None else model.config.n_ctx
        self.source = None if sources is None else model.encode(*_padded(sources, self.device))
        self.n_left = 0

    def read(self, texts: Sequence[Sequence[int]], n_more: int) -> Float[Tensor, "batch n_vocab"]:
        """All texts in one pass, into a cache for ``n_more`` tokens, or as many as fit; scores the token after each."""
        ids, attention_mask = _padded(texts, self.device)
        n_slots = min(self.n_ctx, ids.shape[1] + n_more)
        n_source = None if self.source is None else self.source.states.shape[1]
        self.cache, self.n_left = self.model.new_cache(len(ids), n_slots, n_source), n_slots - ids.shape[1]
        return next_logits(self.model, ids, self.cache, self.source, attention_mask)

    @property
    def is_full(self) -> bool:
        return self.n_left == 0

    def read_one_more(self, ids: Int[Tensor, "batch"]) -> Float[Tensor, "batch n_vocab"]:
        self.n_left -= 1
        return self.step(self.model, ids[:, None], self.cache, self.source)

    def reorder(self, rows: Int[Tensor, "_"]) -> None:
        """Row i goes on from what row ``rows[i]`` held; both have the same source."""
        for cache in self.cache.blocks:
            cache.reorder(rows)

    def repeat(self, n_times: int) -> None:
        """Each row so many times, one after the other, its source too."""
        rows = repeat(torch.arange(len(self.cache.blocks[0].read()[-1]), device=self.device), "b -> (b n)", n=n_times)
        self.reorder(rows)
        if self.source is not None:
            states, positions = self.source
            self.source = EncoderOutput(states[rows], positions if positions is None else positions[rows])
            for cache in self.cache.source:
                cache.reorder(rows)


def _padded(texts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Ids, padded on the left so that all rows end together, and which are tokens: None where all are."""
    longest = max(map(len, texts))
    ids = torch.tensor([[0] * (longest - len(text)) + list(text) for text in texts], device=device)
    if all(len(text) == longest for text in texts):
        return ids, None
    n_padding = torch.tensor([[longest - len(text)] for text in texts], device=device)
    return ids, torch.arange(longest, device=device) >= n_padding  # both (batch, longest)


def _check_arguments(
    model: Transformer | MambaLM, prompts, max_new_tokens: int, stop_tokens: Collection[int], sources
) -> None:
    config = model.config
    if config.kind == "encoder":
        raise ValueError("model has kind='encoder'; only a decoder or an encoder-decoder writes")
    if (config.kind == "encoder-decoder") != (sources is not None):
        raise ValueError(f"sources must be given for an encoder-decoder, and only then; kind={config.kind!r}")
    if max_new_tokens < 1:
        raise ValueError(f"{max_new_tokens=} must be at least 1")
    for name, texts in {"prompts": prompts, "sources": sources}.items():
        if texts is None:
            continue
        if len(texts) == 0 or len(texts) != len(prompts):
            raise ValueError(f"{name} holds {len(texts)} texts; it must hold one for each row, and there must be a row")
        for row, text in enumerate(texts):
            if len(text) == 0:
                raise ValueError(f"{name}[{row}] is empty; it must hold at least one token, such as a start token")
            _check_bounds(f"{name}[{row}]", text, config.n_vocab)
    _check_bounds("stop_tokens", stop_tokens, config.n_vocab)
    if sources is not None and config.n_ctx is not None and max(map(len, sources)) > config.n_ctx:
        raise ValueError(f"sources hold a text of {max(map(len, sources))} tokens, more than n_ctx={config.n_ctx}")


def _check_bounds(name: str, ids: Collection, n_vocab: int) -> None:
    for i in ids:
        if not (isinstance(i, int) and 0 <= i < n_vocab):
            raise ValueError(f"{name} holds {i!r}; ids must be integers from 0 to n_vocab - 1 = {n_vocab - 1}")


def _check_capacity(model: Transformer | MambaLM, prompts, max_new_tokens: int, remedy: str = "") -> None:
    n_ctx, longest = model.config.n_ctx, max(map(len, prompts))
    if n_ctx is not None and longest + max_new_tokens - 1 > n_ctx:  # the last new token is not read
        raise ValueError(
            f"max_new_tokens={max_new_tokens} after a prompt of {longest} tokens takes "
            f"{longest + max_new_tokens - 1} positions, more than n_ctx={n_ctx}{remedy}"
        )


# --- Beam search ---


class Hypothesis(NamedTuple):
    """A text that beam search has found.

    Source: the result of :func:`beam_search`.

    >>> Hypothesis(ids=[4, 1], score=-0.6, log_prob=-1.2, finish_reason="stop_token").score
    -0.6
    """

    ids: list[int]
    """The new tokens, the stop token included."""

    score: float
    log_prob: float
    finish_reason: str
    """``"stop_token"`` or ``"length"``."""


@torch.inference_mode()
def beam_search(
    model: Transformer | MambaLM,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    n_beams: int,
    stop_tokens: Collection[int] = (),
    length_penalty: float = 1.0,
    early_stop: bool = True,
    sources: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    r"""Go on from the best few texts at a time, where greedy choice goes on from one.

    .. math:: \mathrm{score}(w_1 \dots w_n) = \frac{1}{n^\alpha} \sum_{t=1}^{n} \log P(w_t \mid w_0 \dots w_{t-1})

    In each step all continuations of all open beams are ranked together; the best ``n_beams`` that do not stop stay
    open, and a text that stops among the best ``n_beams`` is kept. One beam is greedy choice.

    Args:
        model, prompts, max_new_tokens, sources: as in :func:`stream`; the context may not overflow.
        n_beams: how many texts stay open for each prompt, from 1.
        stop_tokens: what ends a text; it counts in its length and its score.
        length_penalty: α, from 0, which favours short texts; 1 compares by the mean of a token.
        early_stop: True to end when ``n_beams`` texts have stopped; False to go on until none that is open can
            become better than these, which takes longer and misses nothing that the beams hold.

    Returns:
        For each prompt up to ``n_beams`` texts, the best first.

    Raises:
        ValueError: naming the argument, before anything is read.

    Source: Graves (2012), "Sequence transduction with recurrent neural networks", section 2.5; Sutskever et al. (2014),
    section 3.2; Wu et al. (2016), section 7, whose penalty is :math:`((5 + n) / 6)^\alpha`; UCL-30, UCL-31.

    >>> from llm_anatomy.config import ModelConfig
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="alibi"))
    >>> first, second, third = beam_search(model, [[1, 2]], max_new_tokens=4, n_beams=3)[0]
    >>> first.score >= second.score >= third.score, len(first.ids), first.finish_reason
    (True, 4, 'length')
    """
    _check_arguments(model, prompts, max_new_tokens, stop_tokens, sources)
    _check_capacity(model, prompts, max_new_tokens)
    if n_beams < 1:
        raise ValueError(f"{n_beams=} must be at least 1")
    if not 0 <= length_penalty < math.inf:
        raise ValueError(f"{length_penalty=} must be at least 0 and finite")
    if len(set(stop_tokens)) == model.config.n_vocab:
        raise ValueError("stop_tokens must leave a token of the vocabulary to go on with")
    reader, n_vocab, stop_tokens = _Reader(model, sources), model.config.n_vocab, set(stop_tokens)
    beams = [_Beams(n_beams, max_new_tokens, stop_tokens, length_penalty, early_stop) for _ in prompts]
    logits = repeat(
        reader.read(prompts, max_new_tokens - 1), "prompts n_vocab -> (prompts beams) n_vocab", beams=n_beams
    )
    reader.repeat(n_beams)
    n_best = n_beams * min(n_vocab, 1 + len(stop_tokens))  # so many that n_beams of them do not stop
    while True:
        before = torch.tensor([text.log_prob for b in beams for text in b.open], device=reader.device)
        totals = before[:, None] + logits.float().log_softmax(-1)
        totals = rearrange(totals, "(prompts beams) n_vocab -> prompts (beams n_vocab)", beams=n_beams)
        for b, best, positions in zip(beams, *(x.tolist() for x in totals.topk(n_best)), strict=True):
            b.extend([(total, *divmod(position, n_vocab)) for total, position in zip(best, positions, strict=True)])
        if all(b.done for b in beams):
            return [b.found for b in beams]
        reader.reorder(
            torch.tensor([i * n_beams + j for i, b in enumerate(beams) for j in b.parents], device=reader.device)
        )
        newest = [text.ids[-1] for b in beams for text in b.open]
        logits = reader.read_one_more(torch.tensor(newest, device=reader.device))


class _Beams:
    """The texts of one prompt: those that are open, and the best of those that have ended."""

    def __init__(
        self, n_beams: int, max_new_tokens: int, stop_tokens: set[int], length_penalty: float, early_stop: bool
    ):
        self.n_beams, self.max_new_tokens, self.stop_tokens = n_beams, max_new_tokens, stop_tokens
        self.length_penalty, self.early_stop = length_penalty, early_stop
        closed = _Open([], -math.inf)
        self.open = [_Open([], 0.0)] + [closed] * (n_beams - 1)  # at first all beams are alike, and one counts
        self.found, self.done = [], False

    def extend(self, candidates: list[tuple[float, int, int]]) -> None:
        """By one token: (sum of log-probabilities, which beam, token), the best first."""
        if self.done:
            return  # the open texts are read on, since other prompts go on, and nothing comes of it
        texts = [(_Open([*self.open[beam].ids, token], total), beam) for total, beam, token in candidates]
        self._keep([text for text, _ in texts[: self.n_beams] if text.ids[-1] in self.stop_tokens], "stop_token")
        going_on = [(text, beam) for text, beam in texts if text.ids[-1] not in self.stop_tokens][: self.n_beams]
        self.open, self.parents = [text for text, _ in going_on], [beam for _, beam in going_on]
        if len(self.open[0].ids) == self.max_new_tokens:
            self._keep(self.open, "length")
            self.done = True
        elif len(self.found) == self.n_beams:
            self.done = self.early_stop or self.found[-1].score >= self._bound()

    def _keep(self, texts: list["_Open"], finish_reason: str) -> None:
        alive = [text for text in texts if text.log_prob > -math.inf]
        found = [Hypothesis(ids, self._score(total, len(ids)), total, finish_reason) for ids, total in alive]
        self.found = sorted(self.found + found, key=lambda text: -text.score)[: self.n_beams]

    def _score(self, log_prob: float, n_tokens: int) -> float:
        return log_prob / n_tokens**self.length_penalty

    def _bound(self) -> float:
        """The best score that an open text can reach: as if all that it has yet to write were certain."""
        return self._score(self.open[0].log_prob, self.max_new_tokens)


class _Open(NamedTuple):
    ids: list[int]
    log_prob: float
