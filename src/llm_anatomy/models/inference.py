r"""Inference-optimized models: the same function as a model computes, laid out for decoding.

The classes of ``models.transformer`` keep apart what a reader wants to see apart. A step of decoding reads one row for
each sequence, and spends its time on reading weights and on starting operations. An inference-optimized model has
fewer of both: queries, keys and values come from one product, RoPE is one complex product in place, norms take fewer
operations, the tables of positions are made once for a cache, and weights lie in memory as they are read fastest, or in
fewer bits.

.. math:: t_\mathrm{step} \geq \frac{\text{bytes of the weights}}{\text{bandwidth}}

Shapes: ``batch``, ``tokens``, ``slots`` (tokens that a cache has room for), ``heads``, ``kv_heads``.
"""

import copy
from collections.abc import Callable
from inspect import unwrap
from types import FunctionType
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.deprecation import renamed_arguments, renamed_attribute, renamed_function
from llm_anatomy.layers._checks import _check_ids
from llm_anatomy.layers._precision import _wide
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.feedforward import FeedForward, GatedFeedForward
from llm_anatomy.layers.kv_cache import KVCache, RollingKVCache
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.normalization import RMSNorm, UnitOffsetRMSNorm
from llm_anatomy.layers.packed_linear import GROUP, Int4Linear, Int8Linear, PackedLinear, pack
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.layers.positions.relative import ALiBi, alibi_slopes
from llm_anatomy.layers.positions.rotary import HalfSplitRotary, InterleavedRotary, Rotary, multiply_pairs
from llm_anatomy.models.block import Block, EncoderOutput, ParallelBlock
from llm_anatomy.models.transformer import ModelCache, Transformer, _last_tokens
from llm_anatomy.shapes import Bool, Float, Int, Tensor

M = TypeVar("M", bound=nn.Module)

CHUNK = 512
"""Number of tokens that a prefill reads at once, by default."""


@renamed_arguments(weights="quantize")
def for_inference(
    model: nn.Module, *, quantize: str | None = None, chunk: int = CHUNK, prepack: bool = True
) -> "InferenceTransformer":
    """Optimize a model for inference, so that :func:`~llm_anatomy.models.generation.stream`, ``generate`` and
    ``beam_search`` work as with the model itself.

    The optimized model has copies of the weights that it lays out anew, and shares the others with the model: together
    they take up to twice the memory. On a CPU, matrices in float32 may take three times: those with less than a million
    weights, or on a CPU of Intel those with more, unless ``prepack=False``. Let the model go if you do not need it. If
    you change, convert or move the model, optimize it again; to save weights, save the model.
    Attention whose scores are changed (softcapping, T5's and other biases but ALiBi), latent attention, mixtures of
    experts and cross-attention are those of the model, with their own caches.

    Args:
        model: a decoder or an encoder-decoder.
        quantize: None for the dtype of the model; ``"bfloat16"``; ``"int8"``, one scale for each row; or ``"int4"``,
            one scale and zero point for 32 weights, with the unembedding in 8 bits, on a CPU. Fewer bits are faster
            and change the logits. A matrix whose sizes do not fit keeps its dtype
            (:func:`~llm_anatomy.layers.packed_linear.pack`), and so do experts.
        chunk: number of tokens that a prefill reads at once, at least 1; it bounds the memory of a long prompt.
        prepack: whether matrices on a CPU may be stored in the layout of PyTorch's oneDNN kernel, which
            ``torch.compile`` cannot read; False if the optimized model will be compiled there.

    Raises:
        ValueError: for a model that cannot be optimized (see :func:`inference_obstacle`); for a ``quantize`` that is
            not allowed, needs another device, or fits none of the matrices; for a chunk that is no number from 1.

    Source: Pope et al. (2022), "Efficiently scaling Transformer inference", sections 2 and 3; CMU-10.

    >>> from llm_anatomy.models.generation import generate
    >>> config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101, position="rope", norm="rmsnorm")
    >>> model = Transformer(config)
    >>> fast = for_inference(model)
    >>> prompts = [[1, 2, 3], [4, 5]]
    >>> generate(fast, prompts, max_new_tokens=4).ids == generate(model, prompts, max_new_tokens=4).ids
    True
    """
    if reason := inference_obstacle(model):
        raise ValueError(f"this model cannot be optimized for inference: {reason}")
    if not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"{chunk=} must be a number without fraction, at least 1")
    optimized = InferenceTransformer(cast(Transformer, model), quantize=quantize, chunk=chunk, prepack=prepack)
    packed = [module for module in optimized.modules() if isinstance(module, PackedLinear | Int8Linear | Int4Linear)]
    if quantize is not None and all(type(module) is PackedLinear for module in packed):
        raise ValueError(f"{quantize=} fits no matrix of this model: they need a multiple of {GROUP} columns")
    return optimized


