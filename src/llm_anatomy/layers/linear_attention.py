r"""Linear attention: with a kernel in place of the softmax, keys and values are summed once and read by every query.

.. math:: o_i = \frac{\sum_j \phi(q_i)^\top \phi(k_j)\, v_j}{\sum_j \phi(q_i)^\top \phi(k_j)}
    = \frac{\phi(q_i)^\top S}{\phi(q_i)^\top z}, \quad S = \sum_j \phi(k_j)\, v_j^\top, \quad z = \sum_j \phi(k_j)

Time and memory grow with the number of tokens, not with its square. Legend of shapes as in ``layers.attention``, and
``features``, the width of :math:`\phi`. Features may be as large or small as exponentials are, so maps give their
logarithm: the largest is taken out before the exponential, and cancels in the quotient.
"""

import math
from typing import NamedTuple

import torch
from einops import repeat
from torch import nn

from llm_anatomy.layers._precision import _wide
from llm_anatomy.layers.functional import _check_shapes
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.shapes import Bool, Float, Int, Tensor

# --- Feature maps ---


class FeatureMap(nn.Module):
    r"""What all maps share: positive features, given by their logarithm.

    .. math:: \mathrm{sim}(q, k) = \phi(q)^\top \phi(k) > 0

    A map of one's own overrides ``log_features``.

    Source: Katharopoulos et al. (2020), section 3.2.

    >>> [round(x, 4) for x in EluPlusOne()(torch.tensor([-1.0, 0.0, 2.0])).tolist()]
    [0.3679, 1.0, 3.0]
    """

    def log_features(self, x: Float[Tensor, "*batch d_head"]) -> Float[Tensor, "*batch features"]:
        r""":math:`\log \phi(x)` of queries or keys."""
        raise NotImplementedError(f"{type(self).__name__} must say what log_features are")

    def forward(self, x: Float[Tensor, "*batch d_head"]) -> Float[Tensor, "*batch features"]:
        r""":math:`\phi(x)` itself."""
        return self.log_features(x).exp()


class EluPlusOne(FeatureMap):
    r"""As many features as entries; simple, and no attempt at the softmax.

    .. math:: \phi(x) = \mathrm{elu}(x) + 1 = \begin{cases} 1 + x & x > 0 \\ e^x & x \le 0 \end{cases}

    Source: Katharopoulos et al. (2020), equation 7.

    >>> EluPlusOne().log_features(torch.tensor([-100.0, 0.0])).tolist()
    [-100.0, 0.0]
    """

    def log_features(self, x: Float[Tensor, "*batch d_head"]) -> Float[Tensor, "*batch d_head"]:
        return x.relu().log1p() + x.clamp(max=0)  # one of the two is zero; the slope at 0 is one


class PositiveRandomFeatures(FeatureMap):
    r"""FAVOR+ of the Performer: random features whose products are, on average, the exponentials of softmax attention.

    .. math:: \phi(x)_r = \frac{1}{\sqrt{m}} \exp\left(w_r^\top x' - \frac{\lVert x' \rVert^2}{2}\right), \quad
        x' = \frac{x}{d_\mathrm{head}^{1/4}}, \quad
        \mathbb{E}\left[\phi(q)^\top \phi(k)\right] = e^{q^\top k / \sqrt{d_\mathrm{head}}}

    Each :math:`w_r` is normal; in blocks of ``d_head`` they are orthogonal, which lowers the variance. It still grows
    with the exponential of the lengths of queries and keys: for peaked attention m must be large. The directions are
    part of the checkpoint, since other ones are another model.

    Args:
        d_head: width of a query or key.
        n_features: m, how many there are; any number, more are closer to the softmax.
        generator: where the directions come from, on the CPU; PyTorch's default one by default.

    Raises:
        ValueError: for sizes below one; in ``log_features``, for another width.

    Source: Choromanski et al. (2021), "Rethinking attention with Performers", lemma 1 and section 2.4; IITD-31.

    >>> phi = PositiveRandomFeatures(4, 20_000, generator=torch.Generator().manual_seed(0))
    >>> query, key = torch.tensor([0.5, -1.0, 0.0, 1.0]), torch.tensor([1.0, 0.5, 0.5, 1.0])
    >>> estimate, exact = phi(query) @ phi(key), (query @ key / 2).exp()
    >>> bool((estimate / exact - 1).abs() < 0.05)
    True
    """

    def __init__(self, d_head: int, n_features: int, *, generator: torch.Generator | None = None):
        super().__init__()
        if min(d_head, n_features) < 1:
            raise ValueError(f"{d_head=}, {n_features=}: each must be >= 1")
        self.register_buffer("directions", orthogonal_directions(n_features, d_head, generator=generator))

    def log_features(self, x: Float[Tensor, "*batch d_head"]) -> Float[Tensor, "*batch features"]:
        n_features, d_head = self.directions.shape
        if x.shape[-1] != d_head:
            raise ValueError(f"x is {x.shape[-1]} wide; it must be d_head={d_head} wide")
        x = x / d_head**0.25
        return x @ self.directions.to(x.dtype).T - x.square().sum(-1, keepdim=True) / 2 - math.log(n_features) / 2


