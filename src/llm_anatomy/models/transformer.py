"""The Transformer: decoder, encoder, or both, from one config and the same blocks."""

from typing import NamedTuple

import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.embeddings import TokenEmbedding, Unembedding
from llm_anatomy.layers.feedforward import ACTIVATIONS
from llm_anatomy.layers.kv_cache import KVCache, RollingKVCache
from llm_anatomy.models import parts
from llm_anatomy.models.block import BlockRecord, EncoderOutput, Stack
from llm_anatomy.shapes import Bool, Float, Int, Tensor


class ModelCache(NamedTuple):
    """What a model keeps of a text: one cache for each block, and for each block's attention to a source.

    Source: CMU-10.

    >>> ModelCache(blocks=[KVCache(1, 4, [(1, 2)])], source=None).length
    0
    """

    blocks: list[KVCache]
    source: list[KVCache] | None

    @property
    def length(self) -> int:
        """How many tokens it has been given."""
        return self.blocks[0].length

    @property
    def n_bytes(self) -> int:
        return sum(cache.n_bytes for cache in [*self.blocks, *(self.source or [])])


class Transformer(nn.Module):
    r"""From token ids to logits.

    .. math:: X = \mathrm{Embed}(\mathrm{ids}), \quad X \leftarrow \mathrm{Block}_l(X) \text{ for } l = 1 \dots N, \quad
        \mathrm{logits} = \mathrm{Norm}(X)\, E^\top

    Args:
        config: what it is made of.

    Source: Vaswani et al. (2017), section 3 and figure 1; UCL-24 to UCL-31, IITD-42 to IITD-46.

    >>> config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101, position="rope", norm="rmsnorm")
    >>> model = Transformer(config)
    >>> tuple(model(torch.tensor([[1, 2, 3, 4]])).shape)
    (1, 4, 101)
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config, d_model = config, config.d_model
        table_scale = d_model**0.5 if config.scale_embeddings else 1.0
        self.embedding = TokenEmbedding(config.n_vocab, d_model, scale=table_scale)
        self.segment_embedding = nn.Embedding(config.n_segments, d_model) if config.n_segments else None
        self.position = parts.embedding_position(config)
        self.embedding_norm = parts.norm(config) if config.embedding_norm else nn.Identity()
        two_stacks = config.kind == "encoder-decoder"
        self.encoder = Stack(config, config.n_encoder_layers, causal=False) if two_stacks else None
        self.stack = Stack(config, config.n_layers, causal=config.kind != "encoder", has_cross_attention=two_stacks)
        self.token_head = nn.Identity()
        if config.token_head:
            activation = ACTIVATIONS[config.feedforward]()
            self.token_head = nn.Sequential(nn.Linear(d_model, d_model), activation, parts.norm(config))
        self.unembedding = Unembedding(
            self.embedding if config.tie_embeddings else TokenEmbedding(config.n_vocab, d_model),
            bias=config.unembedding_bias,
            scale=d_model**-0.5 if config.scale_logits else 1.0,
            softcapping=config.final_logit_softcapping,
        )

    def forward(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        segments: Int[Tensor, "#batch tokens"] | None = None,
        source: EncoderOutput | Int[Tensor, "batch source"] | None = None,
        cache: ModelCache | None = None,
        return_records: bool = False,
    ) -> Float[Tensor, "batch tokens n_vocab"] | tuple[Float[Tensor, "batch tokens n_vocab"], list[BlockRecord]]:
        """Logits for the token after each.

        Args:
            ids: the tokens, the new ones only where a cache holds those before.
            attention_mask: True = a token, False = padding, on either side; all are tokens by default.
            segments: of each token, for models that have them; 0 by default.
            source: for an encoder-decoder the ids of the source, or what ``encode`` has made of them.
            cache: from ``new_cache``.
            return_records: return ``(logits, records)``, with attention's weights, one record a block.
        """
        x, records = self.read(
            ids,
            attention_mask=attention_mask,
            segments=segments,
            source=source,
            cache=cache,
            return_weights=return_records,
        )
        logits = self.logits(x)
        return (logits, records) if return_records else logits

    def read(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        segments: Int[Tensor, "#batch tokens"] | None = None,
        source: EncoderOutput | Int[Tensor, "batch source"] | None = None,
        cache: ModelCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[BlockRecord]]:
        """The stream at its end, before the logits, and a record of each block."""
        self._check_arguments(ids, source, cache)
        if self.encoder is not None and not isinstance(source, EncoderOutput):
            source = self.encode(source)
        positions = _positions(attention_mask, cache)
        return self.stack(
            self._embed(ids, positions, segments, cache),
            positions=positions,
            caches=None if cache is None else cache.blocks,
            source=source,
            cross_attention_caches=None if cache is None else cache.source,
            return_weights=return_weights,
        )

    def logits(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """A score for every token of the vocabulary, from the stream at its end."""
        return self.unembedding(self.token_head(x))

    def encode(
        self, ids: Int[Tensor, "batch source"], attention_mask: Bool[Tensor, "batch source"] | None = None
    ) -> EncoderOutput:
        """What the encoder makes of a source, for many calls of the decoder."""
        if self.encoder is None:
            raise ValueError(f"kind={self.config.kind!r} has no encoder for a source")
        self._check_length(ids.shape[1])
        positions = _positions(attention_mask)
        states, _ = self.encoder(self._embed(ids, positions), positions=positions)
        return EncoderOutput(states, positions)

    def new_cache(self, batch: int, n_slots: int, n_source: int | None = None) -> ModelCache:
        """Caches for ``n_slots`` tokens, in layers with a window for that many, and for a source of ``n_source``."""
        self._check_length(n_slots)
        if (self.encoder is None) != (n_source is None):
            raise ValueError(f"{n_source=} must be given for an encoder-decoder, and only then")
        blocks = [
            block.attention.new_cache(batch, n_slots)
            if window is None or window >= n_slots
            else block.attention.new_cache(batch, window, RollingKVCache)
            for block, window in zip(self.stack.blocks, self.stack.windows, strict=True)
        ]
        if n_source is None:
            return ModelCache(blocks, None)
        return ModelCache(blocks, [block.cross_attention.new_cache(batch, n_source) for block in self.stack.blocks])

    def _embed(self, ids: Tensor, positions: Tensor | None, segments=None, cache: ModelCache | None = None) -> Tensor:
        if cache is not None and positions is None:
            positions = cache.blocks[0].next_positions(ids.shape[1])
        elif positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)[None]
        x = self.embedding(ids)
        x = self.position.embed(x, positions.clamp(min=0) + (self.config.learned.offset if self.config.learned else 0))
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(torch.zeros_like(ids) if segments is None else segments)
        return self.embedding_norm(x)

    def _check_arguments(self, ids: Tensor, source: EncoderOutput | Tensor | None, cache: ModelCache | None) -> None:
        if (self.encoder is None) != (source is None):
            raise ValueError(f"source must be given for an encoder-decoder, and only then; kind={self.config.kind!r}")
        if cache is not None and self.config.kind == "encoder":
            raise ValueError("cache must be None for an encoder: each token sees those that come after it")
        self._check_length(ids.shape[1] + (0 if cache is None else cache.length))

    def _check_length(self, n_tokens: int) -> None:
        if self.config.n_ctx is not None and n_tokens > self.config.n_ctx:
            raise ValueError(f"{n_tokens} tokens are more than n_ctx={self.config.n_ctx}")


def _positions(attention_mask: Tensor | None, cache: ModelCache | None = None) -> Tensor | None:
    """0, 1, 2, … for the tokens of each row, or on from where its cache stands; -1 for padding."""
    if attention_mask is None:
        return None
    start = 0 if cache is None or cache.length == 0 else cache.blocks[0].next_positions(1)
    return (start + attention_mask.cumsum(1) - 1).masked_fill(~attention_mask, -1)
