"""What writes the texts of the pipeline: one protocol, whichever model is behind it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

FinishReason = Literal["stop", "length"]


class Completion(NamedTuple):
    """What a model wrote after one prompt.

    Source: the objects ``choices`` and ``usage`` of OpenAI's completions API; GT-46.

    >>> Completion("1. Name a colour.", n_prompt_tokens=12, n_tokens=6, finish_reason="stop").text
    '1. Name a colour.'
    """

    text: str
    """The continuation alone, without the prompt and without the stop sequence."""

    n_prompt_tokens: int
    """The number of tokens that the model read."""

    n_tokens: int
    """The number of tokens that it wrote."""

    finish_reason: FinishReason
    """``"stop"``: it ended by itself or before a stop sequence. ``"length"``: it was cut off after ``max_tokens``."""


@runtime_checkable
class TextGenerator(Protocol):
    """Anything that continues texts: a server, a checkpoint on this computer, or rules that stand in for a model.

    Source: the parameters of OpenAI's completions API; Wang et al. (2022), section 3.1; GT-46.

    >>> class Echo:
    ...     def complete(self, prompts, *, max_tokens, stop=(), temperature=1.0, top_p=1.0, seed=None):
    ...         return [Completion(prompt[-max_tokens:], len(prompt), max_tokens, "length") for prompt in prompts]
    >>> isinstance(Echo(), TextGenerator)
    True
    """

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
        """Continue each prompt, and return the completions in the order of the prompts.

        Args:
            prompts: the texts to continue.
            max_tokens: the most tokens of a completion.
            stop: a completion ends before the first of these that it would contain.
            temperature: 0 takes the most probable token each time.
            top_p: the probability of the smallest set of tokens from which each is drawn (nucleus sampling).
            seed: with the same seed and the same prompts, the same completions, where the generator can promise it.
        """
        ...
