r"""Linear attention: with a kernel function instead of the softmax, all queries share one sum over keys and values.

.. math:: o_i = \frac{\sum_j \phi(q_i)^\top \phi(k_j)\, v_j}{\sum_j \phi(q_i)^\top \phi(k_j)}
    = \frac{\phi(q_i)^\top S}{\phi(q_i)^\top z}, \quad S = \sum_j \phi(k_j)\, v_j^\top, \quad z = \sum_j \phi(k_j)

Time and memory grow with the number of tokens, not with its square. Shapes as in ``layers.functional``, and
``features``, the width of :math:`\phi`. Features may be exponentially large or small. Feature maps therefore return
their logarithm: the largest one is subtracted before the exponential, and cancels in the quotient.
"""

import math
from typing import NamedTuple

import torch
from einops import repeat
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers._precision import _wide
from llm_anatomy.layers.functional import _check_shapes as _check_agreement
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.shapes import Bool, Float, Int, Tensor


def _check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, tensor in {"query": query, "key": key, "value": value}.items():
        if tensor.ndim != 4:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be (batch, heads, tokens, width)")
    _check_agreement(query, key, value)


# --- Feature maps ---


class FeatureMap(nn.Module):
    r"""What all feature maps share: positive features, returned as logarithms.

    .. math:: \mathrm{sim}(q, k) = \phi(q)^\top \phi(k) > 0

    A subclass implements ``log_features``.

    Source: Katharopoulos et al. (2020), section 3.2.

    >>> [round(x, 4) for x in EluPlusOne()(torch.tensor([-1.0, 0.0, 2.0])).tolist()]
    [0.3679, 1.0, 3.0]
    """

    def log_features(self, x: Float[Tensor, "*batch d_head"]) -> Float[Tensor, "*batch features"]:
        r"""Compute :math:`\log \phi(x)` for queries or keys."""
        raise NotImplementedError(f"{type(self).__name__} must implement log_features")

    def forward(self, x: Float[Tensor, "*batch d_head"]) -> Float[Tensor, "*batch features"]:
        r"""Compute :math:`\phi(x)`."""
        return self.log_features(x).exp()


class EluPlusOne(FeatureMap):
    r"""A simple map with one feature per entry, which does not approximate the softmax.

    .. math:: \phi(x) = \mathrm{elu}(x) + 1 = \begin{cases} 1 + x & x > 0 \\ e^x & x \le 0 \end{cases}

    Source: Katharopoulos et al. (2020), equation 7.

    >>> EluPlusOne().log_features(torch.tensor([-100.0, 0.0])).tolist()
    [-100.0, 0.0]
    """

    def log_features(self, x: Float[Tensor, "*batch d_head"]) -> Float[Tensor, "*batch d_head"]:
        return x.relu().log1p() + x.clamp(max=0)  # one of the two terms is zero; the derivative at 0 is one


class PositiveRandomFeatures(FeatureMap):
    r"""Random features of the Performer (FAVOR+), whose products approximate the exponentials of softmax attention.

    .. math:: \phi(x)_r = \frac{1}{\sqrt{m}} \exp\left(w_r^\top x' - \frac{\lVert x' \rVert^2}{2}\right), \quad
        x' = \frac{x}{d_\mathrm{head}^{1/4}}, \quad
        \mathbb{E}\left[\phi(q)^\top \phi(k)\right] = e^{q^\top k / \sqrt{d_\mathrm{head}}}

    Each :math:`w_r` has a normal distribution. Within blocks of ``d_head`` the :math:`w_r` are orthogonal, which lowers
    the variance of the estimate. The variance still grows exponentially with the norms of queries and keys, so peaked
    attention needs a large m. The directions are part of the checkpoint, since the trained weights depend on them.

    Args:
        d_head: width of a query or key.
        n_features: m, number of features, at least 1; more of them approximate the softmax better.
        generator: source of random numbers, on the CPU; PyTorch's default generator by default.

    Raises:
        ValueError: for sizes below one; in ``log_features``, for another width.

    Source: Choromanski et al. (2021), "Rethinking attention with Performers", lemma 1 and section 2.4; IITD-31.

    >>> phi = PositiveRandomFeatures(4, 20_000, generator=torch.Generator().manual_seed(0))
    >>> query, key = torch.tensor([0.5, -1.0, 0.0, 1.0]), torch.tensor([1.0, 0.5, 0.5, 1.0])
    >>> estimate, exact = phi(query) @ phi(key), (query @ key / 2).exp()
    >>> bool((estimate / exact - 1).abs() < 0.05)
    True
    """

    directions: Tensor

    def __init__(self, d_head: int, n_features: int, *, generator: torch.Generator | None = None):
        super().__init__()
        _check_at_least_one(d_head=d_head, n_features=n_features)
        self.register_buffer("directions", orthogonal_directions(n_features, d_head, generator=generator))

    def log_features(self, x: Float[Tensor, "*batch d_head"]) -> Float[Tensor, "*batch features"]:
        n_features, d_head = self.directions.shape
        if x.shape[-1] != d_head:
            raise ValueError(f"x is {x.shape[-1]} wide; it must be d_head={d_head} wide")
        x = x / d_head**0.25
        # log phi(x) = w^T x' - |x'|^2 / 2 - log(m) / 2
        return x @ self.directions.to(x.dtype).T - x.square().sum(-1, keepdim=True) / 2 - math.log(n_features) / 2


