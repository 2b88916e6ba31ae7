"""Batches of a training run: the order of the sequences, and the sequences of each step for each process.

A run is at a position that is one integer, the number of sequences that it has trained on. It says which sequences come
next, for any batch size and any number of processes, so that a run may be interrupted anywhere and continued elsewhere.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from llm_anatomy.shapes import Bool, Int, Tensor
from llm_anatomy.training.data.shards import TokenShards

N_ROUNDS = 6


class Batch(NamedTuple):
    """The sequences of one step.

    Source: GPT's packed sequences, Brown et al. (2020), section 2.2; GT-03.

    >>> Batch(torch.tensor([[5, 6, 7]])).targets is None
    True
    """

    ids: Int[Tensor, "rows n_tokens_and_1"]
    """Token ids, int64: all but the last are the input, and all but the first the targets."""

    targets: Bool[Tensor, "rows n_tokens"] | None = None
    """Whether the prediction of each of ``ids[:, 1:]`` counts; None if all of them count."""

    documents: Int[Tensor, "rows n_tokens"] | None = None
    """The document of each of ``ids[:, :-1]``, counted from 0 in each row; None if attention crosses their borders."""


class Sequences:
    r"""The sequences of a split in a random order, which is another one in each epoch and never ends.

    The tokens of the split follow each other, and each sequence is the next ``n_tokens`` of them, with one more as the
    last target: within an epoch, every token but the first is predicted once (and up to ``n_tokens - 1`` at the end are
    left out). Number :math:`i` stands for sequence :math:`\pi_e(i \bmod n)` of epoch :math:`e = \lfloor i / n \rfloor`.

    Args:
        shards: the split.
        n_tokens: number of tokens of a sequence, without the last target; at least 1.
        seed: of the order.
        mask_documents: whether batches say to which document each token belongs, so that attention can be kept within a
            document.

    Raises:
        ValueError: if ``n_tokens`` is below 1, the split is shorter than one sequence, or its documents were packed for
            another ``n_tokens``.

    Source: Brown et al. (2020), section 2.2, for packing; the order as in :func:`shuffled`; GT-03.

    >>> import tempfile
    >>> from llm_anatomy.training.data.shards import ShardWriter
    >>> folder = tempfile.TemporaryDirectory()
    >>> writer = ShardWriter(folder.name, n_vocab=100)
    >>> writer.add("train", range(11))
    >>> writer.add("train", range(11, 17))
    >>> writer.finish()
    >>> sequences = Sequences(TokenShards(folder.name, "train"), n_tokens=4, mask_documents=True)
    >>> len(sequences)
    4
    >>> batch = sequences.batch(range(4))
    >>> sorted(batch.ids.tolist())
    [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [8, 9, 10, 11, 12], [12, 13, 14, 15, 16]]
    >>> batch.documents[batch.ids[:, 0] == 8].tolist()
    [[0, 0, 0, 1]]
    >>> folder.cleanup()
    """

    def __init__(self, shards: TokenShards, n_tokens: int, *, seed: int = 0, mask_documents: bool = False):
        if n_tokens < 1:
            raise ValueError(f"{n_tokens=} must be at least 1")
        if shards.n_tokens <= n_tokens:
            raise ValueError(
                f"split {shards.split!r} of {shards.folder} has {shards.n_tokens} tokens; with {n_tokens=} it must "
                f"have at least {n_tokens + 1}"
            )
        if shards.row_length not in (None, n_tokens):
            raise ValueError(f"{n_tokens=} must be {shards.row_length}, for which {shards.folder} was packed")
        self.shards, self.n_tokens, self.seed, self.mask_documents = shards, n_tokens, seed, mask_documents

    def __len__(self) -> int:
        """Number of sequences of an epoch."""
        return (self.shards.n_tokens - 1) // self.n_tokens

    def batch(self, numbers: Iterable[int]) -> Batch:
        """Read sequences from the files.

        Args:
            numbers: of the sequences, counted from 0 over all epochs.
        """
        epochs, indices = np.divmod(np.fromiter(numbers, dtype=np.int64), len(self))
        starts = (shuffled(indices, len(self), self.seed, epochs) * self.n_tokens).tolist()
        n = self.n_tokens
        ids = np.stack([self.shards.ids(start, start + n + 1) for start in starts]).astype(np.int64)
        targets = documents = None
        if self.shards.has_targets:
            targets = np.stack([self.shards.targets(start + 1, start + n + 1) for start in starts])
        if self.mask_documents:
            documents = np.stack([self.shards.documents(start, start + n) for start in starts])
            documents -= documents[:, :1]
        others = (None if part is None else torch.from_numpy(part) for part in (targets, documents))
        return Batch(torch.from_numpy(ids), *others)


def loader(
    sequences: Sequences,
    *,
    first: int,
    batch_size: int,
    rank: int = 0,
    world_size: int = 1,
    workers: int = 0,
    pin_memory: bool = False,
) -> DataLoader:
    """Make the batches of one process, without end.

    Step k of all processes together takes the sequences from ``first + k * batch_size`` to before
    ``first + (k + 1) * batch_size``; each process takes its share of them, in the order of the ranks.

    Args:
        sequences: of the split.
        first: number of the first sequence: where the run is.
        batch_size: number of sequences of a step over all processes.
        rank, world_size: of this process, and number of processes.
        workers: number of processes that read ahead; 0 reads when a batch is asked for.
        pin_memory: whether batches lie in page-locked memory, from which a GPU copies faster.

    Returns:
        A ``DataLoader`` of :class:`Batch`. It draws nothing from PyTorch's global generator.

    Raises:
        ValueError: if ``first`` is negative, or the processes cannot share a batch equally.

    Source: the documentation of PyTorch, ``torch.utils.data``; GT-03.

    >>> import tempfile
    >>> from llm_anatomy.training.data.shards import ShardWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = ShardWriter(folder, n_vocab=100)
    ...     writer.add("train", range(100))
    ...     writer.finish()
    ...     sequences = Sequences(TokenShards(folder, "train"), n_tokens=3)
    ...     whole = next(iter(loader(sequences, first=8, batch_size=4)))
    ...     half = next(iter(loader(sequences, first=8, batch_size=4, rank=1, world_size=2)))
    ...     bool((half.ids == whole.ids[2:]).all())
    True
    """
    if first < 0 or batch_size < 1 or batch_size % world_size or not 0 <= rank < world_size:
        raise ValueError(
            f"{first=} must be at least 0, and {world_size=} processes must share {batch_size=} equally; {rank=}"
        )
    n_rows = batch_size // world_size
    return DataLoader(
        _Steps(sequences, first + rank * n_rows, batch_size, n_rows),
        sampler=_Endless(),
        batch_size=None,  # the data set makes whole batches
        num_workers=workers,
        pin_memory=pin_memory,
        generator=torch.Generator(),  # otherwise each iterator takes a number from the global one
    )


class _Steps(Dataset):
    """The batches of one process by the number of the step."""

    def __init__(self, sequences: Sequences, first: int, batch_size: int, n_rows: int):
        self.sequences, self.first, self.batch_size, self.n_rows = sequences, first, batch_size, n_rows

    def __getitem__(self, step: int) -> Batch:
        start = self.first + step * self.batch_size
        return self.sequences.batch(range(start, start + self.n_rows))


class _Endless:
    """The steps in their order; each iterator begins with the first."""

    def __iter__(self):
        return count()


def shuffled(indices: Sequence[int] | np.ndarray, n: int, seed: int, epochs: Sequence[int] | np.ndarray) -> np.ndarray:
    r"""Permute the numbers from 0 to ``n - 1``, by another permutation in each epoch, without a table of them.

    A number is written as a pair :math:`(l, r)` with :math:`0 \le l < a` and :math:`0 \le r < b`, where
    :math:`a b \ge n`. A round of the Feistel network adds a hash of one half to the other,

    .. math:: l \leftarrow (l + h_1(r)) \bmod a, \quad r \leftarrow (r + h_2(l)) \bmod b, \quad \dots

    which can be undone, whatever the hash is. A result that is not below ``n`` goes through the network again
    (cycle walking), until one is.

    Args:
        indices: numbers from 0 to ``n - 1``.
        n: how many there are, from 1 to 2⁶².
        seed: any integer from 0 to 2⁶⁴ - 1.
        epochs: the epoch of each number.

    Returns:
        For each number the one that the permutation of its epoch gives, int64.

    Source: Luby and Rackoff (1988) for the network; Black and Rogaway (2002), "Ciphers with arbitrary finite domains",
    sections 3 and 4, for other sizes than powers of two.

    >>> shuffled(range(7), 7, seed=0, epochs=[0] * 7).tolist()
    [3, 4, 0, 1, 6, 2, 5]
    >>> sorted(shuffled(range(7), 7, seed=0, epochs=[1] * 7).tolist())
    [0, 1, 2, 3, 4, 5, 6]
    """
    a = int(np.ceil(np.sqrt(n)))
    sizes = np.uint64(a), np.uint64(-(-n // a))
    values = np.asarray(indices).astype(np.uint64)
    keys = _hash(np.asarray(epochs).astype(np.uint64) ^ _hash(np.full(len(values), seed, dtype=np.uint64)))
    outside = np.ones(len(values), dtype=bool)
    while outside.any():
        halves, key = list(np.divmod(values[outside], sizes[1])), keys[outside]
        for number in range(N_ROUNDS):
            side = number % 2
            key = key + np.uint64(0x9E3779B97F4A7C15)
            halves[side] = (halves[side] + _hash(halves[1 - side] ^ key) % sizes[side]) % sizes[side]
        values[outside] = halves[0] * sizes[1] + halves[1]
        outside = values >= n
    return values.astype(np.int64)


def _hash(x: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014), which scatters 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
