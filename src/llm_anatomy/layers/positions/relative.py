r"""Relative schemes: a term in the scores (in one scheme, also in the values) depends on the distance of two tokens.

Shapes as in ``layers.functional``; ``rows`` is the number of rows of a table over offsets. An offset is key
position minus query position, so that offsets to the past are negative. Query i is at position :math:`p_i`, and key j
at :math:`p_j`. Papers that write m - n or i - j mean query minus key; their tables are in reverse order.

Every scheme here works with a cache: keys are stored unchanged, and each step adds one row of scores.
"""

import math
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers._precision import _wide
from llm_anatomy.layers.positions.base import ModelSizes, PositionContext, PositionScheme
from llm_anatomy.layers.positions.buckets import Clip, DeBERTaLogBuckets, T5Buckets, T5CausalBuckets
from llm_anatomy.shapes import Float, Int, Tensor

# Types of the hook ``bias``, as in ``base``.
Query = Float[Tensor, "batch heads queries d_head"]
Key = Float[Tensor, "batch kv_heads keys d_head"]
Bias = Float[Tensor, "#batch #heads queries keys"]
Projections = tuple[nn.Linear, nn.Linear] | None

# --- Scalars per offset ---


class ScalarBias(PositionScheme):
    r"""One trained number per head and offset, added to the scaled scores.

    .. math:: s_{ij} = \frac{q_i^\top k_j}{\sqrt{d_\mathrm{head}}} + b_{p_j - p_i}

    If the positions follow each other without gaps, b forms a Toeplitz matrix: it is constant along each diagonal.

    Args:
        n_heads: number of query heads.
        buckets: maps offsets to rows, such as ``Clip(1 - T, T - 1)``; offsets in one row share a number.

    Raises:
        ValueError: for fewer than one head; in ``bias``, for another number of heads or positions that do not fit.

    Source: CMU-26 (erratum E-38: the lecture's BLEU scores are of Shaw's vectors), GT-30 (erratum E-18).

    >>> scheme = ScalarBias(1, Clip(-1, 1))
    >>> _ = scheme.table.data.copy_(torch.tensor([[-5.0], [0.0], [3.0]]))
    >>> x, positions = torch.zeros(1, 1, 3, 2), torch.tensor([[0, 1, 2]])
    >>> scheme.bias(x, x, PositionContext(positions))[0, 0].tolist()
    [[0.0, 3.0, 3.0], [-5.0, 0.0, 3.0], [-5.0, -5.0, 0.0]]
    """

    def __init__(self, n_heads: int, buckets: Clip | T5Buckets):
        super().__init__()
        _check_at_least_one(n_heads=n_heads)
        self.n_heads, self.buckets = n_heads, buckets
        self.table = _small_normal(buckets.n_rows, n_heads)

    def bias(self, query: Query, key: Key, context: PositionContext) -> Bias:
        context.check(query, key, n_heads=self.n_heads)
        rows = self.buckets(context.offsets)  # (batch or 1, queries, keys)
        added = F.embedding(rows, self.table).to(query.dtype)
        return rearrange(added, "batch queries keys heads -> batch heads queries keys")

    def costs(self, sizes: ModelSizes, *, batch: int, n_positions: int, n_queries: int, n_keys: int) -> dict[str, int]:
        return {"n_activations": self.n_heads * n_queries * n_keys}


class T5Bias(ScalarBias):
    r"""Bias of T5: one trained number per head and bucket of offsets, with unscaled scores.

    .. math:: s_{ij} = q_i^\top k_j + b_{\mathrm{row}(p_j - p_i)}

    T5's initialization makes the scale unnecessary. All layers of a stack share one table; cross-attention has none.

    Args:
        n_heads: number of query heads.
        buckets: ``T5Buckets`` for an encoder, ``T5CausalBuckets`` for a decoder.

    Raises:
        ValueError: as ``ScalarBias``.

    Source: Raffel et al. (2020), section 2.1; IITD-21 (indices as in erratum E-15).

    >>> T5Bias(6, T5Buckets()).table.shape, T5Bias(6, T5Buckets()).scale(d_head=64)
    (torch.Size([32, 6]), 1.0)
    """

    options = "buckets"
    label = "T5's position bias"

    @classmethod
    def for_model(cls, sizes: ModelSizes, *, n_buckets: int, max_distance: int) -> list[PositionScheme]:
        """Make one scheme for all layers, with the buckets of a decoder in a causal model.

        Args:
            sizes: of the model.
            n_buckets, max_distance: as in :class:`~llm_anatomy.layers.positions.buckets.T5Buckets`.
        """
        kind = T5CausalBuckets if sizes.causal else T5Buckets
        return [cls(sizes.n_heads, kind(n_buckets, max_distance))] * sizes.n_layers

    def scale(self, d_head: int) -> float:
        return 1.0


