"""The Evolved Transformer, row 39: blocks that an evolutionary search found, with convolutions beside attention."""

from dataclasses import replace
from typing import Any, cast

import torch.nn.functional as F
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers._sharing import _own_once
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.convolution import SeparableConvolution, TokenConvolution
from llm_anatomy.layers.kv_cache import KVCache, context_of_new_tokens
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.models import parts
from llm_anatomy.models.block import BlockRecord, EncoderOutput, _with_record
from llm_anatomy.models.modifications.base import Modification, initialize_
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Bool, Float, Tensor


class EncoderBranches(nn.Module):
    r"""Two branches side by side, wide and narrow, whose sum is normalized and convolved.

    .. math::
        h &= \mathrm{Norm}\big(\mathrm{ReLU}(x W) + \mathrm{ReLU}(\mathrm{conv}_3(x))\big), \quad
        y = \mathrm{sepconv}_9(h)

    The widths are :math:`4d` on the left and :math:`d/2` on the right, to which zeros are appended, as they are to the
    output, which has width :math:`d/2` too.

    Args:
        config: of the model.

    Source: So et al. (2019), "The Evolved Transformer", figure 3; GT-19.

    >>> import torch
    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> tuple(EncoderBranches(config)(torch.randn(2, 3, 8)).shape)
    (2, 3, 8)
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        d_model = config.d_model
        self.left = nn.Linear(d_model, 4 * d_model, bias=False)
        self.right = TokenConvolution(d_model, d_model // 2, width=3, causal=False)
        self.norm = parts.norm(config, 4 * d_model)
        self.output = SeparableConvolution(4 * d_model, d_model // 2, width=9, causal=False)

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], attention_mask: Bool[Tensor, "#batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Compute the output.

        Args:
            x: the tokens.
            attention_mask: boolean, True for a token and False for padding; by default there is no padding.
        """
        left = self.left(x).relu()
        hidden = self.norm(left + _widened(self.right(x, attention_mask).relu(), left.shape[-1]))
        return _widened(self.output(hidden, attention_mask), x.shape[-1])


class DecoderBranches(nn.Module):
    r"""Two causal convolutions side by side, whose sum is normalized and convolved again.

    .. math::
        h &= \mathrm{Norm}\big(\mathrm{ReLU}(\mathrm{sepconv}_{11}(x)) + \mathrm{sepconv}_7(x)\big), \quad
        y = \mathrm{sepconv}_7(h)

    The widths are :math:`2d` on the left and :math:`d/2` on the right, to which zeros are appended.

    Args:
        config: of the model.

    Source: So et al. (2019), "The Evolved Transformer", figure 3; GT-19.

    >>> import torch
    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> tuple(DecoderBranches(config)(torch.randn(2, 3, 8)).shape)
    (2, 3, 8)
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        d_model = config.d_model
        self.left = SeparableConvolution(d_model, 2 * d_model, width=11, causal=True)
        self.right = SeparableConvolution(d_model, d_model // 2, width=7, causal=True)
        self.norm = parts.norm(config, 2 * d_model)
        self.output = SeparableConvolution(2 * d_model, d_model, width=7, causal=True)

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], attention_mask: Bool[Tensor, "#batch tokens"] | None = None
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Compute the output; the arguments are those of :class:`EncoderBranches`."""
        left = self.left(x, attention_mask).relu()
        return self.output(self.norm(left + _widened(self.right(x, attention_mask), left.shape[-1])), attention_mask)


class UncachedSelfAttention(SelfAttention):
    """Self-attention beside convolutions, of whose inputs there is no cache: it refuses one too.

    Args and errors as for :class:`~llm_anatomy.layers.attention.SelfAttention`.

    Args:
        d_model, n_heads: as there.

    Source: GT-19.

    >>> UncachedSelfAttention(d_model=12, n_heads=3).new_cache(1, 2)
    Traceback (most recent call last):
    ValueError: a block with convolutions has no cache: run the model on the whole text, without one
    """

    def new_cache(self, batch: int, n_slots: int, kind: type[KVCache] = KVCache) -> KVCache:
        raise ValueError("a block with convolutions has no cache: run the model on the whole text, without one")


