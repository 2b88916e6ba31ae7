"""Anatomy of a Large Language Model: components to read, run and import.

``import llm_anatomy as la`` offers the names that most programs need; each is imported when it is first used:

=============  =========================================================================================================
what for       names
=============  =========================================================================================================
models         ``load`` ``save`` ``Checkpoint`` ``Transformer`` ``ModelConfig`` ``preset`` ``presets`` ``tiny``
               ``Block`` ``ParallelBlock``
using them     ``generate`` ``stream`` ``beam_search`` ``for_inference`` ``train`` ``costs``, and ``table`` for the
               lectures' tables
attention      ``SelfAttention`` ``CrossAttention`` ``MultiHeadAttention`` ``LatentAttention``
               ``scaled_dot_product_attention`` ``attention_weights``
other layers   ``FeedForward`` ``GatedFeedForward`` ``MixtureOfExperts`` ``RMSNorm`` ``LayerNorm`` ``PreNorm``
               ``PostNorm`` ``SandwichNorm`` ``TokenEmbedding`` ``Unembedding``
caches         ``KVCache`` ``RollingKVCache``
masks          ``CausalMask`` ``BidirectionalMask`` ``SlidingWindowMask`` ``PaddingMask`` ``DocumentMask``
positions      ``Sinusoidal`` ``Learned`` ``HalfSplitRotary`` ``InterleavedRotary`` ``ALiBi`` ``T5Bias`` ``Shaw``
               ``TransformerXL``
tokenizers     ``Tokenizer`` ``BPE`` ``Unigram``
sampling       ``Sampler`` ``Temperature`` ``TopK`` ``TopP`` ``MinP`` ``RepetitionPenalty`` ``greedy``
=============  =========================================================================================================

>>> import torch
>>> import llm_anatomy as la
>>> config = la.ModelConfig(d_model=24, n_layers=2, n_heads=6, n_kv_heads=2, d_ff=64, n_vocab=101, position="rope")
>>> model = la.Transformer(config)
>>> model(torch.tensor([[1, 2, 3]])).shape
torch.Size([1, 3, 101])

Everything else has its module, such as ``llm_anatomy.layers.linear_attention``; the API reference lists them. Parts of
your own, such as a position scheme, are added to ``llm_anatomy.registry.PARTS``, whose docstring shows how.

In docstrings, *Source* names papers, and items of the four lectures by number: IITD for IIT Delhi, CMU for Carnegie
Mellon, GT for Georgia Tech, UCL for UCLouvain. The book's lecture map lists them. E-numbers are errata of the lectures,
D-numbers their disagreements; the book has a page of both.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # for editors and type checkers; what follows finds the same names in _HOMES
    from llm_anatomy.config import ModelConfig
    from llm_anatomy.data import table
    from llm_anatomy.layers.attention import CrossAttention, MultiHeadAttention, SelfAttention
    from llm_anatomy.layers.embeddings import TokenEmbedding, Unembedding
    from llm_anatomy.layers.experts import MixtureOfExperts
    from llm_anatomy.layers.feedforward import FeedForward, GatedFeedForward
    from llm_anatomy.layers.functional import attention_weights, scaled_dot_product_attention
    from llm_anatomy.layers.kv_cache import KVCache, RollingKVCache
    from llm_anatomy.layers.latent_attention import LatentAttention
    from llm_anatomy.layers.masks import BidirectionalMask, CausalMask, DocumentMask, PaddingMask, SlidingWindowMask
    from llm_anatomy.layers.normalization import LayerNorm, RMSNorm
    from llm_anatomy.layers.positions.absolute import Learned, Sinusoidal
    from llm_anatomy.layers.positions.relative import ALiBi, Shaw, T5Bias, TransformerXL
    from llm_anatomy.layers.positions.rotary import HalfSplitRotary, InterleavedRotary
    from llm_anatomy.layers.residual import PostNorm, PreNorm, SandwichNorm
    from llm_anatomy.models.block import Block, ParallelBlock
    from llm_anatomy.models.checkpoints import Checkpoint, save
    from llm_anatomy.models.costs import costs
    from llm_anatomy.models.generation import beam_search, generate, stream
    from llm_anatomy.models.inference import for_inference
    from llm_anatomy.models.loading import load
    from llm_anatomy.models.presets import preset, presets, tiny
    from llm_anatomy.models.sampling import MinP, RepetitionPenalty, Sampler, Temperature, TopK, TopP, greedy
    from llm_anatomy.models.transformer import Transformer
    from llm_anatomy.tokenizers.base import Tokenizer
    from llm_anatomy.tokenizers.bpe import BPE
    from llm_anatomy.tokenizers.unigram import Unigram
    from llm_anatomy.training.trainer import train

    # not defined when the program runs: help(llm_anatomy) would print every class in full
    __all__ = [
        "ALiBi",
        "BPE",
        "BidirectionalMask",
        "Block",
        "CausalMask",
        "Checkpoint",
        "CrossAttention",
        "DocumentMask",
        "FeedForward",
        "GatedFeedForward",
        "HalfSplitRotary",
        "InterleavedRotary",
        "KVCache",
        "LatentAttention",
        "LayerNorm",
        "Learned",
        "MinP",
        "MixtureOfExperts",
        "ModelConfig",
        "MultiHeadAttention",
        "PaddingMask",
        "ParallelBlock",
        "PostNorm",
        "PreNorm",
        "RMSNorm",
        "RepetitionPenalty",
        "RollingKVCache",
        "Sampler",
        "SandwichNorm",
        "SelfAttention",
        "Shaw",
        "Sinusoidal",
        "SlidingWindowMask",
        "T5Bias",
        "Temperature",
        "TokenEmbedding",
        "Tokenizer",
        "TopK",
        "TopP",
        "Transformer",
        "TransformerXL",
        "Unembedding",
        "Unigram",
        "attention_weights",
        "beam_search",
        "costs",
        "for_inference",
        "generate",
        "greedy",
        "load",
        "preset",
        "presets",
        "save",
        "scaled_dot_product_attention",
        "stream",
        "table",
        "tiny",
        "train",
    ]

_HOMES = {
    "load": "models.loading",
    "save": "models.checkpoints",
    "Checkpoint": "models.checkpoints",
    "Transformer": "models.transformer",
    "ModelConfig": "config",
    "preset": "models.presets",
    "presets": "models.presets",
    "tiny": "models.presets",
    "Block": "models.block",
    "ParallelBlock": "models.block",
    "generate": "models.generation",
    "stream": "models.generation",
    "beam_search": "models.generation",
    "for_inference": "models.inference",
    "train": "training.trainer",
    "costs": "models.costs",
    "table": "data",
    "SelfAttention": "layers.attention",
    "CrossAttention": "layers.attention",
    "MultiHeadAttention": "layers.attention",
    "LatentAttention": "layers.latent_attention",
    "FeedForward": "layers.feedforward",
    "GatedFeedForward": "layers.feedforward",
    "MixtureOfExperts": "layers.experts",
    "RMSNorm": "layers.normalization",
    "LayerNorm": "layers.normalization",
    "PreNorm": "layers.residual",
    "PostNorm": "layers.residual",
    "SandwichNorm": "layers.residual",
    "TokenEmbedding": "layers.embeddings",
    "Unembedding": "layers.embeddings",
    "scaled_dot_product_attention": "layers.functional",
    "attention_weights": "layers.functional",
    "KVCache": "layers.kv_cache",
    "RollingKVCache": "layers.kv_cache",
    "CausalMask": "layers.masks",
    "BidirectionalMask": "layers.masks",
    "SlidingWindowMask": "layers.masks",
    "PaddingMask": "layers.masks",
    "DocumentMask": "layers.masks",
    "Sinusoidal": "layers.positions.absolute",
    "Learned": "layers.positions.absolute",
    "HalfSplitRotary": "layers.positions.rotary",
    "InterleavedRotary": "layers.positions.rotary",
    "ALiBi": "layers.positions.relative",
    "T5Bias": "layers.positions.relative",
    "Shaw": "layers.positions.relative",
    "TransformerXL": "layers.positions.relative",
    "Tokenizer": "tokenizers.base",
    "BPE": "tokenizers.bpe",
    "Unigram": "tokenizers.unigram",
    "Sampler": "models.sampling",
    "Temperature": "models.sampling",
    "TopK": "models.sampling",
    "TopP": "models.sampling",
    "MinP": "models.sampling",
    "RepetitionPenalty": "models.sampling",
    "greedy": "models.sampling",
}
"""The module of each name."""

_PACKAGES = ("config", "data", "evaluation", "layers", "models", "registry", "tokenizers", "training")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return globals()[name]
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_HOMES, *_PACKAGES, "__version__"]