def alibi_slopes(
    n_heads: int,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    bias_max: int = 8,
) -> Float[Tensor, "heads"]:
    r"""Compute the slopes of ALiBi, a geometric sequence from :math:`2^{-b/n}` to :math:`2^{-b}`, with b = 8.

    .. math:: m_h = 2^{-bh/n}, \quad h = 1, \dots, n \quad \text{for } n \text{ a power of two}

    For other numbers of heads, n is the next power of two: the heads take every second slope, beginning with the second
    one, and then the remaining slopes from the first on.

    Args:
        n_heads: number of heads, at least 1.
        device, dtype: of the slopes.
        bias_max: b, at least 1: 8 in the paper, 16 in MPT-7B-StoryWriter, whose gentler slopes reach 65,536 tokens.

    Returns:
        Slopes above 0, one for each head.

    Raises:
        ValueError: for fewer than one head, or a ``bias_max`` below 1.

    Source: Press et al. (2022), section 3, and its code for other head counts; MosaicML (2023), "MPT-7B", the released
    code (``bias_max``); GT-31.

    >>> alibi_slopes(3).tolist(), alibi_slopes(4).tolist()
    ([0.0625, 0.00390625, 0.25], [0.25, 0.0625, 0.015625, 0.00390625])
    """
    _check_at_least_one(n_heads=n_heads, bias_max=bias_max)
    power = 1 << (n_heads - 1).bit_length()
    slopes = torch.exp2(-bias_max / power * torch.arange(1, power + 1, device=device, dtype=dtype))
    return slopes if power == n_heads else torch.cat((slopes[1::2], slopes[::2]))[:n_heads]


class ALiBi(PositionScheme):
    r"""Attention with linear biases: a penalty proportional to the distance, with a fixed slope for each head.

    .. math:: s_{ij} = \frac{q_i^\top k_j}{\sqrt{d_\mathrm{head}}} - m_h\, |p_j - p_i|

    The paper defines the penalty for the past only; here the future has the same penalty. BLOOM and MPT add
    :math:`m_h p_j`, which differs by :math:`m_h p_i`. This term is the same for all keys, so that the weights are equal
    under a causal mask. The penalty is computed in at least float32, since bfloat16 skips integers above 256.

    Args:
        n_heads: number of query heads, at least 1.
        bias_max: as in :func:`alibi_slopes`.

    Raises:
        ValueError: for fewer than one head, or a ``bias_max`` below 1; in ``bias``, for another number of heads or
            positions that do not fit.

    Source: Press et al. (2022), section 3; GT-31 (erratum E-55: it does not hinder the cache).

    >>> x, positions = torch.zeros(1, 1, 3, 2), torch.tensor([[0, 256, 512]])
    >>> ALiBi(1).bias(x, x, PositionContext(positions))[0, 0].tolist()
    [[-0.0, -1.0, -2.0], [-1.0, -0.0, -1.0], [-2.0, -1.0, -0.0]]
    """

    options: ClassVar[str | None] = "alibi"
    label = "ALiBi"

    def __init__(self, n_heads: int, *, bias_max: int = 8):
        super().__init__()
        _check_at_least_one(n_heads=n_heads, bias_max=bias_max)
        self.n_heads, self.bias_max = n_heads, bias_max

    def bias(self, query: Query, key: Key, context: PositionContext) -> Bias:
        context.check(query, key, n_heads=self.n_heads)
        distances = context.offsets.abs()[:, None]  # (batch or 1, 1, queries, keys)
        # -m_h |p_j - p_i|
        return (-self._slopes(query) * distances).to(query.dtype)

    def costs(self, sizes: ModelSizes, *, batch: int, n_positions: int, n_queries: int, n_keys: int) -> dict[str, int]:
        return {"n_activations": self.n_heads * n_queries * n_keys}

    def _slopes(self, query: Tensor) -> Tensor:
        slopes = alibi_slopes(self.n_heads, query.device, _wide(query.dtype), bias_max=self.bias_max)
        return slopes[:, None, None]  # (heads, 1, 1)