class EvolvedEncoderBlock(nn.Module):
    r"""Encoder block of the Evolved Transformer, which replaces two blocks of the Transformer.

    .. math::
        x &\leftarrow x + \mathrm{GLU}(\mathrm{Norm}(x)), &
        x &\leftarrow x + \mathrm{Branches}(\mathrm{Norm}(x)), \\
        x &\leftarrow x + \mathrm{Attention}(\mathrm{Norm}(x)), &
        x &\leftarrow x + \mathrm{FFN}(\mathrm{Norm}(x))

    Args:
        config: of the model.
        position: the position scheme of the self-attention.

    Source: So et al. (2019), "The Evolved Transformer", figure 3; GT-19.

    >>> import torch
    >>> from llm_anatomy.layers.masks import BidirectionalMask
    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> block = EvolvedEncoderBlock(config, PositionScheme())
    >>> x, _ = block(torch.randn(2, 3, 8), mask=BidirectionalMask())
    >>> tuple(x.shape)
    (2, 3, 8)
    """

    def __init__(self, config: ModelConfig, position: PositionScheme):
        super().__init__()
        self.gate_residual, self.branches_residual = parts.placement(config), parts.placement(config)
        self.attention_residual, self.feedforward_residual = parts.placement(config), parts.placement(config)
        self.gate = nn.Sequential(nn.Linear(config.d_model, 2 * config.d_model, bias=False), nn.GLU())
        self.branches = EncoderBranches(config)
        self.attention = _self_attention(config, position)
        self.feedforward = parts.feedforward(config)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        mask: Mask | None,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], BlockRecord]:
        """Return the hidden states after this block, and its record; the arguments are those of
        :class:`~llm_anatomy.models.block.Block`."""
        context, attention_mask = _context(x, position_context, cache)
        x = self.gate_residual(x, self.gate)
        x = self.branches_residual(x, self.branches, attention_mask=attention_mask)
        x, weights = _with_record(
            self.attention_residual(
                x, self.attention, mask=mask, position_context=context, return_weights=return_weights
            )
        )
        x = self.feedforward_residual(x, self.feedforward)
        return x, BlockRecord(weights)


class EvolvedDecoderBlock(nn.Module):
    r"""Decoder block of the Evolved Transformer, which replaces two blocks of the Transformer.

    .. math::
        x &\leftarrow x + \mathrm{Attention}_{2h}(\mathrm{Norm}(x)) + \mathrm{Cross}_1(\mathrm{Norm}(x)), &
        x &\leftarrow x + \mathrm{Branches}(\mathrm{Norm}(x)), \\
        x &\leftarrow x + \mathrm{Attention}_h(\mathrm{Norm}(x)), &
        x &\leftarrow x + \mathrm{Cross}_2(\mathrm{Norm}(x)), \\
        x &\leftarrow x + \mathrm{FFN}(\mathrm{Norm}(x))

    The first self-attention has twice the heads; the feed-forward layer has Swish.

    Args:
        config: of the model.
        first_position, position: the position schemes of the two self-attentions, of which the first has twice the
            heads.

    Source: So et al. (2019), "The Evolved Transformer", figure 3; GT-19.

    >>> import torch
    >>> from llm_anatomy.layers.masks import CausalMask
    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> block, source = EvolvedDecoderBlock(config, PositionScheme(), PositionScheme()), torch.randn(2, 4, 8)
    >>> context = PositionContext(torch.arange(3)[None], torch.arange(4)[None])
    >>> kwargs = dict(encoder_output=EncoderOutput(source), cross_position_context=context)
    >>> x, _ = block(torch.randn(2, 3, 8), mask=CausalMask(), **kwargs)
    >>> tuple(x.shape)
    (2, 3, 8)
    """

    def __init__(self, config: ModelConfig, first_position: PositionScheme, position: PositionScheme):
        super().__init__()
        self.first_residual, self.branches_residual = parts.placement(config), parts.placement(config)
        self.attention_residual, self.cross_attention_residual = parts.placement(config), parts.placement(config)
        self.feedforward_residual = parts.placement(config)
        self.first_attention = _self_attention(_with_twice_the_heads(config), first_position)
        self.first_cross_attention = parts.cross_attention(config, position)
        self.branches = DecoderBranches(config)
        self.attention = _self_attention(config, position)
        self.cross_attention = parts.cross_attention(config, position)
        self.feedforward = parts.feedforward(replace(config, feedforward="swish"))

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        mask: Mask | None,
        encoder_output: EncoderOutput,
        cross_position_context: PositionContext,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], BlockRecord]:
        """Return the hidden states after this block, and its record, which holds the weights of the second
        self-attention and cross-attention; the arguments are those of :class:`~llm_anatomy.models.block.Block`."""
        context, attention_mask = _context(x, position_context, cache)
        own: dict[str, Any] = dict(mask=mask, position_context=context)
        cross: dict[str, Any] = dict(
            context=encoder_output.hidden_states,
            mask=encoder_output.mask,
            position_context=cross_position_context,
        )
        x = self.first_residual(
            x,
            lambda normed: self.first_attention(normed, **own) + self.first_cross_attention(normed, **cross),
        )
        x = self.branches_residual(x, self.branches, attention_mask=attention_mask)
        own, cross = (options | dict(return_weights=return_weights) for options in (own, cross))
        x, weights = _with_record(self.attention_residual(x, self.attention, **own))
        x, cross_weights = _with_record(self.cross_attention_residual(x, self.cross_attention, **cross))
        x = self.feedforward_residual(x, self.feedforward)
        return x, BlockRecord(weights, cross_weights)