def inference_obstacle(model: nn.Module) -> str | None:
    """Say why a model cannot be optimized for inference; None if it can.

    Args:
        model: any model.

    Source: Pope et al. (2022), section 2.

    >>> sizes = dict(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> inference_obstacle(Transformer(ModelConfig(**sizes)))
    >>> inference_obstacle(Transformer(ModelConfig(kind="encoder", **sizes)))
    "kind='encoder' must be 'decoder' or 'encoder-decoder', since an encoder generates nothing"
    """
    if isinstance(model, InferenceTransformer):
        return "it is optimized already"
    if not isinstance(model, Transformer):
        return f"an object of class {type(model).__name__} is not a Transformer"
    if model.config.kind == "encoder":
        return "kind='encoder' must be 'decoder' or 'encoder-decoder', since an encoder generates nothing"
    if model._by_length:
        scaling = model.config.get("rope.scaling.type")
        return f"with rope.scaling.type={scaling!r}, what is cached depends on the length of the text"
    return None


@renamed_arguments(weights="quantize")
def fastest_inference_model(model: nn.Module, *, quantize: str | None = None) -> Any:
    """Optimize a model for inference if that is possible, and return it as it is if not.

    Args:
        model: any model.
        quantize: as in :func:`for_inference`.

    Raises:
        ValueError: for a ``quantize`` that the model cannot have, which is any but None if it cannot be optimized.

    Source: Pope et al. (2022), section 2.

    >>> sizes = dict(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)
    >>> encoder = Transformer(ModelConfig(kind="encoder", **sizes))
    >>> type(fastest_inference_model(Transformer(ModelConfig(**sizes)))).__name__
    'InferenceTransformer'
    >>> fastest_inference_model(encoder) is encoder
    True
    """
    if reason := inference_obstacle(model):
        if quantize is not None:
            raise ValueError(f"{quantize=} must be left out for a model that cannot be optimized: {reason}")
        return model
    return for_inference(model, quantize=quantize)


no_inference_form = renamed_function("no_inference_form", inference_obstacle)
fastest_form = renamed_function("fastest_form", fastest_inference_model)


class InferenceCache:
    """What an inference-optimized model keeps of the tokens that it has read.

    A layer with a window whose attention is fused keeps all tokens, and attends to the last ones.

    Args:
        layers: for each layer, its keys and values, or the cache of an attention that is that of the model.
        cross_attention: caches of the cross-attention of each layer, for an encoder-decoder.
        batch, n_slots: number of sequences, and of tokens that fit.
        device: of the positions.

    Source: Pope et al. (2022), section 3; CMU-10.

    >>> config = ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5, position="rope")
    >>> cache = for_inference(Transformer(config)).new_cache(batch=1, n_slots=4)
    >>> cache.length, cache.n_bytes
    (0, 256)
    """

    def __init__(
        self,
        layers: "list[_KeysAndValues | KVCache]",
        cross_attention: list[KVCache] | None,
        batch: int,
        n_slots: int,
        device: torch.device,
    ):
        self.layers, self.cross_attention = layers, cross_attention
        self.n_slots, self.length = n_slots, 0
        self.contiguous = True
        """Whether the tokens of every sequence are at positions 0, 1, 2, … without padding: those of their slots."""
        with torch.inference_mode(False):
            self.slots = torch.arange(n_slots, device=device)[None]
            self.positions = self.slots.repeat(batch, 1)
        self.is_static = False
        self._tables: dict[PositionScheme, Tensor | None] = {}

    def table(self, scheme: PositionScheme, make: Callable[[Tensor], Tensor | None]) -> Tensor | None:
        """What ``make`` returns for all positions, made once for all layers that share a scheme."""
        if scheme not in self._tables:
            with torch.inference_mode(False):
                self._tables[scheme] = make(self.slots[0])
        return self._tables[scheme]

    def make_static(self) -> None:
        """Let ``next_slot`` and ``positions`` say what the next step reads and writes, in place of Python's numbers."""
        if self.is_static:
            return
        layers = [layer for layer in self.layers if isinstance(layer, _KeysAndValues)]
        if len(layers) < len(self.layers) or self.cross_attention:
            raise ValueError("the cache must hold the keys and values of fused self-attention alone")
        with torch.inference_mode(False):
            self.next_slot = torch.full((1,), self.length, device=self.slots.device)
            self.positions[:, self.length :] = -1
        buffers = [tensor for layer in layers for tensor in (layer.keys, layer.values)]
        for tensor in [self.next_slot, self.positions, *buffers]:
            torch._dynamo.mark_static_address(tensor)
        self.is_static = True

    @property
    def n_bytes(self) -> int:
        """Size of all buffers in bytes, without positions and tables."""
        return sum(cache.n_bytes for cache in [*self.layers, *(self.cross_attention or [])])

    def reorder(self, rows: Int[Tensor, "rows"]) -> None:
        """Let row i continue from what row ``rows[i]`` holds; the two have the same source."""
        self.is_static = False  # other tensors take the place of those that a graph knows
        with torch.inference_mode(False):
            self.positions = self.positions[rows]
        for layer in self.layers:
            layer.reorder(rows)

    def repeat_interleave(self, repeats: int) -> None:
        """Repeat each row, with its copies next to each other."""
        rows = torch.arange(len(self.positions), device=self.positions.device).repeat_interleave(repeats)
        self.reorder(rows)
        for cache in self.cross_attention or []:
            cache.reorder(rows)

    def next_positions(self, attention_mask: Tensor | None, n_tokens: int) -> Tensor:
        """The positions of the next tokens (batch or 1, tokens), -1 for padding."""
        if attention_mask is None and self.contiguous:
            return self.slots[:, self.length : self.length + n_tokens]
        first = torch.full_like(self.positions[:, :1], -1)
        last = torch.cat((first, self.positions[:, : self.length]), 1).amax(1, keepdim=True)
        if attention_mask is None:
            return last + 1 + self.slots[:, :n_tokens]
        return (last + attention_mask.cumsum(1)).masked_fill(~attention_mask, -1)


