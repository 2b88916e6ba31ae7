"""What evaluations ask of a language model: how likely is this text after that one, and how does this text go on?"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn

from llm_anatomy.models.checkpoints.family import LanguageModel
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.checkpoints.writing import in_batches
from llm_anatomy.models.generation import GenerativeModel
from llm_anatomy.models.inference import InferenceTransformer
from llm_anatomy.shapes import Float, Int, Tensor

MOST_LOGITS = 2**25
"""So many logits are in memory at once."""

Pair = tuple[Sequence[int], Sequence[int]]
"""The ids of a context and those of its continuation."""


class Likelihood(NamedTuple):
    """How likely a continuation is.

    Args:
        log_prob: the sum of the log-probabilities of its tokens, in nats.
        n_tokens: number of its tokens.
        is_greedy: whether each of them is the most likely one after those before it.

    Source: Gao et al., "A framework for few-shot language model evaluation", ``loglikelihood``; GT-09.

    >>> Likelihood(-2.5, 3, is_greedy=False).log_prob
    -2.5
    """

    log_prob: float
    n_tokens: int
    is_greedy: bool


def likelihoods(
    model: nn.Module, pairs: Sequence[Pair], *, n_ctx: int | None = None, batch_size: int = 32
) -> Iterator[tuple[int, Likelihood]]:
    r"""Compute how likely continuations are, each after its context, in batches of texts of similar length.

    .. math:: \log p(c \mid q) = \sum_t \log p_\theta(c_t \mid q, c_{<t})

    The longest texts come first, so that a batch that does not fit into memory fails at once. A batch is padded on the
    right, where a causal model does not look, and holds only texts that the model reads as it would read each alone.
    Continuations that differ in their last token alone, such as the letters
    of four choices, share one row of a batch. Logits are computed for the tokens of the continuations only.

    Args:
        model: maps ids (batch, tokens) to logits (batch, tokens, n_vocab).
        pairs: the ids of each context, at least one, and of its continuation, at least one.
        n_ctx: the most tokens that the model can read. A longer text loses the beginning of its context.
        batch_size: number of rows in a forward pass.

    Returns:
        An iterator over the index of a pair and its :class:`Likelihood`, in the order in which they are computed.

    Raises:
        ValueError: at once, for a pair without a context or a continuation, and for a continuation that is longer than
            ``n_ctx``.

    Source: Brown et al. (2020), section 2.4; Gao et al., "A framework for few-shot language model evaluation"; GT-09.

    >>> class Coin(nn.Module):
    ...     def forward(self, ids):
    ...         return torch.zeros(*ids.shape, 2)
    >>> for index, found in likelihoods(Coin(), [([0], [1, 1]), ([1, 1, 0], [0])]):
    ...     print(index, f"{found.log_prob:.3f}", found.n_tokens)
    1 -0.693 1
    0 -1.386 2
    """
    if batch_size < 1:
        raise ValueError(f"{batch_size=} must be at least 1")
    rows: dict[tuple[int, ...], list[int]] = {}
    for index, (context, continuation) in enumerate(pairs):
        if not len(context) or not len(continuation):
            raise ValueError(f"pair {index} has {len(context)} and {len(continuation)} ids; both need at least one")
        if n_ctx is not None and len(continuation) > n_ctx:
            raise ValueError(f"pair {index} has a continuation of {len(continuation)} ids; the model reads {n_ctx}")
        row = (*context, *continuation)[:-1]
        rows.setdefault(row if n_ctx is None else row[-n_ctx:], []).append(index)
    longest_first = sorted(rows.items(), key=lambda row: -len(row[0]))
    batches: list[list[tuple[tuple[int, ...], list[int]]]] = []
    for row in longest_first:
        if batches and len(batches[-1]) < batch_size and _read_alike(model, len(row[0]), len(batches[-1][0][0])):
            batches[-1].append(row)
        else:
            batches.append([row])
    return (found for batch in batches for found in _likelihoods_of(model, batch, pairs))


def _read_alike(model: nn.Module, n: int, n_longest: int) -> bool:
    """Whether a text is read beside a longer one as it is alone, which scalings of RoPE by length do not grant."""
    return n == n_longest or getattr(model, "cache_stays_valid", lambda *_: True)(n, n_longest)


@torch.inference_mode()
def _likelihoods_of(
    model: nn.Module, batch: list[tuple[tuple[int, ...], list[int]]], pairs: Sequence[Pair]
) -> list[tuple[int, Likelihood]]:
    longest = len(batch[0][0])
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row, _ in batch], device=device)
    asked = [(number, len(row), index) for number, (row, indices) in enumerate(batch) for index in indices]
    lengths = [len(pairs[index][1]) for *_, index in asked]
    numbers = [number for (number, *_), n in zip(asked, lengths, strict=True) for _ in range(n)]
    positions = [position for (_, end, _), n in zip(asked, lengths, strict=True) for position in range(end - n, end)]
    targets = torch.tensor([i for *_, index in asked for i in pairs[index][1]], device=device)
    log_probs, best = _of_targets(_rows_of_logits(model, ids, numbers, positions), targets)
    found = zip(asked, log_probs.split(lengths), (best == targets.cpu()).split(lengths), strict=True)
    return [
        (index, Likelihood(sums.sum().item(), len(sums), bool(greedy.all()))) for (*_, index), sums, greedy in found
    ]


def _rows_of_logits(
    model: nn.Module, ids: Int[Tensor, "batch tokens"], numbers: list[int], positions: list[int]
) -> Iterator[Float[Tensor, "some n_vocab"]]:
    """The logits at some positions, in parts that fit into memory; those at others are not computed if possible."""
    if isinstance(model, GenerativeModel):
        x = model.hidden_states(ids)[0][numbers, positions]
        n_rows = max(1, MOST_LOGITS // model.config.n_vocab)
        return (model.logits(part[None])[0] for part in x.split(n_rows))
    return iter([model(ids)[numbers, positions]])


def _of_targets(logits: Iterable[Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability of each target, and the id that would be most likely, on the CPU."""
    log_probs, best, done = [], [], 0
    for rows in logits:
        some = targets[done : done + len(rows)]
        done += len(rows)
        log_probs.append(rows.float().log_softmax(-1).gather(1, some[:, None])[:, 0].cpu().double())
        best.append(rows.argmax(-1).cpu())
    return torch.cat(log_probs), torch.cat(best)


