"""Attention: a soft lookup of values, by the match of queries with keys.

Legend of shapes: ``batch``, ``heads`` (query heads), ``kv_heads`` (key and value heads), ``queries`` and ``keys``
(how many tokens ask, how many are asked), ``d_head`` (width of a query or key), ``d_value`` (width of a value).
Rows are tokens. Masks are boolean, True = may attend.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.kv_cache import KVCache, NoCache
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.shapes import Bool, Float, Int, Tensor


def causal_mask(
    n_queries: int, n_keys: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "queries keys"]:
    """Each token may attend to itself and to what came before.

    The last query stands at the last key, so that with fewer queries than keys (decoding over a cache) the queries
    are the newest tokens: query i may attend to key j where ``j <= i + n_keys - n_queries``.

    Args:
        n_queries: how many tokens ask.
        n_keys: how many are asked; as many as ask by default.
        device: where the mask is made.

    Returns:
        Boolean, True = may attend.

    Raises:
        ValueError: if there are more queries than keys: the first queries would see nothing.

    Source: Vaswani et al. (2017), section 3.2.3; UCL-20.

    >>> causal_mask(2, 3).int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    n_keys = n_queries if n_keys is None else n_keys
    if n_queries > n_keys:
        raise ValueError(f"n_queries={n_queries} must not exceed n_keys={n_keys}: the first queries would see no key")
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)


def scaled_dot_product_attention(
    query: Float[Tensor, "batch heads queries d_head"],
    key: Float[Tensor, "batch kv_heads keys d_head"],
    value: Float[Tensor, "batch kv_heads keys d_value"],
    mask: Bool[Tensor, "*#mask"] | Mask | None = None,
    *,
    positions: tuple[Int[Tensor, "#batch queries"], Int[Tensor, "#batch keys"]] | None = None,
    bias: Float[Tensor, "#batch #heads queries keys"] | None = None,
    scale: float | None = None,
    score_mod: Callable[[Tensor], Tensor] | None = None,
    return_weights: bool = False,
) -> (
    Float[Tensor, "batch heads queries d_value"]
    | tuple[Float[Tensor, "batch heads queries d_value"], Float[Tensor, "batch heads queries keys"]]
):
    r"""The values, averaged with weights that say how well each key matches the query.

    .. math:: \mathrm{Attention}(Q, K, V) = \mathrm{softmax}(Q K^\top \cdot \mathrm{scale} + \mathrm{bias})\, V

    Two paths, equal by test: the fused one asks PyTorch for the output alone, the explicit one forms the weights,
    which takes memory of size queries x keys, and returns them.

    Args:
        query, key, value: as many query heads as there are key-value heads, or a multiple: head i then reads
            key-value head ``i // (heads / kv_heads)``.
        mask: boolean, True = may attend, broadcast to (batch, heads, queries, keys); or a rule over positions. A query
            that may attend to nothing gets weights and output zero.
        positions: of queries and of keys, for a rule; by default all follow each other and the last query stands at
            the last key. Then the kernel's own causal mode serves, which needs no memory for a mask.
        bias: added to the scaled scores, what a position scheme makes of the positions, for instance.
        scale: factor of the scores, :math:`1/\sqrt{d_\mathrm{head}}` by default.
        score_mod: makes scores of the biased scores, ``Softcapping(50.0)`` for instance; takes the explicit path.
        return_weights: take the explicit path and return ``(output, weights)``.

    Returns:
        The output, or output and weights.

    Raises:
        ValueError: if the heads do not divide, widths or lengths disagree, or mask or bias do not broadcast.
        TypeError: if the mask is not boolean.

    Source: Vaswani et al. (2017), section 3.2.1; UCL-18, UCL-19, UCL-20.

    >>> query = torch.tensor([[[[0.8, 0.2]]]])
    >>> key, value = torch.eye(2)[None, None], torch.tensor([[[[1.0, 1.0], [-1.0, 1.0]]]])
    >>> output, weights = scaled_dot_product_attention(query, key, value, scale=1.0, return_weights=True)
    >>> [round(w, 4) for w in weights.flatten().tolist()], [round(x, 4) for x in output.flatten().tolist()]
    ([0.6457, 0.3543], [0.2913, 1.0])
    """
    _check_shapes(query, key, value)
    explicit = return_weights or score_mod is not None
    mask, causal = _pairs_or_mode(mask, query, key, positions, all_pairs=explicit or bias is not None)
    _check_broadcast((*query.shape[:3], key.shape[2]), mask=mask, bias=bias)
    bias = None if bias is None else bias.to(query.dtype)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if not explicit:
        return _fused(query, key, value, mask, bias, scale, causal)
    key, value = (
        repeat(x, "batch kv_heads keys width -> batch (kv_heads group) keys width", group=query.shape[1] // x.shape[1])
        for x in (key, value)
    )
    scores = query @ key.transpose(-2, -1) * scale  # (batch, heads, queries, keys)
    if bias is not None:
        scores = scores + bias
    if score_mod is not None:
        scores = score_mod(scores)
    if mask is None:
        weights = scores.softmax(-1)
    else:  # the second fill gives a query that may attend to nothing zeros in place of 0/0
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)
    return (weights @ value, weights) if return_weights else weights @ value