def orthogonal_directions(
    n_directions: int, width: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "n_directions width"]:
    """Normal vectors, of which each block of ``width`` are orthogonal to each other.

    The directions are the rows of a random rotation; the lengths are those of other normal vectors, so that each row
    alone is distributed as if it had been drawn alone.

    Args:
        n_directions: how many; the last block is cut.
        width: of each.
        generator: as in :class:`PositiveRandomFeatures`.

    Source: Choromanski et al. (2021), section 2.4; Yu et al. (2016), "Orthogonal random features".

    >>> block = orthogonal_directions(3, 3, generator=torch.Generator().manual_seed(0))
    >>> bool((block @ block.T).triu(1).abs().max() < 1e-5)
    True
    """
    n_blocks = math.ceil(n_directions / width)
    normal = torch.randn(2, n_blocks, width, width, generator=generator, device="cpu")
    q, r = torch.linalg.qr(normal[0])
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None]  # without it no rotation is as likely as any other
    lengths = normal[1].norm(dim=-1, keepdim=True)
    return (q.mT * lengths).flatten(0, 1)[:n_directions]


# --- Attention ---


class LinearAttentionState(NamedTuple):
    r"""All that decoding keeps of the past: its size does not grow with the tokens.

    Sums are divided by :math:`e^{\mathrm{shift}}`, the largest key so far.

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
    padding: Bool[Tensor, "batch keys"] | None = None,
    position: PositionScheme | None = None,
    query_positions: Int[Tensor, "#batch queries"] | None = None,
    key_positions: Int[Tensor, "#batch keys"] | None = None,
) -> Float[Tensor, "batch heads queries d_value"]:
    r"""Every query reads all keys: the sums once, then one product for each query.

    .. math:: o_m = \frac{\left(R_m \phi(q_m)\right)^\top \sum_n \left(R_n \phi(k_n)\right) v_n^\top}
        {\phi(q_m)^\top \sum_n \phi(k_n)}

    R is what a position scheme does to queries and keys, RoPE's rotation for instance, the identity by default. Only
    the numerator is turned, so that the denominator stays positive; the weights then need not be, nor sum to one.

    Args:
        query, key, value: as in :func:`~llm_anatomy.layers.functional.scaled_dot_product_attention`.
        feature_map: :math:`\phi`, which also scales; :class:`EluPlusOne` or :class:`PositiveRandomFeatures`.
        padding: True = a token, False = padding that is not read. Where there is nothing to read, the output is zero.
        position: only its ``rotate`` is used, on features, so a rotary scheme turns at most as many as there are.
        query_positions, key_positions: where the tokens stand; 0, 1, 2, … by default.

    Raises:
        ValueError: if the heads do not divide, or shapes disagree.
        TypeError: if padding is not boolean.

    Source: Katharopoulos et al. (2020), equations 4 to 6; Su et al. (2021), equation 19; GT-52, IITD-31.

    >>> query, key, value = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 6)
    >>> tuple(linear_attention(query, key, value, EluPlusOne()).shape)
    (2, 3, 5, 6)
    """
    _check_shapes(query, key, value)
    dtype = query.dtype
    query, key, value, key_scale = _to_features(query, key, value, feature_map, padding)
    key = key * (key_scale - key_scale.amax(-2, keepdim=True).clamp(min=_NOTHING)).exp()
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
    padding: Bool[Tensor, "batch tokens"] | None = None,
    position: PositionScheme | None = None,
    positions: Int[Tensor, "#batch tokens"] | None = None,
    block_size: int = 64,
) -> tuple[Float[Tensor, "batch heads tokens d_value"], LinearAttentionState]:
    r"""Each token reads itself and what came before: a recurrent network whose state is the sums.

    .. math:: S_i = S_{i-1} + \phi(k_i)\, v_i^\top, \quad z_i = z_{i-1} + \phi(k_i), \quad
        o_i = \frac{\phi(q_i)^\top S_i}{\phi(q_i)^\top z_i}

    It goes block by block: within a block the weights are written out, ``block_size`` by ``block_size``; what came
    before the block is in the sums. A text in one call, in parts, and token by token with the state handed on give
    the same; a block of one token is a step of decoding. No output depends on a later key, the largest one included.

    Args:
        query, key, value, feature_map, padding, position: as in :func:`linear_attention`, as many queries as keys.
        state: what an earlier call returned, for the tokens before these.
        positions: where the tokens stand; 0, 1, 2, … by default, to be given with both ``state`` and ``position``.
        block_size: tokens in a block; changes time and memory, not the result.

    Returns:
        The output, and the state after the last token.

    Raises:
        ValueError: as in :func:`linear_attention`; for more or fewer queries than keys, a block below one, a state of
            another shape, or a state and a position scheme without positions.
        TypeError: if padding is not boolean.

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
    if query.shape[2] != key.shape[2] or block_size < 1:
        raise ValueError(f"{query.shape[2]} queries, {key.shape[2]} keys, {block_size=}: equally many, blocks >= 1")
    if state is not None and position is not None and positions is None:
        raise ValueError("positions=None does not say how many tokens came before; give them, as there is a state")
    dtype = query.dtype
    query, key, value, key_scale = _to_features(query, key, value, feature_map, padding)
    turned_query, turned_key = (_rotate(x, position, positions) for x in (query, key))
    sums_shape = (*key.shape[:2], key.shape[-1], value.shape[-1])
    if state is None:
        zeros = value.new_zeros(sums_shape)
        state = LinearAttentionState(zeros, zeros[..., :1], torch.full_like(zeros[..., :1, :1], _NOTHING))
    if state.sums.shape != sums_shape:
        raise ValueError(f"state has sums of shape {tuple(state.sums.shape)}; they must be {sums_shape}")
    tensors = (query, key, turned_query, turned_key, value, key_scale)
    outputs = []
    for block in zip(*(x.split(block_size, dim=-2) for x in tensors), strict=True):
        output, state = _attend_block(*block, state, position is not None)
        outputs.append(output)
    return torch.cat(outputs, -2).to(dtype), state


