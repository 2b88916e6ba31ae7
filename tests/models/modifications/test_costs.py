"""Operations of the rows against the sum by hand, the model's costs, and the paper's column."""

import pytest
import torch

from llm_anatomy.models.costs import costs
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import T5_BASE, baseline
from llm_anatomy.models.modifications.costs import PAPER_COUNT, flops_ratios, forward_flops

SIZES = dict(batch=3, n_source=7, n_target=5)
CONFIG = baseline(60, d_model=24, n_layers=3, n_heads=4, d_ff=20)


def by_hand(batch, n_source, n_target, d=24, layers=3, d_ff=20, n_vocab=60):
    projections = layers * (4 * d * d + 2 * d * d_ff)
    encoder = n_source * projections + layers * 2 * n_source**2 * d
    decoder = n_target * (projections + layers * 2 * d * d) + layers * 2 * n_target**2 * d
    cross = layers * (n_source * 2 * d * d + 2 * n_source * n_target * d)
    return 2 * batch * (encoder + decoder + cross + n_target * d * n_vocab)


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_operations_of_the_baseline_are_those_counted_by_hand(device):
    assert forward_flops(MODIFICATIONS["baseline"], CONFIG, **SIZES, device=device) == by_hand(**SIZES)


def test_operations_of_the_baseline_are_those_of_its_costs():
    told = costs(CONFIG, batch=3, n_tokens=5, n_source=7)
    assert forward_flops(MODIFICATIONS["baseline"], CONFIG, **SIZES) == sum(part.flops for part in told.parts)


def test_a_lookup_counts_as_a_product_with_the_table():
    plain = forward_flops(MODIFICATIONS["baseline"], CONFIG, **SIZES)
    with_lookups = forward_flops(MODIFICATIONS["baseline"], CONFIG, **SIZES, one_hot_lookups=True)
    tokens, offsets = 3 * (7 + 5), 7 * 7 + 5 * 5  # the table of relative positions is read once a layer
    assert with_lookups - plain == 2 * tokens * 24 * 60 + 3 * 2 * offsets * 32 * 4


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize(
    ("name", "trillions", "of_paper"),
    [("baseline", 11.07, 11.1), ("product_key_memory", 387.05, 386.6)],
)
def test_operations_of_t5_base_are_those_of_the_paper(name, trillions, of_paper):
    flops = forward_flops(MODIFICATIONS[name], baseline(**T5_BASE), **PAPER_COUNT) / 1e12
    assert round(flops, 2) == trillions and flops == pytest.approx(of_paper, rel=0.005)


@pytest.mark.parametrize(
    ("name", "trillions", "of_paper"),
    [("mixture_of_experts", 11.07, 11.7), ("switch_transformer", 11.30, 11.7), ("funnel_transformer", 7.76, 1.9)],
)
def test_operations_that_differ_from_the_paper_for_the_stated_reasons(name, trillions, of_paper):
    flops = forward_flops(MODIFICATIONS[name], baseline(**T5_BASE), **PAPER_COUNT) / 1e12
    assert round(flops, 2) == trillions
    if name == "funnel_transformer":
        assert flops / 4 == pytest.approx(of_paper, abs=0.05)
        return
    # Each group of 1,024 tokens goes to the slots of 32 experts and back by two products with one-hot matrices. In the
    # decoder the capacity was 1.25 times the even share, not what it is in the encoder and, here, in both.
    encoder, decoder, slots = 128 * 512, 128 * 114, dict(mixture_of_experts=64, switch_transformer=38)[name]
    carried = 3 * 2 * 32 * 768 * (slots * encoder + 40 * decoder) / 1e12
    assert flops + carried == pytest.approx(of_paper, abs=0.15)


def test_a_memory_is_cheap_where_values_are_looked_up():
    t5 = baseline(**T5_BASE)
    sizes = dict(batch=2, n_source=16, n_target=8)
    ratios = flops_ratios(map(MODIFICATIONS.get, ["baseline", "product_key_memory"]), t5, **sizes)
    assert ratios["baseline"] == 1 and 0.95 < ratios["product_key_memory"] < 1


def test_counting_changes_no_random_numbers_that_follow():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    forward_flops(MODIFICATIONS["switch_transformer"], CONFIG, **SIZES)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", ["batch", "n_source", "n_target"])
def test_sizes_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}=0"):
        forward_flops(MODIFICATIONS["baseline"], CONFIG, **SIZES | {name: 0})