def orthogonal_directions(
    n_directions: int, width: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "n_directions width"]:
    """Draw normally distributed vectors that are orthogonal to each other within each block of ``width`` vectors.

    The directions are the rows of a random rotation, and the norms are those of independent normal vectors, so that
    each single vector is normally distributed.

    Args:
        n_directions: number of vectors; the last block may be incomplete.
        width: of each vector.
        generator: as in :class:`PositiveRandomFeatures`.

    Source: Choromanski et al. (2021), section 2.4; Yu et al. (2016), "Orthogonal random features".

    >>> block = orthogonal_directions(3, 3, generator=torch.Generator().manual_seed(0))
    >>> bool((block @ block.T).triu(1).abs().max() < 1e-5)
    True
    """
    n_blocks = math.ceil(n_directions / width)
    normal = torch.randn(2, n_blocks, width, width, generator=generator, device="cpu")
    q, r = torch.linalg.qr(normal[0])
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None]  # makes the rotations uniformly distributed
    norms = normal[1].norm(dim=-1, keepdim=True)
    return (q.mT * norms).flatten(0, 1)[:n_directions]


# --- Attention ---


class LinearAttentionState(NamedTuple):
    r"""State of causal linear attention, whose size does not grow with the number of tokens.

    The sums are divided by :math:`e^{\mathrm{shift}}`, the largest feature of the keys so far.

    Source: Katharopoulos et al. (2020), section 3.4, equations 16 to 20.

    >>> query = key = value = torch.randn(1, 2, 5, 4)
    >>> output, state = causal_linear_attention(query, key, value, EluPlusOne())
    >>> tuple(state.sums.shape), tuple(state.normalizer.shape)
    ((1, 2, 4, 4), (1, 2, 4, 1))
    """

    sums: Float[Tensor, "batch heads features d_value"]  # S
    normalizer: Float[Tensor, "batch heads features 1"]  # z
    shift: Float[Tensor, "batch heads 1 1"]


def linear_attention(
    query: Float[Tensor, "batch heads queries d_head"],
    key: Float[Tensor, "batch kv_heads keys d_head"],
    value: Float[Tensor, "batch kv_heads keys d_value"],
    feature_map: FeatureMap,
    *,
    attention_mask: Bool[Tensor, "batch keys"] | None = None,
    position: PositionScheme | None = None,
    query_positions: Int[Tensor, "#batch queries"] | None = None,
    key_positions: Int[Tensor, "#batch keys"] | None = None,
) -> Float[Tensor, "batch heads queries d_value"]:
    r"""Attend from every query to all keys: compute the sums once, and then one product for each query.

    .. math:: o_m = \frac{\left(R_m \phi(q_m)\right)^\top \sum_n \left(R_n \phi(k_n)\right) v_n^\top}
        {\phi(q_m)^\top \sum_n \phi(k_n)}

    R is the rotation of a position scheme such as RoPE, and the identity by default. Only the numerator is rotated, so
    that the denominator stays positive. With a rotation, the weights may be negative, and need not sum to one.

    Args:
        query, key, value: as in :func:`~llm_anatomy.layers.functional.scaled_dot_product_attention`.
        feature_map: :math:`\phi`, which includes the scale; :class:`EluPlusOne` or :class:`PositiveRandomFeatures`.
        attention_mask: True = a token, False = padding, which is hidden. If all keys are padding, the output is zero.
        position: a scheme whose ``rotate`` is applied to the features; ``d_rotary`` is at most the number of features.
        query_positions, key_positions: of the tokens; 0, 1, 2, … by default.

    Raises:
        ValueError: if numbers of heads do not divide, or shapes disagree.
        TypeError: if ``attention_mask`` is not boolean.

    Source: Katharopoulos et al. (2020), equations 4 to 6; Su et al. (2021), equation 19; GT-52, IITD-31.

    >>> query, key, value = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 6)
    >>> tuple(linear_attention(query, key, value, EluPlusOne()).shape)
    (2, 3, 5, 6)
    """
    _check_shapes(query, key, value)
    dtype = query.dtype
    query, key, value, key_scale = _to_features(query, key, value, feature_map, attention_mask)
    key = key * (key_scale - key_scale.amax(-2, keepdim=True).clamp(min=_LOG_ZERO)).exp()
    normalizer = query @ key.sum(-2)[..., None]  # φ(q)ᵀz: (batch, heads, queries, 1)
    query, key = _rotate(query, position, query_positions), _rotate(key, position, key_positions)
    output = query @ (key.mT @ value)  # φ(q)ᵀS: (batch, heads, queries, d_value)
    return _divide(output, normalizer).to(dtype)


