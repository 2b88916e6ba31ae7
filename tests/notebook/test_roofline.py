"""The roofline: FLOPs against ``costs()``, bytes against lists of tensors, the roof, words, and what it refuses."""

import pytest
import torch
import traitlets

from llm_anatomy.config import ModelConfig
from llm_anatomy.data import table
from llm_anatomy.models.costs import costs
from llm_anatomy.notebook import Roofline
from llm_anatomy.notebook.widgets.roofline import (
    ENDS_X,
    ENDS_Y,
    LENGTHS,
    N_ALONE,
    OPERATORS,
    WIDTHS,
    operators_of_block,
)

ALONE, FUSED = list(OPERATORS)[:N_ALONE], list(OPERATORS)[N_ALONE:]
SIZES = [(128, 1), (192, 7), (768, 512), (1024, 512), (4096, 2048)]


def counted(d, n, fused):
    flops, moved = operators_of_block(torch.tensor(float(d)), torch.tensor(float(n)), fused=fused)
    names = FUSED if fused else ALONE
    return dict(zip(names, flops.tolist(), strict=True)), dict(zip(names, moved.tolist(), strict=True))


@pytest.mark.syllabus("GT-17")
@pytest.mark.parametrize("d, n", SIZES)
def test_the_products_take_the_flops_that_costs_counts(d, n):
    config = ModelConfig(d_model=d, n_layers=1, n_heads=d // 64, d_ff=4 * d, n_vocab=11)
    parts = {part.name: part.flops for part in costs(config, n).parts}
    flops, _ = counted(d, n, fused=False)
    assert flops["projections"] == pytest.approx(parts["attention projections"])
    assert flops["scores and mixing"] == pytest.approx(parts["scores and mixing"])
    assert flops["feed-forward"] == pytest.approx(parts["feed-forward"])


def tensors_of(d, n):
    """The shapes that each operator reads and writes, one tensor after the other."""
    x, wide, weights, f = (n, d), (n, 4 * d), (d // 64, n, n), 4 * d
    return {
        "projections": 4 * [x, (d, d), x],
        "scores and mixing": [x, x, weights] + [weights, x, x],
        "feed-forward": [x, (d, f), wide] + [wide, (f, d), x],
        "softmax": [weights, weights],
        "norms": 2 * [x, (d,), (d,), x],
        "biases": 5 * [x, (d,), x] + [wide, (f,), wide],
        "activation": [wide, wide],
        "residual": 2 * [x, x, x],
    }, {
        "projections + biases": 4 * [x, (d, d), (d,), x],
        "attention": [x, x, x, x],
        "feed-forward + GELU": [x, (d, f), (f,), wide] + [wide, (f, d), (d,), x],
        "residual + norms": 2 * [x, x, (d,), (d,), x, x],
    }


@pytest.mark.syllabus("GT-16", "GT-17")
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("d, n", SIZES)
def test_each_operator_moves_its_tensors_once_in_16_bits(d, n, fused):
    expected = tensors_of(d, n)[fused]
    _, moved = counted(d, n, fused)
    for name, shapes in expected.items():
        n_bytes = sum(torch.empty(shape, dtype=torch.bfloat16, device="meta").nbytes for shape in shapes)
        assert moved[name] == pytest.approx(n_bytes, rel=1e-6), name


@pytest.mark.syllabus("GT-17")
@pytest.mark.parametrize("d, n", SIZES)
def test_fusing_keeps_the_flops_and_saves_bytes(d, n):
    (flops, moved), (in_kernels, less) = counted(d, n, False), counted(d, n, True)
    assert sum(in_kernels.values()) == pytest.approx(sum(flops.values()))
    assert sum(less.values()) < sum(moved.values())
    assert flops["softmax"] == 5 * d // 64 * n * n and flops["norms"] == 2 * 7 * n * d
    assert flops["biases"] == 9 * n * d and flops["residual"] == 2 * n * d and flops["activation"] == 9 * n * 4 * d


@pytest.mark.syllabus("GT-16", "GT-17")
@pytest.mark.parametrize("hardware", [row["name"] for row in table("hardware")])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("d, n", SIZES)
def test_shares_and_times_are_those_of_a_loop_over_the_operators(d, n, fused, hardware):
    (row,) = (row for row in table("hardware") if row["name"] == hardware)
    peak, bandwidth = float(row["flops_bfloat16"]), float(row["bandwidth"])
    flops, moved = counted(d, n, fused)
    seconds = {name: max(flops[name] / peak, moved[name] / bandwidth) for name in flops}
    bound = {name for name in flops if moved[name] / bandwidth > flops[name] / peak}
    shown = Roofline(d, n, hardware=hardware, fused=fused)
    found = shown.outputs()
    assert [shown.data["names"][int(i)] for i in found["kernel"]] == list(flops)
    assert {name for name, below in zip(flops, found["below"], strict=True) if below == below} == bound
    assert found["ridge"] == pytest.approx(peak / bandwidth)
    assert found["reached"] == pytest.approx([flops[name] / seconds[name] / 1e12 for name in flops], rel=1e-5)
    for found_share, amounts in (("flops_share", flops), ("time_share", seconds)):
        share = 100 * sum(amounts[name] for name in bound) / sum(amounts.values())
        assert found[found_share] == pytest.approx(share, rel=1e-5)
    assert found["time"] * 1000 ** found["time_unit"] / 1e6 == pytest.approx(sum(seconds.values()), rel=1e-5)


@pytest.mark.syllabus("GT-17")
def test_what_is_no_product_has_few_flops_and_much_time_as_in_the_lecture():
    found = Roofline(1024, 512).outputs()  # the sizes of BERT-large
    of_flops, of_time = sum(found["flops_shares"][3:]), sum(found["time_shares"][3:])
    lecture = [row for row in table("rmsnorm_runtime") if row["operator_class"] != "Tensor contraction"]
    assert of_flops < 0.5 and sum(row["pct_flop"] for row in lecture) < 0.5
    assert 25 < of_time < 50 and 25 < sum(row["pct_runtime"] for row in lecture) < 50


def test_all_that_is_drawn_lies_within_the_axes():
    for fused in (False, True):
        for d in WIDTHS:
            for n in LENGTHS:
                for hardware in ("T4", "H200"):
                    found = Roofline(d, n, hardware=hardware, fused=fused).outputs()
                    for values, (low, high) in ((found["intensity"], ENDS_X), (found["reached"], ENDS_Y)):
                        assert low < min(values) and max(values) < high
                    assert found["roof_x"] == sorted(found["roof_x"]) and found["roof_y"][1] == pytest.approx(
                        found["peak"]
                    )


def test_words_are_complete():
    assert repr(Roofline(768, 1, hardware="H100", fused=True)) == (
        "d_model 768, 1 token, H100, fused: the ridge is at 295 FLOPs per byte. Memory-bound: projections + biases "
        "(1.00), attention (0.51), feed-forward + GELU (1.00), residual + norms (0.67). They have 100.0 % of the FLOPs "
        "and 100.0 % of the time, which is at least 4.2 µs."
    )
    assert "d_model 832, 512 tokens, A100, one operator per kernel" in repr(Roofline(832))


@pytest.mark.parametrize(
    "sizes, sentence",
    [
        ({"d_model": 100}, "d_model=100; it must be a multiple of 64"),
        ({"d_model": 0}, "d_model=0; it must be a whole number from 64 to 16384"),
        ({"n_tokens": 0}, "n_tokens=0; it must be a whole number from 1 to 65536"),
        ({"n_tokens": 100_000}, "n_tokens=100000; it must be a whole number from 1 to 65536"),
    ],
)
def test_roofline_refuses(sizes, sentence):
    with pytest.raises(ValueError, match=sentence):
        Roofline(**sizes)


def test_an_unknown_processor_is_refused():
    with pytest.raises(traitlets.TraitError, match="hardware='V100'; it must be one of T4, A100, H100, H200"):
        Roofline(hardware="V100")
