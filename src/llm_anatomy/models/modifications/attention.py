"""Modifications that replace self-attention: convolutions, rows 37 and 38, and synthesizers, rows 40 to 46.

The cross-attention of the decoder stays as it is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers._sharing import _own_once
from llm_anatomy.layers.convolution import DynamicConvolution, LightweightConvolution
from llm_anatomy.layers.positions.absolute import Learned
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.layers.positions.relative import ScalarBias
from llm_anatomy.layers.synthesizer import (
    DenseScores,
    FactorizedRandomScores,
    RandomScores,
    Synthesizer,
    SynthesizerPlus,
    SynthesizerPlusAlpha,
    SyntheticScores,
)
from llm_anatomy.models import parts
from llm_anatomy.models.modifications.base import Modification, initialize_
from llm_anatomy.models.transformer import Transformer

_WU = "Wu et al. (2019), Pay Less Attention with Lightweight and Dynamic Convolutions"
_TAY = "Tay et al. (2020), Synthesizer: Rethinking Self-Attention in Transformer Models"


def _n_ctx(config: ModelConfig) -> int:
    """The longest text of a table of positions: T5's 512 tokens at the width of T5-base, and 128 in a small model."""
    return config.n_ctx or max(128, config.d_model * 2 // 3)


def _replace_self_attention(
    model: Transformer, make: Callable[[Any, bool], Any], positions_of: ModelConfig | None = None
) -> None:
    """Give every block what ``make`` makes of its position scheme and of whether the block is causal."""
    assert model.encoder is not None  # the baseline is an encoder-decoder
    for stack, causal in ((model.encoder, False), (model.stack, True)):
        schemes = parts.attention_positions(positions_of or model.config, len(stack.blocks), causal)
        for block, scheme in zip(stack.blocks, schemes, strict=True):
            block.attention = make(scheme, causal)
            initialize_(block.attention)
    _own_once(model)


# --- Convolutions ---

_WIDTH = 9


def _learned_positions(config: ModelConfig) -> dict[str, object]:
    """Without self-attention there are no scores to which T5's bias could be added; cross-attention keeps its scale."""
    return dict(position="learned", buckets=None, n_ctx=_n_ctx(config), attention_scale=1.0)


def _convolution(kind: type[LightweightConvolution]) -> Callable[[Transformer], None]:
    def modify(model: Transformer) -> None:
        d_model = model.config.d_model
        assert isinstance(model.position, Learned)
        nn.init.normal_(model.position.table)  # as T5 draws its tables

        def make(_: PositionScheme, causal: bool) -> nn.Module:
            pointwise = nn.Linear(d_model, d_model)
            nn.init.zeros_(pointwise.bias)
            w_output = nn.Sequential(pointwise, nn.Linear(d_model, d_model, bias=False))
            return kind(d_model, n_heads=d_model, width=_WIDTH, causal=causal, w_output=w_output)

        _replace_self_attention(model, make)

    return modify


_CONVOLUTION_READING = (
    "As in the code of Narang et al., a window has 9 tokens in all layers, 4 on each side in the encoder; each channel "
    "has a kernel of its own, where Wu et al. let channels share 16; and two matrices follow the convolution, where Wu "
    "et al. have one. The relative positions of the baseline act on scores, which are gone here. We replace them by a "
    "learned table of positions, with which the parameters agree with the table. "
)

# --- Synthesizers ---


def _synthesizer(
    kind: type[Synthesizer | SynthesizerPlus], synthetic: Callable[[int, int, int], SyntheticScores]
) -> Callable[[Transformer], None]:
    """Replace self-attention by ``kind`` with the scores that ``synthetic`` makes from the number of heads, their
    width, and the longest text."""

    def modify(model: Transformer) -> None:
        config = model.config
        # two thirds of the heads, twice as wide: 8 of 128 in place of 12 of 64
        n_heads, d_head = max(1, config.n_heads * 2 // 3), config.d_head * 2

        def make(position: ScalarBias, _: bool) -> nn.Module:
            scores = synthetic(n_heads, d_head, _n_ctx(config))
            return kind(config.d_model, n_heads, scores, d_head=d_head, position=position)

        _replace_self_attention(model, make, replace(config, n_heads=n_heads, n_kv_heads=n_heads, d_head=d_head))

    return modify


def _random(n_heads: int, _: int, n_ctx: int) -> SyntheticScores:
    return RandomScores(n_heads, n_ctx)


def _factorized(n_heads: int, _: int, n_ctx: int) -> SyntheticScores:
    return FactorizedRandomScores(n_heads, n_ctx, rank=max(1, n_ctx // 32))


def _dense(_: int, d_head: int, n_ctx: int) -> SyntheticScores:
    return DenseScores(d_head, n_ctx)


_SYNTHESIZER_READING = (
    "As in the code of Narang et al., texts have at most 512 tokens at the size of T5-base; here the limit follows the "
    "width, and is at least 128. T5's relative positions are added to the synthetic scores too. The table's parameters "
    "are those of 8 heads of width 128, the defaults of that code, where all other rows have 12 of width 64; we take "
    "two thirds of the heads, twice as wide. "
)


def _row(row: int, name: str, title: str, card: str, modify: Callable[[Transformer], None], reading: str = ""):
    return Modification(
        row=row,
        name=name,
        title=f"Synthesizer ({title})",
        paper=_TAY,
        card=card,
        reading=(_SYNTHESIZER_READING + reading).strip(),
        config=lambda config: dict(n_ctx=_n_ctx(config)),
        modify=modify,
    )


ROWS = [
    Modification(
        row=37,
        name="dynamic_convolution",
        title="Dynamic convolution",
        paper=_WU,
        card="Each token averages the tokens of a short window. It computes the weights of this average from itself "
        "alone, without a look at the others, so that the cost grows with the length of the text and not with its "
        "square. It was meant to show that short windows suffice for translation.",
        reading=_CONVOLUTION_READING + "Computing nine weights for each channel takes nine matrices, and the "
        "feed-forward layers are a sixth as wide as the baseline's, 512 in place of 3072.",
        config=lambda config: _learned_positions(config) | dict(d_ff=max(1, config.d_ff // 6)),
        modify=_convolution(DynamicConvolution),
    ),
    Modification(
        row=38,
        name="lightweight_convolution",
        title="Lightweight convolution",
        paper=_WU,
        card="Each token averages the tokens of a short window, with weights that are trained for each distance and "
        "are the same for all texts. It has hardly more parameters than the projections around it, and its cost "
        "grows with the length of the text and not with its square.",
        reading=_CONVOLUTION_READING.strip(),
        config=_learned_positions,
        modify=_convolution(LightweightConvolution),
    ),
    _row(
        40,
        "synthesizer_dense",
        "dense",
        "Each token computes its score for every position from itself, with a small layer, before it has seen what is "
        "there: attention without keys. It was meant to show how much of attention's success needs the comparison of "
        "pairs of tokens.",
        _synthesizer(Synthesizer, _dense),
        "The second matrix of the small layer is shared by the heads. The norms of our baseline have biases, without "
        "which the parameters would round to the table's 224 million, and not to 225.",
    ),
    _row(
        41,
        "synthesizer_dense_plus",
        "dense plus",
        "The scores of a dense synthesizer, computed from the queries, are added to the dot products of attention.",
        _synthesizer(SynthesizerPlus, _dense),
    ),
    _row(
        42,
        "synthesizer_dense_plus_alpha",
        "dense plus alpha",
        "The scores are an average of the dot products of attention and of the scores of a dense synthesizer; each "
        "layer learns how much of each to take, from half and half.",
        _synthesizer(SynthesizerPlusAlpha, _dense),
    ),
    _row(
        43,
        "synthesizer_factorized",
        "factorized",
        "The scores are a trained table of positions by positions for each head, the same for all texts. The table is "
        "the product of two thin ones, with far fewer parameters.",
        _synthesizer(Synthesizer, _factorized),
        "In their code it is the random synthesizer, not the dense one, that is factorized; its rank is 16 for 512 "
        "tokens, which is one in 32.",
    ),
    _row(
        44,
        "synthesizer_random",
        "random",
        "The scores are a trained table of positions by positions for each head: which positions a token attends to "
        "does not depend on the text at all. It was meant as the extreme case of attention without comparisons.",
        _synthesizer(Synthesizer, _random),
    ),
    _row(
        45,
        "synthesizer_random_plus",
        "random plus",
        "A trained table of positions by positions is added to the dot products of attention.",
        _synthesizer(SynthesizerPlus, _random),
    ),
    _row(
        46,
        "synthesizer_random_plus_alpha",
        "random plus alpha",
        "The scores are an average of the dot products of attention and of a trained table of positions by positions; "
        "each layer learns how much of each to take, from half and half.",
        _synthesizer(SynthesizerPlusAlpha, _random),
    ),
]
