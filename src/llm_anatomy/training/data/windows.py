"""Windows of a corpus: the sequences of token ids that a model is trained and tested on."""

from collections.abc import Iterator, Sequence

import torch

from llm_anatomy.shapes import Int, Tensor


def random_windows(
    ids: Int[Tensor, "corpus"], n_tokens: int, batch_size: int, generator: torch.Generator
) -> Iterator[Int[Tensor, "batch window"]]:
    """Draw batches of windows at random positions of the corpus, without end.

    A window is one token longer than the model's input, ``window = n_tokens + 1``: all but the first are targets.

    Args:
        ids: token ids of the corpus, at least ``n_tokens + 1`` of them.
        n_tokens: number of tokens in the model's input, at least 1.
        batch_size: number of windows in a batch, at least 1.
        generator: source of randomness; the same seed gives the same batches.

    Raises:
        ValueError: if a size is below 1, or the corpus is shorter than a window.

    Source: Radford et al. (2019), section 2; UCL-02.

    >>> windows = random_windows(torch.arange(100), 5, 2, torch.Generator().manual_seed(0))
    >>> next(windows).shape
    torch.Size([2, 6])
    """
    _check_window_size(ids, n_tokens)
    if batch_size < 1:
        raise ValueError(f"{batch_size=} must be at least 1")
    return _draw(ids.unfold(0, n_tokens + 1, 1), batch_size, generator)


def _draw(windows: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    while True:
        yield windows[torch.randint(len(windows), (batch_size,), generator=generator)]


def windows_ending_at(ids: Int[Tensor, "corpus"], ends: Sequence[int], n_tokens: int) -> Int[Tensor, "windows window"]:
    """Cut the windows that end at given positions, so that windows of different lengths share their last tokens.

    Args:
        ids: token ids of the corpus.
        ends: position of the last target of each window, at least ``n_tokens``.
        n_tokens: number of tokens in the model's input, at least 1.

    Raises:
        ValueError: if ``n_tokens`` is below 1, or an end is too early or not in the corpus.

    Source: Press et al. (2022), section 2, who compare lengths on the same tokens; IITD-17.

    >>> windows_ending_at(torch.arange(100), [9, 20], n_tokens=3).tolist()
    [[6, 7, 8, 9], [17, 18, 19, 20]]
    """
    _check_window_size(ids, n_tokens)
    for end in ends:
        if not n_tokens <= end < len(ids):
            raise ValueError(
                f"ends contain {end}; each must be from n_tokens={n_tokens} to {len(ids) - 1}, the last position"
            )
    return torch.stack([ids[end - n_tokens : end + 1] for end in ends])


def _check_window_size(ids: Tensor, n_tokens: int) -> None:
    if n_tokens < 1:
        raise ValueError(f"{n_tokens=} must be at least 1")
    if len(ids) <= n_tokens:
        raise ValueError(f"ids has {len(ids)} tokens; with {n_tokens=} there must be at least {n_tokens + 1}")