def causal_linear_attention(
    query: Float[Tensor, "batch heads tokens d_head"],
    key: Float[Tensor, "batch kv_heads tokens d_head"],
    value: Float[Tensor, "batch kv_heads tokens d_value"],
    feature_map: FeatureMap,
    state: LinearAttentionState | None = None,
    *,
    attention_mask: Bool[Tensor, "batch tokens"] | None = None,
    position: PositionScheme | None = None,
    positions: Int[Tensor, "#batch tokens"] | None = None,
    block_size: int = 64,
) -> tuple[Float[Tensor, "batch heads tokens d_value"], LinearAttentionState]:
    r"""Attend from each token to itself and to the tokens before it, as a recurrent network whose state is the sums.

    .. math:: S_i = S_{i-1} + \phi(k_i)\, v_i^\top, \quad z_i = z_{i-1} + \phi(k_i), \quad
        o_i = \frac{\phi(q_i)^\top S_i}{\phi(q_i)^\top z_i}

    The tokens are processed in blocks. Within a block, all ``block_size`` by ``block_size`` weights are computed; the
    tokens before the block are in the sums. The result is the same whether a text is given in one call, in parts, or
    token by token with the state of the previous call; a block of one token is a step of decoding. No output depends on
    a later key: the shift of an output, too, is a maximum over earlier keys only.

    Args:
        query, key, value, feature_map, attention_mask, position: as in :func:`linear_attention`, with as many queries
            as keys.
        state: the state that an earlier call returned, for the tokens before these.
        positions: of the tokens; 0, 1, 2, … by default. Required if both ``state`` and ``position`` are given.
        block_size: number of tokens in a block; it changes time and memory, not the result.

    Returns:
        The output, and the state after the last token.

    Raises:
        ValueError: as in :func:`linear_attention`; for more or fewer queries than keys, a block size below one, a state
            of another shape, or a state and a position scheme without positions.
        TypeError: if ``attention_mask`` is not boolean.

    Source: Katharopoulos et al. (2020), sections 3.3 and 3.4; GT-52, IITD-31.

    >>> query, key, value = torch.randn(3, 1, 2, 5, 4).unbind()
    >>> whole, _ = causal_linear_attention(query, key, value, EluPlusOne())
    >>> state = None
    >>> for t in range(5):
    ...     token = (x[:, :, t : t + 1] for x in (query, key, value))
    ...     output, state = causal_linear_attention(*token, EluPlusOne(), state)
    >>> torch.allclose(output, whole[:, :, -1:], atol=1e-5)
    True
    """
    _check_shapes(query, key, value)
    _check_at_least_one(block_size=block_size)
    if query.shape[2] != key.shape[2]:
        raise ValueError(f"query has {query.shape[2]} tokens and key {key.shape[2]}; they must have the same number")
    if state is not None and position is not None and positions is None:
        raise ValueError(
            "positions=None must be given with state and position: a state does not hold the number of earlier tokens"
        )
    dtype = query.dtype
    query, key, value, key_scale = _to_features(query, key, value, feature_map, attention_mask)
    rotated_query, rotated_key = (_rotate(x, position, positions) for x in (query, key))
    sums_shape = (*key.shape[:2], key.shape[-1], value.shape[-1])
    if state is None:
        zeros = value.new_zeros(sums_shape)
        state = LinearAttentionState(zeros, zeros[..., :1], torch.full_like(zeros[..., :1, :1], _LOG_ZERO))
    if state.sums.shape != sums_shape:
        raise ValueError(f"state has sums of shape {tuple(state.sums.shape)}; they must be {sums_shape}")
    tensors = (query, key, rotated_query, rotated_key, value, key_scale)
    outputs = []
    for block in zip(*(x.split(block_size, dim=-2) for x in tensors), strict=True):
        output, state = _attend_block(*block, state=state, rotated=position is not None)
        outputs.append(output)
    return torch.cat(outputs, -2).to(dtype), state


