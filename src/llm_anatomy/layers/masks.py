"""Attention masks: which keys a query may attend to, as a rule over the positions of queries and keys.

Shapes as in ``layers.functional``. A position below zero marks padding, or a slot of a cache that is still
empty. Every mask hides such keys.
"""

from dataclasses import dataclass

import torch

from llm_anatomy.layers._checks import _check_at_least_one, _check_integers
from llm_anatomy.layers.positions.base import offsets
from llm_anatomy.shapes import Bool, Int, Tensor


class Mask:
    """A rule over positions; ``first & second`` allows the pairs that both rules allow.

    A subclass implements ``allows``. Attention computes the boolean tensor from the positions of its tokens. If the
    fused kernel has a mode of its own for the rule, no tensor is made at all.

    Source: Vaswani et al. (2017), section 3.2.3; UCL-20.

    >>> both = CausalMask() & SlidingWindowMask(2)
    >>> both(torch.arange(3)[None], torch.arange(3)[None])[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    def allows(
        self, query_positions: Int[Tensor, "#batch queries"], key_positions: Int[Tensor, "#batch keys"]
    ) -> Bool[Tensor, "#batch #queries keys"]:
        """Return, for every pair, whether the query may attend to the key.

        Args:
            query_positions: the positions of the tokens that attend.
            key_positions: the positions of the tokens that are attended to; those below 0 are hidden by ``__call__``.

        Returns:
            Boolean, True = may attend.

        Raises:
            ValueError: by a mask that is made of a tensor, if attention has another number of keys.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement allows")

    def kernel_mode(self, n_queries: int, n_keys: int) -> str | None:
        """Return the mode of the fused kernel that replaces the tensor if all positions follow each other and the
        queries are the last of the tokens: ``"all"`` if no key is hidden, ``"causal"``, or None if there is no mode.

        Args:
            n_queries: number of tokens that attend.
            n_keys: number of tokens that are attended to.
        """
        return None

    def __call__(
        self, query_positions: Int[Tensor, "#batch queries"], key_positions: Int[Tensor, "#batch keys"]
    ) -> Bool[Tensor, "#batch 1 #queries keys"]:
        """Compute the boolean tensor, True = may attend; the second axis is that of the heads.

        Args:
            query_positions: the positions of the tokens that attend.
            key_positions: the positions of the tokens that are attended to; those below 0 are hidden.
        """
        return (self.allows(query_positions, key_positions) & (key_positions >= 0)[:, None])[:, None]

    def as_tensor(
        self, n_queries: int, n_keys: int | None = None, device: torch.device | str | None = None
    ) -> Bool[Tensor, "*#batch_and_heads queries_or_1 keys"]:
        """Make the mask for tokens that follow each other, with the last query at the position of the last key.

        Args:
            n_queries: number of tokens that attend.
            n_keys: number of tokens that are attended to, ``n_queries`` by default. If there are more keys than
                queries, as with a cache, the queries are the last tokens.
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
        return mask[0, 0].expand(n_queries, -1) if mask.shape[0] == 1 else mask

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
    """Each token may attend to all tokens, before it and after it.

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
    r"""Each token may attend to itself and to the tokens before it.

    .. math:: p_j \leq p_i

    Source: Vaswani et al. (2017), section 3.2.3; UCL-20.

    >>> CausalMask()(torch.tensor([[4]]), torch.tensor([[3, 4, 5, -1]])).flatten().int().tolist()
    [1, 1, 0, 0]
    """

    def allows(self, query_positions, key_positions):
        return offsets(query_positions, key_positions) <= 0

    def kernel_mode(self, n_queries, n_keys):
        # PyTorch's is_causal lets query 0 attend to key 0 alone, which is right only if both begin at the same token.
        return "all" if n_queries == 1 else "causal" if n_queries == n_keys else None


@dataclass(frozen=True)
class SlidingWindowMask(Mask):
    r"""Each token may attend to the tokens at a distance below ``width``, on both sides.

    Combined with a ``CausalMask()``, it leaves the token itself and the ``width - 1`` tokens before it.

    .. math:: |p_j - p_i| < \mathrm{width}

    Args:
        width: number of positions on each side, the token's own included; at least 1.

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
        return "all" if _always(n_keys <= self.width) else None


def _always(condition: bool) -> bool:
    """Whether a condition on sizes holds; while a graph is exported, whether it holds for all sizes it is made for."""
    if not torch.compiler.is_exporting():
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # takes long to import

    return statically_known_true(condition)


@dataclass(frozen=True)
class PaddingMask(Mask):
    """No token may attend to padding.

    Args:
        attention_mask: one row for each sequence of the batch and one entry for each key, True for a token and False
            for padding.

    Raises:
        TypeError: if it is not boolean.
        ValueError: if it is not (batch, keys); when it is used, if attention has another number of keys.

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


@dataclass(frozen=True)
class DocumentMask(Mask):
    r"""Each token may attend to the tokens of its own document, where a row holds several documents.

    .. math:: \mathrm{document}_j = \mathrm{document}_i

    Args:
        documents: the document of each key. If there are fewer queries than keys, the queries are the last of them.

    Raises:
        TypeError: if they are not integers.
        ValueError: if they are not (batch, keys); when it is used, if attention has another number of keys.

    Source: Grattafiori et al. (2024), "The Llama 3 herd of models", section 3.2, whose attention stays within a
    document; UCL-20, GT-03.

    >>> (DocumentMask(torch.tensor([[0, 0, 1, 1]])) & CausalMask()).as_tensor(4).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    """

    documents: Int[Tensor, "batch keys"]

    def __post_init__(self):
        _check_integers(documents=self.documents)
        if self.documents.ndim != 2:
            raise ValueError(f"documents has shape {tuple(self.documents.shape)}; it must be (batch, keys)")

    def allows(self, query_positions, key_positions):
        n_queries, n_keys = query_positions.shape[1], key_positions.shape[1]
        if self.documents.shape[1] != n_keys:
            raise ValueError(f"documents has {self.documents.shape[1]} keys, but attention has {n_keys}")
        return self.documents[:, n_keys - n_queries :, None] == self.documents[:, None, :]
