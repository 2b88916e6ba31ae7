"""Multi-head attention: self-attention and cross-attention, over one shared piece.

Shapes as in ``layers.functional``. Grouped-query and multi-query attention are the same classes with fewer
key-value heads.
"""

import torch
from einops import rearrange
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.attention_sinks import AttentionSinks
from llm_anatomy.layers.functional import ScoreMod, _attend
from llm_anatomy.layers.kv_cache import KVCache, context_of_new_tokens
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.shapes import Bool, Float, Int, Tensor


class MultiHeadAttention(nn.Module):
    r"""The part that self-attention and cross-attention share: four projections, and attention between them.

    .. math:: \mathrm{MultiHead}(X, C) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O, \quad
        \mathrm{head}_i = \mathrm{Attention}(X W_i^Q, C W_i^K, C W_i^V)

    In self-attention, C = X. If ``n_kv_heads`` equals ``n_heads``, this is multi-head attention; with fewer key-value
    heads it is grouped-query attention, and with a single one multi-query attention.

    Args:
        d_model: width of the tokens that attend, and of the output.
        n_heads: number of query heads.
        n_kv_heads: number of key-value heads; must divide ``n_heads``, which is the default.
        d_head: width of a query or key, ``d_model / n_heads`` by default.
        d_value: width of a value, ``d_head`` by default.
        d_context: width of the tokens that are attended to, ``d_model`` by default.
        position: the position scheme; without one, attention does not depend on the order of the tokens.
        query_norm, key_norm: modules that normalize queries and keys (batch, heads, tokens, d_head) before they are
            rotated, such as ``nn.RMSNorm(d_head)``; none by default.
        scale: factor of the scores, by default the position scheme's.
        score_mod: as in :func:`~llm_anatomy.layers.functional.scaled_dot_product_attention`.
        clip_qkv: a bound, above 0: the entries of queries, keys and values are clipped to [-clip_qkv, clip_qkv] as soon
            as they are projected, so that no spike in training makes the scores explode. None, the default, for no
            bound.
        sinks: a share of the softmax for no token at all, such as ``AttentionSinks(n_heads)``; none by default.
        bias: whether the four projections have biases.
        output_bias: whether the output projection has a bias, if it differs from the others.

    Raises:
        ValueError: for sizes below one, or a bound that is not above 0; if ``n_kv_heads`` does not divide ``n_heads``;
            if ``d_head`` is not given and ``n_heads`` does not divide ``d_model``.

    Source: Vaswani et al. (2017), section 3.2.2; Ainslie et al. (2023); MosaicML (2023), "MPT-7B", the released code
    (``clip_qkv``); CMU-11, CMU-12, UCL-22.

    >>> shared = MultiHeadAttention(d_model=12, n_heads=3, n_kv_heads=1)
    >>> shared.w_query.weight.shape, shared.w_key.weight.shape
    (torch.Size([12, 12]), torch.Size([4, 12]))
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        d_value: int | None = None,
        d_context: int | None = None,
        position: PositionScheme | None = None,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
        scale: float | None = None,
        score_mod: ScoreMod | None = None,
        clip_qkv: float | None = None,
        sinks: AttentionSinks | None = None,
        bias: bool = False,
        output_bias: bool | None = None,
    ):
        super().__init__()
        if clip_qkv is not None and not clip_qkv > 0:
            raise ValueError(f"{clip_qkv=} must be above 0")
        sizes = _sizes(d_model, n_heads, n_kv_heads, d_head, d_value, d_context)
        self.n_kv_heads, self.d_head, self.d_value, d_context = sizes
        self.n_heads = n_heads
        self.w_query = nn.Linear(d_model, n_heads * self.d_head, bias=bias)
        self.w_key = nn.Linear(d_context, self.n_kv_heads * self.d_head, bias=bias)
        self.w_value = nn.Linear(d_context, self.n_kv_heads * self.d_value, bias=bias)
        self.w_output = nn.Linear(n_heads * self.d_value, d_model, bias=bias if output_bias is None else output_bias)
        self.position = PositionScheme() if position is None else position
        self.query_norm = nn.Identity() if query_norm is None else query_norm
        self.key_norm = nn.Identity() if key_norm is None else key_norm
        self.scale = self.position.scale(self.d_head) if scale is None else scale
        self.score_mod, self.clip_qkv = score_mod, clip_qkv
        self.sinks = sinks

    def new_cache(self, batch: int, n_slots: int, kind: type[KVCache] = KVCache) -> KVCache:
        """Make a cache of the right sizes.

        Args:
            batch: number of sequences.
            n_slots: number of tokens that it can hold or, with ``RollingKVCache``, width of the window.
            kind: the class of the cache.
        """
        shapes = [(self.n_kv_heads, self.d_head), (self.n_kv_heads, self.d_value)]
        return kind(batch, n_slots, shapes, dtype=self.w_key.weight.dtype, device=self.w_key.weight.device)

    def _queries(self, x: Tensor, positions: Tensor, tables: tuple[Tensor, ...] | None = None) -> Tensor:
        query = self._split_heads(self.w_query(x), self.n_heads)
        return self.position.rotate(self.query_norm(query), positions, tables)

    def _keys_and_values(self, x: Tensor, positions: Tensor, tables: tuple[Tensor, ...] | None = None):
        key = self._split_heads(self.w_key(x), self.n_kv_heads)
        value = self._split_heads(self.w_value(x), self.n_kv_heads)
        return self.position.rotate(self.key_norm(key), positions, tables), value

    def _split_heads(self, projected: Tensor, n_heads: int) -> Tensor:
        if self.clip_qkv is not None:
            projected = projected.clamp(-self.clip_qkv, self.clip_qkv)
        return rearrange(projected, "batch tokens (heads d) -> batch heads tokens d", heads=n_heads)

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, mask, position_context: PositionContext, explicit: bool):
        scheme, scheme_context = self.position, position_context.for_scheme(self.w_query, self.w_key)
        output, weights = _attend(
            query,
            key,
            value,
            mask,
            position_context=position_context,
            bias=scheme.bias(query, key, scheme_context),
            scale=self.scale,
            score_mod=self.score_mod,
            sinks=None if self.sinks is None else self.sinks.logits,
            explicit=explicit or scheme.explicit_only is not None,
        )
        if weights is not None and (added := scheme.add_to_output(weights, scheme_context)) is not None:
            output = output + added
        return self.w_output(rearrange(output, "batch heads queries d -> batch queries (heads d)")), weights


class SelfAttention(MultiHeadAttention):
    r"""Attention from each token to the tokens of its own sequence.

    .. math:: \mathrm{SelfAttention}(X) = \mathrm{MultiHead}(X, X)

    Args:
        d_model: width of the tokens.
        n_heads: number of query heads.
        n_kv_heads, d_head, d_value: number of key-value heads, width of a query or key, and width of a value, as in
            :class:`MultiHeadAttention`.
        d_context: to be left out, since the tokens that are attended to are the same ones.
        position, query_norm, key_norm, scale, score_mod, clip_qkv, sinks, bias, output_bias: as in
            :class:`MultiHeadAttention`.

    Raises:
        ValueError: as :class:`MultiHeadAttention`.

    Source: Vaswani et al. (2017), section 3.2.2; Ainslie et al. (2023); CMU-09, CMU-11, CMU-12, UCL-21, UCL-22.

    >>> from llm_anatomy.layers.masks import CausalMask
    >>> attention = SelfAttention(d_model=12, n_heads=3, n_kv_heads=1)
    >>> output, weights = attention(torch.randn(2, 5, 12), mask=CausalMask(), return_weights=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 12), (2, 3, 5, 5))
    """

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        mask: Bool[Tensor, "*#mask"] | Mask | None = None,
        *,
        positions: Int[Tensor, "#batch queries"] | None = None,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        fused: bool | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "batch queries d_model"]
        | tuple[Float[Tensor, "batch queries d_model"], Float[Tensor, "batch heads queries keys"]]
    ):
        """Attend from every token of ``x`` to all tokens of ``x`` and of the cache.

        Args:
            x: the tokens.
            mask, return_weights: as in :func:`~llm_anatomy.layers.functional.scaled_dot_product_attention`.
            positions: the positions of the tokens, -1 for padding. A :class:`~llm_anatomy.layers.masks.Mask` hides
                padding, and a boolean tensor does not. By default 0, 1, 2, … or, with a cache, the positions that
                follow its last token.
            position_context: the positions of queries and keys as a model makes them, once for all its layers, in place
                of ``positions``.
            cache: stores keys and values from one call to the next.
            fused: True requires the fused path, and raises a ValueError with the reason if there is none; False takes
                the explicit path; None, the default, takes the fused path if there is one.

        Raises:
            ValueError: for ``fused=True`` where there is no fused path; for a cache if the position scheme cannot be
                cached, or if the tokens do not fit into it.
        """
        explicit = _takes_explicit_path(fused, return_weights, self.position, self.score_mod)
        if position_context is None:
            position_context = context_of_new_tokens(x.shape[1], positions, cache, x.device)
        _check_cache(cache, self.position)
        tables = position_context.tables(self.position, x.dtype)
        query = self._queries(x, position_context.query_positions, tables)
        key, value = self._keys_and_values(x, position_context.query_positions, tables)
        if cache is not None:
            key, value, key_positions = cache.append(key, value, positions=position_context.new_positions)
            position_context = position_context.with_keys(key_positions, cache.layout)
        output, weights = self._mix(query, key, value, mask, position_context, explicit)
        return output if weights is None or not return_weights else (output, weights)


class CrossAttention(MultiHeadAttention):
    r"""Attention from each token to the tokens of another sequence, such as the output of an encoder.

    .. math:: \mathrm{CrossAttention}(X, C) = \mathrm{MultiHead}(X, C)

    Args:
        d_model: width of the tokens that attend, and of the output.
        n_heads: number of query heads.
        d_context: width of the tokens that are attended to, ``d_model`` by default.
        n_kv_heads, d_head, d_value: number of key-value heads, width of a query or key, and width of a value, as in
            :class:`MultiHeadAttention`.
        position, query_norm, key_norm, scale, score_mod, clip_qkv, sinks, bias, output_bias: as in
            :class:`MultiHeadAttention`.

    Raises:
        ValueError: as :class:`MultiHeadAttention`.

    Source: Vaswani et al. (2017), section 3.2.3; UCL-21, UCL-31.

    >>> attention = CrossAttention(d_model=12, n_heads=3, d_context=10)
    >>> tuple(attention(torch.randn(2, 5, 12), torch.randn(2, 7, 10)).shape)
    (2, 5, 12)
    """

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        context: Float[Tensor, "batch keys d_context"],
        mask: Bool[Tensor, "*#mask"] | Mask | None = None,
        *,
        positions: Int[Tensor, "#batch queries"] | None = None,
        context_positions: Int[Tensor, "#batch keys"] | None = None,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        fused: bool | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "batch queries d_model"]
        | tuple[Float[Tensor, "batch queries d_model"], Float[Tensor, "batch heads queries keys"]]
    ):
        """Attend from every token of ``x`` to all tokens of ``context``.

        Args:
            x, context: the tokens that attend, and those that are attended to.
            mask, fused, return_weights: as in :class:`SelfAttention`.
            positions, context_positions: the positions of the tokens, -1 for padding, which a
                :class:`~llm_anatomy.layers.masks.Mask` hides; by default 0, 1, 2, …
            position_context: both, as a model makes them once for all its layers, in their place.
            cache: stores the keys and values of the context. The first call fills it; later calls take keys, values and
                positions from it.

        Raises:
            ValueError: as :meth:`SelfAttention.forward`.
        """
        explicit = _takes_explicit_path(fused, return_weights, self.position, self.score_mod)
        cached = cache.read() if cache is not None and cache.length else None
        if position_context is None:
            context_positions = context_positions if cached is None else cached[-1]
            position_context = PositionContext(_positions(x, positions), _positions(context, context_positions))
        _check_cache(cache, self.position)
        query = self._queries(x, position_context.query_positions)
        if cached is not None:
            key, value, _ = cached
        else:
            key, value = self._keys_and_values(context, position_context.key_positions)
            if cache is not None:
                cache.append(key, value, positions=position_context.key_positions)
        output, weights = self._mix(query, key, value, mask, position_context, explicit)
        return output if weights is None or not return_weights else (output, weights)


def _positions(x: Tensor, given: Tensor | None) -> Tensor:
    """The given positions, or 0, 1, 2, … (1, tokens)."""
    return torch.arange(x.shape[1], device=x.device)[None] if given is None else given


def _sizes(
    d_model: int, n_heads: int, n_kv_heads: int | None, d_head: int | None, d_value: int | None, d_context: int | None
) -> tuple[int, int, int, int]:
    """``(n_kv_heads, d_head, d_value, d_context)`` with defaults filled in."""
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    _check_at_least_one(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads)
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads=} must divide {n_heads=}")
    if d_head is None and d_model % n_heads:
        raise ValueError(f"{n_heads=} must divide {d_model=} unless d_head is given")
    d_head = d_model // n_heads if d_head is None else d_head
    d_value, d_context = d_head if d_value is None else d_value, d_model if d_context is None else d_context
    _check_at_least_one(d_head=d_head, d_value=d_value, d_context=d_context)
    return n_kv_heads, d_head, d_value, d_context


def _check_cache(cache: KVCache | None, position: PositionScheme) -> None:
    if cache is not None and position.not_cacheable:
        raise ValueError(f"{type(position).__name__} cannot be cached: {position.not_cacheable}")


def _takes_explicit_path(fused: bool | None, return_weights: bool, position: PositionScheme, score_mod) -> bool:
    reason = position.explicit_only
    if return_weights:
        reason = "return_weights=True needs the weights"
    elif reason is None and score_mod is not None:
        reason = f"{score_mod} changes the scores, which no fused kernel here does"
    if fused and reason is not None:
        raise ValueError(f"fused=True is not possible here: {reason}")
    return fused is False or reason is not None
