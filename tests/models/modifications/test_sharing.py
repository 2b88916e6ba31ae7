import pytest
import torch
from models.modifications.properties import (
    CHECKS,
    SMALL,
    SOURCE,
    TARGET,
    check_parameters_at_t5_base,
    log_probs,
    small,
)

from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import baseline
from llm_anatomy.models.modifications.sharing import ROWS, repeat_blocks
from llm_anatomy.models.transformer import Transformer


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["block_sharing", "block_sharing_factorized", "block_sharing_factorized_shared"])
def test_every_row(name, check):
    check(name)


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("block_sharing", 66),  # 65.9; the table cuts it off at 65
        ("block_sharing_factorized", 45),
        ("block_sharing_factorized_shared", 21),  # 20.7; 20 in the table
        ("encoder_sharing", 170),
        ("decoder_sharing", 144),
    ],
)
def test_parameters_are_those_of_the_table(name, millions):
    check_parameters_at_t5_base(name, millions)


@pytest.mark.parametrize(
    ("name", "shares_encoder", "shares_decoder"),
    [(row.name, row.name != "decoder_sharing", row.name != "encoder_sharing") for row in ROWS],
)
def test_which_blocks_are_shared(name, shares_encoder, shares_decoder):
    model = small(name)
    for stack, shares in ((model.encoder, shares_encoder), (model.stack, shares_decoder)):
        assert len(stack.blocks) == 6
        assert len({id(block) for block in stack.blocks}) == (1 if shares else 6)


def test_shared_blocks_compute_what_equal_blocks_do():
    model = small("block_sharing")
    full = Transformer(MODIFICATIONS["block_sharing"].config_for(baseline(**SMALL))).double()
    full.load_state_dict(model.state_dict())  # which holds the shared block under the names of all six
    full.unembedding.embedding.weight.data = model.unembedding.embedding.weight.data
    torch.testing.assert_close(full(TARGET, source=SOURCE), model(TARGET, source=SOURCE))


def test_gradients_of_a_shared_block_are_summed_over_its_runs():
    model = small("decoder_sharing")
    full = Transformer(MODIFICATIONS["decoder_sharing"].config_for(baseline(**SMALL))).double()
    full.load_state_dict(model.state_dict())
    for either in (model, full):
        log_probs(either).sum().backward()
    gradients = [block.feedforward.w_up.weight.grad for block in full.stack.blocks]
    torch.testing.assert_close(model.stack.blocks[0].feedforward.w_up.weight.grad, sum(gradients))


def test_inputs_share_a_table_and_the_output_has_its_own():
    for name in ("block_sharing", "encoder_sharing", "decoder_sharing"):
        model = small(name, random=False)
        assert model.encoder_embedding is None and model.unembedding.embedding is not model.embedding
        assert 0.8 < model.unembedding.embedding.weight.std() * 24**0.5 < 1.2
        assert model.unembedding.scale == 1


def test_order_of_repeated_blocks():
    model = small("baseline")
    first, second = model.stack.blocks[:2]
    repeat_blocks(model.stack, n_blocks=2, n_times=2)
    assert [*model.stack.blocks] == [first, second, first, second]
    assert len(model.stack.masks) == len(model.stack.windows) == 4