def _self_attention(config: ModelConfig, position: PositionScheme) -> UncachedSelfAttention:
    return UncachedSelfAttention(
        config.d_model, config.n_heads, d_head=config.d_head, position=position, scale=config.attention_scale
    )


def _with_twice_the_heads(config: ModelConfig) -> ModelConfig:
    return replace(config, n_heads=2 * config.n_heads, n_kv_heads=2 * config.n_heads)


def _context(
    x: Tensor, context: PositionContext | None, cache: KVCache | None
) -> tuple[PositionContext, Tensor | None]:
    """The positions, and which of them are tokens; None if all are."""
    if cache is not None:
        raise ValueError("cache must be None: a block with convolutions has none")
    context = context_of_new_tokens(x.shape[1], device=x.device) if context is None else context
    return context, None if context.contiguous else context.query_positions >= 0


def _widened(x: Tensor, width: int) -> Tensor:
    """The tokens, as wide as they should be, with zeros appended."""
    return F.pad(x, (0, width - x.shape[-1]))


def _evolve(model: Transformer) -> None:
    config = model.config
    assert model.encoder is not None  # the baseline is an encoder-decoder
    for stack, causal in ((model.encoder, False), (model.stack, True)):
        n_layers = len(stack.blocks)
        positions = parts.attention_positions(config, n_layers, causal)
        if causal:
            first = parts.attention_positions(_with_twice_the_heads(config), n_layers, causal)
            blocks = [EvolvedDecoderBlock(config, *pair) for pair in zip(first, positions, strict=True)]
        else:
            blocks = [EvolvedEncoderBlock(config, position) for position in positions]
        stack.blocks = cast(Any, nn.ModuleList(blocks))  # they take the arguments of a Block
        initialize_(stack)
    _own_once(model)


def _half_the_layers(config: ModelConfig) -> dict[str, object]:
    n_layers = max(1, config.n_layers // 2)
    return dict(n_layers=n_layers, n_encoder_layers=n_layers)


ROWS = [
    Modification(
        row=39,
        name="evolved_transformer",
        title="Evolved Transformer",
        paper="So et al. (2019), The Evolved Transformer",
        card="An evolutionary search over blocks, started from the Transformer's, found these: gates and convolutions "
        "come before attention in the encoder, and in the decoder self-attention and cross-attention run side by side "
        "before convolutions, and one after the other behind them. One block replaces two. It was meant to reach the "
        "Transformer's quality with fewer parameters.",
        reading="As in the code of Narang et al., norms stand before the sublayers, and the first self-attention of "
        "the decoder has twice the heads at their full width. We keep the baseline's relative positions. The "
        "parameters are then 216 million; the table's 217 would follow with a learned table of 512 positions, which "
        "has 0.4 million.",
        config=_half_the_layers,
        modify=_evolve,
    ),
]
