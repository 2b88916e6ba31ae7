"""The Transformer: decoder, encoder or encoder-decoder, from one config and the same blocks."""

from typing import NamedTuple

import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.deprecation import renamed_attribute
from llm_anatomy.layers._checks import _check_ids
from llm_anatomy.layers._sharing import _own_once
from llm_anatomy.layers.embeddings import TokenEmbedding, Unembedding
from llm_anatomy.layers.kv_cache import KVCache, RollingKVCache, context_of_new_tokens
from llm_anatomy.layers.masks import DocumentMask
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.layers.positions.rotary import Rotary
from llm_anatomy.models import parts
from llm_anatomy.models.block import Block, BlockRecord, EncoderOutput, Stack
from llm_anatomy.shapes import Bool, Float, Int, Tensor


class ModelCache(NamedTuple):
    """The keys and values of all blocks: those of self-attention and, in an encoder-decoder, of cross-attention.

    Source: CMU-10.

    >>> ModelCache(blocks=[KVCache(1, 4, [(1, 2)])], cross_attention=None).length
    0
    """

    blocks: list[KVCache]
    """One cache for each block's self-attention."""

    cross_attention: list[KVCache] | None
    """One cache for each block's cross-attention; None for a model without an encoder."""

    @property
    def length(self) -> int:
        """Number of tokens that the model has read into the cache."""
        return self.blocks[0].length

    @property
    def n_bytes(self) -> int:
        """Size of all buffers in bytes."""
        return sum(cache.n_bytes for cache in [*self.blocks, *(self.cross_attention or [])])

    def reorder(self, rows: Int[Tensor, "rows"]) -> None:
        """Let row i continue from what row ``rows[i]`` holds. The two must have the same source, so that the caches of
        cross-attention can stay as they are."""
        for cache in self.blocks:
            cache.reorder(rows)

    def repeat_interleave(self, repeats: int) -> None:
        """Repeat each row, with its copies next to each other."""
        for cache in [*self.blocks, *(self.cross_attention or [])]:
            positions = cache.read()[-1]
            cache.reorder(torch.arange(len(positions), device=positions.device).repeat_interleave(repeats))


