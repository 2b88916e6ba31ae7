"""Blocks and stacks of blocks, through which the hidden states pass from the embeddings to the logits."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers._sharing import _own_once
from llm_anatomy.layers.attention import CrossAttention, SelfAttention
from llm_anatomy.layers.experts import RoutingRecord
from llm_anatomy.layers.kv_cache import KVCache, context_of_new_tokens
from llm_anatomy.layers.latent_attention import LatentAttention
from llm_anatomy.layers.masks import BidirectionalMask, CausalMask, Mask, SlidingWindowMask
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.layers.residual import Residual
from llm_anatomy.models import parts
from llm_anatomy.shapes import Bool, Float, Int, Tensor


class EncoderOutput(NamedTuple):
    """The hidden states of an encoder, to which the decoder's cross-attention attends.

    Source: Vaswani et al. (2017), section 3.2.3; UCL-31.

    >>> EncoderOutput(hidden_states=torch.zeros(1, 3, 8)).key_positions.tolist()
    [[0, 1, 2]]
    """

    hidden_states: Float[Tensor, "batch source d_model"]
    positions: Int[Tensor, "#batch source"] | None = None
    """Positions of the source tokens, -1 for padding; None if there is no padding."""

    @property
    def key_positions(self) -> Int[Tensor, "#batch source"]:
        """The positions of all source tokens, whether or not there is padding."""
        if self.positions is not None:
            return self.positions
        return torch.arange(self.hidden_states.shape[1], device=self.hidden_states.device)[None]

    @property
    def mask(self) -> Mask | None:
        """The rule that hides padding; None if there is no padding."""
        return None if self.positions is None else _HIDE_PADDING

    def repeat_interleave(self, repeats: int) -> "EncoderOutput":
        """Repeat each sequence, with its copies next to each other, as beam search needs it."""
        positions = None if self.positions is None else self.positions.repeat_interleave(repeats, 0)
        return EncoderOutput(self.hidden_states.repeat_interleave(repeats, 0), positions)


_HIDE_PADDING = BidirectionalMask()  # one object, so that all layers share the mask that is made from it


class BlockRecord(NamedTuple):
    """What was computed inside a block: the weights of its attention, if they were requested, and its routing.

    Source: UCL-24.

    >>> BlockRecord().attention_weights is None
    True
    """

    attention_weights: Float[Tensor, "batch heads queries keys"] | None = None
    cross_attention_weights: Float[Tensor, "batch heads queries source"] | None = None
    routing: RoutingRecord | None = None


class Block(nn.Module):
    r"""Self-attention, cross-attention if the model has it, and feed-forward, each with its own residual connection.

    .. math:: x \leftarrow x + \mathrm{Attention}(\mathrm{Norm}(x)), \quad
        x \leftarrow x + \mathrm{FFN}(\mathrm{Norm}(x))

    This is the pre-norm block. The residual connections own the norms, and say where they are:
    :class:`~llm_anatomy.layers.residual.PreNorm`, ``PostNorm``, and the others in that module.

    Args:
        attention: the self-attention; it has its position scheme.
        feedforward: a module from (batch, tokens, d_model) to the same shape, or a mixture of experts.
        attention_residual, feedforward_residual: the residual connections of the two, each with its own norms.
        cross_attention: attends to the output of an encoder; none by default.
        cross_attention_residual: the residual connection of the cross-attention, which needs one.

    Raises:
        ValueError: if only one of ``cross_attention`` and ``cross_attention_residual`` is given; in ``forward``, for an
            ``encoder_output`` without a ``cross_attention``.

    Source: Vaswani et al. (2017), section 3.1; UCL-24, UCL-26, UCL-31, IITD-42, IITD-44, IITD-45.

    >>> from llm_anatomy.layers.feedforward import GatedFeedForward
    >>> from llm_anatomy.layers.residual import PreNorm
    >>> block = Block(
    ...     attention=SelfAttention(d_model=8, n_heads=2),
    ...     feedforward=GatedFeedForward(8, 9, nn.SiLU()),
    ...     attention_residual=PreNorm(nn.RMSNorm(8)),
    ...     feedforward_residual=PreNorm(nn.RMSNorm(8)),
    ... )
    >>> x, record = block(torch.randn(2, 3, 8), mask=CausalMask(), return_weights=True)
    >>> tuple(x.shape), tuple(record.attention_weights.shape)
    ((2, 3, 8), (2, 2, 3, 3))
    """

    def __init__(
        self,
        attention: SelfAttention | LatentAttention,
        feedforward: nn.Module,
        *,
        attention_residual: Residual,
        feedforward_residual: Residual,
        cross_attention: CrossAttention | None = None,
        cross_attention_residual: Residual | None = None,
    ):
        super().__init__()
        self.attention, self.attention_residual = attention, attention_residual
        if (cross_attention is None) != (cross_attention_residual is None):
            raise ValueError("cross_attention and cross_attention_residual must be given together")
        if cross_attention is not None and cross_attention_residual is not None:
            self.cross_attention, self.cross_attention_residual = cross_attention, cross_attention_residual
        self.feedforward, self.feedforward_residual = feedforward, feedforward_residual

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        mask: Bool[Tensor, "*#mask"] | Mask | None,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        encoder_output: EncoderOutput | None = None,
        cross_position_context: PositionContext | None = None,
        cross_attention_cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], BlockRecord]:
        """Return the hidden states after this block, and its record.

        Args:
            x: the hidden states.
            mask: of self-attention, as in :class:`~llm_anatomy.layers.attention.SelfAttention`.
            position_context: the positions of queries and keys in self-attention; by default the tokens follow each
                other.
            cache: keys and values of self-attention.
            encoder_output: the sequence to which cross-attention attends.
            cross_position_context: the positions of queries and keys in cross-attention; required with
                ``encoder_output``.
            cross_attention_cache: keys and values of cross-attention.
            return_weights: whether the record holds the weights of attention.

        Raises:
            ValueError: for an ``encoder_output`` if the block has no cross-attention.
        """
        if position_context is None:
            position_context = context_of_new_tokens(x.shape[1], cache=cache, device=x.device)
        x, weights = _with_record(
            self.attention_residual(
                x,
                self.attention,
                mask=mask,
                position_context=position_context,
                cache=cache,
                return_weights=return_weights,
            )
        )
        cross_weights = None
        if encoder_output is not None:
            if not hasattr(self, "cross_attention"):
                raise ValueError("encoder_output must be None for a block without cross_attention")
            x, cross_weights = _with_record(
                self.cross_attention_residual(
                    x,
                    self.cross_attention,
                    context=encoder_output.hidden_states,
                    mask=encoder_output.mask,
                    position_context=cross_position_context,
                    cache=cross_attention_cache,
                    return_weights=return_weights,
                )
            )
        x, routing = _with_record(self.feedforward_residual(x, self.feedforward))
        return x, BlockRecord(weights, cross_weights, routing)


class ParallelBlock(nn.Module):
    r"""Attention and feed-forward in parallel: both read the same hidden states, and both outputs are added to them.

    .. math:: y = x + \mathrm{Attention}(\mathrm{Norm}_1(x)) + \mathrm{FFN}(\mathrm{Norm}_2(x))

    Args:
        attention: the self-attention; it has its position scheme.
        feedforward: a module from (batch, tokens, d_model) to the same shape, or a mixture of experts.
        attention_norm: the norm of which attention reads the output.
        feedforward_norm: that of the feed-forward layer; by default both read the output of the same norm.

    Source: Wang and Komatsuzaki (2021), GPT-J; Black et al. (2022), "GPT-NeoX-20B", section 2.1; Chowdhery et al.
    (2022), "PaLM", section 2; GT-43.

    >>> from llm_anatomy.layers.feedforward import FeedForward
    >>> block = ParallelBlock(SelfAttention(8, n_heads=2), FeedForward(8, 9, nn.GELU()), attention_norm=nn.LayerNorm(8))
    >>> x, _ = block(torch.randn(2, 3, 8), mask=CausalMask())
    >>> tuple(x.shape)
    (2, 3, 8)
    """

    def __init__(
        self,
        attention: SelfAttention | LatentAttention,
        feedforward: nn.Module,
        *,
        attention_norm: nn.Module,
        feedforward_norm: nn.Module | None = None,
    ):
        super().__init__()
        self.attention, self.feedforward, self.attention_norm = attention, feedforward, attention_norm
        self.feedforward_norm = attention_norm if feedforward_norm is None else feedforward_norm
        _own_once(self)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        mask: Bool[Tensor, "*#mask"] | Mask | None,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], BlockRecord]:
        """Return the hidden states after this block, and its record.

        Args:
            x, mask, position_context, cache, return_weights: as in :meth:`Block.forward`.
        """
        if position_context is None:
            position_context = context_of_new_tokens(x.shape[1], cache=cache, device=x.device)
        normed = self.attention_norm(x)
        attention_output, weights = _with_record(
            self.attention(normed, mask, position_context=position_context, cache=cache, return_weights=return_weights)
        )
        if self.feedforward_norm is not self.attention_norm:
            normed = self.feedforward_norm(x)
        feedforward_output, routing = _with_record(self.feedforward(normed))
        record = BlockRecord(weights, routing=routing)
        return x + attention_output + feedforward_output, record


class Stack(nn.Module):
    """Blocks one after the other, and a final norm unless each block ends with one or the model has none.

    Args:
        config: of the model.
        n_layers: number of blocks.
        causal: whether tokens attend only to themselves and to earlier tokens.
        has_cross_attention: whether the blocks attend to the output of an encoder.

    Source: Vaswani et al. (2017), section 3.1; IITD-43, UCL-27.

    >>> types = ("sliding_attention", "sliding_attention", "full_attention")
    >>> config = ModelConfig(d_model=8, n_layers=3, n_heads=2, d_ff=9, n_vocab=5, window=2, layer_types=types)
    >>> stack = Stack(config, n_layers=3, causal=True)
    >>> x, records = stack(torch.randn(2, 4, 8))
    >>> tuple(x.shape), len(records), stack.masks[2]
    ((2, 4, 8), 3, CausalMask())
    """

    def __init__(self, config: ModelConfig, n_layers: int, *, causal: bool, has_cross_attention: bool = False):
        super().__init__()
        positions = parts.attention_positions(config, n_layers, causal)
        blocks = [_block(config, position, layer, has_cross_attention) for layer, position in enumerate(positions)]
        self.blocks = cast(Sequence[Block | ParallelBlock], nn.ModuleList(blocks))  # a ModuleList has no item type
        self.windows = [_window(config, layer) for layer in range(n_layers)]
        masks = {window: _mask(window, causal) for window in self.windows}
        self.masks = [masks[window] for window in self.windows]  # layers with equal windows share one mask
        self.norm = nn.Identity() if config.norm_placement in ("post", "rezero") else parts.norm(config)
        _own_once(self)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        mask: Mask | None = None,
        position_context: PositionContext | None = None,
        caches: Sequence[KVCache] | None = None,
        encoder_output: EncoderOutput | None = None,
        cross_attention_caches: Sequence[KVCache] | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[BlockRecord]]:
        """Return the hidden states after the final norm, and the record of each block.

        Args:
            x: the embeddings.
            mask: a rule of self-attention in all blocks, besides their own.
            position_context: the positions of queries and keys in self-attention, for all blocks; by default the tokens
                follow each other.
            caches: keys and values of self-attention, one cache for each block.
            encoder_output: the sequence to which the blocks' cross-attention attends.
            cross_attention_caches: keys and values of cross-attention, one cache for each block.
            return_weights: whether the records hold the weights of attention.
        """
        no_caches = [None] * len(self.blocks)
        self_caches = no_caches if caches is None else caches
        cross_caches = no_caches if cross_attention_caches is None else cross_attention_caches
        if position_context is None:
            position_context = context_of_new_tokens(x.shape[1], cache=self_caches[0], device=x.device)
        cross_attention = {}  # stays empty without an encoder: a parallel block has no such arguments
        if encoder_output is not None:
            cross_position_context = PositionContext(position_context.query_positions, encoder_output.key_positions)
            cross_attention = dict(encoder_output=encoder_output, cross_position_context=cross_position_context)
        masks = self.masks
        if mask is not None:  # layers that share one mask share the one that is made of it
            joined = {rule: rule & mask for rule in set(self.masks)}
            masks = [joined[rule] for rule in self.masks]
        records = []
        for block, mask, cache, cross_cache in zip(self.blocks, masks, self_caches, cross_caches, strict=True):
            if cross_cache is not None:
                cross_attention |= dict(cross_attention_cache=cross_cache)
            x, record = block(
                x,
                mask=mask,
                position_context=position_context,
                cache=cache,
                return_weights=return_weights,
                **cross_attention,
            )
            records.append(record)
        return self.norm(x), records

    def output_positions(self, positions: Int[Tensor, "#batch tokens"] | None) -> Int[Tensor, "#batch output"] | None:
        """The positions of the tokens that leave the stack, -1 for padding; None if there is none. Here they are those
        of the tokens that enter it; a stack that pools tokens changes them."""
        return positions


def _block(
    config: ModelConfig, position: PositionScheme, layer: int, has_cross_attention: bool
) -> Block | ParallelBlock:
    """Make a block from the parts that the config names."""
    attention = parts.attention(config, position)
    if config.parallel_block:
        return ParallelBlock(
            attention,
            parts.feedforward(config, layer),
            attention_norm=parts.norm(config),
            feedforward_norm=parts.norm(config) if config.n_parallel_norms == 2 else None,
        )
    return Block(
        attention,
        cross_attention=parts.cross_attention(config, position) if has_cross_attention else None,
        feedforward=parts.feedforward(config, layer),
        attention_residual=parts.placement(config),
        cross_attention_residual=parts.placement(config) if has_cross_attention else None,
        feedforward_residual=parts.placement(config),
    )


def _window(config: ModelConfig, layer: int) -> int | None:
    """How many tokens back a layer sees, None for all."""
    return config.window_of(layer)


def _mask(window: int | None, causal: bool) -> Mask:
    mask = CausalMask() if causal else BidirectionalMask()
    return mask if window is None else mask & SlidingWindowMask(window)


def _with_record(result: Tensor | tuple[Tensor, Any]) -> tuple[Tensor, Any]:
    """``(output, record)``: a mixture of experts returns its routing beside the output, and attention its weights if
    they are wanted; other layers return the output alone."""
    return result if isinstance(result, tuple) else (result, None)