class FalconALiBi(ALiBi):
    r"""ALiBi as Falcon-RW was trained with it: rounded to bfloat16, and added before the scores are scaled.

    .. math:: s_{ij} = \frac{q_i^\top k_j + \mathrm{bf16}(\mathrm{bf16}(m_h)\, p_j)}{\sqrt{d_\mathrm{head}}}

    Without the rounding this is :class:`ALiBi` with slopes :math:`m_h / \sqrt{d_\mathrm{head}}`. But bfloat16 has eight
    binary digits: from position 256 on, some neighbouring keys get the same bias, and from 512 on most do. Since the
    rounding depends on the position of a key, and not only on its distance, the scheme is no longer relative.

    Args:
        n_heads: number of query heads, at least 1.

    Raises:
        ValueError: as :class:`ALiBi`.

    Source: Penedo et al. (2023), "The RefinedWeb Dataset for Falcon LLM", the released code; Press et al. (2022),
    section 3.

    >>> x, positions = torch.zeros(1, 1, 4, 1), torch.tensor([[0, 256, 257, 258]])
    >>> (256 * FalconALiBi(1).bias(x, x, PositionContext(positions))[0, 0, 3]).tolist()  # 257 is not there
    [0.0, 256.0, 256.0, 258.0]
    """

    options = None
    label = "Falcon's ALiBi"

    def __init__(self, n_heads: int):
        super().__init__(n_heads)

    def bias(self, query: Query, key: Key, context: PositionContext) -> Bias:
        context.check(query, key, n_heads=self.n_heads)
        positions = context.key_positions[:, None, None].bfloat16()  # (batch or 1, 1, 1, keys)
        # bf16(bf16(m_h) p_j) / sqrt(d_head)
        added = (self._slopes(query).bfloat16() * positions).to(_wide(query.dtype)) * self.scale(query.shape[-1])
        return added.to(query.dtype).expand(-1, -1, query.shape[-2], -1)


# --- Vectors per offset ---


