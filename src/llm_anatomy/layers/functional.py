r"""Scaled dot-product attention as functions: one path that forms the weights, and one that leaves them to a kernel.

Shapes: ``batch``, ``heads`` (of the queries), ``kv_heads`` (of keys and values), ``queries`` and ``keys``
(numbers of tokens), ``d_head`` (width of a query or a key), ``d_value`` (width of a value). Rows are tokens. Boolean
masks are True where a query may attend to a key. The functions of this module take any number of dimensions before
those of tokens and width: none, ``batch``, ``batch heads``, or more, of which the last is ``heads``; all of them may be
empty.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange, repeat

from llm_anatomy.layers.attention_sinks import softmax_with_sinks, with_sink_as_key
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.shapes import Bool, Float, Tensor

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""PyTorch's signature: ``score_mod(score, batch, head, q_idx, kv_idx)``, in tensor operations only. Here it is called
once with all scores, and with indices that broadcast to them."""


def scaled_dot_product_attention(
    query: Float[Tensor, "*leading queries d_head"],
    key: Float[Tensor, "*kv_leading keys d_head"],
    value: Float[Tensor, "*kv_leading keys d_value"],
    mask: Bool[Tensor, "*#mask"] | Mask | None = None,
    *,
    position_context: PositionContext | None = None,
    bias: Float[Tensor, "*#bias"] | None = None,
    scale: float | None = None,
    score_mod: ScoreMod | None = None,
    return_weights: bool = False,
) -> (
    Float[Tensor, "*leading queries d_value"]
    | tuple[Float[Tensor, "*leading queries d_value"], Float[Tensor, "*leading queries keys"]]
):
    r"""Average the values with weights that say how well each key matches the query.

    .. math:: \mathrm{Attention}(Q, K, V) = \mathrm{softmax}(Q K^\top \cdot \mathrm{scale} + \mathrm{bias})\, V

    There are two paths, and the tests compare them. The fused path calls PyTorch's kernel, which computes only the
    output. The explicit path computes the weights, which takes memory for queries x keys numbers per head, and can
    return them.

    Args:
        query, key, value: their leading dimensions agree, with one exception. If there are at least two of them, the
            last one counts heads, and the query may have a multiple of the heads of key and value: query head i reads
            key-value head ``i // (heads / kv_heads)``.
        mask: boolean, True = may attend, broadcast to (\*leading, queries, keys); or a rule over positions, such as
            ``CausalMask()``. A query that may attend to no key gets zeros for weights and output.
        position_context: the positions of queries and keys, which a rule needs; their batch holds all leading
            dimensions but that of the heads, in their order. By default the tokens follow each other without gaps, and
            the last query is at the position of the last key.
        bias: is added to the scaled scores, such as the bias of a position scheme; broadcasts as the mask does.
        scale: factor of the scores, :math:`1/\sqrt{d_\mathrm{head}}` by default.
        score_mod: changes the scores after the bias was added, with the signature of PyTorch's FlexAttention, such as
            ``Softcapping(50.0)``. It takes the explicit path.
        return_weights: whether to take the explicit path and return ``(output, weights)``.

    Returns:
        The output, or output and weights.

    Raises:
        ValueError: if the key-value heads do not divide the query heads, if widths or lengths disagree, or if mask or
            bias do not broadcast.
        TypeError: if the mask is not boolean.

    Source: Vaswani et al. (2017), section 3.2.1; UCL-18, UCL-19, UCL-20.

    >>> query = torch.tensor([[[[0.8, 0.2]]]])
    >>> key, value = torch.eye(2)[None, None], torch.tensor([[[[1.0, 1.0], [-1.0, 1.0]]]])
    >>> output, weights = scaled_dot_product_attention(query, key, value, scale=1.0, return_weights=True)
    >>> [round(w, 4) for w in weights.flatten().tolist()], [round(x, 4) for x in output.flatten().tolist()]
    ([0.6457, 0.3543], [0.2913, 1.0])
    """
    attend = _attend if query.ndim == 4 else _attend_with_any_leading_dimensions
    output, weights = attend(
        query,
        key,
        value,
        mask,
        position_context=position_context,
        bias=bias,
        scale=scale,
        score_mod=score_mod,
        explicit=return_weights,
    )
    return output if weights is None or not return_weights else (output, weights)


