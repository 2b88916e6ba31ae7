r"""Sampling: from the logits of the next token to a token.

Logits processors change the logits; a sampler, ``greedy`` or ``Sampler``, chooses a token from them.

Shapes: ``batch``, ``n_vocab``. ``seen`` is True for each token of the vocabulary that occurs in the prompt of
the row or among its new tokens.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from llm_anatomy.shapes import Bool, Float, Int, Tensor

LogitsProcessor = Callable[[Tensor, Tensor], Tensor]
"""A function of ``(logits, seen)`` that returns new logits of the same shape."""

# --- Logits processors, in the usual order: RepetitionPenalty, Temperature, TopK, TopP, MinP ---


@dataclass(frozen=True)
class RepetitionPenalty:
    r"""Make tokens that were seen before less likely, regardless of how often they were seen.

    .. math:: z_i' = \begin{cases} z_i / \theta & z_i > 0 \\ z_i\, \theta & z_i \leq 0 \end{cases}
        \quad \text{for } i \text{ in the text}

    The paper divides in both cases. Since that would make tokens with negative logits more likely, implementations
    multiply there.

    Args:
        penalty: θ, above 0; 1 changes nothing, and the paper uses 1.2.

    Raises:
        ValueError: for a penalty out of range.

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
        """Return the new logits.

        Args:
            logits: a score for each token of the vocabulary.
            seen: which tokens the text of each row contains.
        """
        less_likely = torch.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return torch.where(seen, less_likely, logits)


@dataclass(frozen=True)
class Temperature:
    r"""Sharpen the distribution (below 1) or flatten it (above 1).

    .. math:: z_i' = z_i / T, \qquad T \to 0: \; z_i' = \begin{cases} 0 & z_i = \max_j z_j \\ -\infty \end{cases}

    Args:
        temperature: T, at least 0; at 0 only the most likely token remains.

    Raises:
        ValueError: for a temperature out of range.

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
        """Return the new logits.

        Args:
            logits: a score for each token of the vocabulary.
            seen: is not used.
        """
        if self.temperature == 0:
            return torch.zeros_like(logits).masked_fill(logits < logits.amax(-1, keepdim=True), -math.inf)
        return logits / self.temperature


@dataclass(frozen=True)
class TopK:
    r"""Keep the k most likely tokens, and those that tie with the last of them.

    .. math:: V^{(k)} = \{ i : z_i \geq z_{(k)} \}, \quad z_{(k)} \text{ the } k\text{-th largest}

    Args:
        k: at least 1; with ``n_vocab`` or more, all tokens are kept.

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
        """Return the new logits, -inf for tokens that are removed.

        Args:
            logits: a score for each token of the vocabulary.
            seen: is not used.
        """
        last = logits.topk(min(self.k, logits.shape[-1]))[0][:, -1:]  # (batch, 1)
        return logits.masked_fill(logits < last, -math.inf)


def _check_share(p: float) -> None:
    if not 0 < p <= 1:
        raise ValueError(f"{p=} must be above 0 and at most 1")


@dataclass(frozen=True)
class TopP:
    r"""Nucleus sampling: keep the smallest set of most likely tokens that together have probability p.

    .. math:: V^{(p)} = \text{the smallest } V \text{ with } \sum_{i \in V} P(i) \geq p

    Args:
        p: above 0 and at most 1, which keeps all tokens.

    Raises:
        ValueError: for p out of range.

    Source: Holtzman et al. (2020), section 3.1.

    >>> TopP(0.6)(torch.tensor([[0.5, 0.2, 0.3]]).log()).softmax(-1).tolist()
    [[0.625, 0.0, 0.375]]
    """

    p: float

    def __post_init__(self):
        _check_share(self.p)

    def __call__(
        self, logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"] | None = None
    ) -> Float[Tensor, "batch n_vocab"]:
        """Return the new logits, -inf for tokens that are removed.

        Args:
            logits: a score for each token of the vocabulary.
            seen: is not used.
        """
        if self.p == 1:  # a sum may pass 1 by rounding
            return logits
        sorted_logits, order = logits.float().sort(descending=True, stable=True)
        probabilities = sorted_logits.softmax(-1)
        removed = probabilities.cumsum(-1) - probabilities >= self.p  # the more likely tokens already reach p
        return logits.masked_fill(removed.scatter(-1, order, removed), -math.inf)