def _pairs_or_mode(mask, query: Tensor, key: Tensor, positions, all_pairs: bool) -> tuple[Tensor | None, bool]:
    """Of a rule what it says of all pairs, or nothing and whether the kernel's own causal mode says it."""
    if not isinstance(mask, Mask):
        return mask, False
    n_queries, n_keys = query.shape[2], key.shape[2]
    mode = mask.kernel_mode(n_queries, n_keys) if positions is None else None
    if mode == "all" or (mode == "causal" and not all_pairs):
        return None, mode == "causal"
    if positions is None:  # the last query stands at the last key
        if n_queries > n_keys:
            raise ValueError(f"{n_queries} queries over {n_keys} keys: a rule needs their positions")
        known_positions = torch.arange(n_keys, device=key.device)[None]
        positions = known_positions[:, n_keys - n_queries :], known_positions
    return mask(*positions), False


def _fused(query: Tensor, key: Tensor, value: Tensor, mask, bias, scale: float, causal: bool) -> Tensor:
    """PyTorch's kernel, asked in the way in which it is fast."""
    (n_heads, n_queries, d_head), n_kv_heads, d_value = query.shape[1:], key.shape[1], value.shape[-1]
    allowed = mask if bias is None else bias if mask is None else torch.where(mask, bias, -math.inf)
    allowed = None if allowed is None else torch.atleast_2d(allowed)
    if d_value < d_head:  # it wants one width; zeros add nothing to scores, and values that are zero are cut off
        value = F.pad(value, (0, d_head - d_value))
    elif d_head < d_value:
        query, key = (F.pad(x, (0, d_value - d_head)) for x in (query, key))
    if n_queries == 1 and n_kv_heads < n_heads:  # heads that share keys ask as the queries of one head
        query = rearrange(query, "batch (kv_heads group) 1 d -> batch kv_heads group d", kv_heads=n_kv_heads)
        if allowed is not None:
            allowed = allowed.expand(len(query), n_heads, 1, key.shape[2])
            allowed = rearrange(
                allowed, "batch (kv_heads group) 1 keys -> batch kv_heads group keys", kv_heads=n_kv_heads
            )
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=allowed, scale=scale, is_causal=causal, enable_gqa=query.shape[1] != n_kv_heads
    )
    return output.reshape(len(output), n_heads, n_queries, -1)[..., :d_value]


def _check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, tensor in {"query": query, "key": key, "value": value}.items():
        if tensor.ndim != 4:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be (batch, heads, tokens, width)")
    if query.shape[0] != key.shape[0] or key.shape[:3] != value.shape[:3]:
        raise ValueError(
            f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)} must agree in batch, "
            "and key and value in heads and tokens"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query is {query.shape[-1]} wide and key {key.shape[-1]}; they must be equally wide")
    if query.shape[1] % key.shape[1]:
        raise ValueError(f"{query.shape[1]} query heads cannot share {key.shape[1]} key-value heads evenly")


