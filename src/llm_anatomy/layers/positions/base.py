"""The interface of position schemes: four hooks through which a scheme adds positions to attention.

Shapes as in ``layers.functional``. Positions are integers, ``(batch, tokens)``, or ``(1, tokens)`` if all
sequences have the same ones; padding has position -1. A relative offset is key position minus query position.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from llm_anatomy.deprecation import renamed_attribute
from llm_anatomy.layers._checks import _accepted, _check_integers
from llm_anatomy.shapes import Bool, Float, Int, Tensor

Rule = Callable[[Tensor, Tensor], Tensor]


def offsets(
    query_positions: Int[Tensor, "#batch queries"], key_positions: Int[Tensor, "#batch keys"]
) -> Int[Tensor, "#batch queries keys"]:
    """Key position minus query position, for every pair.

    Args:
        query_positions, key_positions: of all sequences, or of one if all are alike.

    Source: the book's convention for the lectures' disagreement D-02; IITD-18, CMU-25, GT-30.

    >>> offsets(torch.tensor([[4]]), torch.tensor([[2, 3, 4]])).tolist()
    [[[-2, -1, 0]]]
    """
    return key_positions[:, None, :] - query_positions[:, :, None]


class PositionContext:
    """The positions of the queries and keys of one forward, and what layers derive from them.

    A model makes one context per forward and passes it to every layer. Offsets, masks and the tables of a rotation are
    computed when the first layer needs them, and shared by the others.

    Args:
        query_positions: of the tokens that attend, -1 for padding.
        key_positions: of the tokens that are attended to, -1 for padding; by default those of the queries.
        contiguous: whether all positions follow each other without gaps or padding, and the last query is at the
            position of the last key. Attention may then use a mode of its kernel instead of a mask.
        projections: attention's own projections of queries and keys, which a scheme may share.

    Raises:
        TypeError: for positions that are not integers.
        ValueError: for positions that are not (batch or 1, tokens).

    Source: the book's convention for the lectures' disagreement D-02; IITD-18, CMU-25, GT-30.

    >>> context = PositionContext(torch.tensor([[4]]), torch.tensor([[2, 3, 4]]))
    >>> context.offsets.tolist()
    [[[-2, -1, 0]]]
    """

    def __init__(
        self,
        query_positions: Int[Tensor, "query_batch queries"],
        key_positions: Int[Tensor, "key_batch keys"] | None = None,
        *,
        contiguous: bool = False,
        projections: tuple[nn.Linear, nn.Linear] | None = None,
        derived: dict | None = None,
    ):
        self.query_positions = query_positions
        self.key_positions = query_positions if key_positions is None else key_positions
        self.contiguous, self.projections = contiguous, projections
        self._derived = {} if derived is None else derived
        if derived is None:
            for name, positions in {"query_positions": query_positions, "key_positions": self.key_positions}.items():
                _check_integers(**{name: positions})
                if positions.ndim != 2:
                    raise ValueError(f"{name} have shape {tuple(positions.shape)}; they must be (batch or 1, tokens)")

    @property
    def new_positions(self) -> Int[Tensor, "query_batch queries"] | None:
        """The positions to append to a cache, or None if the queries follow the last cached token."""
        return None if self.contiguous else self.query_positions

    @property
    def offsets(self) -> Int[Tensor, "#batch queries keys"]:
        """Key position minus query position, for every pair."""
        if "offsets" not in self._derived:
            self._derived["offsets"] = offsets(self.query_positions, self.key_positions)
        return self._derived["offsets"]

    def mask(self, rule: Rule) -> Bool[Tensor, "#batch 1 #queries keys"]:
        """The mask that a rule makes of the positions, one tensor for all layers that have the same rule."""
        return self._once("masks", rule, lambda: rule(self.query_positions, self.key_positions))

    def tables(self, scheme: "PositionScheme", dtype: torch.dtype) -> tuple[Tensor, ...]:
        """The tables of ``scheme`` at the queries' positions, computed once for all layers that share the scheme."""
        return self._once(f"tables in {dtype}", scheme, lambda: scheme.tables(self.query_positions, dtype))

    def with_keys(self, key_positions: Int[Tensor, "key_batch keys"], layout: str) -> "PositionContext":
        """The context with the keys that a cache returned.

        Args:
            key_positions: of all keys in the cache.
            layout: the ``layout`` of the cache. Caches of one layout hold the same tokens in the same slots, and share
                one context.
        """
        if layout not in self._derived:
            self._derived[layout] = PositionContext(self.query_positions, key_positions, contiguous=self.contiguous)
        return self._derived[layout]

    def for_scheme(self, w_query: nn.Linear, w_key: nn.Linear) -> "PositionContext":
        """The context that one layer's scheme receives: with the layer's projections, and with padding at position 0,
        since a table has no row for -1. Masks hide padding."""
        if self.contiguous:
            queries, keys, derived = self.query_positions, self.key_positions, self._derived
        else:
            if "clamped" not in self._derived:
                queries, keys = self.query_positions.clamp(min=0), self.key_positions.clamp(min=0)
                self._derived["clamped"] = queries, keys, {}
            queries, keys, derived = self._derived["clamped"]
        return PositionContext(queries, keys, contiguous=self.contiguous, projections=(w_query, w_key), derived=derived)

    def check(self, query: Tensor, key: Tensor, **expected: int) -> None:
        """Raise a ValueError if queries and keys do not fit the positions, or are not as a scheme expects them.

        Args:
            query, key: (batch, heads, tokens, d_head).
            expected: ``n_heads`` and ``d_head`` for which the scheme was made.
        """
        for name, tensor in {"query": query, "key": key}.items():
            if tensor.ndim != 4:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be (batch, heads, tokens, d_head)")
        if query.shape[0] != key.shape[0] or query.shape[-1] != key.shape[-1] or query.shape[1] % key.shape[1]:
            raise ValueError(
                f"query {tuple(query.shape)} and key {tuple(key.shape)} must agree in batch and width, "
                "and the key's heads divide the query's"
            )
        for name, size in expected.items():
            found = query.shape[1 if name == "n_heads" else -1]
            if found != size:
                raise ValueError(
                    f"query {tuple(query.shape)} has {name}={found}; this scheme was made for {name}={size}"
                )
        self.check_lengths(query.shape[0], query.shape[2], key.shape[2])

    def check_lengths(self, batch: int, n_queries: int, n_keys: int) -> None:
        """Raise a ValueError if there is not one position for each query and each key."""
        for name, positions, n in (
            ("query_positions", self.query_positions, n_queries),
            ("key_positions", self.key_positions, n_keys),
        ):
            if positions.shape[0] not in (1, batch) or positions.shape[1] != n:
                raise ValueError(f"{name} have shape {tuple(positions.shape)}; they must be ({batch} or 1, {n})")

    def _once(self, kind: str, key: object, compute: Callable):
        computed = self._derived.setdefault(kind, [])
        for known_key, value in computed:
            if known_key is key:
                return value
        computed.append((key, compute()))
        return computed[-1][1]


