"""Blocks, and stacks of them: what the stream passes on its way from embeddings to logits."""

from typing import NamedTuple

from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.experts import RoutingRecord
from llm_anatomy.layers.kv_cache import KVCache
from llm_anatomy.layers.masks import BidirectionalMask, CausalMask, Mask, SlidingWindowMask
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.models import parts
from llm_anatomy.shapes import Float, Int, Tensor


class EncoderOutput(NamedTuple):
    """What a decoder reads of another text.

    Source: Vaswani et al. (2017), section 3.2.3; UCL-31.

    >>> EncoderOutput(states=None).positions is None
    True
    """

    states: Float[Tensor, "batch source d_model"] | None
    positions: Int[Tensor, "#batch source"] | None = None
    """-1 for padding; None where there is none."""


class BlockRecord(NamedTuple):
    """What a block decided on the way, where it was asked for.

    Source: UCL-24.

    >>> BlockRecord().weights is None
    True
    """

    weights: Float[Tensor, "batch heads queries keys"] | None = None
    cross_attention_weights: Float[Tensor, "batch heads queries source"] | None = None
    routing: RoutingRecord | None = None


class Block(nn.Module):
    r"""Attention, perhaps attention to a source, and feed-forward, each with a residual connection of its own.

    .. math:: x \leftarrow x + \mathrm{Attention}(\mathrm{Norm}(x)), \quad
        x \leftarrow x + \mathrm{FFN}(\mathrm{Norm}(x))

    with norms as ``config.norm_placement`` says.

    Args:
        config: of the model.
        position: the scheme of attention.
        layer: which layer of the stack it is.
        has_cross_attention: whether it attends to a source, as the decoder of an encoder-decoder does.

    Source: Vaswani et al. (2017), section 3.1; UCL-24, UCL-26, UCL-31, IITD-42, IITD-44, IITD-45.

    >>> import torch
    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> x, record = Block(config, PositionScheme())(torch.randn(2, 3, 8), mask=CausalMask(), return_weights=True)
    >>> tuple(x.shape), tuple(record.weights.shape)
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
        positions: Int[Tensor, "#batch tokens"] | None = None,
        cache: KVCache | None = None,
        source: EncoderOutput | None = None,
        cross_attention_cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], BlockRecord]:
        """The stream after this block, and the record, empty but for routing unless weights are asked for."""
        cross_attention_weights = None
        asked = dict(mask=mask, positions=positions, cache=cache, return_weights=return_weights)
        x, weights = _and_more(self.attention_residual(x, self.attention, **asked))
        if source is not None:
            asked = dict(
                context=source.states,
                mask=None if source.positions is None else BidirectionalMask(),
                context_positions=source.positions,
                cache=cross_attention_cache,
                return_weights=return_weights,
            )
            x, cross_attention_weights = _and_more(self.cross_attention_residual(x, self.cross_attention, **asked))
        x, routing = _and_more(self.feedforward_residual(x, self.feedforward))
        return x, BlockRecord(weights, cross_attention_weights, routing)


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

    >>> import torch
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
        positions: Int[Tensor, "#batch tokens"] | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], BlockRecord]:
        """As in :class:`Block`."""
        normed = self.attention_norm(x)
        asked = dict(mask=mask, positions=positions, cache=cache, return_weights=return_weights)
        attended, weights = _and_more(self.attention(normed, **asked))
        normed = normed if self.feedforward_norm is self.attention_norm else self.feedforward_norm(x)
        fed, routing = _and_more(self.feedforward(normed))
        return x + attended + fed, BlockRecord(weights, routing=routing)


class Stack(nn.Module):
    """Blocks one after the other, and a last norm where the stream has passed none.

    Args:
        config: of the model.
        n_layers: how many blocks.
        causal: whether tokens see only what came before.
        has_cross_attention: whether blocks attend to a source.

    Source: Vaswani et al. (2017), section 3.1; IITD-43, UCL-27.

    >>> import torch
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
        if config.parallel_block:
            blocks = [ParallelBlock(config, position, layer) for layer, position in enumerate(positions)]
        else:
            blocks = [Block(config, position, layer, has_cross_attention) for layer, position in enumerate(positions)]
        self.blocks = nn.ModuleList(blocks)
        self.windows = [_window(config, layer) for layer in range(n_layers)]
        self.masks = [_mask(window, causal) for window in self.windows]
        self.norm = nn.Identity() if config.norm_placement in ("post", "rezero") else parts.norm(config)

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        *,
        positions: Int[Tensor, "#batch tokens"] | None = None,
        caches: list[KVCache] | None = None,
        source: EncoderOutput | None = None,
        cross_attention_caches: list[KVCache] | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[BlockRecord]]:
        """The stream after the last block and norm, and a record of each block.

        Args:
            x: the embeddings.
            positions: where the tokens stand, -1 for padding; by default they follow each other.
            caches, cross_attention_caches: one for each block.
            source: what the blocks attend to beside ``x``.
            return_weights: whether the records hold attention's weights.
        """
        records = []
        for i, block in enumerate(self.blocks):
            asked = dict(mask=self.masks[i], positions=positions, return_weights=return_weights)
            if caches is not None:
                asked |= dict(cache=caches[i])
            if source is not None:
                asked |= dict(
                    source=source,
                    cross_attention_cache=None if cross_attention_caches is None else cross_attention_caches[i],
                )
            x, record = block(x, **asked)
            records.append(record)
        return self.norm(x), records


def _window(config: ModelConfig, layer: int) -> int | None:
    """How many tokens back a layer sees, None for all."""
    return config.window_of(layer)


def _mask(window: int | None, causal: bool) -> Mask:
    mask = CausalMask() if causal else BidirectionalMask()
    return mask if window is None else mask & SlidingWindowMask(window)


def _and_more(result: Tensor | tuple) -> tuple:
    """Sublayers that return a tensor alone have no more to say."""
    return result if isinstance(result, tuple) else (result, None)