def _check_broadcast(scores_shape: tuple[int, ...], mask: Tensor | None, bias: Tensor | None = None) -> None:
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"mask has dtype {mask.dtype}; it must be torch.bool, True = may attend")
    for name, tensor in {"mask": mask, "bias": bias}.items():
        if tensor is not None and (
            tensor.ndim > len(scores_shape)
            or any(n not in (1, s) for n, s in zip(tensor.shape[::-1], scores_shape[::-1], strict=False))
        ):
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must broadcast to the scores {scores_shape}")


class MultiHeadAttention(nn.Module):
    r"""Several heads attend side by side; W^O mixes what they found.

    .. math:: \mathrm{MultiHead}(X, C) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W^O, \quad
        \mathrm{head}_i = \mathrm{Attention}(X W_i^Q, C W_i^K, C W_i^V)

    Self-attention when only ``x`` is given; cross-attention when ``context`` is given. ``n_kv_heads`` spans the
    family: ``n_heads`` of them is multi-head, fewer grouped-query, one multi-query attention.

    Args:
        d_model: width of the tokens that ask, and of the output.
        n_heads: how many query heads.
        n_kv_heads: how many key-value heads; must divide ``n_heads``, which is the default.
        d_head: width of a query or key, ``d_model / n_heads`` by default.
        d_value: width of a value, ``d_head`` by default.
        d_context: width of the tokens that are asked, ``d_model`` by default.
        position: what tells attention where tokens stand; nothing does by default.
        query_norm, key_norm: for queries and keys (batch, heads, tokens, d_head) before they are turned,
            ``nn.RMSNorm(d_head)`` for instance; nothing by default.
        scale: factor of the scores, in place of the position scheme's.
        score_mod: as in :func:`scaled_dot_product_attention`.
        bias: whether the four projections have biases.
        output_bias: whether the last one has, as the others by default.

    Raises:
        ValueError: for sizes below one, or that do not divide.

    Source: Vaswani et al. (2017), section 3.2.2; Ainslie et al. (2023); CMU-09, CMU-11, CMU-12, UCL-21, UCL-22.

    >>> attention = MultiHeadAttention(d_model=12, n_heads=3, n_kv_heads=1)
    >>> output, weights = attention(torch.randn(2, 5, 12), mask=causal_mask(5), return_weights=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 12), (2, 3, 5, 5))
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
        score_mod: nn.Module | None = None,
        bias: bool = False,
        output_bias: bool | None = None,
    ):
        super().__init__()
        n_kv_heads, d_head, d_value, d_context = _sizes(d_model, n_heads, n_kv_heads, d_head, d_value, d_context)
        self.n_heads, self.n_kv_heads, self.d_head, self.d_value = n_heads, n_kv_heads, d_head, d_value
        self.w_query = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.w_key = nn.Linear(d_context, n_kv_heads * d_head, bias=bias)
        self.w_value = nn.Linear(d_context, n_kv_heads * d_value, bias=bias)
        self.w_output = nn.Linear(n_heads * d_value, d_model, bias=_default(output_bias, bias))
        self.position = _default(position, PositionScheme())
        self.query_norm, self.key_norm = _default(query_norm, nn.Identity()), _default(key_norm, nn.Identity())
        self.scale = _default(scale, self.position.scale(d_head))
        self.score_mod = score_mod

    def new_cache(self, batch: int, n_slots: int, kind: type[KVCache] = KVCache) -> KVCache:
        """A cache that fits: for ``n_slots`` tokens, or, of kind ``RollingKVCache``, for a window of that width."""
        kept = [(self.n_kv_heads, self.d_head), (self.n_kv_heads, self.d_value)]
        return kind(batch, n_slots, kept, dtype=self.w_key.weight.dtype, device=self.w_key.weight.device)

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        context: Float[Tensor, "batch keys d_context"] | None = None,
        mask: Bool[Tensor, "*#mask"] | Mask | None = None,
        *,
        positions: Int[Tensor, "#batch queries"] | None = None,
        context_positions: Int[Tensor, "#batch keys"] | None = None,
        cache: KVCache | None = None,
        fused: bool | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "batch queries d_model"]
        | tuple[Float[Tensor, "batch queries d_model"], Float[Tensor, "batch heads queries all_keys"]]
    ):
        """Attend from ``x`` to ``context``, to ``x`` itself by default.

        Args:
            x, context: the tokens that ask, and those that are asked.
            mask, return_weights: as in :func:`scaled_dot_product_attention`.
            positions, context_positions: where the tokens stand, -1 for padding, which a rule hides; by default 0, 1,
                2, … or, over a cache, the positions after those that are taken.
            cache: keeps keys and values from call to call. A context is read once: when the cache holds it, later
                calls take it from there.
            fused: True for the fused path or an error that says why there is none, False for the explicit path; by
                default what is possible.
        """
        explicit = _takes_explicit_path(fused, return_weights, self.position, self.score_mod)
        cache = _usable(cache, self.position, x.device)
        if context is None:
            in_order = positions is None and cache.in_order
            given, positions = positions, _default(positions, cache.next_positions(x.shape[1]))
            kept = cache.append(*self._keys_and_values(x, positions), positions=given)
        else:
            in_order, positions = False, _default(positions, _count(x))
            if cache.length:
                kept = cache.read()
            else:
                context_positions = _default(context_positions, _count(context))
                kept = cache.append(*self._keys_and_values(context, context_positions), positions=context_positions)
        key, value, key_positions = kept  # (batch, kv_heads, keys, d_head or d_value) and (batch, keys)
        key_positions = _default(key_positions, positions)
        query = rearrange(self.w_query(x), "batch queries (heads d) -> batch heads queries d", heads=self.n_heads)
        query = self.position.rotate(self.query_norm(query), positions)
        known_positions = positions, key_positions
        if not in_order:  # padding, at -1, needs a position in a table, if there is one
            known_positions = positions.clamp(min=0), key_positions.clamp(min=0)
        output = scaled_dot_product_attention(
            query,
            key,
            value,
            mask,
            positions=None if in_order else (positions, key_positions),
            bias=self.position.bias(query, key, *known_positions, (self.w_query, self.w_key)),
            scale=self.scale,
            score_mod=self.score_mod,
            return_weights=explicit,
        )
        if explicit:
            output, weights = output
            of_positions = self.position.add_to_output(weights, *known_positions)
            output = output if of_positions is None else output + of_positions
        output = self.w_output(rearrange(output, "batch heads queries d -> batch queries (heads d)"))
        return (output, weights) if return_weights else output

    def _keys_and_values(self, context: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        key = rearrange(self.w_key(context), "batch keys (heads d) -> batch heads keys d", heads=self.n_kv_heads)
        value = rearrange(self.w_value(context), "batch keys (heads d) -> batch heads keys d", heads=self.n_kv_heads)
        return self.position.rotate(self.key_norm(key), positions), value


def _default(given, otherwise):
    return otherwise if given is None else given


def _sizes(d_model, n_heads, n_kv_heads, d_head, d_value, d_context) -> tuple[int, int, int, int]:
    n_kv_heads = _default(n_kv_heads, n_heads)
    _check_at_least_one(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads)
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads=} must divide {n_heads=}")
    if d_head is None and d_model % n_heads:
        raise ValueError(f"{n_heads=} must divide {d_model=} unless d_head is given")
    d_head = _default(d_head, d_model // n_heads)
    d_value, d_context = _default(d_value, d_head), _default(d_context, d_model)
    _check_at_least_one(d_head=d_head, d_value=d_value, d_context=d_context)
    return n_kv_heads, d_head, d_value, d_context


def _count(x: Tensor) -> Tensor:
    """Positions 0, 1, 2, … (1, tokens)."""
    return torch.arange(x.shape[1], device=x.device)[None]


def _takes_explicit_path(fused: bool | None, return_weights: bool, position: PositionScheme, score_mod) -> bool:
    changed = score_mod and f"{score_mod} changes the scores, which no fused kernel here does"
    needs_weights = "return_weights=True" if return_weights else position.explicit_only or changed
    if fused and needs_weights:
        raise ValueError(f"fused=True is not possible here, since the weights are needed: {needs_weights}")
    return fused is False or bool(needs_weights)


def _usable(cache: KVCache | None, position: PositionScheme, device: torch.device) -> KVCache | NoCache:
    if cache is not None and position.not_cacheable:
        raise ValueError(f"{type(position).__name__} cannot be cached: {position.not_cacheable}")
    return NoCache(device) if cache is None else cache