def rolling_pairs(ids: Sequence[int], first: int | None, n_ctx: int | None) -> list[Pair]:
    """Divide a text that may be longer than the context into pairs, so that each token is predicted once.

    Each window begins with the last token that was predicted before it; the last one has the full context.

    Args:
        ids: of the text.
        first: the id before the text; without it, the first token of the text is not predicted.
        n_ctx: the most tokens that the model can read.

    Source: Gao et al., "A framework for few-shot language model evaluation", ``loglikelihood_rolling``; UCL-03.

    >>> rolling_pairs([1, 2, 3, 4, 5], first=0, n_ctx=2)
    [([0], [1, 2]), ([2], [3, 4]), ([3, 4], [5])]
    """
    text = [*([] if first is None else [first]), *ids]
    if len(text) < 2:
        return []
    if n_ctx is None:
        return [(text[:1], text[1:])]
    pairs = []
    for start in range(0, len(text) - 1, n_ctx):
        end = min(start + 1 + n_ctx, len(text))
        pairs.append((text[max(0, end - n_ctx - 1) : start + 1], text[start + 1 : end]))
    return pairs


@runtime_checkable
class _Loaded(Protocol):
    """A checkpoint, whose class uses this module."""

    @property
    def model(self) -> LanguageModel | InferenceTransformer: ...
    @property
    def texts(self) -> Texts: ...


