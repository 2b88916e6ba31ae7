"""What generated data cost: tokens that a model read and wrote, and money at a price for each."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from llm_anatomy.data_generation.generators import Completion


@dataclass(frozen=True)
class Usage:
    """Requests, and the tokens that a model read and wrote for them.

    Args:
        n_requests: number of prompts.
        n_prompt_tokens: that it read.
        n_tokens: that it wrote.

    Source: the object ``usage`` of OpenAI's completions API; GT-46.

    >>> Usage(1, 200, 30) + Usage(2, 100, 5)
    Usage(n_requests=3, n_prompt_tokens=300, n_tokens=35)
    """

    n_requests: int = 0
    n_prompt_tokens: int = 0
    n_tokens: int = 0

    @classmethod
    def of(cls, completions: Iterable[Completion]) -> "Usage":
        """Count what completions used."""
        completions = list(completions)
        n_prompt_tokens = sum(completion.n_prompt_tokens for completion in completions)
        return cls(len(completions), n_prompt_tokens, sum(completion.n_tokens for completion in completions))

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.n_requests + other.n_requests,
            self.n_prompt_tokens + other.n_prompt_tokens,
            self.n_tokens + other.n_tokens,
        )

    def to_json(self) -> dict[str, int]:
        """Return the three numbers by name."""
        return asdict(self)


@dataclass(frozen=True)
class Price:
    r"""Dollars for a million tokens, as providers state them.

    .. math:: \mathrm{cost} = \frac{p_\mathrm{read}\, n_\mathrm{read} + p_\mathrm{written}\, n_\mathrm{written}}{10^6}

    Args:
        read: for tokens of prompts.
        written: for generated tokens.

    Raises:
        ValueError: for a negative price.

    Source: OpenAI's prices of March 2023 (0.02 dollars for 1,000 tokens of ``text-davinci-003``); GT-45.

    >>> davinci = Price(read=20, written=20)
    >>> davinci.cost(Usage(1, 1500, 500))
    0.04
    """

    read: float
    written: float

    def __post_init__(self):
        for name, price in asdict(self).items():
            if not 0 <= price < float("inf"):
                raise ValueError(f"{name}={price} must be at least 0 and finite")

    def cost(self, usage: Usage) -> float:
        """Return the dollars that so many tokens cost."""
        return (self.read * usage.n_prompt_tokens + self.written * usage.n_tokens) / 1_000_000

    def n_tokens_for(self, dollars: float) -> float:
        """Return how many tokens, half of them read and half of them written, so many dollars buy."""
        return 2_000_000 * dollars / (self.read + self.written)
