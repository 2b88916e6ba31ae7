"""Blocks and stacks of blocks: what the residual stream passes on its way from the embeddings to the logits."""

from typing import NamedTuple

import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.experts import RoutingRecord
from llm_anatomy.layers.kv_cache import KVCache, context_of_new_tokens
from llm_anatomy.layers.masks import BidirectionalMask, CausalMask, Mask, SlidingWindowMask
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.models import parts
from llm_anatomy.shapes import Float, Int, Tensor


class EncoderOutput(NamedTuple):
    """The states of an encoder, to which the decoder's cross-attention attends.

    Source: Vaswani et al. (2017), section 3.2.3; UCL-31.

    >>> EncoderOutput(states=torch.zeros(1, 3, 8)).key_positions.tolist()
    [[0, 1, 2]]
    """

    states: Float[Tensor, "batch source d_model"]
    positions: Int[Tensor, "#batch source"] | None = None
    """-1 for padding; None if there is no padding."""

    @property
    def key_positions(self) -> Int[Tensor, "#batch source"]:
        """The positions of all states."""
        if self.positions is not None:
            return self.positions
        return torch.arange(self.states.shape[1], device=self.states.device)[None]

    @property
    def mask(self) -> Mask | None:
        """The rule that hides padding; None if there is no padding."""
        return None if self.positions is None else _EVERY_TOKEN


_EVERY_TOKEN = BidirectionalMask()


class BlockRecord(NamedTuple):
    """What can be seen inside a block: the weights of its attention, if they were asked for, and its routing.

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

    with norms as ``config.norm_placement`` says.

    Args:
        config: of the model.
        position: the scheme of attention.
        layer: which layer of the stack it is.
        has_cross_attention: whether it attends to the output of an encoder, as in an encoder-decoder.

    Source: Vaswani et al. (2017), section 3.1; UCL-24, UCL-26, UCL-31, IITD-42, IITD-44, IITD-45.

    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> x, record = Block(config, PositionScheme())(torch.randn(2, 3, 8), mask=CausalMask(), return_weights=True)
    >>> tuple(x.shape), tuple(record.attention_weights.shape)
    ((2, 3, 8), (2, 2, 3, 3))
    """

    def __init__(
        self, config: ModelConfig, position: PositionScheme, layer: int = 0, has_cross_attention: bool = False
    ):
        super().__init__()
        self.attention, self.attention_residual = parts.attention(config, position), parts.placement(config)
        if has_cross_attention:
            self.cross_attention = parts.cross_attention(config, position)
            self.cross_attention_residual = parts.placement(config)
        self.feedforward, self.feedforward_residual = parts.feedforward(config, layer), parts.placement(config)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        mask: Mask,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        encoder_output: EncoderOutput | None = None,
        cross_context: PositionContext | None = None,
        cross_attention_cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], BlockRecord]:
        """Return the stream after this block, and a record of it.

        Args:
            x: the stream.
            mask: a rule for self-attention.
            position_context: of self-attention; by default positions follow each other.
            cache: of self-attention.
            encoder_output, cross_context, cross_attention_cache: what cross-attention attends to, its positions, and
                its cache, in a decoder that has it.
            return_weights: whether the record holds the weights of attention.
        """
        if position_context is None:
            position_context = context_of_new_tokens(x.shape[1], cache=cache, device=x.device)
        given = dict(position_context=position_context, cache=cache, explicit=return_weights)
        x, weights = self.attention_residual(x, self.attention.attend, mask=mask, **given)
        cross_weights = None
        if encoder_output is not None:
            given = dict(position_context=cross_context, cache=cross_attention_cache, explicit=return_weights)
            given |= dict(context=encoder_output.states, mask=encoder_output.mask)
            x, cross_weights = self.cross_attention_residual(x, self.cross_attention.attend, **given)
        x, routing = _with_routing(self.feedforward_residual(x, self.feedforward))
        return x, BlockRecord(*(w if return_weights else None for w in (weights, cross_weights)), routing)


