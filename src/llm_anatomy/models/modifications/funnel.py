"""The Funnel Transformer, whose encoder shortens the sequence on the way: row 50."""

from typing import Any, cast

import torch
from torch import nn

from llm_anatomy.layers.kv_cache import context_of_new_tokens
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.models.block import Block, BlockRecord, Stack, _with_record
from llm_anatomy.models.modifications.base import Modification
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Int, Tensor


def mean_of_pairs(
    x: Float[Tensor, "batch tokens d_model"], positions: Int[Tensor, "#batch tokens"]
) -> Float[Tensor, "batch pairs d_model"]:
    r"""Average the tokens at positions 0 and 1, those at 2 and 3, and so on: half as many tokens, rounded up.

    .. math:: y_i = \tfrac{1}{2} (x_{2 i} + x_{2 i + 1})

    Pairs are made of positions, so that padding takes part in none of them, on whichever side it is. A last token
    without a partner stays as it is. What is left over behind the pairs of a shorter sequence is zero.

    Args:
        x: the tokens.
        positions: of the tokens, -1 for padding.

    Source: Dai et al. (2020), "Funnel-Transformer", section 2.2; GT-19.

    >>> x = torch.tensor([[[1.0], [3.0], [5.0], [9.0]]])
    >>> mean_of_pairs(x, torch.tensor([[0, 1, 2, 3]])).flatten().tolist()
    [2.0, 7.0]
    >>> mean_of_pairs(x, torch.tensor([[-1, 0, 1, 2]])).flatten().tolist()
    [4.0, 9.0]
    """
    n_pairs = (x.shape[1] + 1) // 2
    pair = torch.where(positions < 0, n_pairs, positions // 2).expand(x.shape[:2])  # padding goes behind the last pair
    total = x.new_zeros(x.shape[0], n_pairs + 1, x.shape[2]).scatter_add(1, pair[..., None].expand_as(x), x)
    count = x.new_zeros(x.shape[0], n_pairs + 1).scatter_add(1, pair, torch.ones_like(x[..., 0]))
    return (total / count.clamp(min=1)[..., None])[:, :n_pairs]


def positions_of_pairs(positions: Int[Tensor, "#batch tokens"]) -> Int[Tensor, "#batch pairs"]:
    """Find the positions of what :func:`mean_of_pairs` returns: 0, 1, 2, …, and -1 behind the last pair of a sequence.

    Args:
        positions: of the tokens before pooling, -1 for padding.

    Source: the code of Narang et al. (2021), where pooled tokens are numbered anew; GT-19.

    >>> positions_of_pairs(torch.tensor([[0, 1, 2, 3, 4], [-1, -1, 0, 1, 2]])).tolist()
    [[0, 1, 2], [0, 1, -1]]
    """
    n_pairs = ((positions >= 0).sum(1, keepdim=True) + 1) // 2
    new = torch.arange((positions.shape[1] + 1) // 2, device=positions.device)[None]
    return torch.where(new < n_pairs, new, -1)


class PoolingBlock(Block):
    r"""A block of an encoder that averages pairs of tokens between its self-attention and its feed-forward layer.

    .. math:: x \leftarrow \mathrm{MeanOfPairs}(x + \mathrm{Attention}(\mathrm{Norm}(x))), \quad
        x \leftarrow x + \mathrm{FFN}(\mathrm{Norm}(x))

    Args:
        attention, feedforward, attention_residual, feedforward_residual: as in
            :class:`~llm_anatomy.models.block.Block`.

    Source: Dai et al. (2020), "Funnel-Transformer", section 2.2; the code of Narang et al. (2021) for the position of
    the pooling; GT-19.

    >>> from llm_anatomy.layers.attention import SelfAttention
    >>> from llm_anatomy.layers.residual import Residual
    >>> block = PoolingBlock(
    ...     attention=SelfAttention(d_model=8, n_heads=2),
    ...     feedforward=nn.Linear(8, 8),
    ...     attention_residual=Residual(),
    ...     feedforward_residual=Residual(),
    ... )
    >>> x, _ = block(torch.randn(2, 5, 8), mask=None, position_context=context_of_new_tokens(5))
    >>> x.shape
    torch.Size([2, 3, 8])
    """

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        mask: Mask | None,
        position_context: PositionContext,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch pairs d_model"], BlockRecord]:
        """Return the hidden states of the pairs, and the record of the block; arguments as those of a block."""
        x, weights = _with_record(
            self.attention_residual(
                x, self.attention, mask=mask, position_context=position_context, return_weights=return_weights
            )
        )
        x = mean_of_pairs(x, position_context.query_positions)
        return self.feedforward_residual(x, self.feedforward), BlockRecord(weights)


class FunnelEncoder(nn.Module):
    """An encoder in three groups of layers, which halves the number of tokens at the start of the second and the third.

    The decoder attends to what is left, a quarter of the source. Pooled tokens are numbered anew, so that two
    neighbours of the last group, four tokens apart in the source, are one position apart for relative positions.

    Args:
        stack: the encoder whose blocks and final norm it takes.

    Source: Dai et al. (2020), "Funnel-Transformer", sections 2.2 and A.3; the code of Narang et al. (2021); GT-19.

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> encoder = FunnelEncoder(Stack(baseline(n_vocab=60), n_layers=6, causal=False))
    >>> x, _ = encoder(torch.randn(2, 9, 48))
    >>> x.shape, sorted(encoder.pooling_layers)
    (torch.Size([2, 3, 48]), [2, 4])
    """

    def __init__(self, stack: Stack):
        super().__init__()
        self.masks, self.norm = stack.masks, stack.norm
        self.pooling_layers = {len(stack.blocks) * group // 3 for group in (1, 2)}
        blocks = [
            _pooling(block) if layer in self.pooling_layers else block for layer, block in enumerate(stack.blocks)
        ]
        self.blocks = nn.ModuleList(blocks)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        position_context: PositionContext | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch pooled d_model"], list[BlockRecord]]:
        """Return the pooled hidden states after the final norm, and the record of each block.

        Args:
            x: the embeddings.
            position_context: the positions of the source; by default there is no padding.
            return_weights: whether the records hold the weights of attention.
        """
        context = position_context
        if context is None:
            context = context_of_new_tokens(x.shape[1], device=x.device)
        records = []
        for layer, (block, mask) in enumerate(zip(self.blocks, self.masks, strict=True)):
            x, record = block(x, mask=mask, position_context=context, return_weights=return_weights)
            if layer in self.pooling_layers:
                pooled = None if context.contiguous else positions_of_pairs(context.query_positions)
                context = context_of_new_tokens(x.shape[1], pooled, device=x.device)
            records.append(record)
        return self.norm(x), records

    def output_positions(self, positions: Int[Tensor, "#batch tokens"] | None) -> Int[Tensor, "#batch pooled"] | None:
        """The positions of the pooled tokens, -1 for what is behind the last one; None if there is no padding."""
        if positions is None:
            return None
        for _ in self.pooling_layers:
            positions = positions_of_pairs(positions)
        return positions


def _pooling(block: Any) -> PoolingBlock:
    """A block of the same parts that pools."""
    return PoolingBlock(
        attention=block.attention,
        feedforward=block.feedforward,
        attention_residual=block.attention_residual,
        feedforward_residual=block.feedforward_residual,
    )


def _pool(model: Transformer) -> None:
    model.encoder = cast(Any, FunnelEncoder(cast(Stack, model.encoder)))


ROWS = [
    Modification(
        row=50,
        name="funnel_transformer",
        title="Funnel Transformer",
        paper="Dai et al. (2020)",
        card="After a third and after two thirds of its layers, the encoder averages each pair of neighbouring tokens, "
        "so that a quarter of the source is left. Later layers and the decoder's cross-attention get cheaper, at the "
        "same number of parameters.",
        reading="As in the authors' code, the decoder is unchanged and attends to the shortened source; tokens are "
        "pooled after the first self-attention of a group, where Dai et al. pool the queries before it; and pooled "
        "tokens are numbered anew for T5's relative positions, in place of those of Transformer-XL. Their code "
        "averages padding with the token before it, while here padding takes part in no pair.",
        modify=_pool,
    ),
]