class Transformer(nn.Module):
    r"""A Transformer from token ids to logits.

    .. math:: X = \mathrm{Embed}(\mathrm{ids}), \quad X \leftarrow \mathrm{Block}_l(X) \text{ for } l = 1 \dots N, \quad
        \mathrm{logits} = \mathrm{Norm}(X)\, E^\top

    A decoder or an encoder is one stack of blocks. An encoder-decoder has two: its encoder reads the source, and every
    block of its decoder also attends to the encoder's output. With ``config.unembedding=False`` there are no logits,
    and the output is that of ``hidden_states``.

    Args:
        config: the sizes of the model, and the name of each of its parts.

    Source: Vaswani et al. (2017), section 3 and figure 1; UCL-24 to UCL-31, IITD-42 to IITD-46.

    >>> config = ModelConfig(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101, position="rope", norm="rmsnorm")
    >>> model = Transformer(config)
    >>> tuple(model(torch.tensor([[1, 2, 3, 4]])).shape)
    (1, 4, 101)
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config, d_model = config, config.d_model
        embedding_scale = config.embedding_multiplier * (d_model**0.5 if config.scale_embeddings else 1.0)
        self.embedding = TokenEmbedding(config.n_vocab, d_model, scale=embedding_scale)
        self.encoder_embedding: nn.Module | None = None  # that of the source, if it is not the same
        self.segment_embedding = nn.Embedding(config.n_segments, d_model) if config.n_segments else None
        self.position = parts.embedding_position(config)
        self.embedding_norm = parts.norm(config) if config.embedding_norm else nn.Identity()
        has_encoder = config.kind == "encoder-decoder"
        self.encoder = Stack(config, config.n_encoder_layers or config.n_layers, causal=False) if has_encoder else None
        self.stack = Stack(config, config.n_layers, causal=config.kind != "encoder", has_cross_attention=has_encoder)
        self.token_head = nn.Identity()
        if config.token_head:  # as BERT predicts masked tokens
            self.token_head = nn.Sequential(nn.Linear(d_model, d_model), parts.activation(config), parts.norm(config))
        self.unembedding = None
        if config.unembedding:
            self.unembedding = Unembedding(
                self.embedding if config.tie_embeddings else TokenEmbedding(config.n_vocab, d_model),
                bias=config.unembedding_bias,
                scale=config.logit_multiplier * (d_model**-0.5 if config.scale_logits else 1.0),
                softcapping=config.final_logit_softcapping,
            )
        _own_once(self)
        self._by_length = {module for module in self.modules() if isinstance(module, Rotary) and module.by_length}

    def forward(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        documents: Int[Tensor, "batch tokens"] | None = None,
        segments: Int[Tensor, "#batch tokens"] | None = None,
        source: EncoderOutput | Int[Tensor, "batch source"] | None = None,
        cache: ModelCache | None = None,
        logits_to_keep: int = 0,
        return_records: bool = False,
    ) -> Float[Tensor, "batch kept n_vocab"] | tuple[Float[Tensor, "batch kept n_vocab"], list[BlockRecord]]:
        """Compute the logits of the token that follows each token or, in an encoder, of each token itself.

        A model without an unembedding returns the hidden states, (batch, tokens, d_model), in place of logits.

        Args:
            ids: the token ids; with a cache, those of the new tokens only.
            attention_mask: boolean, as wide as ``ids``: True for a token, False for padding, which may be on either
                side. With a cache it covers the new tokens only. By default there is no padding.
            documents: the document of each token, where a row holds several documents one after the other. Attention
                stays within a document, and positions begin anew with each, as if it were read alone.
            segments: the segment of each token, for models with segment embeddings; 0 by default.
            source: for an encoder-decoder, the ids of the source if they hold no padding, or what ``encode`` returned
                for them; only ``encode`` takes a mask of the source.
            cache: from ``new_cache``; holds the tokens read so far, to which the new ones are appended.
            logits_to_keep: for how many of the last tokens to compute logits; 0, the default, for all. Reading a long
                prompt needs those of its last token only, and the logits of all would take much memory.
            return_records: whether to return ``(logits, records)``, with one record for each block, which holds the
                weights of its attention.
        """
        x, records = self.hidden_states(
            ids,
            attention_mask=attention_mask,
            documents=documents,
            segments=segments,
            source=source,
            cache=cache,
            return_weights=return_records,
        )
        x = _last_tokens(x, logits_to_keep)
        output = x if self.unembedding is None else self.logits(x)
        return (output, records) if return_records else output

    def hidden_states(
        self,
        ids: Int[Tensor, "batch tokens"],
        *,
        attention_mask: Bool[Tensor, "batch tokens"] | None = None,
        documents: Int[Tensor, "batch tokens"] | None = None,
        segments: Int[Tensor, "#batch tokens"] | None = None,
        source: EncoderOutput | Int[Tensor, "batch source"] | None = None,
        cache: ModelCache | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[BlockRecord]]:
        """Compute the hidden states after the final norm, if the model has one, and a record of each block.

        Args:
            ids, attention_mask, documents, segments, source, cache: as in ``forward``.
            return_weights: whether the records hold the weights of attention.
        """
        _check_ids(ids, attention_mask=attention_mask, documents=documents)
        self._check_arguments(ids, source, cache)
        mask = None
        if documents is not None:
            _check_documents(attention_mask=attention_mask, source=source, cache=cache)
            mask = DocumentMask(documents)
        if isinstance(source, Tensor):
            source = self.encode(source)
        first_cache = None if cache is None else cache.blocks[0]
        positions = _positions(attention_mask, cache) if documents is None else _positions_in_documents(documents)
        position_context = context_of_new_tokens(ids.shape[1], positions, first_cache, ids.device)
        if first_cache is not None and first_cache.length and self._by_length and ids.shape[1]:
            n_before = int(first_cache.next_positions(1).max())
            self._check_cached(n_before, int(position_context.query_positions.max()) + 1)
        return self.stack(
            self._embed(ids, position_context, segments),
            mask=mask,
            position_context=position_context,
            caches=None if cache is None else cache.blocks,
            encoder_output=source,
            cross_attention_caches=None if cache is None else cache.cross_attention,
            return_weights=return_weights,
        )

    def logits(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens n_vocab"]:
        """Compute a score for every token of the vocabulary from the hidden states after the last block.

        Args:
            x: the hidden states, as :meth:`hidden_states` returns them.

        Raises:
            ValueError: for a model without an unembedding.
        """
        if self.unembedding is None:
            raise ValueError("unembedding=False: this model has hidden states and no logits")
        return self.unembedding(self.token_head(x))

    def encode(
        self, ids: Int[Tensor, "batch source"], attention_mask: Bool[Tensor, "batch source"] | None = None
    ) -> EncoderOutput:
        """Run the encoder on a source, once for any number of calls of the decoder.

        Args:
            ids: the token ids of the source.
            attention_mask: boolean, as wide as ``ids``: True for a token, False for padding; by default there is none.

        Raises:
            ValueError: for a model that is no encoder-decoder, or a source that is longer than ``n_ctx``.
        """
        if self.encoder is None:
            raise ValueError(f"kind={self.config.kind!r} has no encoder for a source; it must be 'encoder-decoder'")
        _check_ids(ids, attention_mask=attention_mask)
        self._check_length(ids.shape[1])
        positions = _positions(attention_mask)
        position_context = context_of_new_tokens(ids.shape[1], positions, device=ids.device)
        x = self._embed(ids, position_context, embedding=self.encoder_embedding)
        x, _ = self.encoder(x, position_context=position_context)
        return EncoderOutput(x, self.encoder.output_positions(positions))

    def new_cache(self, batch: int, n_slots: int, n_source: int | None = None) -> ModelCache:
        """Make an empty cache.

        Args:
            batch: number of sequences.
            n_slots: number of tokens that it can hold; a layer with a window keeps no more than its window.
            n_source: number of tokens of the source, for an encoder-decoder.

        Raises:
            ValueError: for more slots than ``n_ctx``; if ``n_source`` is missing, or given to another model than an
                encoder-decoder.
        """
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
            return ModelCache(blocks, cross_attention=None)
        # Every block of an encoder-decoder is a Block: a ParallelBlock has no cross-attention.
        cross_attentions = [block.cross_attention for block in self.stack.blocks if isinstance(block, Block)]
        return ModelCache(blocks, [attention.new_cache(batch, n_source) for attention in cross_attentions])

    def _embed(
        self,
        ids: Tensor,
        position_context: PositionContext,
        segments: Tensor | None = None,
        embedding: nn.Module | None = None,
    ) -> Tensor:
        x = (self.embedding if embedding is None else embedding)(ids)
        x = self.position(x, position_context.query_positions.clamp(min=0))
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(torch.zeros_like(ids) if segments is None else segments)
        return self.embedding_norm(x)

    def _check_arguments(self, ids: Tensor, source: EncoderOutput | Tensor | None, cache: ModelCache | None) -> None:
        if (self.encoder is None) != (source is None):
            raise ValueError(f"source must be given for an encoder-decoder, and only then; kind={self.config.kind!r}")
        if cache is not None and self.config.kind == "encoder":
            raise ValueError("cache must be None for an encoder, whose tokens also attend to those that follow them")
        self._check_length(ids.shape[1] + (0 if cache is None else cache.length))

    reads_alike = renamed_attribute("reads_alike", "cache_stays_valid")

    def cache_stays_valid(self, n_before: int, n_after: int) -> bool:
        """Whether what is cached of a text of ``n_before`` tokens still holds when it has ``n_after``: not always where
        the frequencies of RoPE depend on its length.

        Args:
            n_before, n_after: number of tokens of the longest text.
        """
        return all(scheme.cache_stays_valid(n_before, n_after) for scheme in self._by_length)

    def _check_cached(self, n_before: int, n_after: int) -> None:
        if n_after > n_before and not self.cache_stays_valid(n_before, n_after):
            raise ValueError(
                f"the cache holds a text of {n_before} tokens, and with rope.scaling.type="
                f"{self.config.get('rope.scaling.type')!r} a text of {n_after} has other frequencies: the whole text "
                "must be read again, with a new cache"
            )

    def _check_length(self, n_tokens: int) -> None:
        if self.config.n_ctx is not None and n_tokens > self.config.n_ctx:
            raise ValueError(f"{n_tokens} tokens are more than n_ctx={self.config.n_ctx}")


def _last_tokens(x: Float[Tensor, "batch tokens d_model"], logits_to_keep: int) -> Float[Tensor, "batch kept d_model"]:
    """The hidden states whose logits are computed: those of the last tokens, or all for 0."""
    if logits_to_keep < 0:
        raise ValueError(f"{logits_to_keep=} must be 0, for all tokens, or the number of the last tokens")
    return x[:, -logits_to_keep:]


def _positions(attention_mask: Tensor | None, cache: ModelCache | None = None) -> Tensor | None:
    """The positions of the tokens of each row, from 0 or from the end of the cache, and -1 for padding; None without a
    mask."""
    if attention_mask is None:
        return None
    start = 0 if cache is None or cache.length == 0 else cache.blocks[0].next_positions(1)
    return (start + attention_mask.cumsum(1) - 1).masked_fill(~attention_mask, -1)


def _positions_in_documents(documents: Tensor) -> Tensor:
    """The position of each token in its document."""
    positions = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    is_first = torch.ones_like(documents, dtype=torch.bool)
    is_first[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return positions - positions.masked_fill(~is_first, 0).cummax(1).values


def _check_documents(**others: object) -> None:
    for name, value in others.items():
        if value is not None:
            hint = ": padding may be a document of its own" if name == "attention_mask" else ""
            raise ValueError(f"{name} and documents cannot be given together{hint}")
