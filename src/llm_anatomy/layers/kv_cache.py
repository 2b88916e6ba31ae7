r"""Caches of keys and values: attention computes them once for each token, and a new token adds one row of scores.

Shapes as in ``layers.functional``; ``slots`` is the number of tokens that a buffer has room for. A cache
belongs to one attention layer; ``attention.new_cache(batch, n_slots)`` makes one that fits. The keys and values of
``n_layers`` layers take

.. math:: \mathrm{bytes} = n_\mathrm{layers} \cdot \mathrm{batch} \cdot n_\mathrm{slots} \cdot n_\mathrm{kv\,heads}
    \cdot (d_\mathrm{head} + d_\mathrm{value}) \cdot \mathrm{bytes\ per\ number}
"""

from collections.abc import Sequence

import torch

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.shapes import Float, Int, Tensor


def context_of_new_tokens(
    n_tokens: int,
    positions: Int[Tensor, "#batch tokens"] | None = None,
    cache: "KVCache | None" = None,
    device: torch.device | str | None = None,
) -> PositionContext:
    """Make the context of the next tokens, which attend to themselves and to the cached tokens.

    Args:
        n_tokens: number of new tokens.
        positions: of the new tokens, -1 for padding; by default the positions after the last token of each sequence.
        cache: the cache of the earlier tokens, if there is one.
        device: of the positions, if there are neither positions nor a cache.

    Source: CMU-10.

    >>> context_of_new_tokens(3).query_positions.tolist()
    [[0, 1, 2]]
    """
    contiguous = positions is None and (cache is None or cache.contiguous)
    if positions is None:
        positions = torch.arange(n_tokens, device=device)[None] if cache is None else cache.next_positions(n_tokens)
    return PositionContext(positions, contiguous=contiguous)


