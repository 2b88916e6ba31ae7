r"""Caches: what attention has made of the tokens so far, kept so that a new token costs one row.

Legend of shapes as in ``layers.attention``; ``slots`` counts the tokens that a buffer has room for. A cache belongs to
one attention layer; ``attention.new_cache(batch, n_slots)`` makes one that fits. For ``n_layers`` layers of keys and
values it takes

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
    """Make the context of the next tokens, which attend to themselves and to what is cached.

    Args:
        n_tokens: number of new tokens.
        positions: of the new tokens, -1 for padding; by default each sequence goes on from its last token.
        cache: what the earlier tokens are kept in, if it is not the first call.
        device: of the positions, if there are neither positions nor a cache.

    Source: CMU-10.

    >>> context_of_new_tokens(3).query_positions.tolist()
    [[0, 1, 2]]
    """
    contiguous = positions is None and (cache is None or cache.in_order)
    if positions is None:
        positions = torch.arange(n_tokens, device=device)[None] if cache is None else cache.next_positions(n_tokens)
    return PositionContext(positions, contiguous=contiguous)


class KVCache:
    """Buffers made once and filled in place, in the order in which tokens come.

    Beside what attention keeps, the cache knows each token's position, and -1 for padding; ``length`` is how many
    tokens it has been given. It is for inference: it stores numbers, not the graph that made them.

    Args:
        batch: how many sequences.
        n_slots: how many tokens it can hold.
        kept: (heads, width) of each tensor that attention keeps: two for keys and values, one for a latent.
        dtype, device: of the buffers.

    Raises:
        ValueError: for sizes below one; when appending, if tokens do not fit or need a gradient.

    Source: Pope et al. (2022), section 3; Shazeer (2019), section 2.4; CMU-10.

    >>> cache = KVCache(batch=1, n_slots=4, kept=[(2, 3), (2, 5)])
    >>> keys, values, positions = cache.append(torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 5))
    >>> cache.length, tuple(keys.shape), positions.tolist(), cache.n_bytes
    (3, (1, 2, 3, 3), [[0, 1, 2]], 256)
    """

    def __init__(
        self,
        batch: int,
        n_slots: int,
        kept: Sequence[tuple[int, int]],
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        _check_at_least_one(batch=batch, n_slots=n_slots, kept=len(kept))
        for heads, width in kept:
            _check_at_least_one(heads=heads, width=width)
        with torch.inference_mode(False):  # so that it can be filled inside inference mode and outside
            self._kept = [torch.zeros(batch, heads, n_slots, d, dtype=dtype, device=device) for heads, d in kept]
            self._counted = torch.arange(n_slots, device=device)[None]  # made once: a step of decoding is short
            self._positions = torch.full((batch, 1, n_slots, 1), -1, device=device)
        self.n_slots, self.length = n_slots, 0
        self.layout = f"{type(self).__name__} of {n_slots} slots"
        self.in_order = True
        """Whether the tokens of every sequence stand at 0, 1, 2, …, so that no position needs hiding but the future."""

    @property
    def n_bytes(self) -> int:
        """What the buffers take; positions, one number per token whatever the widths, are not counted."""
        return sum(buffer.nbytes for buffer in self._kept)

    def next_positions(self, n_tokens: int) -> Int[Tensor, "#batch tokens"]:
        """Where the next tokens stand: each sequence goes on from its last one."""
        self._check_capacity(n_tokens)
        if self.in_order:
            return self._in_order(n_tokens)
        last = self._positions[:, 0, : self.length, 0].amax(1, keepdim=True)
        return last + 1 + torch.arange(n_tokens, device=last.device)[None]

    def read(self) -> tuple[Tensor, ...]:
        """All that is kept, views of the buffers: each tensor of ``kept`` and last the positions (batch, tokens)."""
        taken = min(self.length, self.n_slots)
        return *(buffer[:, :, :taken] for buffer in self._kept), self._positions[:, 0, :taken, 0]

    def reorder(self, rows: Int[Tensor, "rows"]) -> None:
        """Sequence i goes on from what sequence ``rows[i]`` holds; there may be fewer rows than before, or more.

        Args:
            rows: of the sequences, from 0.
        """
        with torch.inference_mode(False):
            self._kept = [buffer[rows] for buffer in self._kept]
            self._positions = self._positions[rows]

    def append(
        self, *new: Float[Tensor, "batch _ tokens _"], positions: Int[Tensor, "#batch tokens"] | None = None
    ) -> tuple[Tensor, ...]:
        """Store what was made of new tokens, and return all that is kept, as ``read`` does.

        Args:
            new: (batch, heads, tokens, width) each, in the order of ``kept``.
            positions: where the tokens stand, -1 for padding; ``next_positions`` by default.
        """
        self._check_shapes(new)
        n_tokens, in_order = new[0].shape[2], self.in_order and positions is None
        self._check_capacity(n_tokens)
        positions = self.next_positions(n_tokens) if positions is None else positions
        everything = self._store([*new, positions[:, None, :, None].expand(len(self._positions), -1, -1, -1)])
        self.in_order = in_order
        return everything

    def _in_order(self, n_tokens: int) -> Tensor:
        return self._counted[:, self.length : self.length + n_tokens]

    def _store(self, new: list[Tensor]) -> tuple[Tensor, ...]:
        end = self.length + new[0].shape[2]
        for buffer, x in zip([*self._kept, self._positions], new, strict=True):
            buffer[:, :, self.length : end] = x
        self.length = end
        return self.read()

    def _check_capacity(self, n_tokens: int) -> None:
        if self.length + n_tokens > self.n_slots:
            raise ValueError(f"{n_tokens} more tokens do not fit: {self.length} of n_slots={self.n_slots} are taken")

    def _check_shapes(self, new: tuple[Tensor, ...]) -> None:
        expected = [(b.shape[0], b.shape[1], new[0].shape[2] if new else 0, b.shape[3]) for b in self._kept]
        if [tuple(x.shape) for x in new] != expected:
            raise ValueError(f"got tensors of shapes {[tuple(x.shape) for x in new]}; this cache keeps {expected}")
        for x, buffer in zip(new, self._kept, strict=True):
            if (x.dtype, x.device) != (buffer.dtype, buffer.device):
                raise TypeError(f"got {x.dtype} on {x.device}; this cache keeps {buffer.dtype} on {buffer.device}")
        if torch.is_grad_enabled() and any(x.requires_grad for x in new):
            raise ValueError("a cache keeps no gradients: use it under torch.inference_mode() or torch.no_grad()")


class RollingKVCache(KVCache):
    """For attention with a sliding window: when all slots are taken, a new token takes that of the oldest.

    It never runs full. The mask must hide what lies outside the window, ``CausalMask() & SlidingWindowMask(n_slots)``:
    a block of new tokens is given all keys that one of them may need.

    Args:
        batch, kept, dtype, device: as in ``KVCache``.
        n_slots: the width of the window.

    Source: Jiang et al. (2023), "Mistral 7B", section 2; CMU-10.

    >>> cache = RollingKVCache(batch=1, n_slots=2, kept=[(1, 1)])
    >>> for token in (5.0, 6.0, 7.0):
    ...     kept, positions = cache.append(torch.full((1, 1, 1, 1), token))
    >>> kept.flatten().tolist(), positions.tolist()
    ([7.0, 6.0], [[2, 1]])
    """

    def _in_order(self, n_tokens: int) -> Tensor:
        return self.length + torch.arange(n_tokens, device=self._positions.device)[None]

    def _check_capacity(self, n_tokens: int) -> None:
        pass

    def _store(self, new: list[Tensor]) -> tuple[Tensor, ...]:
        buffers = [*self._kept, self._positions]
        start, self.length = self.length, self.length + new[0].shape[2]
        if self.length - start == 1:  # the usual step moves nothing
            slot = start % self.n_slots
            for buffer, x in zip(buffers, new, strict=True):
                buffer[:, :, slot : slot + 1] = x  # a slice, since a compiled step would be one for each index
            return self.read()
        old = torch.arange(max(0, start - self.n_slots), start, device=new[0].device) % self.n_slots
        everything = [torch.cat((buffer[:, :, old], x), 2) for buffer, x in zip(buffers, new, strict=True)]
        last = torch.arange(max(start, self.length - self.n_slots), self.length, device=new[0].device)
        for buffer, x in zip(buffers, new, strict=True):
            buffer[:, :, last % self.n_slots] = x[:, :, last - start]
        return *everything[:-1], everything[-1][:, 0, :, 0]