class Shaw(PositionScheme):
    r"""Two trained vectors for each offset, one added to the keys and one to the values; all heads share them.

    .. math:: s_{ij} = \frac{q_i^\top (k_j + a^K_r)}{\sqrt{d_\mathrm{head}}}, \quad
        o_i = \sum_j w_{ij} (v_j + a^V_r), \quad r = \mathrm{clip}(p_j - p_i, r_\mathrm{min}, r_\mathrm{max})

    The code never adds a vector to each key or value. It computes :math:`q_i^\top a^K_r` once for each row r and adds
    it to the scores of all keys in that row; it sums the weights of all keys in a row and multiplies the sum by
    :math:`a^V_r`.

    Args:
        buckets: maps offsets to rows, ``Clip(-k, k)`` in the paper; offsets in one row share their vectors.
        d_head: width of a query or key.
        d_value: width of a value, ``d_head`` by default.

    Raises:
        ValueError: for widths below one; in the hooks, for other widths or positions that do not fit.

    Source: Shaw et al. (2018), section 3; IITD-19, GT-30, GT-31. The vectors are added after the projection
    (erratum E-18), and do not hinder the cache (erratum E-55).

    >>> scheme = Shaw(Clip(-2, 2), d_head=3)
    >>> tuple(scheme.key_vectors.shape), scheme.explicit_only
    ((5, 3), "Shaw's value vectors are averaged with the weights, which a fused path does not form")
    """

    options = "clipping"
    label = "Shaw's relative positions"
    explicit_only = "Shaw's value vectors are averaged with the weights, which a fused path does not form"

    def __init__(self, buckets: Clip, d_head: int, d_value: int | None = None):
        super().__init__()
        d_value = d_head if d_value is None else d_value
        _check_at_least_one(d_head=d_head, d_value=d_value)
        self.buckets, self.d_head = buckets, d_head
        self.key_vectors = _small_normal(buckets.n_rows, d_head)
        self.value_vectors = _small_normal(buckets.n_rows, d_value)

    @classmethod
    def for_model(cls, sizes: ModelSizes, *, max_distance: int) -> list[PositionScheme]:
        """Make a scheme for each layer.

        Args:
            sizes: of the model.
            max_distance: the distance from which on all offsets share a vector.
        """
        clip = Clip(-max_distance, 0 if sizes.causal else max_distance)
        return [cls(clip, sizes.d_head, sizes.d_value) for _ in range(sizes.n_layers)]

    def costs(self, sizes: ModelSizes, *, batch: int, n_positions: int, n_queries: int, n_keys: int) -> dict[str, int]:
        # queries, and weights, with the vectors of all offsets
        flops = 2 * batch * n_queries * sizes.n_heads * self.buckets.n_rows * (sizes.d_head + sizes.d_value)
        return {"flops": flops, "flops_backward": 2 * flops}

    def bias(self, query: Query, key: Key, context: PositionContext) -> Bias:
        context.check(query, key, d_head=self.d_head)
        rows = self.buckets(context.offsets)  # (batch or 1, queries, keys)
        # q_i a^K_r
        scores = _gather_by_row(query @ self.key_vectors.T, rows)  # (batch, heads, queries, rows) -> keys
        return (scores * self.scale(self.d_head)).to(query.dtype)

    def add_to_output(
        self, weights: Float[Tensor, "batch heads queries keys"], context: PositionContext
    ) -> Float[Tensor, "batch heads queries d_value"]:
        context.check_lengths(weights.shape[0], *weights.shape[2:])
        rows = self.buckets(context.offsets)
        rows = rows[:, None].long().expand(weights.shape)  # (batch, heads, queries, keys)
        wide = weights.to(_wide(weights.dtype))
        row_weights = wide.new_zeros(*weights.shape[:3], self.buckets.n_rows).scatter_add(-1, rows, wide)
        # sum_r (sum of the weights w_ij of row r) a^V_r
        return row_weights.to(weights.dtype) @ self.value_vectors