def _attend_with_any_leading_dimensions(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None, *, bias: Tensor | None, **options
) -> tuple[Tensor, Tensor | None]:
    """The output and the weights of ``_attend``, which takes batch and heads, for other dimensions than these two."""
    _check_shapes(query, key, value)
    leading = query.shape[:-2]
    tensors = {"mask": None if isinstance(mask, Mask) else mask, "bias": bias}
    _check_broadcast((*leading, query.shape[-2], key.shape[-2]), **tensors)
    query, key, value = (_with_batch_and_heads(x, leading) for x in (query, key, value))
    tensors = {name: None if x is None else _with_batch_and_heads(x, leading) for name, x in tensors.items()}
    rule = mask if isinstance(mask, Mask) else tensors["mask"]
    output, weights = _attend(query, key, value, rule, bias=tensors["bias"], **options)
    output = output.reshape(*leading, *output.shape[2:])
    return output, None if weights is None else weights.reshape(*leading, *weights.shape[2:])


def _with_batch_and_heads(x: Tensor, leading: torch.Size) -> Tensor:
    """A tensor with these leading dimensions, or one that broadcasts to them, as (batch, heads, rows, columns)."""
    if not leading:
        return x[(None,) * (4 - x.ndim)]
    if len(leading) == 1:  # there is a batch, but no heads
        return x if x.ndim < 3 else x[:, None]
    if x.ndim < 4:
        return x
    if x.shape[:-3].numel() != 1:
        x = x.expand(*leading[:-1], *x.shape[-3:])
    return x.flatten(0, -4)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None = None,
    *,
    position_context: PositionContext | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    score_mod: ScoreMod | None = None,
    sinks: Tensor | None = None,
    explicit: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The output of :func:`scaled_dot_product_attention`, and the weights if they were formed. ``sinks`` are the logits
    of :class:`~llm_anatomy.layers.attention_sinks.AttentionSinks`."""
    _check_shapes(query, key, value)
    explicit = explicit or score_mod is not None
    causal = False
    if isinstance(mask, Mask):
        needs_tensor = explicit or bias is not None or sinks is not None
        mask, causal = _tensor_or_mode(mask, query, key, position_context, needs_tensor)
    if position_context is not None and bias is not None and bias.ndim != 4:
        raise ValueError(f"the bias of the position scheme, {tuple(bias.shape)}, must be (batch, heads, queries, keys)")
    _check_broadcast((*query.shape[:3], key.shape[2]), mask=mask, bias=bias)
    bias = None if bias is None else bias.to(query.dtype)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if not explicit:
        if sinks is not None:
            added = mask if bias is None else bias if mask is None else torch.where(mask, bias, -math.inf)
            key, value, bias = with_sink_as_key(key, value, added, sinks, query.shape[2])
            mask = None
        return _fused(query, key, value, mask, bias, scale, causal), None
    n_groups = query.shape[1] // max(key.shape[1], 1)
    key, value = (repeat(x, "batch heads keys d -> batch (heads group) keys d", group=n_groups) for x in (key, value))
    weights = attention_weights(query, key, mask, bias=bias, scale=scale, score_mod=score_mod, sinks=sinks)
    return weights @ value, weights


def attention_weights(
    query: Float[Tensor, "*leading queries d_head"],
    key: Float[Tensor, "*leading keys d_head"],
    mask: Bool[Tensor, "*#mask"] | None = None,
    *,
    bias: Float[Tensor, "*#bias"] | None = None,
    scale: float | None = None,
    score_mod: ScoreMod | None = None,
    sinks: Float[Tensor, "heads"] | None = None,
) -> Float[Tensor, "*leading queries keys"]:
    r"""Compute the attention weights: how much each query attends to each key.

    .. math:: \mathrm{softmax}(Q K^\top \cdot \mathrm{scale} + \mathrm{bias})

    Args:
        query, key: with the same leading dimensions, heads included.
        mask, bias, scale, score_mod: as in :func:`scaled_dot_product_attention`, but the mask must be a tensor.
        sinks: the logit of the sink of each head, the last of the leading dimensions, as in
            :class:`~llm_anatomy.layers.attention_sinks.AttentionSinks`; none by default.

    Source: Vaswani et al. (2017), section 3.2.1; UCL-19, UCL-20.

    >>> x = torch.eye(2)  # two tokens, neither batch nor heads
    >>> attention_weights(x, x, torch.tensor([[True, False], [True, True]]), scale=0.0).flatten().tolist()
    [1.0, 0.0, 0.5, 0.5]
    """
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale  # (*leading, queries, keys)
    if bias is not None:
        scores = scores + bias
    if score_mod is not None:
        scores = score_mod(scores, *_indices(scores))
    normalized = partial(torch.softmax, dim=-1) if sinks is None else partial(softmax_with_sinks, sinks=sinks)
    if mask is None:
        return normalized(scores)
    # the second fill gives a query that may attend to no key zeros instead of 0/0
    return normalized(scores.masked_fill(~mask, -math.inf)).masked_fill(~mask, 0)


def _indices(scores: Tensor) -> tuple[Tensor, ...]:
    """The index of batch, head, query and key, in shapes that broadcast to the scores. Leading dimensions before that
    of the heads are one batch."""
    leading, (n_queries, n_keys) = scores.shape[:-2], scores.shape[-2:]
    batch, n_heads = (leading, 1) if len(leading) < 2 else (leading[:-1], leading[-1])
    shapes = (
        (math.prod(batch), (*batch, *[1] * (scores.ndim - len(batch)))),
        (n_heads, (n_heads, *[1] * min(2, scores.ndim - 1))),
        (n_queries, (n_queries, 1)),
        (n_keys, (n_keys,)),
    )
    return tuple(torch.arange(n, device=scores.device).view(shape) for n, shape in shapes)


def _tensor_or_mode(
    mask: Mask, query: Tensor, key: Tensor, position_context: PositionContext | None, needs_tensor: bool
) -> tuple[Tensor | None, bool]:
    """Return the tensor of a rule, or None if no key is hidden or the kernel's own causal mode (True) replaces it."""
    n_queries, n_keys = query.shape[2], key.shape[2]
    mode = mask.kernel_mode(n_queries, n_keys) if position_context is None or position_context.contiguous else None
    if mode == "all" or (mode == "causal" and not needs_tensor):
        return None, mode == "causal"
    if position_context is None:
        return mask.as_tensor(n_queries, n_keys, key.device), False
    return position_context.mask(mask), False