class ParallelBlock(nn.Module):
    r"""Attention and feed-forward side by side: both read the stream as it came, and both are added to it.

    .. math:: y = x + \mathrm{Attention}(\mathrm{Norm}_1(x)) + \mathrm{FFN}(\mathrm{Norm}_2(x))

    with one and the same norm where the config says so.

    Args:
        config: of the model.
        position: the scheme of attention.
        layer: which layer of the stack it is.

    Source: Wang and Komatsuzaki (2021), GPT-J; Black et al. (2022), "GPT-NeoX-20B", section 2.1; Chowdhery et al.
    (2022), "PaLM", section 2; GT-43.

    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, parallel_block=True)
    >>> x, _ = ParallelBlock(config, PositionScheme())(torch.randn(2, 3, 8), mask=CausalMask())
    >>> tuple(x.shape)
    (2, 3, 8)
    """

    def __init__(self, config: ModelConfig, position: PositionScheme, layer: int = 0):
        super().__init__()
        self.attention, self.feedforward = parts.attention(config, position), parts.feedforward(config, layer)
        self.attention_norm = parts.norm(config)
        self.feedforward_norm = parts.norm(config) if config.n_parallel_norms == 2 else self.attention_norm

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        mask: Mask,
        position_context: PositionContext | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], BlockRecord]:
        """Return the stream after this block, and a record of it; arguments as in :class:`Block`."""
        if position_context is None:
            position_context = context_of_new_tokens(x.shape[1], cache=cache, device=x.device)
        normed = self.attention_norm(x)
        given = dict(position_context=position_context, cache=cache, explicit=return_weights)
        attended, weights = self.attention.attend(normed, mask, **given)
        normed = normed if self.feedforward_norm is self.attention_norm else self.feedforward_norm(x)
        fed, routing = _with_routing(self.feedforward(normed))
        return x + attended + fed, BlockRecord(weights if return_weights else None, routing=routing)


class Stack(nn.Module):
    """Apply blocks one after the other, and a last norm if the blocks leave the stream without one.

    Args:
        config: of the model.
        n_layers: number of blocks.
        causal: whether tokens attend only to themselves and to earlier tokens.
        has_cross_attention: whether blocks attend to the output of an encoder.

    Source: Vaswani et al. (2017), section 3.1; IITD-43, UCL-27.

    >>> config = ModelConfig(d_model=8, n_layers=3, n_heads=2, d_ff=9, n_vocab=5, window=2, global_every=3)
    >>> stack = Stack(config, n_layers=3, causal=True)
    >>> x, records = stack(torch.randn(2, 4, 8))
    >>> tuple(x.shape), len(records), stack.masks[2]
    ((2, 4, 8), 3, CausalMask())
    """

    def __init__(self, config: ModelConfig, n_layers: int, *, causal: bool, has_cross_attention: bool = False):
        super().__init__()
        positions = parts.attention_positions(config, n_layers, causal)
        if config.parallel_block:
            blocks = [ParallelBlock(config, position, layer) for layer, position in enumerate(positions)]
        else:
            blocks = [Block(config, position, layer, has_cross_attention) for layer, position in enumerate(positions)]
        self.blocks = nn.ModuleList(blocks)
        self.windows = [_window(config, layer) for layer in range(n_layers)]
        masks = {window: _mask(window, causal) for window in self.windows}
        self.masks = [masks[window] for window in self.windows]  # layers with equal windows share one mask
        self.norm = nn.Identity() if config.norm_placement in ("post", "rezero") else parts.norm(config)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        position_context: PositionContext | None = None,
        caches: list[KVCache] | None = None,
        encoder_output: EncoderOutput | None = None,
        cross_attention_caches: list[KVCache] | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[BlockRecord]]:
        """Return the stream after the last block and norm, and a record of each block.

        Args:
            x: the embeddings.
            position_context: of the tokens, for all blocks; by default positions follow each other.
            caches, cross_attention_caches: one for each block.
            encoder_output: what the blocks' cross-attention attends to, in a decoder that has it.
            return_weights: whether the records hold the weights of attention.
        """
        n_tokens, none = x.shape[1], [None] * len(self.blocks)
        caches, cross_caches = caches or none, cross_attention_caches or none
        if position_context is None:
            position_context = context_of_new_tokens(n_tokens, cache=caches[0], device=x.device)
        shared = dict(position_context=position_context, return_weights=return_weights)
        if encoder_output is not None:
            cross_context = PositionContext(position_context.query_positions, encoder_output.key_positions)
            shared |= dict(encoder_output=encoder_output, cross_context=cross_context)
        records = []
        for block, mask, cache, cross_cache in zip(self.blocks, self.masks, caches, cross_caches, strict=True):
            of_block = dict(mask=mask, cache=cache)
            if encoder_output is not None:
                of_block |= dict(cross_attention_cache=cross_cache)
            x, record = block(x, **shared, **of_block)
            records.append(record)
        return self.norm(x), records


def _window(config: ModelConfig, layer: int) -> int | None:
    """How many tokens back a layer sees, None for all."""
    sees_all = config.global_every is not None and (layer + 1) % config.global_every == 0
    return None if sees_all else config.window


def _mask(window: int | None, causal: bool) -> Mask:
    mask = CausalMask() if causal else BidirectionalMask()
    return mask if window is None else mask & SlidingWindowMask(window)


def _with_routing(result: Tensor | tuple[Tensor, RoutingRecord]) -> tuple[Tensor, RoutingRecord | None]:
    """A mixture of experts returns a record beside its output; other feed-forward layers return the output alone."""
    return result if isinstance(result, tuple) else (result, None)