class TransformerXL(PositionScheme):
    r"""Scores of Transformer-XL: a distance replaces the key's position, and trained vectors replace the query's.

    .. math:: s_{ij} = \frac{q_i^\top k_j + q_i^\top W_R\, R_{p_i - p_j} + u^\top k_j + v^\top W_R\, R_{p_i - p_j}}
        {\sqrt{d_\mathrm{head}}}

    The four terms compare content with content and content with position, and give each key and each distance a bias. R
    holds first the sines and then the cosines of the distance: :math:`R_t = (\sin t\omega_c, \cos t\omega_c)_c` with
    :math:`\omega_c = 10000^{-2c/d_\mathrm{model}}`. It is not computed for each pair of tokens: by the angle difference
    identities, each projected query is rotated by its own position and multiplied by the sinusoids of the keys'
    positions.

    Args:
        d_model: width of R, even.
        n_heads: number of query heads.
        d_head: width of a query or key.

    Raises:
        ValueError: for sizes below one or an odd ``d_model``; in ``bias``, for another number of heads, another width,
            or positions that do not fit.

    Source: Dai et al. (2019), section 3.3; IITD-20. The slide's :math:`u^\top W_q^\top`, :math:`v^\top W_q^\top` are
    the paper's u and v (erratum E-17).

    >>> scheme = TransformerXL(d_model=8, n_heads=2, d_head=3)
    >>> query, key = torch.randn(1, 2, 1, 3), torch.randn(1, 2, 5, 3)
    >>> scheme.bias(query, key, PositionContext(torch.tensor([[4]]), torch.arange(5)[None])).shape
    torch.Size([1, 2, 1, 5])
    """

    is_shared = False
    label = "Transformer-XL's relative positions"

    def __init__(self, d_model: int, n_heads: int, d_head: int):
        super().__init__()
        _check_at_least_one(d_model=d_model, n_heads=n_heads, d_head=d_head)
        if d_model % 2:
            raise ValueError(f"{d_model=} must be even, for equal numbers of sines and cosines")
        self.d_model, self.n_heads, self.d_head = d_model, n_heads, d_head
        self.u, self.v = _small_normal(n_heads, d_head), _small_normal(n_heads, d_head)
        self.w_position = nn.Linear(d_model, n_heads * d_head, bias=False)

    def bias(self, query: Query, key: Key, context: PositionContext) -> Bias:
        context.check(query, key, n_heads=self.n_heads, d_head=self.d_head)
        # u k_j
        content = self.u[:, None] @ _per_query_head(key, self.n_heads).mT  # (batch, heads, 1, keys)
        # (q_i + v) W_R = (a, b), for the term a sin(i - j) + b cos(i - j)
        w_position = rearrange(self.w_position.weight, "(heads d) d_model -> heads d d_model", heads=self.n_heads)
        a, b = ((query + self.v[:, None]) @ w_position).chunk(2, -1)  # each (batch, heads, queries, d_model / 2)
        # = (b sin i - a cos i) sin j + (a sin i + b cos i) cos j, with i and j counted from the first key
        first = context.key_positions[:, :1]
        sin_i, cos_i = self._sinusoids(context.query_positions - first, query.dtype)
        sin_cos_j = torch.cat(self._sinusoids(context.key_positions - first, query.dtype), -1)
        rotated = torch.cat((b * sin_i - a * cos_i, a * sin_i + b * cos_i), -1)  # (batch, heads, queries, d_model)
        position = rotated.to(query.dtype) @ sin_cos_j.to(query.dtype).mT  # (batch, heads, queries, keys)
        return ((content + position) * self.scale(self.d_head)).to(query.dtype)

    def costs(self, sizes: ModelSizes, *, batch: int, n_positions: int, n_queries: int, n_keys: int) -> dict[str, int]:
        width, pairs = self.n_heads * self.d_head, batch * self.n_heads * n_queries * n_keys
        trained = 2 * batch * n_keys * width + 2 * batch * n_queries * width * self.d_model
        sinusoids = 2 * pairs * self.d_model  # they have no gradient: one product backward, not two
        return {"flops": trained + sinusoids, "flops_backward": 2 * trained + sinusoids, "n_activations": pairs}

    def _sinusoids(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        exponents = torch.arange(0, self.d_model, 2, device=positions.device, dtype=_wide(dtype)) / self.d_model
        angles = positions[:, None, :, None] / 10000**exponents  # (batch or 1, 1, tokens, d_model / 2)
        return angles.sin(), angles.cos()


class DeBERTa(PositionScheme):
    r"""Disentangled attention, as in the paper: scores of content with position and of position with content.

    .. math:: s_{ij} = \frac{q_i^\top k_j + q_i^\top W_{K,r} P_{\delta(i,j)} + k_j^\top W_{Q,r} P_{\delta(j,i)}}
        {\sqrt{3\, d_\mathrm{head}}}, \quad \delta(i, j) = \mathrm{row}(p_i - p_j)

    Args:
        table: P, a module that maps rows, integers, to vectors of width d_model: ``nn.Embedding(buckets.n_rows,
            d_model)``, followed by a layer normalization in DeBERTa-v2 and v3. All layers share it.
        buckets: maps distances to rows: ``Clip(-k, k - 1)``, or ``DeBERTaLogBuckets`` in v2 and v3.
        projections: :math:`W_{Q,r}` and :math:`W_{K,r}`, as wide as attention's projections of queries and keys. By
            default, they *are* attention's projections (v3).

    Raises:
        ValueError: in ``bias``, if there are no projections, if their widths do not fit the heads, or for positions
            that do not fit.

    Source: He et al. (2021), section 3.1; IITD-23. The third term's offset is the key's view of the query, not
    the slide's (erratum E-16); the published models follow the slide, see ``ReleasedDeBERTa``.

    >>> scheme = DeBERTa(nn.Embedding(8, 10), Clip(-4, 3), (nn.Linear(10, 6), nn.Linear(10, 6)))
    >>> query, key, positions = torch.randn(1, 2, 5, 3), torch.randn(1, 2, 5, 3), torch.arange(5)[None]
    >>> scheme.bias(query, key, PositionContext(positions)).shape, round(scheme.scale(d_head=3), 4)
    (torch.Size([1, 2, 5, 5]), 0.3333)
    """

    needs_all_kv_heads = True

    def __init__(
        self,
        table: nn.Module,
        buckets: Clip | DeBERTaLogBuckets,
        projections: Projections = None,
    ):
        super().__init__()
        self.table, self.buckets = table, buckets
        self.projections = None if projections is None else cast(Projections, nn.ModuleList(projections))

    def scale(self, d_head: int) -> float:
        return 1 / math.sqrt(3 * d_head)

    def position_to_content_rows(self, offset: Int[Tensor, "batch queries keys"]) -> Int[Tensor, "batch queries keys"]:
        """Return the row of delta(j, i) for each pair, which the position-to-content term reads."""
        return self.buckets(offset)

    def bias(self, query: Query, key: Key, context: PositionContext) -> Bias:
        context.check(query, key)
        w_query, w_key = self._matching_projections(context.projections, query, key)
        n_heads, offset = query.shape[1], context.offsets
        vectors = self.table(torch.arange(self.buckets.n_rows, device=query.device))  # (rows, d_model)
        position_query = rearrange(w_query(vectors), "rows (heads d) -> 1 heads rows d", heads=n_heads)
        position_key = rearrange(w_key(vectors), "rows (heads d) -> 1 heads rows d", heads=key.shape[1])
        position_key, key = _per_query_head(position_key, n_heads), _per_query_head(key, n_heads)
        # q_i W_K,r P_delta(i, j)
        to_position = _gather_by_row(query @ position_key.mT, self.buckets(-offset))  # (batch, heads, queries, keys)
        # k_j W_Q,r P_delta(j, i)
        from_position = _gather_by_row(key @ position_query.mT, self.position_to_content_rows(offset).mT).mT
        return ((to_position + from_position) * self.scale(query.shape[-1])).to(query.dtype)

    def costs(self, sizes: ModelSizes, *, batch: int, n_positions: int, n_queries: int, n_keys: int) -> dict[str, int]:
        width, tokens = sizes.n_heads * sizes.d_head, batch * (n_queries + n_keys)
        # the table through two matrices, then with queries and keys
        flops = 2 * width * self.buckets.n_rows * (2 * sizes.d_model + tokens)
        return {
            "flops": flops,
            "flops_backward": 2 * flops,
            "n_activations": batch * sizes.n_heads * n_queries * n_keys,
        }

    def _matching_projections(self, shared: Projections, query: Tensor, key: Tensor) -> tuple[nn.Linear, nn.Linear]:
        pair = shared if self.projections is None else self.projections
        if pair is None:
            raise ValueError("projections=None must be given to DeBERTa or to the context, for queries and keys")
        w_query, w_key = pair
        widths = (w_query.out_features, w_key.out_features)
        expected = (query.shape[1] * query.shape[-1], key.shape[1] * key.shape[-1])
        if widths != expected:
            raise ValueError(f"projections have widths {widths}; for these queries and keys they must be {expected}")
        return w_query, w_key


class ReleasedDeBERTa(DeBERTa):
    r"""Disentangled attention, as in the authors' code and all published models: both terms use the same row.

    .. math:: s_{ij} = \frac{q_i^\top k_j + q_i^\top W_{K,r} P_{\delta(i,j)} + k_j^\top W_{Q,r} P_{\delta(i,j)}}
        {\sqrt{3\, d_\mathrm{head}}}

    Weights that were trained with this formula give other scores in the paper's.

    Args:
        table, buckets, projections: as ``DeBERTa``.

    Raises:
        ValueError: as ``DeBERTa``.

    Source: the code of He et al. (2021), versions 1 to 3; IITD-23, whose slide agrees (see erratum E-16).

    >>> scheme = ReleasedDeBERTa(nn.Embedding(8, 10), Clip(-4, 3))
    >>> scheme.position_to_content_rows(torch.tensor([[[-1, 0, 1]]])).tolist()
    [[[5, 4, 3]]]
    """

    options: ClassVar[str | None] = "clipping"
    label = "DeBERTa's relative positions"

    @classmethod
    def for_model(cls, sizes: ModelSizes, *, max_distance: int) -> list[PositionScheme]:
        width = sizes.n_heads * sizes.d_head
        table, clip = nn.Embedding(2 * max_distance, sizes.d_model), Clip(-max_distance, max_distance - 1)
        return [
            cls(table, clip, (nn.Linear(sizes.d_model, width), nn.Linear(sizes.d_model, width, bias=False)))
            for _ in range(sizes.n_layers)
        ]

    def position_to_content_rows(self, offset: Int[Tensor, "batch queries keys"]) -> Int[Tensor, "batch queries keys"]:
        """Return the row of delta(i, j) for each pair, as in the content-to-position term."""
        return self.buckets(-offset)


class DeBERTaV2(ReleasedDeBERTa):
    r"""Disentangled attention of DeBERTa-v2 and v3: growing buckets, a norm after the table, attention's projections.

    Args:
        table, buckets, projections: as ``DeBERTa``.

    Raises:
        ValueError: as ``DeBERTa``.

    Source: the code of He et al. (2021), version 2; He et al. (2021), "DeBERTaV3"; IITD-23.

    >>> table = nn.Sequential(nn.Embedding(8, 10), nn.LayerNorm(10))
    >>> DeBERTaV2(table, DeBERTaLogBuckets(4, 9)).projections is None
    True
    """

    options = "buckets"
    label = "DeBERTa's relative positions in buckets"

    @classmethod
    def for_model(cls, sizes: ModelSizes, *, n_buckets: int, max_distance: int) -> list[PositionScheme]:
        table = nn.Sequential(nn.Embedding(n_buckets, sizes.d_model), sizes.norm())
        return [cls(table, DeBERTaLogBuckets(n_buckets // 2, max_distance)) for _ in range(sizes.n_layers)]


# --- Absolute positions in the scores ---


class TUPE(PositionScheme):
    r"""Untied positional encoding: the scores add a product of positions, which have projections of their own.

    .. math:: s_{ij} = \frac{q_i^\top k_j + (U_Q\, P_{p_i})^\top (U_K\, P_{p_j})}{\sqrt{2\, d_\mathrm{head}}}
        + b_{p_j - p_i}

    Args:
        n_ctx: number of positions, 0 to ``n_ctx - 1``.
        d_model: width of P.
        n_heads: number of query heads.
        d_head: width of a query or key, and of a projected position.
        relative: the scheme of b, such as ``T5Bias``, for TUPE-R; without it, TUPE-A.

    Raises:
        ValueError: for sizes below one; in ``bias``, for another number of heads, another width, positions that do not
            fit, or (unless compiled) positions outside 0 to ``n_ctx - 1``.

    Source: Ke et al. (2021), section 3.1; IITD-22, not named there (erratum E-15).

    >>> scheme = TUPE(n_ctx=16, d_model=8, n_heads=2, d_head=3, relative=T5Bias(2, T5Buckets()))
    >>> x, positions = torch.randn(1, 2, 5, 3), torch.arange(5)[None]
    >>> scheme.bias(x, x, PositionContext(positions)).shape, round(scheme.scale(d_head=8), 4)
    (torch.Size([1, 2, 5, 5]), 0.25)
    """

    needs_n_ctx = True
    label = "TUPE's position scores"

    def __init__(self, n_ctx: int, d_model: int, n_heads: int, d_head: int, relative: PositionScheme | None = None):
        super().__init__()
        _check_at_least_one(n_ctx=n_ctx, d_model=d_model, n_heads=n_heads, d_head=d_head)
        self.n_ctx, self.n_heads, self.d_head, self.relative = n_ctx, n_heads, d_head, relative
        self.table = _small_normal(n_ctx, d_model)
        self.u_query = nn.Linear(d_model, n_heads * d_head, bias=False)
        self.u_key = nn.Linear(d_model, n_heads * d_head, bias=False)

    def scale(self, d_head: int) -> float:
        return 1 / math.sqrt(2 * d_head)

    def bias(self, query: Query, key: Key, context: PositionContext) -> Bias:
        context.check(query, key, n_heads=self.n_heads, d_head=self.d_head)
        query_positions, key_positions = context.query_positions, context.key_positions
        if not torch.compiler.is_compiling():
            _check_within_context(self.n_ctx, query_positions=query_positions, key_positions=key_positions)
        position_query, position_key = (
            rearrange(u(F.embedding(p, self.table)), "batch tokens (heads d) -> batch heads tokens d", d=self.d_head)
            for u, p in ((self.u_query, query_positions), (self.u_key, key_positions))
        )
        # (U_Q P_p_i)^T (U_K P_p_j) / sqrt(2 d_head)
        bias = position_query @ position_key.mT * self.scale(self.d_head)  # (batch or 1, heads, queries, keys)
        relative = None if self.relative is None else self.relative.bias(query, key, context)
        return (bias if relative is None else bias + relative).to(query.dtype)

    def costs(self, sizes: ModelSizes, *, batch: int, n_positions: int, n_queries: int, n_keys: int) -> dict[str, int]:
        width, pairs = self.n_heads * self.d_head, self.n_heads * n_queries * n_keys
        # positions of queries and keys through a matrix each, and their products
        flops = 2 * sizes.d_model * width * (n_queries + n_positions * n_keys) + 2 * n_positions * pairs * self.d_head
        return {"flops": flops, "flops_backward": 2 * flops, "n_activations": pairs}


class UntiedTUPE(TUPE):
    r"""TUPE with an untied [CLS] token, at position 0, whose terms do not depend on the other position.

    .. math:: \mathrm{added}_{ij} = \begin{cases} \theta_1 & p_i = 0 \\ \theta_2 & p_i \neq 0,\ p_j = 0 \\
        \text{as in TUPE} & \text{else} \end{cases}

    Args:
        n_ctx, d_model, n_heads, d_head, relative: as ``TUPE``; one :math:`\theta_1` and one :math:`\theta_2` per head.

    Raises:
        ValueError: as ``TUPE``.

    Source: Ke et al. (2021), section 3.2; IITD-22.

    >>> scheme = UntiedTUPE(n_ctx=16, d_model=8, n_heads=1, d_head=3)
    >>> _ = scheme.theta.data.copy_(torch.tensor([[7.0], [9.0]]))
    >>> x, positions = torch.randn(1, 1, 3, 3), torch.arange(3)[None]
    >>> added = scheme.bias(x, x, PositionContext(positions))[0, 0]
    >>> added[0].tolist(), added[1:, 0].tolist()
    ([7.0, 7.0, 7.0], [9.0, 9.0])
    """

    def __init__(self, n_ctx: int, d_model: int, n_heads: int, d_head: int, relative: PositionScheme | None = None):
        super().__init__(n_ctx, d_model, n_heads, d_head, relative)
        self.theta = _small_normal(2, n_heads)

    def bias(self, query: Query, key: Key, context: PositionContext) -> Bias:
        bias = super().bias(query, key, context)
        from_cls, to_cls = rearrange(self.theta.to(bias.dtype), "two heads -> two 1 heads 1 1")  # theta_1, theta_2
        bias = torch.where(context.key_positions[:, None, None, :] == 0, to_cls, bias)
        return torch.where(context.query_positions[:, None, :, None] == 0, from_cls, bias)


# --- Shared by the schemes ---


def _small_normal(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) * 0.02)


def _per_query_head(x: Float[Tensor, "batch kv_heads tokens d_head"], n_heads: int) -> Tensor:
    """Repeat key-value heads, so that query head i reads key-value head ``i // (heads / kv_heads)``."""
    return repeat(x, "batch kv_heads tokens d -> batch (kv_heads group) tokens d", group=n_heads // x.shape[1])


def _gather_by_row(
    scores: Float[Tensor, "batch heads queries rows"], rows: Int[Tensor, "#batch queries keys"]
) -> Float[Tensor, "batch heads queries keys"]:
    """Return the score of each key from the scores of the rows and the row of each key."""
    return scores.to(_wide(scores.dtype)).gather(-1, rows[:, None].long().expand(*scores.shape[:2], -1, -1))


def _check_within_context(n_ctx: int, **positions: Tensor) -> None:
    for name, p in positions.items():
        if not p.numel():
            continue
        lowest, highest = torch.stack(p.aminmax()).tolist()
        if lowest < 0 or highest >= n_ctx:
            raise ValueError(f"{name} are from {lowest} to {highest}; they must be 0 to n_ctx - 1 = {n_ctx - 1}")
