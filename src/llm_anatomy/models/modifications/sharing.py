"""Modifications in which blocks share their parameters: rows 22 to 26."""

from collections.abc import Sequence
from typing import cast

from torch import nn

from llm_anatomy.models.block import Block, ParallelBlock, Stack
from llm_anatomy.models.modifications.base import Modification
from llm_anatomy.models.modifications.embeddings import (
    factorized_and_shared,
    factorized_input,
    untied_fields,
    untied_output,
)
from llm_anatomy.models.transformer import Transformer

_ALBERT = "Lan et al. (2020), ALBERT"
_TABLES = "As the paper's count of parameters shows, the two inputs share a table, and the output has its own."


def repeat_blocks(stack: Stack, n_blocks: int, n_times: int) -> None:
    """Run the first blocks of a stack several times, with the same parameters each time, and drop the others.

    Args:
        stack: changed in place.
        n_blocks: number of blocks that stay.
        n_times: how often they are run, one after the other.

    Source: Dehghani et al. (2019), section 2.1; Lan et al. (2020), section 3.1; GT-19.

    >>> from llm_anatomy.models.modifications.base import baseline
    >>> model = Transformer(baseline(n_vocab=60, n_layers=4))
    >>> repeat_blocks(model.stack, n_blocks=2, n_times=3)
    >>> len(model.stack.blocks), model.stack.blocks[0] is model.stack.blocks[4]
    (6, True)
    """
    runs = nn.ModuleList([*stack.blocks[:n_blocks]] * n_times)
    stack.blocks = cast(Sequence[Block | ParallelBlock], runs)  # a ModuleList has no item type
    stack.masks, stack.windows = stack.masks[:n_blocks] * n_times, stack.windows[:n_blocks] * n_times


def _share_all(stack: Stack | None) -> None:
    assert stack is not None
    repeat_blocks(stack, n_blocks=1, n_times=len(stack.blocks))


def _share_both(model: Transformer) -> None:
    _share_all(model.encoder)
    _share_all(model.stack)


def _block_sharing(model: Transformer) -> None:
    _share_both(model)
    untied_output(model)


def _with_factorized_input(model: Transformer) -> None:
    _share_both(model)
    factorized_input(model)


def _with_factorized_and_shared(model: Transformer) -> None:
    _share_both(model)
    factorized_and_shared(model)


def _encoder_only(model: Transformer) -> None:
    _share_all(model.encoder)
    untied_output(model)


def _decoder_only(model: Transformer) -> None:
    _share_all(model.stack)
    untied_output(model)


ROWS = [
    Modification(
        row=22,
        name="block_sharing",
        title="Block sharing",
        paper=_ALBERT,
        card="All blocks of the encoder are one block, run as often as there were blocks, and so are those of the "
        "decoder. The model computes as much as before with a fraction of the parameters: depth and parameters, which "
        "otherwise grow together, come apart.",
        reading=_TABLES + " Everything in a block is shared, its norms included.",
        config=untied_fields,
        modify=_block_sharing,
    ),
    Modification(
        row=23,
        name="block_sharing_factorized",
        title="Block sharing + Factorized embeddings",
        paper=_ALBERT,
        card="One block for the whole encoder, one for the whole decoder, and a narrow table with a projection for the "
        "inputs. What is left is mostly the table of the output.",
        reading=_TABLES + " That of the inputs alone is factorized.",
        config=untied_fields,
        modify=_with_factorized_input,
    ),
    Modification(
        row=24,
        name="block_sharing_factorized_shared",
        title="Block sharing + Factorized & shared embeddings",
        paper=_ALBERT,
        card="One block for the whole encoder, one for the whole decoder, and one narrow table with a projection for "
        "the inputs and the output: ALBERT as an encoder-decoder, with less than a tenth of the baseline's parameters "
        "at the paper's size.",
        modify=_with_factorized_and_shared,
    ),
    Modification(
        row=25,
        name="encoder_sharing",
        title="Encoder only block sharing",
        paper=_ALBERT,
        card="All blocks of the encoder are one block; those of the decoder differ as usual. Against the next row, it "
        "shows which of the two stacks can do with fewer parameters.",
        reading=_TABLES,
        config=untied_fields,
        modify=_encoder_only,
    ),
    Modification(
        row=26,
        name="decoder_sharing",
        title="Decoder only block sharing",
        paper=_ALBERT,
        card="All blocks of the decoder are one block; those of the encoder differ as usual.",
        reading=_TABLES,
        config=untied_fields,
        modify=_decoder_only,
    ),
]