class TextModel:
    """A checkpoint that answers what evaluations ask, in texts.

    A text becomes ids with the token before it, if the checkpoint has one. An empty context is the token that begins a
    text, whether or not it is added before others, or without one that which ends a text.

    Args:
        checkpoint: a decoder with its tokenizer.
        batch_size: number of texts in a forward pass.
        allowed_special: the special tokens that texts may contain, or "all". A text that begins with the token before a
            text gets no second one.

    Raises:
        ValueError: if the checkpoint has no tokenizer, or is no decoder.

    Source: Gao et al., "A framework for few-shot language model evaluation", section 3.1, the three types of requests;
    GT-09, GT-10.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.checkpoints import Checkpoint
    >>> from llm_anatomy.models.checkpoints.texts import Texts
    >>> from llm_anatomy.models.transformer import Transformer
    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=256, position="alibi"))
    >>> text_model = TextModel(Checkpoint(model=model, texts=Texts(tokenizer=ByteTokenizer())))
    >>> [found.n_tokens for found in text_model.log_likelihoods([("Is it", " so?"), ("Is it", " not?")])]
    [4, 5]
    """

    def __init__(
        self,
        checkpoint: _Loaded,
        batch_size: int = 32,
        allowed_special: Collection[str] | Literal["all"] = (),
    ):
        config, self.texts = checkpoint.model.config, checkpoint.texts
        if getattr(config, "kind", "decoder") != "decoder" or not getattr(config, "unembedding", True):
            raise ValueError("only a decoder that predicts the next token can be evaluated")
        if self.texts.tokenizer is None:
            raise ValueError(f"there is no tokenizer, without which a text cannot be read: {self.texts.note}")
        if batch_size < 1:
            raise ValueError(f"{batch_size=} must be at least 1")
        self.tokenizer, self.allowed_special = self.texts.tokenizer, allowed_special
        self.model, self.batch_size = checkpoint.model.eval(), batch_size
        self.n_ctx: int | None = getattr(config, "n_ctx", None)

    @property
    def first_id(self) -> int | None:
        """The id after which a text without a context begins; None if there is none."""
        named = () if self.texts.bos is None else (self.texts.bos,)
        return next(iter([*named, *self.texts.before[-1:], *self.texts.stop]), None)

    def encode(self, text: str) -> list[int]:
        """Encode a text with the ids before it, unless it begins with them.

        Raises:
            ValueError: for a special token in the text that is not allowed.
        """
        ids, before = self._ids(text), list(self.texts.before)
        return ids if ids[: len(before)] == before else before + ids

    def _ids(self, text: str) -> list[int]:
        try:
            return self.tokenizer.encode(text, allowed_special=self.allowed_special)
        except ValueError as error:
            raise ValueError(f"the text {text!r:.80} cannot be encoded: {error}") from None

    def encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Encode a text, and divide its ids where the continuation begins. Spaces at the end of the context belong to
        the continuation, since most tokenizers join a space to the word after it.

        Args:
            context, continuation: the two parts of the text.

        Raises:
            ValueError: if the continuation is empty; if the context is empty and there is no id to begin with.
        """
        if not continuation:
            raise ValueError("the continuation is empty; it must have at least one character")
        stripped = context.rstrip()
        continuation = context[len(stripped) :] + continuation
        if not stripped:
            ids = self._ids(continuation)
            before = [] if self.first_id is None else [self.first_id]
            if self.first_id is None or ids[0] == self.first_id:
                before, ids = ids[:1], ids[1:]
            if not ids:
                raise ValueError(f"nothing stands before {continuation!r:.60}; the context must not be empty")
            return before, ids
        known, whole = self.encode(stripped), self.encode(stripped + continuation)
        if len(whole) > len(known):
            return whole[: len(known)], whole[len(known) :]
        return known, self._ids(continuation)  # the continuation was merged into the last token

    def stream_log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, Likelihood]]:
        """Compute how likely each continuation is after its context, in the order of :func:`likelihoods`."""
        return self._likelihoods([self.encode_pair(*pair) for pair in pairs])

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood]:
        """Compute how likely each continuation is after its context, in the order of the pairs."""
        return [found for _, found in sorted(self.stream_log_likelihoods(pairs))]

    def _likelihoods(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Likelihood]]:
        return likelihoods(self.model, pairs, n_ctx=self.n_ctx, batch_size=self.batch_size)

    def stream_whole_texts(self, texts: Sequence[str]) -> Iterator[tuple[int, Likelihood, int]]:
        """Compute how likely texts of any length are, in windows as in :func:`rolling_pairs`.

        Args:
            texts: each of at least one character.

        Returns:
            An iterator over the index of a text, its likelihood, and the number of bytes that it counts: those of the
            whole text, or without its first token if there is no id to begin with.

        Raises:
            ValueError: at once, for a text without a token that could be predicted.
        """
        pairs, owners, n_bytes = [], [], []
        for index, text in enumerate(texts):
            ids = self._ids(text)
            windows = rolling_pairs(ids, self.first_id, self.n_ctx)
            if not windows:
                raise ValueError(f"text={text!r:.60} has no token that could be predicted")
            unpredicted = ids[:1] if self.first_id is None else []
            n_bytes.append(len(text.encode()) - len(self.tokenizer.decode(unpredicted).encode()))
            pairs += windows
            owners += [index] * len(windows)
        left, sums = Counter(owners), {}
        for number, found in self._likelihoods(pairs):
            owner = owners[number]
            so_far = sums.pop(owner, Likelihood(0.0, 0, is_greedy=True))
            found = Likelihood(
                found.log_prob + so_far.log_prob, found.n_tokens + so_far.n_tokens, found.is_greedy and so_far.is_greedy
            )
            left[owner] -= 1
            if left[owner]:
                sums[owner] = found
            else:
                yield owner, found, n_bytes[owner]

    def stream_continuations(
        self, prompts: Sequence[str], *, max_new_tokens: int = 64, stop: Sequence[str] = (), **settings: Any
    ) -> Iterator[tuple[int, str]]:
        """Continue each prompt up to a stop string, which is cut off, or a token that ends a text; greedily, unless
        the settings say otherwise.

        Args:
            prompts: any texts. One that is too long for the context loses its beginning.
            max_new_tokens: the most new tokens of each.
            stop: strings that end a continuation.
            settings: ``alone``, as for :func:`~llm_anatomy.models.checkpoints.writing.in_batches`, and those of
                :func:`~llm_anatomy.models.generation.stream`, such as ``sampler``.

        Returns:
            An iterator over the index of a prompt and its continuation, the longest prompts first.

        Raises:
            ValueError: at once, if the prompt has no tokens, or the context has no space for so many new tokens.
        """
        if not isinstance(self.model, GenerativeModel):
            raise ValueError(f"a {type(self.model).__name__} cannot generate texts")
        n_known = None if self.n_ctx is None else self.n_ctx - max_new_tokens
        if n_known is not None and n_known < 1:
            raise ValueError(f"{max_new_tokens=} must be below {self.n_ctx}, the length of the context")
        encoded = []
        for prompt in prompts:
            ids = self.encode(prompt) or ([] if self.first_id is None else [self.first_id])
            if not ids:
                raise ValueError(f"{prompt=} has no tokens; it must have one")
            encoded.append(ids if n_known is None else ids[-n_known:])
        order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i]))
        found = in_batches(
            self.model,
            self.tokenizer,
            [encoded[i] for i in order],
            batch_size=self.batch_size,
            skipped=set(self.tokenizer.special_tokens.values()),
            stop_strings=stop,
            max_new_tokens=max_new_tokens,
            stop_token_ids=self.texts.stop,
            **settings,
        )
        return ((order[number], written.text) for number, written in found)
