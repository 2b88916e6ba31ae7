"""Masks: which keys a query may see, told by where the two stand.

Legend of shapes as in ``layers.attention``. A position below zero marks padding, or a slot
of a cache that is still empty. Every mask hides such keys.
"""

from dataclasses import dataclass

import torch

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.positions.base import offsets
from llm_anatomy.shapes import Bool, Int, Tensor


class Mask:
    """A rule over positions; ``&`` keeps what both rules allow.

    A subclass says ``allows``. Attention makes the boolean tensor from the positions that it is given, or, where the
    kernel has a mode of its own for the rule, no tensor at all.

    Source: Vaswani et al. (2017), section 3.2.3; UCL-20.

    >>> both = CausalMask() & SlidingWindowMask(2)
    >>> both(torch.arange(3)[None], torch.arange(3)[None])[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    def allows(
        self, query_positions: Int[Tensor, "#batch queries"], key_positions: Int[Tensor, "#batch keys"]
    ) -> Bool[Tensor, "#batch #queries keys"]:
        """The rule, for every pair."""
        raise NotImplementedError(f"{type(self).__name__} must say which pairs it allows")

    def kernel_mode(self, n_queries: int, n_keys: int) -> str | None:
        """What to ask the fused kernel for in place of a tensor, where the queries are the newest of the keys and all
        positions follow each other: ``"all"`` where nothing is hidden, ``"causal"``, or None where it has no mode."""
        return None

    def __call__(
        self, query_positions: Int[Tensor, "#batch queries"], key_positions: Int[Tensor, "#batch keys"]
    ) -> Bool[Tensor, "#batch 1 #queries keys"]:
        """True = may attend; the second axis is that of the heads."""
        return (self.allows(query_positions, key_positions) & (key_positions >= 0)[:, None])[:, None]

    def as_tensor(
        self, n_queries: int, n_keys: int | None = None, device: torch.device | str | None = None
    ) -> Bool[Tensor, "*#batch_and_heads queries_or_1 keys"]:
        """Make the mask of tokens that follow each other, the last query at the position of the last key.

        Args:
            n_queries: number of tokens that attend.
            n_keys: number of tokens that are attended to, ``n_queries`` by default. With more keys than queries, as
                with a cache, the queries are the newest tokens.
            device: of the mask.

        Returns:
            Boolean, True = may attend; (batch, 1, queries or 1, keys) if the rule differs between sequences.

        Raises:
            ValueError: if there are more queries than keys.

        >>> CausalMask().as_tensor(2, 3).int().tolist()
        [[1, 1, 0], [1, 1, 1]]
        """
        n_keys = n_queries if n_keys is None else n_keys
        if n_queries > n_keys:
            raise ValueError(f"n_queries={n_queries} must not exceed n_keys={n_keys} unless positions are given")
        positions = torch.arange(n_keys, device=device)[None]
        mask = self(positions[:, n_keys - n_queries :], positions)
        return mask[0, 0].expand(n_queries, -1) if len(mask) == 1 else mask

    def __and__(self, other: "Mask") -> "Mask":
        return _Both(self, other) if isinstance(other, Mask) else NotImplemented


@dataclass(frozen=True)
class _Both(Mask):
    first: Mask
    second: Mask

    def allows(self, query_positions, key_positions):
        return self.first.allows(query_positions, key_positions) & self.second.allows(query_positions, key_positions)

    def kernel_mode(self, n_queries, n_keys):
        modes = {mask.kernel_mode(n_queries, n_keys) for mask in (self.first, self.second)}
        return None if None in modes else "causal" if "causal" in modes else "all"


@dataclass(frozen=True)
class BidirectionalMask(Mask):
    """Each token sees all tokens, before it and after it.

    Source: Devlin et al. (2019), section 3; UCL-20.

    >>> BidirectionalMask()(torch.tensor([[4]]), torch.tensor([[3, 4, 5, -1]])).flatten().int().tolist()
    [1, 1, 1, 0]
    """

    def allows(self, query_positions, key_positions):
        return torch.ones_like(key_positions, dtype=torch.bool)[:, None]

    def kernel_mode(self, n_queries, n_keys):
        return "all"


@dataclass(frozen=True)
class CausalMask(Mask):
    r"""Each token sees itself and what came before.

    .. math:: p_j \leq p_i

    Source: Vaswani et al. (2017), section 3.2.3; UCL-20.

    >>> CausalMask()(torch.tensor([[4]]), torch.tensor([[3, 4, 5, -1]])).flatten().int().tolist()
    [1, 1, 0, 0]
    """

    def allows(self, query_positions, key_positions):
        return offsets(query_positions, key_positions) <= 0

    def kernel_mode(self, n_queries, n_keys):
        # PyTorch's is_causal lets query 0 see key 0 alone: right only where both begin at the same token.
        return "all" if n_queries == 1 else "causal" if n_queries == n_keys else None


@dataclass(frozen=True)
class SlidingWindowMask(Mask):
    r"""Each token sees those nearer than ``width``, on both sides; ``& CausalMask()`` leaves itself and the
    ``width - 1`` before it.

    .. math:: |p_j - p_i| < \mathrm{width}

    Args:
        width: at least 1, which leaves the token itself.

    Raises:
        ValueError: for a width below 1.

    Source: Beltagy et al. (2020), section 3.1; Jiang et al. (2023), "Mistral 7B", section 2.

    >>> SlidingWindowMask(2)(torch.tensor([[4]]), torch.tensor([[2, 3, 4, 5, 6]])).flatten().int().tolist()
    [0, 1, 1, 1, 0]
    """

    width: int

    def __post_init__(self):
        _check_at_least_one(width=self.width)

    def allows(self, query_positions, key_positions):
        return offsets(query_positions, key_positions).abs() < self.width

    def kernel_mode(self, n_queries, n_keys):
        return "all" if n_keys <= self.width else None


@dataclass(frozen=True)
class PaddingMask(Mask):
    """Nobody sees padding.

    Args:
        attention_mask: one row per sequence of the batch, one entry per key: True for a token, False for padding.

    Raises:
        TypeError: if it is not boolean.
        ValueError: if it is not (batch, keys), or, when used, has another count of keys.

    Source: Vaswani et al. (2017); UCL-20.

    >>> padding = PaddingMask(torch.tensor([[True, True, False]]))
    >>> (padding & CausalMask())(torch.arange(3)[None], torch.arange(3)[None])[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    """

    attention_mask: Bool[Tensor, "batch keys"]

    def __post_init__(self):
        if self.attention_mask.dtype != torch.bool:
            raise TypeError(
                f"attention_mask has dtype {self.attention_mask.dtype}; it must be torch.bool, True = a token"
            )
        if self.attention_mask.ndim != 2:
            raise ValueError(f"attention_mask has shape {tuple(self.attention_mask.shape)}; it must be (batch, keys)")

    def allows(self, query_positions, key_positions):
        if self.attention_mask.shape[1] != key_positions.shape[1]:
            raise ValueError(
                f"attention_mask has {self.attention_mask.shape[1]} keys, but attention has {key_positions.shape[1]}"
            )
        return self.attention_mask[:, None]