@dataclass(frozen=True)
class MinP:
    r"""Keep the tokens that have at least the fraction p of the probability of the most likely token.

    .. math:: V = \{ i : P(i) \geq p\, \max_j P(j) \}

    Many tokens remain where the model is uncertain, and few where it is certain.

    Args:
        p: above 0 and at most 1, which keeps the most likely token only.

    Raises:
        ValueError: for p out of range.

    Source: Nguyen et al. (2024), "Turning up the heat", section 3.

    >>> MinP(0.5)(torch.tensor([[0.5, 0.2, 0.3]]).log()).softmax(-1).tolist()
    [[0.625, 0.0, 0.375]]
    """

    p: float

    def __post_init__(self):
        _check_share(self.p)

    def __call__(
        self, logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"] | None = None
    ) -> Float[Tensor, "batch n_vocab"]:
        """Return the new logits, -inf for tokens that are removed.

        Args:
            logits: a score for each token of the vocabulary.
            seen: is not used.
        """
        return logits.masked_fill(logits < logits.amax(-1, keepdim=True) + math.log(self.p), -math.inf)


# --- Samplers ---


def greedy(
    logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"] | None = None
) -> Int[Tensor, "batch"]:
    r"""Choose the most likely token, the first one if several are equally likely.

    .. math:: w = \arg\max_i z_i

    Of the logits processors above, only the repetition penalty can change this choice; greedy decoding with a penalty
    is ``Sampler(RepetitionPenalty(1.2), Temperature(0.0))``.

    Args:
        logits: of the next token.
        seen: not used.

    Source: Holtzman et al. (2020), section 2.

    >>> greedy(torch.tensor([[1.0, 3.0, 2.0]])).tolist()
    [1]
    """
    return logits.argmax(-1)


class Sampler:
    r"""Draw a token from the distribution that the logits processors leave.

    .. math:: w \sim \mathrm{softmax}(z')

    Args:
        logits_processors: applied in this order, each to the output of the one before. The usual order is
            ``RepetitionPenalty``, ``Temperature``, ``TopK``, ``TopP``, ``MinP``.
        generator: source of randomness, on the device of the model; PyTorch's default generator if it is None. A seed
            reproduces the texts of the same batch; in another batch, a row gets other random numbers.

    Source: Holtzman et al. (2020), sections 3 and 5.

    >>> sampler = Sampler(Temperature(0.7), TopK(2), generator=torch.Generator().manual_seed(0))
    >>> logits = torch.tensor([[1.0, 3.0, 2.0]]).expand(9, 3)
    >>> sampler(logits, torch.zeros(9, 3, dtype=torch.bool)).tolist().count(0)
    0
    """

    def __init__(self, *logits_processors: LogitsProcessor, generator: torch.Generator | None = None):
        self.logits_processors, self.generator = logits_processors, generator

    def __call__(
        self, logits: Float[Tensor, "batch n_vocab"], seen: Bool[Tensor, "batch n_vocab"]
    ) -> Int[Tensor, "batch"]:
        """Sample the id of one token for each row.

        Args:
            logits: a score for each token of the vocabulary.
            seen: which tokens the text of each row contains, for the processors.
        """
        logits = logits.float()
        for process in self.logits_processors:
            logits = process(logits, seen)
        return torch.multinomial(logits.softmax(-1), 1, generator=self.generator)[:, 0]


def make_sampler(
    temperature: float | int = 1.0,
    *,
    top_k: int | None = None,
    top_p: float | int | None = None,
    seed: int | None = None,
    device: torch.device | str = "cpu",
) -> Callable[[Tensor, Tensor], Tensor]:
    """Make the sampler that these four numbers describe.

    Args:
        temperature: 0 is greedy decoding.
        top_k, top_p: of :class:`TopK` and :class:`TopP`; by default, no token is removed.
        seed: reproduces what is drawn, from 0 to below 2**63; by default, each sampler draws something else.
        device: of the model.

    Raises:
        ValueError: for a number that is out of range.

    Source: Holtzman et al. (2020), section 3.

    >>> make_sampler(0.0) is greedy
    True
    >>> [type(process).__name__ for process in make_sampler(0.7, top_k=5).logits_processors]
    ['Temperature', 'TopK']
    """
    if seed is not None and not 0 <= seed < 2**63:
        raise ValueError(f"{seed=} must be from 0 to below 2**63")
    processors: list[LogitsProcessor] = [Temperature(float(temperature))]
    processors += [TopK(top_k)] if top_k is not None else []
    processors += [TopP(float(top_p))] if top_p is not None else []
    if temperature == 0:
        return greedy
    generator = torch.Generator(device)
    return Sampler(*processors, generator=generator.manual_seed(generator.seed() if seed is None else seed))