def _attend_block(
    query: Float[Tensor, "batch heads block features"],
    key: Float[Tensor, "batch heads block features"],
    turned_query: Float[Tensor, "batch heads block features"],
    turned_key: Float[Tensor, "batch heads block features"],
    value: Float[Tensor, "batch heads block d_value"],
    key_scale: Float[Tensor, "batch heads block 1"],
    state: LinearAttentionState,
    turned: bool,
) -> tuple[Float[Tensor, "batch heads block d_value"], LinearAttentionState]:
    # the largest key that each query may read; all it reads is divided by its exponential
    largest = torch.maximum(state.shift, key_scale.cummax(-2).values)  # (batch, heads, block, 1)
    before = (state.shift - largest).exp()
    later = torch.ones(key.shape[-2], key.shape[-2], dtype=torch.bool, device=key.device).triu(1)
    within = (key_scale.mT - largest).masked_fill(later, -math.inf).exp()  # (batch, heads, block, block)
    weights = query @ key.mT * within
    normalizer = weights.sum(-1, keepdim=True) + before * (query @ state.normalizer)
    if turned:
        weights = turned_query @ turned_key.mT * within
    output = weights @ value + before * (turned_query @ state.sums)
    last = largest[..., -1:, :]
    kept, added = (state.shift - last).exp(), (key_scale - last).exp()
    new_state = LinearAttentionState(
        kept * state.sums + (added * turned_key).mT @ value,
        kept * state.normalizer + (added * key).mT.sum(-1, True),
        last,
    )
    return _divide(output, normalizer), new_state


_NOTHING = -1e30  # the logarithm of a key before there is one: finite, so that no difference is inf - inf


def _to_features(query, key, value, feature_map, padding):
    """Features of at most one, in float32 at least, as many key as query heads, and the logarithm of what was taken
    out of each key. What was taken out of a query cancels."""
    if padding is not None and padding.dtype != torch.bool:
        raise TypeError(f"padding has dtype {padding.dtype}; it must be torch.bool, True = a token")
    if padding is not None and padding.shape != (key.shape[0], key.shape[2]):
        raise ValueError(f"padding has shape {tuple(padding.shape)}; it must be {(key.shape[0], key.shape[2])}")
    dtype, group = _wide(query.dtype), query.shape[1] // key.shape[1]
    log_query, log_key = (feature_map.log_features(x.to(dtype)) for x in (query, key))
    query_scale, key_scale = (x.detach().amax(-1, keepdim=True) for x in (log_query, log_key))
    query, key = (log_query - query_scale).exp(), (log_key - key_scale).exp()
    if padding is not None:
        key_scale = key_scale.masked_fill(~padding[:, None, :, None], -math.inf)
    key, value, key_scale = (
        repeat(x, "batch kv_heads keys width -> batch (kv_heads group) keys width", group=group)
        for x in (key, value.to(dtype), key_scale)
    )
    return query, key, value, key_scale


def _rotate(features, position, positions):
    if position is None:
        return features
    positions = torch.arange(features.shape[2], device=features.device)[None] if positions is None else positions
    return position.rotate(features, positions)


def _divide(output, normalizer):
    """Zero where there was nothing to read."""
    return output / normalizer.masked_fill(normalizer == 0, 1)
