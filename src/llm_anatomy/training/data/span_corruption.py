r"""Span corruption, T5's objective: spans of the text are replaced by sentinels, and the target is what stood there.

    text    Mia had a red kite , and she liked it very much .
    source  Mia had <0> , and she <1> very much . </s>
    target  <0> a red kite <1> liked it </s>

The stories are written in whole words, so that short texts say much. The ids are sorted by frequency, as an adaptive
softmax needs them: padding, the end and the sentinels come first, and then the words, the most frequent one first.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch

from llm_anatomy.shapes import Bool, Int, Tensor
from llm_anatomy.training.data.stories import stories

PAD, END, FIRST_SENTINEL = 0, 1, 2
"""Ids of padding, with which the decoder also begins, of the end, and of the first sentinel."""
NOISE_DENSITY, MEAN_SPAN = 0.15, 3.0


class Words(NamedTuple):
    """A text as ids of words.

    Args:
        vocabulary: the text of each id.
        ids: the text.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`; GT-19.

    >>> Words(["<pad>", "</s>", "tea"], torch.tensor([2, 2])).n_vocab
    3
    """

    vocabulary: list[str]
    ids: Int[Tensor, "corpus"]

    @property
    def n_vocab(self) -> int:
        return len(self.vocabulary)


@cache
def story_words(n_sentinels: int, seed: int = 0, n_stories: int = 3000, *, vocabulary_seed: int = 0) -> Words:
    """Encode stories word by word, without line breaks.

    Args:
        n_sentinels: number of ids that stand for spans.
        seed: seed of the stories.
        n_stories: number of stories.
        vocabulary_seed: seed of the 3,000 stories whose words are the vocabulary.

    Raises:
        KeyError: if a word is not in the vocabulary.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`; Raffel et al. (2020), section 3.1.4; GT-19.

    >>> words = story_words(5, n_stories=2)
    >>> words.vocabulary[:9]
    ['<pad>', '</s>', '<0>', '<1>', '<2>', '<3>', '<4>', '.', ',']
    """
    vocabulary = ["<pad>", "</s>", *(f"<{i}>" for i in range(n_sentinels)), *_by_frequency(vocabulary_seed)]
    id_of = {word: i for i, word in enumerate(vocabulary)}
    ids = [id_of[word] for text in stories(seed, n_stories) for word in _split(text)]
    return Words(vocabulary, torch.tensor(ids))


def _split(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


@cache
def _by_frequency(seed: int) -> list[str]:
    counts = Counter(word for text in stories(seed, 3000) for word in _split(text))
    return sorted(counts, key=lambda word: (-counts[word], word))


def n_noise_and_spans(
    n_tokens: int, noise_density: float = NOISE_DENSITY, mean_span: float = MEAN_SPAN
) -> tuple[int, int]:
    """Count the tokens and spans that are taken out of a window; all windows of a length have the same numbers.

    Args:
        n_tokens: length of the window, at least 2.
        noise_density: share of the tokens that is taken out, between 0 and 1.
        mean_span: mean length of a span, at least 1.

    Raises:
        ValueError: if an argument is not what it must be.

    Source: Raffel et al. (2020), section 3.3.4, and the authors' code; GT-19.

    >>> n_noise_and_spans(100)
    (15, 5)
    """
    if n_tokens < 2:
        raise ValueError(f"{n_tokens=} must be at least 2")
    if not 0 < noise_density < 1:
        raise ValueError(f"{noise_density=} must be between 0 and 1")
    if mean_span < 1:
        raise ValueError(f"{mean_span=} must be at least 1")
    n_noise = min(max(round(n_tokens * noise_density), 1), n_tokens - 1)
    n_spans = min(max(round(n_noise / mean_span), 1), n_tokens - n_noise)
    return n_noise, n_spans


def noise_mask(
    batch: int,
    n_tokens: int,
    generator: torch.Generator,
    noise_density: float = NOISE_DENSITY,
    mean_span: float = MEAN_SPAN,
) -> Bool[Tensor, "batch tokens"]:
    """Draw which tokens are taken out: spans of random lengths, of which none begins the window or touches another.

    Args:
        batch: number of windows.
        n_tokens, noise_density, mean_span: as in :func:`n_noise_and_spans`.
        generator: source of randomness.

    Returns:
        True for a token that is taken out.

    Source: Raffel et al. (2020), section 3.3.4, and the authors' code; GT-19.

    >>> noise_mask(1, 20, torch.Generator().manual_seed(0)).int().tolist()
    [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]]
    """
    n_noise, n_spans = n_noise_and_spans(n_tokens, noise_density, mean_span)
    lengths = torch.stack([_parts(batch, n, n_spans, generator) for n in (n_tokens - n_noise, n_noise)], dim=-1)
    starts = lengths.flatten(1).cumsum(1)[:, :-1]  # of the second stretch, the third, ...
    steps = torch.zeros(batch, n_tokens, dtype=torch.int64).scatter(1, starts, 1)
    return steps.cumsum(1) % 2 == 1


def _parts(batch: int, n: int, n_parts: int, generator: torch.Generator) -> Int[Tensor, "batch parts"]:
    """Divide n tokens into parts of at least one, each division as likely as any other."""
    order = torch.rand(batch, n - 1, generator=generator).argsort(1)[:, : n_parts - 1]
    ends = torch.cat([order.sort(1).values + 1, torch.full((batch, 1), n)], dim=1)
    return ends.diff(dim=1, prepend=torch.zeros(batch, 1, dtype=torch.int64))


class Corrupted(NamedTuple):
    """A batch of span corruption.

    Args:
        source: what the encoder reads.
        ids: what the decoder reads: the targets, one position later.
        targets: what the decoder predicts.

    Source: Raffel et al. (2020), figure 2; GT-19.

    >>> Corrupted(*torch.zeros(3, 2, 4, dtype=torch.int64)).targets.shape
    torch.Size([2, 4])
    """

    source: Int[Tensor, "batch source"]
    ids: Int[Tensor, "batch tokens"]
    targets: Int[Tensor, "batch tokens"]


def corrupt_spans(windows: Int[Tensor, "batch window"], mask: Bool[Tensor, "batch window"]) -> Corrupted:
    """Replace each span by a sentinel, the first by the first sentinel and so on, and make the target of the spans.

    Args:
        windows: ids of the text.
        mask: True for tokens that are taken out; each row has equally many tokens and spans of them.

    Raises:
        ValueError: if the rows do not have equally many.

    Source: Raffel et al. (2020), section 3.1.4 and figure 2; GT-19.

    >>> windows, mask = torch.tensor([[60, 61, 62, 63, 64, 65]]), torch.tensor([[0, 1, 1, 0, 1, 0]]) == 1
    >>> corrupted = corrupt_spans(windows, mask)
    >>> corrupted.source.tolist(), corrupted.targets.tolist()
    ([[60, 2, 63, 3, 65, 1]], [[2, 61, 62, 3, 64, 1]])
    """
    begins = mask & ~mask.roll(1, 1)
    begins[:, 0] = mask[:, 0]
    if len({*zip(mask.sum(1).tolist(), begins.sum(1).tolist(), strict=True)}) != 1:
        raise ValueError("the rows of mask have different numbers of tokens or spans; they must have the same")
    sentinels = FIRST_SENTINEL - 1 + begins.cumsum(1)
    end = windows.new_full((len(windows), 1), END)

    def joined(kept: Tensor) -> Tensor:
        """A sentinel where a span begins, and the tokens that are kept."""
        both, there = torch.stack([sentinels, windows], -1).flatten(1), torch.stack([begins, kept], -1).flatten(1)
        return torch.cat([both[there].view(len(windows), -1), end], dim=1)

    source, targets = joined(~mask), joined(mask)
    return Corrupted(source, torch.cat([torch.full_like(end, PAD), targets[:, :-1]], dim=1), targets)


def corrupted_batches(
    ids: Int[Tensor, "corpus"], n_tokens: int, batch_size: int, generator: torch.Generator
) -> Iterator[Corrupted]:
    """Draw batches of windows of the corpus at random positions, each with random spans, without end.

    Args:
        ids: the corpus.
        n_tokens: length of a window before its spans are taken out.
        batch_size: number of windows in a batch.
        generator: source of randomness; the same seed gives the same batches.

    Source: Raffel et al. (2020), section 3.1.4; GT-19.

    >>> batch = next(corrupted_batches(torch.arange(50, 900), 100, 4, torch.Generator().manual_seed(0)))
    >>> batch.source.shape, batch.targets.shape
    (torch.Size([4, 91]), torch.Size([4, 21]))
    """
    windows = ids.unfold(0, n_tokens, 1)
    while True:
        drawn = windows[torch.randint(len(windows), (batch_size,), generator=generator)]
        yield corrupt_spans(drawn, noise_mask(batch_size, n_tokens, generator))