@dataclass(frozen=True, kw_only=True)
class ModelSizes:
    """What a position scheme may ask of the model that it is made for.

    Args:
        d_model, n_heads, d_head, d_value: widths and number of query heads.
        n_layers: number of layers of the stack.
        n_ctx: length of the longest text, None for no bound.
        causal: whether the masks hide the future.
        windows: how many tokens the tokens of each layer attend to, None for all.
        norm: makes a norm of the model's kind, as wide as the residual stream.

    Source: what the schemes of IITD-16 need.

    >>> from functools import partial
    >>> sizes = dict(d_model=8, n_heads=2, d_head=4, d_value=4, n_layers=3, n_ctx=None, causal=True)
    >>> sizes = ModelSizes(**sizes, windows=(None,) * 3, norm=partial(nn.LayerNorm, 8))
    >>> len(PositionScheme.for_model(sizes))
    3
    """

    d_model: int
    n_heads: int
    d_head: int
    d_value: int
    n_layers: int
    n_ctx: int | None
    causal: bool
    windows: tuple[int | None, ...]
    norm: Callable[[], nn.Module]


class PositionScheme(nn.Module):
    """The four hooks; each does nothing until a scheme overrides it.

    Attention calls them in this order, and names no scheme::

        x      = position(x, positions)    # embed; once, by the model, before the first layer
        query  = position.rotate(query, positions); key likewise
        scores = query @ key.T * position.scale(d_head) + position.bias(query, key, context)
        output = softmax(scores) @ value + position.add_to_output(weights, context)

    Positions are explicit, so that a cache, padding on the left and packed sequences work with every scheme for which
    they can work.

    A scheme that is in the registry is built from a model's config by ``for_model``, and states what else the model,
    the table of costs and the diagrams need to know of it.

    Source: Dufter et al. (2022), who put absolute and relative schemes into one notation; IITD-03, IITD-16, CMU-22.

    >>> PositionScheme().scale(16)
    0.25
    """

    at_input: ClassVar[bool] = False
    """Whether the scheme changes the embeddings, once, at the input of the model. Any other belongs to attention."""

    options: ClassVar[str | None] = None
    """The field of the config that holds its options, such as ``"rope"``; None for a scheme without options."""

    needs_n_ctx: ClassVar[bool] = False
    """Whether the length of the longest text must be known."""

    needs_all_kv_heads: ClassVar[bool] = False
    """Whether each query head must have a key-value head of its own."""

    is_shared: ClassVar[bool] = True
    """Whether all layers have the same scheme, with the same parameters."""

    label: ClassVar[str | None] = None
    """Its name in diagrams; by default the name of the class."""

    explicit_only: str | None = None
    """Why the scheme has no fused form; None if it has one."""

    not_cacheable: str | None = None
    """Why keys cannot be kept from one step to the next; None if they can."""

    @classmethod
    def for_model(cls, sizes: ModelSizes, **options: Any) -> "list[PositionScheme]":
        """Make the scheme of each layer of a model.

        The arguments of the constructor are found by their names among the sizes and the options. A scheme that needs
        something else overrides this method.

        Args:
            sizes: of the model.
            options: the fields of the config that ``options`` names, and their values.

        Returns:
            One scheme for each layer, the same object for layers that share one.
        """
        arguments = _accepted(cls, vars(sizes) | options)
        if cls.is_shared:
            return [cls(**arguments)] * sizes.n_layers
        return [cls(**arguments) for _ in range(sizes.n_layers)]

    def costs(self, sizes: ModelSizes, *, batch: int, n_positions: int, n_queries: int, n_keys: int) -> dict[str, int]:
        """What the scheme costs in one layer, beside its parameters.

        Args:
            sizes: of the model.
            batch: number of texts.
            n_positions: number of texts with positions of their own; 1 if all have the same ones.
            n_queries, n_keys: number of queries and keys of each text.

        Returns:
            ``flops`` and ``flops_backward``, the operations of the products of both passes, and ``n_activations``, how
            many numbers training keeps for the backward pass. What is missing is 0.
        """
        return {}

    def cache_stays_valid(self, n_before: int, n_after: int) -> bool:
        """Whether the tokens of a text are read in the same way after it has grown, so that what is cached of them is
        still right.

        Args:
            n_before, n_after: number of tokens before and after.
        """
        return True

    reads_alike = renamed_attribute("reads_alike", "cache_stays_valid")

    def embed(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Int[Tensor, "#batch tokens"]
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the embeddings.

        Args:
            x: the embeddings of the tokens.
            positions: the positions of the tokens, in one row for all sequences or in one for each.

        Raises:
            ValueError: by a scheme that adds vectors to the embeddings, for another width, or positions that do not fit
                or have no vector.
        """
        return x

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Int[Tensor, "#batch tokens"]
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Change the embeddings, as ``embed`` does; the other three belong to attention, which calls them by name.

        Args:
            x, positions: as in :meth:`embed`.
        """
        return self.embed(x, positions)

    def tables(self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Compute what ``rotate`` needs from the positions.

        Args:
            positions: the positions of the tokens: (tokens,), or (batch or 1, tokens).
            dtype: of the vectors that will be rotated.
        """
        return ()

    def rotate(
        self,
        x: Float[Tensor, "*leading tokens d_head"],
        positions: Int[Tensor, "*#batch tokens"],
        tables: tuple[Tensor, ...] | None = None,
    ) -> Float[Tensor, "*leading tokens d_head"]:
        """Change queries or keys.

        Args:
            x: queries or keys, with any dimensions before the tokens.
            positions: the positions of the tokens: (tokens,), or (batch or 1, tokens).
            tables: from ``tables``, for the same positions; computed unless they are given.
        """
        return x

    def scale(self, d_head: int) -> float:
        """The factor of the scores.

        Args:
            d_head: width of a query or key.
        """
        return 1 / math.sqrt(d_head)

    def bias(
        self,
        query: Float[Tensor, "batch heads queries d_head"],
        key: Float[Tensor, "batch kv_heads keys d_head"],
        context: PositionContext,
    ) -> Float[Tensor, "#batch #heads queries keys"] | None:
        """What is added to the scores after they were scaled; None for nothing.

        Args:
            query, key: the queries and keys of all heads, after ``rotate``.
            context: the positions of both.

        Raises:
            ValueError: by a scheme that adds something, for sizes or positions that do not fit.
        """
        return None

    def add_to_output(
        self, weights: Float[Tensor, "batch heads queries keys"], context: PositionContext
    ) -> Float[Tensor, "batch heads queries d_value"] | None:
        """What is added to the average of the values; None for nothing. No fused kernel computes it, since it needs the
        weights.

        Args:
            weights: the weights of attention.
            context: the positions of queries and keys.
        """
        return None
