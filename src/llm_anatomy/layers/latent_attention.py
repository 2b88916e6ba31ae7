"""Multi-head latent attention: keys and values are projected from one narrow latent per token, which alone is cached.

Shapes as in ``layers.functional``; ``d_latent`` is the width of the latent, and ``d_rotary`` the width of the
part of a key that is rotated by its position.
"""

from typing import ClassVar

import torch
from einops import einsum, rearrange
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers.functional import _attend
from llm_anatomy.layers.kv_cache import KVCache, context_of_new_tokens
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.layers.positions.rotary import Rotary
from llm_anatomy.shapes import Bool, Float, Int, Tensor


class LatentAttention(nn.Module):
    r"""Attention whose cache holds one latent and one rotated key per token, shared by all heads.

    .. math:: c_t = \mathrm{norm}(W^{DKV} x_t), \quad k^R_t = \mathrm{RoPE}(W^{KR} x_t), \quad
        k_{t,i} = [W^{UK}_i c_t;\; k^R_t], \quad v_{t,i} = W^{UV}_i c_t, \quad
        q_{t,i} = [W^Q_i x_t;\; \mathrm{RoPE}(W^{QR}_i x_t)]

    There are two equal forms. The expanded form computes the keys and values of all heads. The absorbed form never
    does: it applies :math:`W^{UK}` to the query and :math:`W^{UV}` to the average,

    .. math:: (W^Q_i x_t)^\top W^{UK}_i c_s = (W^{UK\top}_i W^Q_i x_t)^\top c_s, \quad
        \textstyle\sum_s a_{ts} W^{UV}_i c_s = W^{UV}_i \sum_s a_{ts} c_s

    so that all heads read the latents themselves, as in multi-query attention. A rotation between the two matrices
    would prevent this. Positions therefore have a small key of their own. The absorbed form here averages the rotated
    keys with the latents, because fused kernels need keys and values of one width, and drops that part of the average:
    :math:`2\,(d_\mathrm{latent} + d_\mathrm{rotary})` multiplications for each head, query and key, where the
    formulas need :math:`2\, d_\mathrm{latent} + d_\mathrm{rotary}`.

    Args:
        d_model: width of the tokens.
        n_heads: number of heads.
        d_latent: width of the latent of keys and values.
        d_head: width, per head, of the part of queries and keys that is not rotated.
        d_value: width of a value, ``d_head`` by default.
        position: rotates the other part, whose width is its ``d_rotary``; without a scheme there is no such part.
        latent_norm: a module for the latent, ``nn.RMSNorm(d_latent)`` in the published models; none by default.
        w_query: a module that computes the queries, (batch, tokens, n_heads * (d_head + d_rotary)), from the tokens; a
            linear layer by default. The large published models use a latent with a norm here, too.
        scale: factor of the scores, :math:`1/\sqrt{d_\mathrm{head} + d_\mathrm{rotary}}` by default.
        bias: whether the projections from and to the tokens have biases; the projections from the latent have none.

    Raises:
        ValueError: for sizes below one.

    Source: DeepSeek-AI (2024), "DeepSeek-V2", section 2.1 and appendix C; CMU-13.

    >>> attention = LatentAttention(d_model=24, n_heads=4, d_latent=10, d_head=5)
    >>> cache = attention.new_cache(batch=2, n_slots=7)
    >>> with torch.no_grad():
    ...     output = attention(torch.randn(2, 3, 24), cache=cache)
    >>> tuple(output.shape), cache.n_bytes == 2 * 7 * 10 * 4
    ((2, 3, 24), True)
    """

    options: ClassVar[str | None] = "latent"
    """The field of the config that holds its options."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_latent: int,
        d_head: int,
        d_value: int | None = None,
        position: Rotary | None = None,
        latent_norm: nn.Module | None = None,
        w_query: nn.Module | None = None,
        scale: float | None = None,
        bias: bool = False,
    ):
        super().__init__()
        d_value = d_head if d_value is None else d_value
        _check_at_least_one(d_model=d_model, n_heads=n_heads, d_latent=d_latent, d_head=d_head, d_value=d_value)
        d_rotary = 0 if position is None else position.d_rotary
        self.n_heads, self.d_latent, self.d_head, self.d_rotary = n_heads, d_latent, d_head, d_rotary
        self.position = position
        self.scale = (d_head + d_rotary) ** -0.5 if scale is None else scale
        self.w_query = nn.Linear(d_model, n_heads * (d_head + d_rotary), bias=bias) if w_query is None else w_query
        self.w_down = nn.Linear(d_model, d_latent + d_rotary, bias=bias)
        self.latent_norm = nn.Identity() if latent_norm is None else latent_norm
        self.w_up_key = nn.Linear(d_latent, n_heads * d_head, bias=False)
        self.w_up_value = nn.Linear(d_latent, n_heads * d_value, bias=False)
        self.w_output = nn.Linear(n_heads * d_value, d_model, bias=bias)

    def new_cache(self, batch: int, n_slots: int, kind: type[KVCache] = KVCache) -> KVCache:
        """Make a cache that fits: ``d_latent + d_rotary`` numbers per token, whatever the number of heads.

        Args:
            batch, n_slots, kind: as in :meth:`~llm_anatomy.layers.attention.MultiHeadAttention.new_cache`.
        """
        weight = self.w_down.weight
        return kind(batch, n_slots, [(1, self.d_latent + self.d_rotary)], dtype=weight.dtype, device=weight.device)

    def forward(
        self,
        x: Float[Tensor, "batch queries d_model"],
        mask: Bool[Tensor, "*#mask"] | Mask | None = None,
        *,
        positions: Int[Tensor, "#batch queries"] | None = None,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        absorbed: bool | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "batch queries d_model"]
        | tuple[Float[Tensor, "batch queries d_model"], Float[Tensor, "batch heads queries keys"]]
    ):
        """Attend from every token of ``x`` to all tokens of ``x`` and of the cache.

        Args:
            x: the tokens.
            mask, positions, position_context, cache, return_weights: as in
                :class:`~llm_anatomy.layers.attention.SelfAttention`.
            absorbed: whether to use the absorbed form. By default, the form with fewer multiplications is used: the
                expanded form for many tokens at once, the absorbed form for a few tokens over a long cache.
        """
        if position_context is None:
            position_context = context_of_new_tokens(x.shape[1], positions, cache, x.device)
        query = rearrange(self.w_query(x), "batch queries (heads d) -> batch heads queries d", heads=self.n_heads)
        query, rotated_query = query.split([self.d_head, self.d_rotary], -1)
        latent, rotated_key = self.w_down(x)[:, None].split([self.d_latent, self.d_rotary], -1)  # one head for all
        if self.position is not None:
            tables = position_context.tables(self.position, x.dtype)
            rotated_query = self.position.rotate(rotated_query, position_context.query_positions, tables)
            rotated_key = self.position.rotate(rotated_key, position_context.query_positions, tables)
        cached = torch.cat((self.latent_norm(latent), rotated_key), -1)  # (batch, 1, keys, d_latent + d_rotary)
        if cache is not None:
            cached, key_positions = cache.append(cached, positions=position_context.new_positions)
            position_context = position_context.with_keys(key_positions, cache.layout)
        if absorbed is None:
            absorbed = self._absorbing_saves(x.shape[1], cached.shape[2])
        query, key, value = (self._absorbed if absorbed else self._expanded)(query, cached)
        query = torch.cat((query, rotated_query), -1)
        output, weights = _attend(
            query, key, value, mask, position_context=position_context, scale=self.scale, explicit=return_weights
        )
        if absorbed:  # W^UV sum_s a_ts c_s
            w_up_value = rearrange(self.w_up_value.weight, "(heads d) latent -> heads d latent", heads=self.n_heads)
            output = einsum(output[..., : self.d_latent], w_up_value, "b h queries latent, h d latent -> b h queries d")
        output = self.w_output(rearrange(output, "batch heads queries d -> batch queries (heads d)"))
        return output if weights is None else (output, weights)

    def _expanded(self, query: Tensor, cached: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        latent, rotated = cached.split([self.d_latent, self.d_rotary], -1)
        key, value = (
            rearrange(up(latent), "batch 1 keys (heads d) -> batch heads keys d", heads=self.n_heads)
            for up in (self.w_up_key, self.w_up_value)
        )
        return query, torch.cat((key, rotated.expand(-1, self.n_heads, -1, -1)), -1), value

    def _absorbed(self, query: Tensor, cached: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        w_up_key = rearrange(self.w_up_key.weight, "(heads d) latent -> heads d latent", heads=self.n_heads)
        query = einsum(query, w_up_key, "b h queries d, h d latent -> b h queries latent")  # W^UK^T W^Q x_t
        return query, cached, cached  # kernels need keys and values of one width; the rotated part is cut off later

    def _absorbing_saves(self, n_queries: int, n_keys: int) -> bool:
        widths = self.d_head + self.w_up_value.out_features // self.n_heads
        return _absorbing_saves(n_queries, n_keys, self.d_latent, self.d_rotary, widths)


def _absorbing_saves(n_queries: int, n_keys: int, d_latent: int, d_rotary: int, widths: int) -> bool:
    """Return whether mapping queries and outputs takes fewer multiplications than mapping all keys and values, whose
    widths without the rotated part add up to ``widths``. The rotated part counts twice in the absorbed form, which
    averages it, too."""
    mapped, pairs = d_latent * widths, n_queries * n_keys
    return n_queries * mapped + pairs * 2 * (d_latent + d_rotary) < n_keys * mapped + pairs * (widths + d_rotary)