class _KeysAndValues:
    """The keys and values of one layer."""

    def __init__(self, batch: int, n_slots: int, attention: "FusedSelfAttention"):
        sizes, dtype = (batch, attention.n_kv_heads, n_slots), attention.dtype
        with torch.inference_mode(False):
            self.keys = torch.zeros(*sizes, attention.d_head, dtype=dtype, device=attention.device)
            self.values = torch.zeros_like(self.keys)

    @property
    def n_bytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def reorder(self, rows: Tensor) -> None:
        with torch.inference_mode(False):
            self.keys, self.values = self.keys[rows], self.values[rows]


class _Reading:
    """One pass over new tokens: where they are, and what all layers share."""

    def __init__(self, cache: InferenceCache, n_tokens: int, attention_mask: Tensor | None):
        self.cache, self.start, self.end = cache, cache.length, cache.length + n_tokens
        if self.end > cache.n_slots:
            raise ValueError(f"{self.end} tokens do not fit into a cache of {cache.n_slots} slots")
        self.contiguous = attention_mask is None and cache.contiguous
        self.positions = cache.next_positions(attention_mask, n_tokens)
        if not self.contiguous:
            cache.positions[:, self.start : self.end] = self.positions
        cache.length, cache.contiguous = self.end, self.contiguous
        self._made: dict[Any, Any] = {}

    @property
    def key_positions(self) -> Tensor:
        """The positions of all tokens so far (batch or 1, keys), -1 for padding."""
        return (self.cache.slots if self.contiguous else self.cache.positions)[:, : self.end]

    @property
    def context(self) -> PositionContext:
        """The positions as the layers of the model want them."""
        return self.once("context", lambda: PositionContext(self.positions, contiguous=self.contiguous))

    def rows(self, table: Tensor) -> Tensor:
        """The rows of a table (slots, …) at the positions of the new tokens: (batch or 1, tokens, …)."""
        if self.contiguous:
            return table[None, self.start : self.end]
        return table[self.positions.clamp(min=0)]

    def factors(self, table: Tensor, axis: int) -> Tensor:
        """Cosines and sines of the new tokens, with an axis for the heads; layers that share a table share them."""
        return self.once((table, axis), lambda: self.rows(table).unsqueeze(axis))

    def store(self, layer: "_KeysAndValues", key: Tensor, value: Tensor) -> None:
        """Write the keys and values of the new tokens."""
        n_tokens = self.end - self.start
        layer.keys.narrow(2, self.start, n_tokens).copy_(key)
        layer.values.narrow(2, self.start, n_tokens).copy_(value)

    def keys(self, rule: Mask, window: int | None) -> tuple[int, int, Tensor | None, bool]:
        """The first slot that the new tokens attend to, the number of slots, their mask (batch or 1, 1, tokens, keys)
        or None, and whether the kernel's causal mode stands for the mask."""
        if self.contiguous and self.end - self.start == 1:  # the usual step: the window alone hides keys
            n_keys = self.end if window is None else min(self.end, window)
            return self.end - n_keys, n_keys, None, False
        if self.contiguous and not self.start and (window is None or self.end <= window):
            return 0, self.end, None, True
        return 0, self.end, self.once(rule, lambda: rule(self.positions, self.key_positions)), False

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` returns, made for the first layer that needs it."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


class _StaticReading(_Reading):
    """One pass over one token of each row, in which nothing but the content of tensors differs from step to step."""

    def __init__(self, cache: InferenceCache):
        self.cache, self.contiguous = cache, False
        self.positions = cache.positions.amax(1, keepdim=True) + 1
        cache.positions.index_copy_(1, cache.next_slot, self.positions)
        self._made: dict[Any, Any] = {}

    @property
    def key_positions(self) -> Tensor:
        return self.cache.positions

    def store(self, layer: "_KeysAndValues", key: Tensor, value: Tensor) -> None:
        layer.keys.index_copy_(2, self.cache.next_slot, key)
        layer.values.index_copy_(2, self.cache.next_slot, value)

    def keys(self, rule: Mask, window: int | None) -> tuple[int, int, Tensor | None, bool]:
        return 0, self.cache.n_slots, self.once(rule, lambda: rule(self.positions, self.key_positions)), False


class FusedSelfAttention(nn.Module):
    r"""Self-attention whose queries, keys and values come from one product, and are rotated in place.

    .. math:: [Q, K, V] = X\, [W^Q, W^K, W^V]

    With half-split RoPE, the entries of each head are reordered in queries and keys alike, so that the two entries of a
    plane are neighbours and one complex product rotates them. Scalar products do not depend on the order.

    Args:
        attention: of the model, one for which :meth:`fits` holds.
        rule, window: which keys a query attends to.
        weights, prepack: as in :func:`for_inference`.

    Source: Pope et al. (2022), section 3; Su et al. (2021), equation 12; CMU-10, IITD-25.

    >>> from llm_anatomy.layers.softcapping import Softcapping
    >>> plain, capped = SelfAttention(8, n_heads=2), SelfAttention(8, n_heads=2, score_mod=Softcapping(2.0))
    >>> FusedSelfAttention.fits(plain), FusedSelfAttention.fits(capped)
    (True, False)
    """

    def __init__(
        self, attention: SelfAttention, rule: Mask, window: int | None, weights: str | None, *, prepack: bool = True
    ):
        super().__init__()
        self.rule, self.window, self.scale, self.clip_qkv = rule, window, attention.scale, attention.clip_qkv
        self.n_heads, self.n_kv_heads, self.d_head = attention.n_heads, attention.n_kv_heads, attention.d_head
        self.position, projections = attention.position, (attention.w_query, attention.w_key, attention.w_value)
        self.dtype, self.device = attention.w_key.weight.dtype, attention.w_key.weight.device
        self.has_bias = isinstance(self.position, ALiBi)
        order = torch.arange(self.d_head, device=self.device)
        if isinstance(self.position, HalfSplitRotary):  # entry i and entry i of the second half become neighbours
            d_rotary = self.position.d_rotary
            order[:d_rotary] = rearrange(order[:d_rotary], "(two planes) -> (planes two)", two=2)
        orders = (order, order, torch.arange(self.d_head, device=self.device))
        both = list(zip(projections, orders, strict=True))
        biases = [_reordered(projection.bias, 0, o) for projection, o in both if projection.bias is not None]
        weight = torch.cat([_reordered(projection.weight, 0, o) for projection, o in both])
        self.w_qkv = pack(weight, torch.cat(biases) if biases else None, weights, prepack=prepack)
        self.w_output = pack(attention.w_output.weight, attention.w_output.bias, weights, prepack=prepack)
        self.query_norm = _reordered_norm(attention.query_norm, order)
        self.key_norm = _reordered_norm(attention.key_norm, order)
        self.has_norms = not all(isinstance(norm, nn.Identity) for norm in (self.query_norm, self.key_norm))

    @staticmethod
    def fits(attention: nn.Module) -> bool:
        """Whether an attention layer can be fused."""
        return (
            type(attention) is SelfAttention
            and type(attention.position) in (PositionScheme, HalfSplitRotary, InterleavedRotary, ALiBi)
            and not (isinstance(attention.position, Rotary) and attention.position.by_length)
            and attention.score_mod is None
            and attention.sinks is None
            and attention.d_head == attention.d_value
            and len({p.bias is None for p in (attention.w_query, attention.w_key, attention.w_value)}) == 1
        )

    def table(self, slots: Int[Tensor, "slots"]) -> Float[Tensor, "slots pairs 2"] | None:
        """Cosines and sines of the rotation at all positions, None without RoPE."""
        if not isinstance(self.position, Rotary):
            return None
        return InterleavedRotary.tables(cast(InterleavedRotary, self.position), slots, self.dtype)[0]

    def forward(self, x: Tensor, reading: _Reading, cache: _KeysAndValues, table: Tensor | None) -> Tensor:
        batch, n_tokens, _ = x.shape
        qkv = self.w_qkv(x)
        if self.clip_qkv is not None:
            qkv = qkv.clamp(-self.clip_qkv, self.clip_qkv)
        qkv = qkv.view(batch, n_tokens, self.n_heads + 2 * self.n_kv_heads, self.d_head)
        if table is not None and not self.has_norms:
            _rotate(qkv.narrow(2, 0, self.n_heads + self.n_kv_heads), reading.factors(table, 2))
        heads = (self.n_heads, self.n_kv_heads, self.n_kv_heads)
        query, key, value = qkv.transpose(1, 2).split_with_sizes(heads, 1)
        if self.has_norms:
            query, key = self.query_norm(query), self.key_norm(key)
            if table is not None:
                _rotate(query, reading.factors(table, 1))
                _rotate(key, reading.factors(table, 1))
        reading.store(cache, key, value)
        first, n_keys, mask, causal = reading.keys(self.rule, self.window)
        keys, values = cache.keys.narrow(2, first, n_keys), cache.values.narrow(2, first, n_keys)
        if self.has_bias:
            mask, causal = reading.once((self.position, self.rule), lambda: self._bias(reading, first, mask)), False
        grouped = self.n_heads != self.n_kv_heads
        if grouped and n_tokens == 1 and (mask is None or mask.shape[1] == 1):
            query = query.reshape(batch, self.n_kv_heads, -1, self.d_head)  # heads that share keys: queries of one head
            grouped = False
        output = F.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, scale=self.scale, is_causal=causal, enable_gqa=grouped
        )
        if n_tokens > 1:
            output = output.transpose(1, 2)
        return self.w_output(output.reshape(batch, n_tokens, -1))

    def _bias(self, reading: _Reading, first: int, mask: Tensor | None) -> Tensor:
        """ALiBi's bias and the mask in one tensor, (batch or 1, heads, tokens, keys)."""
        position = cast(ALiBi, self.position)
        slopes = alibi_slopes(self.n_heads, self.device, _wide(self.dtype), bias_max=position.bias_max)
        distances = reading.positions[:, None, :, None] - reading.key_positions[:, None, None, first:]
        bias = (-slopes[:, None, None] * distances.abs()).to(self.dtype)
        if mask is None and distances.shape[2] > 1:
            mask = distances >= 0
        return bias if mask is None else bias.masked_fill(~mask, -torch.inf)


class FusedRMSNorm(nn.Module):
    r"""RMS normalization on a CPU, in float32 or float64, in fewer operations than the norm of the model takes.

    .. math:: y = \frac{x}{\sqrt{\frac1d \sum_i x_i^2 + \epsilon}} \odot g

    Args:
        norm: of the model, one for which :meth:`fits` holds; the scale is shared with it where the norm stores it.

    Source: Zhang and Sennrich (2019), equation 4; CMU-20.

    >>> norm, x = RMSNorm(8), torch.randn(2, 1, 8)
    >>> torch.allclose(FusedRMSNorm(norm)(x), norm(x), atol=1e-6)
    True
    """

    def __init__(self, norm: RMSNorm):
        super().__init__()
        weight = norm.weight.detach()
        self._scale = 1 + weight if isinstance(norm, UnitOffsetRMSNorm) else weight
        self._eps, self._reciprocal = torch.tensor(norm.eps, dtype=weight.dtype, device=weight.device), 1 / len(weight)

    @staticmethod
    def fits(norm: nn.Module) -> bool:
        """Whether a norm has a fused form; on a GPU, PyTorch has a kernel for it."""
        if type(norm) not in (RMSNorm, UnitOffsetRMSNorm):
            return False
        weight = cast(RMSNorm, norm).weight
        return weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return (x * torch.addcmul(self._eps, length, length, value=self._reciprocal).rsqrt_()).mul_(self._scale)


class FusedFeedForward(nn.Module):
    r"""A feed-forward layer, plain or gated, with packed weights.

    .. math:: \mathrm{FFN}(x) = f(x W_1 + b_1)\, W_2 + b_2 \quad \text{or} \quad
        \left(f(x W + b) \otimes (x V + c)\right) W_2 + b_2

    Args:
        layer: of the model.
        weights, prepack: as in :func:`for_inference`.

    Source: CMU-03, CMU-05, UCL-26.

    >>> layer, x = FeedForward(8, 9, nn.GELU()), torch.randn(2, 1, 8)
    >>> torch.allclose(FusedFeedForward(layer, None)(x), layer(x), atol=1e-6)
    True
    """

    def __init__(self, layer: FeedForward | GatedFeedForward, weights: str | None, *, prepack: bool = True):
        super().__init__()
        self.gated = isinstance(layer, GatedFeedForward)
        up = layer.w_gate_up if isinstance(layer, GatedFeedForward) else layer.w_up
        self.w_up, self.activation = pack(up.weight, up.bias, weights, prepack=prepack), layer.activation
        self.w_down = pack(layer.w_down.weight, layer.w_down.bias, weights, prepack=prepack)

    def forward(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens d_model"]:
        hidden = self.w_up(x)
        if not self.gated:
            return self.w_down(self.activation(hidden))
        gate, up = hidden.chunk(2, -1)
        return self.w_down(self.activation(gate).mul_(up))


class _InferenceBlock(nn.Module):
    """A block of the model with its residual connections, and with fused sublayers where they fit."""

    def __init__(
        self, block: Block | ParallelBlock, rule: Mask, window: int | None, weights: str | None, prepack: bool
    ):
        super().__init__()
        self.rule, self.window = rule, window
        self.parallel = isinstance(block, ParallelBlock)
        self.fused = FusedSelfAttention.fits(block.attention)
        self.attention: nn.Module = block.attention
        if self.fused:
            attention = cast(SelfAttention, block.attention)
            self.attention = FusedSelfAttention(attention, rule, window, weights, prepack=prepack)
        self.feedforward = block.feedforward
        if type(block.feedforward) in (FeedForward, GatedFeedForward):
            self.feedforward = FusedFeedForward(cast(FeedForward, block.feedforward), weights, prepack=prepack)
        self.has_one_norm = isinstance(block, ParallelBlock) and block.feedforward_norm is block.attention_norm
        self.block = _with_fused_norms(_with(block, attention=None, feedforward=None))

    def new_cache(self, batch: int, n_slots: int) -> "_KeysAndValues | KVCache":
        if self.fused:
            return _KeysAndValues(batch, n_slots, cast(FusedSelfAttention, self.attention))
        if self.window is None or self.window >= n_slots:
            return cast(Any, self.attention).new_cache(batch, n_slots)
        return cast(Any, self.attention).new_cache(batch, self.window, RollingKVCache)

    def forward(self, x: Tensor, reading: _Reading, cache, table: Tensor | None, cross: dict[str, Any]) -> Tensor:
        if self.parallel:
            block = cast(ParallelBlock, self.block)
            normed = block.attention_norm(x)
            attended = self._attend(normed, reading, cache, table)
            if not self.has_one_norm:
                normed = block.feedforward_norm(x)
            return x + attended + self._feed_forward(normed)
        block = cast(Block, self.block)
        x = block.attention_residual(x, self._attend, reading=reading, cache=cache, table=table)
        if cross:
            x = block.cross_attention_residual(x, block.cross_attention, **cross)
        return block.feedforward_residual(x, self._feed_forward)

    def _attend(self, x: Tensor, reading: _Reading, cache, table: Tensor | None) -> Tensor:
        if self.fused:
            return self.attention(x, reading, cache, table)
        return self.attention(x, self.rule, position_context=reading.context, cache=cache)

    def _feed_forward(self, x: Tensor) -> Tensor:
        output = self.feedforward(x)
        return output[0] if isinstance(output, tuple) else output  # a mixture of experts also returns its routing


class CompiledStep:
    """A step of decoding in one compiled graph, whose shapes are the same in all steps, so that a GPU replays it.

    It reads all slots of the cache and hides those that are not filled; so its time depends on ``n_slots``. Each number
    of sequences and of slots has a graph of its own, which is compiled in its first step.

    Args:
        options: of ``torch.compile``; by default, on a GPU, those that record CUDA graphs and read weights in 8 bits as
            such.

    Raises:
        ValueError: in a step, if the model is not an inference-optimized decoder, has attention that is not fused, or
            has weights that are packed for a CPU.

    Source: the documentation of PyTorch, ``torch.compile`` and "CUDAGraph Trees"; Pope et al. (2022), section 2.

    >>> from llm_anatomy.models.generation import generate
    >>> model = for_inference(Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5)))
    >>> with torch.compiler.set_stance("force_eager"):  # compiling would take longer than this example
    ...     found = generate(model, [[1, 2]], max_new_tokens=3, step=CompiledStep())
    >>> found == generate(model, [[1, 2]], max_new_tokens=3)
    True
    """

    def __init__(self, **options: Any):
        self._options = options
        self._compiled: dict[tuple[int, int, int], Callable[..., Tensor]] = {}

    @torch.no_grad()
    def __call__(
        self,
        model: "InferenceTransformer",
        ids: Int[Tensor, "batch one"],
        cache: InferenceCache | ModelCache,
        source: EncoderOutput | None = None,
    ) -> Float[Tensor, "batch n_vocab"]:
        """Read one token of each row, and compute the logits of the next; the parameter of generation for steps."""
        if not (isinstance(model, InferenceTransformer) and isinstance(cache, InferenceCache)):
            raise ValueError(f"a compiled step reads an inference-optimized decoder, and not a {type(model).__name__}")
        if source is not None:
            raise ValueError("a compiled step reads an inference-optimized decoder, and not an encoder-decoder")
        if model.is_packed:
            raise ValueError("a compiled step cannot read packed weights; optimize the model with prepack=False")
        if cache.length == cache.n_slots:
            raise ValueError(f"{cache.length + 1} tokens do not fit into a cache of {cache.n_slots} slots")
        cache.make_static()
        cache.next_slot.fill_(cache.length)
        key = len(ids), cache.n_slots, id(model)
        if key not in self._compiled:
            graphs: dict[str, Any] = {"options": {"triton.cudagraphs": True, "coordinate_descent_tuning": True}}
            options = self._options or (graphs if ids.device.type == "cuda" else {})
            plain = unwrap(_static_step)  # gets code of its own, since PyTorch compiles the same for a few shapes only
            step = FunctionType(plain.__code__.replace(), plain.__globals__)
            self._compiled[key] = torch.compile(step, fullgraph=True, dynamic=False, **options)
        cache.length, cache.contiguous = cache.length + 1, False
        return self._compiled[key](model, ids, cache).clone()  # the next step writes into the same memory


def _static_step(model: "InferenceTransformer", ids: Tensor, cache: InferenceCache) -> Tensor:
    return model.logits(model._run(ids, _StaticReading(cache)))[:, 0]


class InferenceTransformer(nn.Module):
    """A :class:`~llm_anatomy.models.transformer.Transformer` optimized for inference; :func:`for_inference` makes it.

    Args:
        model: a decoder or an encoder-decoder.
        quantize, chunk, prepack: as in :func:`for_inference`.

    Source: Pope et al. (2022), sections 2 and 3; CMU-10.

    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> ids = torch.tensor([[1, 2, 3]])
    >>> torch.allclose(for_inference(model)(ids), model(ids), atol=1e-6)
    True
    """

    weights = renamed_attribute("weights", "quantize")

    @renamed_arguments(weights="quantize")
    def __init__(self, model: Transformer, *, quantize: str | None = None, chunk: int = CHUNK, prepack: bool = True):
        super().__init__()
        self.config: ModelConfig = model.config
        self.chunk, self.quantize = chunk, quantize
        stack, head = model.stack, model.unembedding
        blocks = [
            _InferenceBlock(block, rule, window, quantize, prepack)
            for block, rule, window in zip(stack.blocks, stack.masks, stack.windows, strict=True)
        ]
        self.blocks = cast("list[_InferenceBlock]", nn.ModuleList(blocks))
        self.model = _with(model, stack=_with_fused_norms(_with(stack, blocks=None)), unembedding=None)
        self.unembedding: nn.Module | None = None
        if head is not None:
            of_head = "int8" if quantize == "int4" else quantize
            self.unembedding = pack(head.embedding.weight, head.bias, of_head, prepack=prepack)
            self.logit_scale, self.softcapping = head.scale, head.softcapping
        self.is_packed = any(getattr(module, "is_packed", False) for module in self.modules())

    def new_cache(self, batch: int, n_slots: int, n_source: int | None = None) -> InferenceCache:
        """Make an empty cache.

        Args:
            batch, n_slots: number of sequences, and of tokens of each.
            n_source: number of tokens of the source, for an encoder-decoder.
        """
        self.model._check_length(n_slots)
        if (self.model.encoder is None) != (n_source is None):
            raise ValueError(f"{n_source=} must be given for an encoder-decoder, and only then")
        layers = [block.new_cache(batch, n_slots) for block in self.blocks]
        cross = None
        if n_source is not None:
            attentions = [cast(Block, block.block).cross_attention for block in self.blocks]
            cross = [attention.new_cache(batch, n_source) for attention in attentions]
        return InferenceCache(layers, cross, batch, n_slots, self.model.embedding.weight.device)

    @torch.no_grad()
    def forward(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        source: EncoderOutput | Int[Tensor, "batch source"] | None = None,
        cache: InferenceCache | None = None,
        logits_to_keep: int = 0,
    ) -> Float[Tensor, "batch kept n_vocab"]:
        """Compute the logits of the token that follows each token; the arguments are those of ``Transformer``."""
        self._check_source(source)
        source = self.encode(source) if isinstance(source, Tensor) else source
        x, _ = self.hidden_states(ids, attention_mask=attention_mask, source=source, cache=cache)
        return self.logits(_last_tokens(x, logits_to_keep))

    @torch.no_grad()
    def encode(self, ids: Int[Tensor, "batch source"], attention_mask: Tensor | None = None) -> EncoderOutput:
        """Run the encoder on a source, as the model does."""
        return self.model.encode(ids, attention_mask)

    @torch.no_grad()
    def hidden_states(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        source: EncoderOutput | None = None,
        cache: InferenceCache | None = None,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list]:
        """Read tokens into a cache, ``chunk`` at a time; the first result is the hidden states after the final norm,
        and the second, for the records of the model, is empty."""
        _check_ids(ids, attention_mask=attention_mask)
        self._check_source(source)
        if cache is None:
            n_source = None if source is None else source.hidden_states.shape[1]
            cache = self.new_cache(len(ids), ids.shape[1], n_source)
        if len(ids) != len(cache.positions):
            raise ValueError(f"ids have {len(ids)} rows, and the cache has {len(cache.positions)}; they must be equal")
        if ids.shape[1] <= self.chunk:
            return self._read(ids, attention_mask, source, cache), []
        parts = ids.split(self.chunk, 1)
        masks = [None] * len(parts) if attention_mask is None else attention_mask.split(self.chunk, 1)
        parts = [self._read(part, mask, source, cache) for part, mask in zip(parts, masks, strict=True)]
        return torch.cat(parts, 1), []

    @torch.no_grad()
    def logits(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute a score for every token of the vocabulary from the hidden states after the last block."""
        if self.unembedding is None:
            raise ValueError("unembedding=False: this model has hidden states and no logits")
        x = self.model.token_head(x)
        return self.softcapping(self.unembedding(x if self.logit_scale == 1 else x * self.logit_scale))

    def _apply(self, fn, recurse=True):
        raise ValueError(
            "an inference-optimized model keeps its dtype and device: convert or move the model, and optimize it again"
        )

    def _check_source(self, source: EncoderOutput | Tensor | None) -> None:
        if (source is None) != (self.model.encoder is None):
            kind = self.config.kind
            raise ValueError(f"source must be given for an encoder-decoder, and only then; {kind=}")

    def _read(self, ids: Tensor, attention_mask: Tensor | None, source: EncoderOutput | None, cache: InferenceCache):
        return self._run(ids, _Reading(cache, ids.shape[1], attention_mask), source)

    def _run(self, ids: Tensor, reading: _Reading, source: EncoderOutput | None = None):
        cache = reading.cache
        x = self.model.embedding(ids)
        if (table := cache.table(self.model.position, self._embedded)) is not None:
            x = x + reading.rows(table)
        if self.model.segment_embedding is not None:
            x = x + self.model.segment_embedding(torch.zeros_like(ids))
        x = self.model.embedding_norm(x)
        crosses: list[dict[str, Any]] = [{}] * len(self.blocks)
        if source is not None and cache.cross_attention is not None:
            shared = dict(
                context=source.hidden_states,
                mask=source.mask,
                position_context=PositionContext(reading.positions, source.key_positions),
            )
            crosses = [shared | dict(cache=cross) for cross in cache.cross_attention]
        for block, layer, cross in zip(self.blocks, cache.layers, crosses, strict=True):
            attention = cast(FusedSelfAttention, block.attention)
            table = cache.table(attention.position, attention.table) if block.fused else None
            x = block(x, reading, layer, table, cross)
        return self.model.stack.norm(x)

    def _embedded(self, slots: Int[Tensor, "slots"]) -> Float[Tensor, "slots d_model"] | None:
        """What the position scheme of the embeddings adds at each position, None if it adds nothing."""
        if type(self.model.position) is PositionScheme:
            return None
        config, weight = self.config, self.model.embedding.weight
        nothing = torch.zeros(1, len(slots), config.d_model, dtype=weight.dtype, device=weight.device)
        return self.model.position.embed(nothing, slots[None])[0]


def _with(module: M, **others: nn.Module | None) -> M:
    """A shallow copy of a module in which other modules, or none, stand under some names."""
    module = copy.copy(module)
    module._modules = module._modules | others
    return module


def _with_fused_norms(module: M) -> M:
    """A shallow copy of a module in which norms that have a fused form have it."""
    if FusedRMSNorm.fits(module):
        return cast(M, FusedRMSNorm(cast(RMSNorm, module)))
    return _with(
        module, **{name: _with_fused_norms(child) for name, child in module._modules.items() if child is not None}
    )


def _rotate(x: Float[Tensor, "*leading d_head"], factors: Float[Tensor, "*#leading pairs 2"]) -> None:
    """Rotate the first pairs of neighbours in each head in place, one pair for each factor."""
    d_head, d_rotary = x.shape[-1], 2 * factors.shape[-2]
    x = x if d_rotary == d_head else x[..., :d_rotary]
    if x.dtype != factors.dtype or d_head % 2 or torch.compiler.is_compiling():
        x.copy_(multiply_pairs(x, factors))
    else:
        x.view(x.dtype.to_complex()).mul_(torch.view_as_complex(factors))


def _reordered(tensor: Tensor, axis: int, order: Int[Tensor, "d_head"]) -> Tensor:
    """A tensor with the entries of each head, of which there are several along an axis, in another order."""
    n_heads = tensor.shape[axis] // len(order)
    heads = torch.arange(n_heads, device=order.device)[:, None] * len(order)
    return tensor.detach().index_select(axis, (heads + order).flatten())


def _reordered_norm(norm: nn.Module, order: Int[Tensor, "d_head"]) -> nn.Module:
    """A norm of queries or keys for entries in another order. Its statistics do not depend on the order."""
    norm = copy.deepcopy(norm)
    for parameter in norm.parameters():
        parameter.data = _reordered(parameter, -1, order)
    return _with_fused_norms(norm.requires_grad_(False))
