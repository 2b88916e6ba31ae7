"""The gradient by layer: its numbers against NumPy's, what is drawn, its words, and what it refuses."""

import math

import numpy as np
import pytest
import torch
import traitlets

from llm_anatomy.notebook import GradientByLayer
from llm_anatomy.notebook.widgets.gradient_by_layer import _ticks_of_layers, _ticks_of_norms

PLACEMENTS, DEPTHS, SEEDS = ["post", "pre", "rezero"], [2, 5], 4
DRAWN = np.random.default_rng(0).lognormal(size=(3, 2, SEEDS, 5)).astype(np.float32)
DRAWN[:, 0, :, 2:] = np.nan
DRAWN[2, 1] = 0.0


def widget(**changes):
    return GradientByLayer(**{"placements": PLACEMENTS, "depths": DEPTHS, "gradients": DRAWN} | changes)


def significant(x):
    return float(f"{x:.3g}")


@pytest.mark.syllabus("CMU-18", "CMU-19", "GT-13")
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("pair", [("post", "pre"), ("pre", "post")])
def test_means_and_ranges_are_those_of_the_seeds(depth, pair):
    shown = widget()
    shown.placement, shown.other, shown.depth = *pair, depth
    found, d = shown.outputs(), DEPTHS.index(depth)
    for i, name in enumerate(pair):
        norms = DRAWN[PLACEMENTS.index(name), d]
        np.testing.assert_allclose(found["means"][i], norms.mean(0), rtol=1e-6)
        np.testing.assert_allclose(found["norms"][i], norms.flatten())
        for end, layer in enumerate((0, depth - 1)):
            for of, summary in (("mean", np.mean), ("low", np.min), ("high", np.max)):
                assert found[of][2 * i + end] == pytest.approx(significant(summary(norms[:, layer])), rel=1e-5)
        layers = np.tile(np.arange(1, 6), SEEDS)
        shift = np.array(found["at"][i]) - layers
        assert (shift * (1, -1)[i] < 0).all() and abs(shift).max() < 0.1  # beside each other, near their layer


@pytest.mark.syllabus("CMU-18", "CMU-19")
@pytest.mark.parametrize("first, last, said", [(1.0, 4.0, (0, 1)), (0.2, 1.1, (2, 0)), (9.0, 0.1, (1, 2))])
def test_it_says_whether_the_seeds_overlap(first, last, said):
    post = [[[first, last, math.nan], [1.2 * first, 1.2 * last, math.nan]]]
    pre = [[[1.0, 1.0, math.nan], [1.3, 1.3, math.nan]]]
    post, pre = ([*arm, [[1.0] * 3] * 2] for arm in (post, pre))
    shown = GradientByLayer(["post", "pre"], [2, 3], [post, pre])
    shown.depth = 2
    found = shown.outputs()
    assert (found["first"], found["last"]) == said
    shown.other = "post"
    assert shown.outputs()["first"] == 3 and "In layer 1, there is nothing to compare" in repr(shown)


def test_a_norm_of_zero_or_infinity_is_not_drawn():
    shown = widget(gradients=np.where(DRAWN[0, 1, 2, 4] == DRAWN, np.inf, DRAWN))
    found = shown.outputs()
    assert math.isnan(found["means"][0][4]) and not math.isnan(found["means"][0][3])
    assert sum(map(math.isnan, found["norms"][0])) == 1
    assert f"with post, {significant(DRAWN[0, 1, :, 0].mean())} in layer 1 and no number in layer 5" in repr(shown)
    shown.other = "rezero"
    assert "with rezero, no number and no number. In layer 1, there is nothing to compare" in repr(shown)


def test_numbers_behind_the_last_layer_are_left_out():
    padded = np.nan_to_num(DRAWN, nan=77.0)
    first, second = widget(), widget(gradients=torch.tensor(padded))
    first.depth = second.depth = 2
    assert second.ends == first.ends and np.array_equal(
        first.outputs()["norms"], second.outputs()["norms"], equal_nan=True
    )


def test_the_axes_hold_all_that_is_drawn_and_do_not_move():
    low, high = widget().ends
    known = DRAWN[(DRAWN > 0) & ~np.isnan(DRAWN)]
    assert low < known.min() <= known.max() < high
    for ends in [(0.2, 3.0), (1e-5, 7e6), (0.9, 1.2), (0.05, 40.0)]:
        ticks = _ticks_of_norms(*ends)
        assert all(ends[0] <= tick <= ends[1] for tick in ticks) and 1 <= len(ticks) <= 8, ends
    for depth in (1, 2, 4, 8, 12, 32, 100):
        ticks = _ticks_of_layers(depth)
        assert ticks[0] == 1 and ticks[-1] <= depth and len(ticks) <= 8 and len({*ticks}) == len(ticks)


def test_words_are_complete():
    shown = GradientByLayer(["post", "pre"], [1], [[[[2.0], [4.0]]], [[[0.01234], [0.02]]]], of="the stream")
    assert repr(shown) == (
        "1 layer, norm of the gradient with respect to the stream, mean over 2 seeds: with post, 3 in layer 1 and 3 in "
        "layer 1; with pre, 0.0162 and 0.0162. In layer 1, every seed of post is above every seed of pre; in layer 1, "
        "every seed of post is above every seed of pre."
    )


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"placements": ["post"]}, r"placements=\['post'\]; they must be at least two, with different names"),
        ({"placements": ["post", "post", "pre"]}, "must be at least two, with different names"),
        ({"placements": "post"}, "it must be a non-empty list of non-empty strings"),
        ({"depths": [5, 2]}, r"depths=\[5, 2\]; it must be a list of increasing numbers"),
        ({"depths": [0, 5]}, "depth=0; it must be a whole number from 1 to 1000"),
        ({"depths": [2, 4]}, r"gradients of shape \(3, 2, 4, 5\); it must be \(3, 2, seeds, 4\)"),
        ({"depths": [5]}, r"gradients of shape \(3, 2, 4, 5\); it must be \(3, 1, seeds, 5\)"),
        ({"gradients": -DRAWN}, "gradients has negative entries; it must be norms"),
        ({"gradients": 0 * DRAWN}, "gradients has no entry that is positive and finite"),
    ],
)
def test_gradient_by_layer_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        widget(**changes)


def test_another_depth_is_refused():
    with pytest.raises(traitlets.TraitError, match="depth=3; it must be one of 2, 5"):
        widget().depth = 3
