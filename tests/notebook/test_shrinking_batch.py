"""The shrinking batch: its values against PyTorch's, the law of their spread, its words, and what it refuses."""

import math

import pytest
import torch
import torch.nn.functional as F
import traitlets

from llm_anatomy.layers.normalization import BatchNorm, LayerNorm, standardize
from llm_anatomy.notebook import ShrinkingBatch
from llm_anatomy.notebook.widgets.shrinking_batch import DEVIATION, EPS, MEAN, N_BATCHES, N_OTHERS, SAMPLE, SIZES, STEPS

DRAWS = range(1, len(STEPS) + 1)


def shown(size, draw):
    return ShrinkingBatch(size, draw).outputs()


@pytest.mark.syllabus("IITD-39", "UCL-25")
@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("draw", DRAWS)
def test_values_are_those_of_batch_norm_in_training(size, draw):
    found = shown(size, draw)
    batches = ShrinkingBatch().batches(draw)[:, :size]
    peer = F.batch_norm(batches.T, None, None, training=True, eps=EPS)[0]
    torch.testing.assert_close(torch.tensor(found["batch"]), peer)
    torch.testing.assert_close(BatchNorm(N_BATCHES, eps=EPS)(batches.T)[0], peer)
    assert found["spread"] == pytest.approx(peer.std(correction=0).item(), rel=1e-4)
    assert found["spread"] == found["spreads"][SIZES.index(size)] and found["law"] == pytest.approx(size**-0.5)
    assert (found["low"], found["high"]) == (min(found["batch"]), max(found["batch"]))


@pytest.mark.syllabus("IITD-41")
def test_layer_norm_gives_the_same_in_every_batch_of_every_size():
    expected = F.layer_norm(torch.tensor(SAMPLE), (4,))[0].item()
    together = LayerNorm(4)(torch.cat((torch.tensor([SAMPLE]), 9 * torch.randn(5, 4))))
    assert together[0, 0].item() == pytest.approx(expected)
    for size in SIZES:
        for draw in DRAWS:
            found = shown(size, draw)
            assert found["layer"] == pytest.approx(expected) and found["layers"] == [found["layer"]] * N_BATCHES


@pytest.mark.syllabus("IITD-39")
@pytest.mark.parametrize("draw", DRAWS)
def test_of_two_numbers_only_their_order_is_left(draw):
    larger = ShrinkingBatch().batches(draw)[:, 1] > SAMPLE[0]
    found = torch.tensor(shown(2, draw)["batch"])
    torch.testing.assert_close(found, 1 - 2 * larger.float(), rtol=0, atol=0.01)
    assert 0 < larger.sum() < N_BATCHES


@pytest.mark.syllabus("IITD-39")
def test_a_batch_of_one_is_refused_as_by_the_package():
    with pytest.raises(ValueError, match="BatchNorm needs at least 2 tokens in training"):
        BatchNorm(4)(torch.tensor([SAMPLE]))
    found = shown(1, 2)
    assert all(map(math.isnan, [*found["batch"], found["spread"], found["spreads"][0]])) and not found["some"]
    assert not math.isnan(found["refusal"]) and math.isnan(shown(2, 2)["refusal"])


@pytest.mark.syllabus("IITD-39")
@pytest.mark.parametrize("draw", DRAWS)
def test_the_spread_of_the_60_batches_is_that_of_many(draw):
    spreads = shown(2, draw)["spreads"][1:]
    assert spreads == sorted(spreads, reverse=True)
    many = _drawn((3 - MEAN) / DEVIATION, 20_000, SIZES[-1], seed=draw)
    for size, spread in zip(SIZES[1:], spreads, strict=True):
        assert spread == pytest.approx(standardize(many[:, :size], 1)[:, 0].std().item(), rel=0.2)


@pytest.mark.syllabus("IITD-39")
@pytest.mark.parametrize("z", [-1 / 3, 0.0, 1.0, 2.0])
def test_in_large_batches_the_spread_is_the_law_of_the_docstring(z):
    spread = standardize(_drawn(z, 4000, 1024, seed=3), 1)[:, 0].std().item()
    assert spread == pytest.approx(math.sqrt((1 + z * z / 2) / 1024), rel=0.05)


def _drawn(z, n_batches, size, seed):
    batches = torch.randn(n_batches, size, generator=torch.Generator().manual_seed(seed))
    batches[:, 0] = z
    return batches


def test_each_draw_deals_all_samples_and_none_is_equal_to_the_one_of_interest():
    dealt = [ShrinkingBatch().batches(draw)[:, 1:] for draw in DRAWS]
    pool = dealt[0].flatten().sort().values
    assert len(pool) == N_OTHERS and not (pool == SAMPLE[0]).any()
    assert pool.mean().item() == pytest.approx(MEAN, abs=0.15)
    assert pool.std().item() == pytest.approx(DEVIATION, rel=0.03)
    for i, others in enumerate(dealt):
        assert torch.equal(others.flatten().sort().values, pool)
        for former in dealt[:i]:
            assert not torch.equal(others[:, 0].sort().values, former[:, 0].sort().values)


def test_words_are_complete():
    assert repr(ShrinkingBatch(2)) == (
        "Batch size 2, draw 1: in 60 batches, BatchNorm's values of one sample lie from −1.00 to 1.00; their spread is "
        "0.97, and 1/√2 is 0.71. Of two numbers, BatchNorm makes −1 and +1, whatever they are: it keeps which of the "
        "two is larger, and no more. LayerNorm gives −0.51 in every batch."
    )
    assert repr(ShrinkingBatch(16, 3)) == (
        "Batch size 16, draw 3: in 60 batches, BatchNorm's values of one sample lie from −1.19 to 0.19; their spread "
        "is 0.28, and 1/√16 is 0.25. The mean of 16 numbers has a standard error of σ/√16, and the estimate of σ has "
        "an error, too. So BatchNorm's value of the same sample moves from batch to batch. LayerNorm's does not. "
        "LayerNorm gives −0.51 in every batch."
    )


@pytest.mark.parametrize(
    "given, sentence",
    [((3,), "size=3; it must be one of 1, 2, 4, 8, 16, 32, 64"), ((2, 5), "draw=5; it must be a whole number from 1")],
)
def test_shrinking_batch_refuses(given, sentence):
    with pytest.raises(traitlets.TraitError, match=sentence):
        ShrinkingBatch(*given)
