"""Windows of a corpus: the sequences of token ids that a model is trained and tested on."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from llm_anatomy.shapes import Int, Tensor


def random_windows(
    ids: Tensor | np.ndarray,
    n_tokens: int,
    batch_size: int,
    generator: torch.Generator,
    device: torch.device | str | None = None,
) -> Iterator[Int[Tensor, "batch window"]]:
    """Draw batches of windows at random positions of the corpus, without end.

    A window is one token longer than the model's input, ``window = n_tokens + 1``: all but the first are targets.

    Args:
        ids: token ids of the corpus (corpus,), at least ``n_tokens + 1`` of them: a tensor or a NumPy array of any
            integer dtype. Of a ``numpy.memmap``, only the windows that are drawn are read from the file.
        n_tokens: number of tokens in the model's input, at least 1.
        batch_size: number of windows in a batch, at least 1.
        generator: source of randomness; the same seed gives the same batches, whatever holds the ids.
        device: the device of the batches; by default that of a tensor, and the CPU for an array.

    Returns:
        Batches (batch, window) of dtype int64.

    Raises:
        ValueError: if a size is below 1, the ids are not integers or have more than one axis, or the corpus is shorter
            than a window.

    Source: Radford et al. (2019), section 2; UCL-02.

    >>> windows = random_windows(torch.arange(100), 5, 2, torch.Generator().manual_seed(0))
    >>> next(windows).shape
    torch.Size([2, 6])
    >>> corpus = np.arange(100, dtype=np.uint16)  # or np.memmap("corpus.bin", np.uint16, mode="r")
    >>> next(random_windows(corpus, 3, 2, torch.Generator().manual_seed(0)))
    tensor([[57, 58, 59, 60],
            [82, 83, 84, 85]])
    """
    _check_integers(ids)
    _check_window_size(ids, n_tokens)
    if batch_size < 1:
        raise ValueError(f"{batch_size=} must be at least 1")
    if isinstance(ids, Tensor):
        return _draw(ids.unfold(0, n_tokens + 1, 1), batch_size, generator, device)
    return _draw(np.lib.stride_tricks.sliding_window_view(ids, n_tokens + 1), batch_size, generator, device)


def _draw(
    windows: Tensor | np.ndarray, batch_size: int, generator: torch.Generator, device: torch.device | str | None
) -> Iterator[Tensor]:
    while True:
        starts = torch.randint(len(windows), (batch_size,), generator=generator, device=generator.device)
        if isinstance(windows, Tensor):
            yield windows[starts.to(windows.device)].to(device or windows.device, torch.int64)
        else:
            yield torch.from_numpy(windows[starts.numpy(force=True)].astype(np.int64)).to(device)


def _check_integers(ids: Tensor | np.ndarray) -> None:
    if not isinstance(ids, Tensor | np.ndarray):
        raise ValueError(f"ids must be a tensor or a NumPy array, not {type(ids).__name__}")
    if ids.ndim != 1:
        raise ValueError(f"ids has the shape {tuple(ids.shape)}; it must have one axis")
    try:
        _ = torch.iinfo(ids.dtype) if isinstance(ids, Tensor) else np.iinfo(ids.dtype)
    except (TypeError, ValueError):
        raise ValueError(f"ids has the dtype {ids.dtype}; token ids are integers") from None


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


def _check_window_size(ids: Tensor | np.ndarray, n_tokens: int) -> None:
    if n_tokens < 1:
        raise ValueError(f"{n_tokens=} must be at least 1")
    if len(ids) <= n_tokens:
        raise ValueError(f"ids has {len(ids)} tokens; with {n_tokens=} there must be at least {n_tokens + 1}")