class KVCache:
    """A cache of fixed size: buffers that are allocated once and filled in place, in the order of the tokens.

    Besides the tensors of attention, the cache stores the position of each token, -1 for padding; ``length`` is the
    number of tokens that were appended. It is for inference: it stores values without their computation graph.

    Args:
        batch: number of sequences.
        n_slots: number of tokens that the cache can hold.
        shapes: (heads, width) of each tensor that attention caches: two for keys and values, one for a latent.
        dtype, device: of the buffers. Under ``torch.autocast``, the first tokens decide the dtypes instead.

    Raises:
        ValueError: for sizes below one; in ``append``, if the tokens do not fit or require a gradient.

    Source: Pope et al. (2022), section 3; Shazeer (2019), section 2.4; CMU-10, GT-32.

    >>> cache = KVCache(batch=1, n_slots=4, shapes=[(2, 3), (2, 5)])
    >>> keys, values, positions = cache.append(torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 5))
    >>> cache.length, tuple(keys.shape), positions.tolist(), cache.n_bytes
    (3, (1, 2, 3, 3), [[0, 1, 2]], 256)
    """

    def __init__(
        self,
        batch: int,
        n_slots: int,
        shapes: Sequence[tuple[int, int]],
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        _check_at_least_one(batch=batch, n_slots=n_slots, shapes=len(shapes))
        for heads, width in shapes:
            _check_at_least_one(heads=heads, width=width)
        with torch.inference_mode(False):  # so that it can be filled in and outside of inference mode
            self._buffers = [torch.zeros(batch, heads, n_slots, d, dtype=dtype, device=device) for heads, d in shapes]
            self._slot_positions = torch.arange(n_slots, device=device)[None]  # made once, to save time at each step
            self._positions = torch.full((batch, 1, n_slots, 1), -1, device=device)
        self.n_slots, self.length = n_slots, 0
        self.layout = f"{type(self).__name__} of {n_slots} slots"
        self.contiguous = True
        """Whether the tokens of every sequence are at positions 0, 1, 2, … without padding."""

    @property
    def n_bytes(self) -> int:
        """The number of bytes of the buffers, without the positions, which are one number per token."""
        return sum(buffer.nbytes for buffer in self._buffers)

    def next_positions(self, n_tokens: int) -> Int[Tensor, "#batch tokens"]:
        """Return the positions of the next tokens, which follow the last token of each sequence.

        Args:
            n_tokens: number of new tokens of each sequence.

        Raises:
            ValueError: if the tokens do not fit.
        """
        self._check_capacity(n_tokens)
        if self.contiguous:
            return self._consecutive_positions(n_tokens)
        last = self._positions[:, 0, : self.length, 0].amax(1, keepdim=True)
        return last + 1 + torch.arange(n_tokens, device=last.device)[None]

    def read(self) -> tuple[Tensor, ...]:
        """Return views of all that is cached: each tensor of ``shapes``, and then the positions (batch, tokens)."""
        n_used = min(self.length, self.n_slots)
        return *(buffer[:, :, :n_used] for buffer in self._buffers), self._positions[:, 0, :n_used, 0]

    def reorder(self, rows: Int[Tensor, "rows"]) -> None:
        """Replace sequence i by a copy of sequence ``rows[i]``, as in beam search; their number may change.

        Args:
            rows: indices of sequences, from 0.
        """
        with torch.inference_mode(False):
            self._buffers = [buffer[rows] for buffer in self._buffers]
            self._positions = self._positions[rows]

    def append(
        self, *new: Float[Tensor, "batch _ tokens _"], positions: Int[Tensor, "#batch tokens"] | None = None
    ) -> tuple[Tensor, ...]:
        """Store the tensors of new tokens, and return all that is cached, as ``read`` does.

        Args:
            new: (batch, heads, tokens, width) each, in the order of ``shapes``.
            positions: of the new tokens, -1 for padding; ``next_positions`` by default.

        Raises:
            ValueError: for tensors of other shapes, tokens that do not fit, or tensors that require a gradient.
            TypeError: for tensors of another dtype or on another device than the buffers.
        """
        self._check_shapes(new)
        n_tokens = new[0].shape[2]
        contiguous = self.contiguous and (positions is None or not n_tokens)
        self._check_capacity(n_tokens)
        if self.length == 0 and torch.is_autocast_enabled(new[0].device.type):
            with torch.inference_mode(False):  # the dtypes of the weights say nothing about those of keys and values
                self._buffers = [buffer.to(x.dtype) for buffer, x in zip(self._buffers, new, strict=True)]
        self._check_dtypes(new)
        positions = self.next_positions(n_tokens) if positions is None else positions
        cached = self._store([*new, positions[:, None, :, None].expand(len(self._positions), -1, -1, -1)])
        self.contiguous = contiguous
        return cached

    def _consecutive_positions(self, n_tokens: int) -> Tensor:
        return self._slot_positions[:, self.length : self.length + n_tokens]

    def _store(self, new: list[Tensor]) -> tuple[Tensor, ...]:
        end = self.length + new[0].shape[2]
        for buffer, x in zip([*self._buffers, self._positions], new, strict=True):
            buffer[:, :, self.length : end] = x
        self.length = end
        return self.read()

    def _check_capacity(self, n_tokens: int) -> None:
        if self.length + n_tokens > self.n_slots:
            raise ValueError(f"{n_tokens} more tokens do not fit: {self.length} of n_slots={self.n_slots} are taken")

    def _check_shapes(self, new: tuple[Tensor, ...]) -> None:
        expected = [(b.shape[0], b.shape[1], new[0].shape[2] if new else 0, b.shape[3]) for b in self._buffers]
        if [tuple(x.shape) for x in new] != expected:
            raise ValueError(f"new tensors have shapes {[tuple(x.shape) for x in new]}; they must have {expected}")
        if torch.is_grad_enabled() and any(x.requires_grad for x in new):
            raise ValueError("a cache stores no gradients: use it under torch.inference_mode() or torch.no_grad()")

    def _check_dtypes(self, new: tuple[Tensor, ...]) -> None:
        for x, buffer in zip(new, self._buffers, strict=True):
            if (x.dtype, x.device) != (buffer.dtype, buffer.device):
                raise TypeError(
                    f"a new tensor is {x.dtype} on {x.device}; this cache stores {buffer.dtype} on {buffer.device}"
                )


class RollingKVCache(KVCache):
    """A cache for attention with a sliding window: if all slots are used, a new token replaces the oldest one.

    It is never full. Attention needs the mask ``CausalMask() & SlidingWindowMask(n_slots)``, since a block of new
    tokens receives all keys that at least one of them may attend to.

    Args:
        batch, shapes, dtype, device: as in ``KVCache``.
        n_slots: width of the window.

    Source: Jiang et al. (2023), "Mistral 7B", section 2; CMU-10.

    >>> cache = RollingKVCache(batch=1, n_slots=2, shapes=[(1, 1)])
    >>> for token in (5.0, 6.0, 7.0):
    ...     cached, positions = cache.append(torch.full((1, 1, 1, 1), token))
    >>> cached.flatten().tolist(), positions.tolist()
    ([7.0, 6.0], [[2, 1]])
    """

    def _consecutive_positions(self, n_tokens: int) -> Tensor:
        return self.length + torch.arange(n_tokens, device=self._positions.device)[None]

    def _check_capacity(self, n_tokens: int) -> None:
        pass

    def _store(self, new: list[Tensor]) -> tuple[Tensor, ...]:
        buffers = [*self._buffers, self._positions]
        start, self.length = self.length, self.length + new[0].shape[2]
        if self.length - start == 1:  # the usual step overwrites one slot
            slot = start % self.n_slots
            for buffer, x in zip(buffers, new, strict=True):
                buffer[:, :, slot : slot + 1] = x  # a slice: with an index, each slot would be compiled separately
            return self.read()
        old = torch.arange(max(0, start - self.n_slots), start, device=new[0].device) % self.n_slots
        cached = [torch.cat((buffer[:, :, old], x), 2) for buffer, x in zip(buffers, new, strict=True)]
        last = torch.arange(max(start, self.length - self.n_slots), self.length, device=new[0].device)
        for buffer, x in zip(buffers, new, strict=True):
            buffer[:, :, last % self.n_slots] = x[:, :, last - start]
        return *cached[:-1], cached[-1][:, 0, :, 0]
