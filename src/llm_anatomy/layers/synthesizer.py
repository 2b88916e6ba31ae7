r"""Synthesizers: the scores of attention without dot products of queries and keys, or in addition to them.

Shapes as in ``layers.functional``. Synthetic scores belong to positions: they have a row for each position of
a query and a column for each position of a key, up to a longest text.
"""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.functional import _attend
from llm_anatomy.layers.kv_cache import KVCache, context_of_new_tokens
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.positions.absolute import _check_bounds
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.layers.positions.relative import ScalarBias
from llm_anatomy.shapes import Bool, Float, Int, Tensor

# --- Synthetic scores ---


class SyntheticScores(nn.Module):
    """Scores that need no keys; a subclass implements ``forward``.

    Args:
        max_length: the longest text, in tokens.

    Raises:
        ValueError: for sizes below one; in ``forward``, for positions from ``max_length`` on.

    Source: Tay et al. (2020), "Synthesizer: Rethinking Self-Attention in Transformer Models", section 3; GT-19.

    >>> SyntheticScores(max_length=4).reads_queries
    False
    """

    reads_queries: bool = False
    """Whether the scores depend on the token that attends."""

    def __init__(self, max_length: int):
        super().__init__()
        _check_at_least_one(max_length=max_length)
        self.max_length = max_length

    def forward(
        self, context: PositionContext, query: Float[Tensor, "batch heads queries d_head"] | None = None
    ) -> Float[Tensor, "#batch heads queries keys"]:
        """Compute the scores.

        Args:
            context: the positions of queries and keys.
            query: of the tokens that attend, for scores that read them.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement forward")

    def _inside(self, positions: Tensor) -> Tensor:
        """The positions, with padding at 0, whose scores a mask hides."""
        allowed = f"below max_length={self.max_length}: there are no scores for any other"
        _check_bounds(positions, positions < self.max_length, allowed)
        return positions.clamp(min=0)


class RandomScores(SyntheticScores):
    r"""Random synthesizer: one trained number for each head, position of the query, and position of the key.

    .. math:: s_{ij} = R_{p_i p_j}, \quad R \in \mathbb{R}^{L \times L} \text{ for each head}

    The scores are the same for all texts.

    Args:
        n_heads: number of heads.
        max_length: L, the longest text.

    Raises:
        ValueError: as :class:`SyntheticScores`.

    Source: Tay et al. (2020), section 3.2; GT-19.

    >>> scores = RandomScores(n_heads=2, max_length=5)
    >>> tuple(scores(PositionContext(torch.tensor([[0, 1, 2]]))).shape), scores.table.numel()
    ((1, 2, 3, 3), 50)
    """

    def __init__(self, n_heads: int, max_length: int):
        super().__init__(max_length)
        _check_at_least_one(n_heads=n_heads)
        self.table = nn.Parameter(torch.randn(max_length, max_length, n_heads) * max_length**-0.5)

    def forward(
        self, context: PositionContext, query: Float[Tensor, "batch heads queries d_head"] | None = None
    ) -> Float[Tensor, "#batch heads queries keys"]:
        rows, columns = self._inside(context.query_positions), self._inside(context.key_positions)
        scores = F.embedding(rows[:, :, None] * self.max_length + columns[:, None], self.table.flatten(0, 1))
        return rearrange(scores, "batch queries keys heads -> batch heads queries keys")


class FactorizedRandomScores(SyntheticScores):
    r"""Factorized random synthesizer: the table of a random synthesizer as a product of two thin ones.

    .. math:: s_{ij} = r_{p_i}^\top c_{p_j}, \quad r_p, c_p \in \mathbb{R}^k \text{ for each head and position}

    Args:
        n_heads: number of heads.
        max_length: L, the longest text.
        rank: k, far below L.

    Raises:
        ValueError: as :class:`SyntheticScores`.

    Source: Tay et al. (2020), section 3.3; GT-19.

    >>> scores = FactorizedRandomScores(n_heads=2, max_length=5, rank=1)
    >>> tuple(scores(PositionContext(torch.tensor([[0, 1, 2]]))).shape)
    (1, 2, 3, 3)
    >>> sum(parameter.numel() for parameter in scores.parameters())
    20
    """

    def __init__(self, n_heads: int, max_length: int, rank: int):
        super().__init__(max_length)
        _check_at_least_one(n_heads=n_heads, rank=rank)
        self.rows, self.columns = (nn.Parameter(torch.randn(max_length, n_heads, rank) * rank**-0.5) for _ in range(2))

    def forward(
        self, context: PositionContext, query: Float[Tensor, "batch heads queries d_head"] | None = None
    ) -> Float[Tensor, "#batch heads queries keys"]:
        rows = _rows_at(self._inside(context.query_positions), self.rows)
        columns = _rows_at(self._inside(context.key_positions), self.columns)
        return einsum(rows, columns, "b queries heads k, b keys heads k -> b heads queries keys")


def _rows_at(positions: Tensor, table: Tensor) -> Tensor:
    """The rows (heads, k) of a table, for positions (batch, tokens)."""
    return F.embedding(positions, table.flatten(1)).unflatten(-1, table.shape[1:])


class DenseScores(SyntheticScores):
    r"""Dense synthesizer: a token computes a score for every position from itself, by a layer with ReLU.

    .. math:: s_{ij} = \mathrm{ReLU}(q_i)^\top w_{p_j}, \quad q_i = x_i W^Q, \quad w_p \in \mathbb{R}^{d_\mathrm{head}}

    The token says what it looks for, but the others do not say what they hold: the keys are vectors of positions. All
    heads share them.

    Args:
        d_head: width of the queries.
        max_length: L, the longest text.

    Raises:
        ValueError: as :class:`SyntheticScores`; in ``forward``, without queries.

    Source: Tay et al. (2020), section 3.1; GT-19.

    >>> scores, context = DenseScores(d_head=4, max_length=5), PositionContext(torch.tensor([[0, 1, 2]]))
    >>> tuple(scores(context, torch.randn(1, 2, 3, 4)).shape), scores.table.numel()
    ((1, 2, 3, 3), 20)
    """

    reads_queries = True

    def __init__(self, d_head: int, max_length: int):
        super().__init__(max_length)
        _check_at_least_one(d_head=d_head)
        self.table = nn.Parameter(torch.randn(max_length, d_head) * d_head**-0.5)

    def forward(
        self, context: PositionContext, query: Float[Tensor, "batch heads queries d_head"] | None = None
    ) -> Float[Tensor, "#batch heads queries keys"]:
        if query is None:
            raise ValueError("query must be given: dense scores are computed from it")
        columns = F.embedding(self._inside(context.key_positions), self.table).to(query.dtype)
        return query.relu() @ columns.mT[:, None]


# --- Attention with them ---


class Synthesizer(nn.Module):
    r"""Self-attention with synthetic scores alone: there are values, and no keys.

    .. math:: \mathrm{head}_i = \mathrm{softmax}(S_i + \mathrm{bias})\, X W_i^V

    Args:
        d_model: width of the tokens.
        n_heads: number of heads.
        synthetic: the scores S, such as :class:`RandomScores`. There are queries if it reads them.
        d_head: width of a value, and of a query; ``d_model / n_heads`` by default.
        position: a bias of offsets, such as T5's, for as many heads; none by default.

    Raises:
        ValueError: for sizes below one; if ``d_head`` is not given and ``n_heads`` does not divide ``d_model``.

    Source: Tay et al. (2020), section 3; GT-19.

    >>> from llm_anatomy.layers.masks import CausalMask
    >>> synthesizer = Synthesizer(d_model=12, n_heads=3, synthetic=RandomScores(n_heads=3, max_length=8))
    >>> output, weights = synthesizer(torch.randn(2, 5, 12), mask=CausalMask(), return_weights=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 12), (2, 3, 5, 5))
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        synthetic: SyntheticScores,
        *,
        d_head: int | None = None,
        position: ScalarBias | None = None,
    ):
        super().__init__()
        _check_at_least_one(d_model=d_model, n_heads=n_heads)
        if d_head is None and d_model % n_heads:
            raise ValueError(f"{n_heads=} must divide {d_model=} unless d_head is given")
        self.n_heads, self.d_head = n_heads, d_model // n_heads if d_head is None else d_head
        _check_at_least_one(d_head=self.d_head)
        self.synthetic, self.position = synthetic, position
        if synthetic.reads_queries:
            self.w_query = nn.Linear(d_model, n_heads * self.d_head, bias=False)
        self.w_value = nn.Linear(d_model, n_heads * self.d_head, bias=False)
        self.w_output = nn.Linear(n_heads * self.d_head, d_model, bias=False)

    def new_cache(self, batch: int, n_slots: int, kind: type[KVCache] = KVCache) -> KVCache:
        """Make a cache that fits, which holds values only."""
        weight = self.w_value.weight
        return kind(batch, n_slots, [(self.n_heads, self.d_head)], dtype=weight.dtype, device=weight.device)

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        mask: Bool[Tensor, "*#mask"] | Mask | None = None,
        *,
        positions: Int[Tensor, "#batch queries"] | None = None,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "batch queries d_model"]
        | tuple[Float[Tensor, "batch queries d_model"], Float[Tensor, "batch heads queries keys"]]
    ):
        """Average the values of ``x`` and of the cache for every token of ``x``.

        Args:
            x: the tokens.
            mask, positions, position_context, cache, return_weights: as in
                :class:`~llm_anatomy.layers.attention.SelfAttention`.
        """
        if position_context is None:
            position_context = context_of_new_tokens(x.shape[1], positions, cache, x.device)
        value = self._heads(self.w_value(x))
        query = self._heads(self.w_query(x)) if self.synthetic.reads_queries else value  # else only for its shape
        if cache is not None:
            value, key_positions = cache.append(value, positions=position_context.new_positions)
            position_context = position_context.with_keys(key_positions, cache.layout)
        scores = self.synthetic(position_context, query).to(value.dtype)
        if self.position is not None:  # a bias of offsets, which takes no account of queries and keys
            scores = scores + self.position.bias(query, value, position_context)
        weights = _softmax(scores.expand(len(x), -1, -1, -1), mask, position_context)
        output = self.w_output(rearrange(weights @ value, "batch heads queries d -> batch queries (heads d)"))
        return (output, weights) if return_weights else output

    def _heads(self, x: Tensor) -> Tensor:
        return rearrange(x, "batch tokens (heads d) -> batch heads tokens d", heads=self.n_heads)