def _fused(query: Tensor, key: Tensor, value: Tensor, mask, bias, scale: float, causal: bool) -> Tensor:
    """PyTorch's kernel, called in the way in which it is fast."""
    (n_heads, n_queries, d_head), n_kv_heads, d_value = query.shape[1:], key.shape[1], value.shape[-1]
    allowed = mask if bias is None else bias if mask is None else torch.where(mask, bias, -math.inf)
    allowed = None if allowed is None else torch.atleast_2d(allowed)
    if d_value < d_head:  # the kernel needs one width; zeros add nothing to scores, and zero values are cut off below
        value = F.pad(value, (0, d_head - d_value))
    elif d_head < d_value:
        query, key = (F.pad(x, (0, d_value - d_head)) for x in (query, key))
    if n_queries == 1 and n_kv_heads < n_heads:  # heads that share keys become the queries of one head
        query = rearrange(query, "batch (kv_heads group) 1 d -> batch kv_heads group d", kv_heads=n_kv_heads)
        if allowed is not None:
            allowed = allowed.expand(query.shape[0], n_heads, 1, key.shape[2])
            allowed = rearrange(
                allowed, "batch (kv_heads group) 1 keys -> batch kv_heads group keys", kv_heads=n_kv_heads
            )
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=allowed, scale=scale, is_causal=causal, enable_gqa=query.shape[1] != n_kv_heads
    )
    return output.reshape(output.shape[0], n_heads, n_queries, output.shape[-1])[..., :d_value]


def _check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, tensor in {"query": query, "key": key, "value": value}.items():
        if tensor.ndim < 2:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be (..., tokens, width)")
    queries, keys, values = query.shape, key.shape, value.shape
    has_heads = len(queries) >= 4
    batch = slice(-3 if has_heads else -2)
    if queries[batch] != keys[batch] or keys[:-1] != values[:-1]:
        raise ValueError(
            f"query {tuple(queries)}, key {tuple(keys)} and value {tuple(values)} must have equally many dimensions "
            "and agree in batch, and key and value in heads and tokens"
        )
    if queries[-1] != keys[-1]:
        raise ValueError(f"query is {queries[-1]} wide and key {keys[-1]}; they must be equally wide")
    if has_heads and queries[-3] != keys[-3] and (not keys[-3] or queries[-3] % keys[-3]):
        raise ValueError(f"{queries[-3]} query heads cannot share {keys[-3]} key-value heads evenly")


def _check_broadcast(scores_shape: tuple[int, ...], mask: Tensor | None, bias: Tensor | None = None) -> None:
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"mask has dtype {mask.dtype}; it must be torch.bool, True = may attend")
    for name, tensor in {"mask": mask, "bias": bias}.items():
        if tensor is not None and (
            tensor.ndim > len(scores_shape)
            or any(n not in (1, s) for n, s in zip(tensor.shape[::-1], scores_shape[::-1], strict=False))
        ):
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must broadcast to the scores {scores_shape}")