def _attend_block(
    query: Float[Tensor, "batch heads block features"],
    key: Float[Tensor, "batch heads block features"],
    rotated_query: Float[Tensor, "batch heads block features"],
    rotated_key: Float[Tensor, "batch heads block features"],
    value: Float[Tensor, "batch heads block d_value"],
    key_scale: Float[Tensor, "batch heads block 1"],
    *,
    state: LinearAttentionState,
    rotated: bool,
) -> tuple[Float[Tensor, "batch heads block d_value"], LinearAttentionState]:
    # the largest key that each query may attend to; all sums of this query are divided by its exponential
    largest = torch.maximum(state.shift, key_scale.cummax(-2).values)  # (batch, heads, block, 1)
    before = (state.shift - largest).exp()
    later = torch.ones(key.shape[-2], key.shape[-2], dtype=torch.bool, device=key.device).triu(1)
    within = (key_scale.mT - largest).masked_fill(later, -math.inf).exp()  # (batch, heads, block, block)
    weights = query @ key.mT * within
    normalizer = weights.sum(-1, keepdim=True) + before * (query @ state.normalizer)
    if rotated:
        weights = rotated_query @ rotated_key.mT * within
    output = weights @ value + before * (rotated_query @ state.sums)
    last = largest[..., -1:, :]
    kept, added = (state.shift - last).exp(), (key_scale - last).exp()
    new_state = LinearAttentionState(
        kept * state.sums + (added * rotated_key).mT @ value,
        kept * state.normalizer + (added * key).mT.sum(-1, True),
        last,
    )
    return _divide(output, normalizer), new_state


_LOG_ZERO = -1e30  # log 0, if there is no key yet; finite, so that no difference is inf - inf


def _to_features(
    query: Tensor, key: Tensor, value: Tensor, feature_map: FeatureMap, attention_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute features in at least float32, each vector divided by its largest feature, with one key head per query
    head. The last result is the logarithm of the divisor of each key; the divisor of a query cancels."""
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        raise TypeError(f"attention_mask has dtype {attention_mask.dtype}; it must be torch.bool, True = a token")
    if attention_mask is not None and attention_mask.shape != (key.shape[0], key.shape[2]):
        raise ValueError(
            f"attention_mask has shape {tuple(attention_mask.shape)}; it must be {(key.shape[0], key.shape[2])}"
        )
    dtype, group = _wide(query.dtype), query.shape[1] // key.shape[1]
    log_query, log_key = (feature_map.log_features(x.to(dtype)) for x in (query, key))
    query_scale, key_scale = (x.detach().amax(-1, keepdim=True) for x in (log_query, log_key))
    query, key = (log_query - query_scale).exp(), (log_key - key_scale).exp()
    if attention_mask is not None:
        key_scale = key_scale.masked_fill(~attention_mask[:, None, :, None], -math.inf)
    key, value, key_scale = (
        repeat(x, "batch kv_heads keys width -> batch (kv_heads group) keys width", group=group)
        for x in (key, value.to(dtype), key_scale)
    )
    return query, key, value, key_scale


def _rotate(features: Tensor, position: PositionScheme | None, positions: Tensor | None) -> Tensor:
    if position is None:
        return features
    positions = torch.arange(features.shape[2], device=features.device)[None] if positions is None else positions
    return position.rotate(features, positions)


def _divide(output: Tensor, normalizer: Tensor) -> Tensor:
    """Divide, and return zero for a query whose keys are all hidden."""
    return output / normalizer.masked_fill(normalizer == 0, 1)