class SynthesizerPlus(SelfAttention):
    r"""Self-attention whose scores are the sum of dot products and synthetic scores.

    .. math:: \mathrm{head}_i = \mathrm{softmax}(Q_i K_i^\top + S_i + \mathrm{bias})\, V_i

    Args:
        d_model, n_heads: as in :class:`~llm_anatomy.layers.attention.SelfAttention`.
        synthetic: the scores S, such as :class:`RandomScores`.
        d_head: width of queries, keys and values.
        position: a bias of offsets, such as T5's; none by default.
        scale: factor of the dot products, by default the position scheme's.

    Raises:
        ValueError: as ``SelfAttention``.

    Source: Tay et al. (2020), section 3.4; GT-19.

    >>> mixture = SynthesizerPlus(d_model=12, n_heads=3, synthetic=DenseScores(d_head=4, max_length=8))
    >>> tuple(mixture(torch.randn(2, 5, 12)).shape)
    (2, 5, 12)
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        synthetic: SyntheticScores,
        *,
        d_head: int | None = None,
        position: ScalarBias | None = None,
        scale: float | None = None,
    ):
        super().__init__(d_model, n_heads, d_head=d_head, position=position, scale=scale)
        self.synthetic = synthetic

    def _factors(self) -> tuple[Tensor | float, Tensor | float]:
        """The factors of the dot products and of the synthetic scores."""
        return 1.0, 1.0

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, mask, position_context: PositionContext, explicit: bool):
        of_products, of_synthetic = self._factors()
        scores = of_synthetic * self.synthetic(position_context, query)
        bias = self.position.bias(query, key, position_context.for_scheme(self.w_query, self.w_key))
        output, weights = _attend(
            query * of_products,
            key,
            value,
            mask,
            position_context=position_context,
            bias=scores if bias is None else scores + bias,
            scale=self.scale,
            explicit=explicit,
        )
        return self.w_output(rearrange(output, "batch heads queries d -> batch queries (heads d)")), weights


class SynthesizerPlusAlpha(SynthesizerPlus):
    r"""Self-attention whose scores are a trained average of dot products and synthetic scores.

    .. math:: \mathrm{head}_i = \mathrm{softmax}((1 - a)\, Q_i K_i^\top + a\, S_i + \mathrm{bias})\, V_i, \quad
        a = \sigma(\alpha), \; \alpha = 0 \text{ at first}

    Args and errors as for :class:`SynthesizerPlus`.

    Args:
        d_model, n_heads, synthetic, d_head, position, scale: as there.

    Source: Tay et al. (2020), section 3.4; GT-19.

    >>> mixture = SynthesizerPlusAlpha(d_model=12, n_heads=3, synthetic=RandomScores(n_heads=3, max_length=8))
    >>> mixture.alpha.item(), tuple(mixture(torch.randn(2, 5, 12)).shape)
    (0.0, (2, 5, 12))
    """

    def __init__(self, d_model: int, n_heads: int, synthetic: SyntheticScores, **options):
        super().__init__(d_model, n_heads, synthetic, **options)
        self.alpha = nn.Parameter(torch.zeros(()))

    def _factors(self) -> tuple[Tensor | float, Tensor | float]:
        a = self.alpha.sigmoid()
        return 1 - a, a


def _softmax(scores: Tensor, mask: Tensor | Mask | None, position_context: PositionContext) -> Tensor:
    """The weights; those of a query that may attend to no key are zeros."""
    if isinstance(mask, Mask):
        mask = position_context.mask(mask)
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)
