"""From one long row of token ids to the windows that a model is trained and tested on."""

from collections.abc import Iterator, Sequence

import torch

from llm_anatomy.shapes import Int, Tensor


def random_windows(
    ids: Int[Tensor, "corpus"], n_tokens: int, batch: int, generator: torch.Generator
) -> Iterator[Int[Tensor, "batch window"]]:
    """Batches of windows from anywhere in the corpus, without end.

    A window has one token more than the model reads, ``window = n_tokens + 1``: each but the first is a target.

    Args:
        ids: the corpus, at least ``n_tokens + 1`` long.
        n_tokens: how many tokens the model reads, from 1.
        batch: windows in a batch, from 1.
        generator: of the positions; the same seed gives the same batches.

    Raises:
        ValueError: for sizes below one, or a corpus shorter than a window.

    Source: Radford et al. (2019), section 2; UCL-02.

    >>> windows = random_windows(torch.arange(100), 5, 2, torch.Generator().manual_seed(0))
    >>> next(windows).shape
    torch.Size([2, 6])
    """
    _check_shapes(ids, n_tokens)
    if batch < 1:
        raise ValueError(f"{batch=} must be at least 1")
    return _draw(ids.unfold(0, n_tokens + 1, 1), batch, generator)


def _draw(windows: Tensor, batch: int, generator: torch.Generator) -> Iterator[Tensor]:
    while True:
        yield windows[torch.randint(len(windows), (batch,), generator=generator)]


def windows_that_end_at(
    ids: Int[Tensor, "corpus"], ends: Sequence[int], n_tokens: int
) -> Int[Tensor, "windows window"]:
    """One window before each of these positions: the same last words, with as much text before them as is asked for.

    Args:
        ids: the corpus.
        ends: the position of each window's last target, from ``n_tokens`` on.
        n_tokens: how many tokens the model reads, from 1.

    Raises:
        ValueError: for a length below one, or an end that is too early or beyond the corpus.

    Source: Press et al. (2022), section 2, who compare lengths on the same words; IITD-17.

    >>> windows_that_end_at(torch.arange(100), [9, 20], n_tokens=3).tolist()
    [[6, 7, 8, 9], [17, 18, 19, 20]]
    """
    _check_shapes(ids, n_tokens)
    for end in ends:
        if not n_tokens <= end < len(ids):
            raise ValueError(f"ends hold {end}; each must be from n_tokens={n_tokens} to {len(ids) - 1}, the last id")
    return torch.stack([ids[end - n_tokens : end + 1] for end in ends])


def _check_shapes(ids: Tensor, n_tokens: int) -> None:
    if n_tokens < 1:
        raise ValueError(f"{n_tokens=} must be at least 1")
    if len(ids) <= n_tokens:
        raise ValueError(f"ids hold {len(ids)} tokens; a window of {n_tokens=} and its last target need more")
