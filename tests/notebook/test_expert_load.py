"""The expert load: its numbers against those it was given, its words, and what it refuses."""

import numpy as np
import pytest
import torch
import traitlets

from llm_anatomy.notebook import ExpertLoad

ARMS, STEPS = ["without balance loss", "with balance loss"], [0, 10, 40, 100, 250]
LOAD = (3 * torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(4))).softmax(-1)


def shown(load=LOAD, steps=STEPS, arms=ARMS, **at):
    widget = ExpertLoad(load, steps, arms)
    for name, value in at.items():
        setattr(widget, name, value)
    return widget, widget.outputs()


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("arm", range(2))
@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_those_of_the_run_and_the_step(arm, seed):
    for at, step in enumerate(STEPS):
        widget, found = shown(arm=ARMS[arm], seed=seed + 1, step=step)
        row = 100 * LOAD[arm, seed, at]
        assert found["now"] == pytest.approx(row.tolist(), abs=0.006)
        most = max(range(6), key=lambda e: row[e])
        assert (found["most"], found["largest"]) == (most + 1, pytest.approx(row[most].item(), abs=0.006))
        history = torch.tensor(found["history"])
        torch.testing.assert_close(history, 100 * LOAD[arm, seed].T, rtol=0, atol=0.006)
        torch.testing.assert_close(torch.tensor(found["best"]), history[most])
        assert [hue > 0 for hue in found["hues"]] == [e == most for e in range(6)]
        assert found["idle"] == sum(share < 10 / 6 for share in row.tolist())
        assert max(map(max, found["history"])) <= widget.top and widget.data["even"] == pytest.approx(100 / 6)


def test_steps_do_not_have_to_be_even_and_the_last_one_comes_first():
    assert ExpertLoad(LOAD, STEPS, ARMS).step == 250
    assert shown(step=10)[1]["now"] == pytest.approx((100 * LOAD[0, 0, 1]).tolist(), abs=0.006)


@pytest.mark.parametrize("idle, word", [(0, "0 get"), (1, "1 gets"), (2, "2 get")])
def test_words_are_complete(idle, word):
    even = (1 - 0.01 * idle) / (4 - idle)
    load = [[[[0.25] * 4, [even] * (4 - idle) + [0.01] * idle]]]
    assert repr(ExpertLoad(load, [0, 7], ["top-1"])) == (
        f"Step 7, top-1, seed 1: expert 1 gets the largest share of the tokens, {100 * even:.1f}%; an even share would "
        f"be 25.0%. Of 4 experts, {word} almost nothing, less than 2.5%."
    )


@pytest.mark.parametrize("load", [LOAD.double(), LOAD.numpy(), LOAD.tolist(), 0.8 * LOAD, LOAD.round(decimals=4)])
def test_what_is_right_is_taken(load):
    for steps in (STEPS, tuple(STEPS), np.array(STEPS), torch.tensor(STEPS)):
        assert ExpertLoad(load, steps, tuple(ARMS), arm=ARMS[1]).arm == ARMS[1]


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"load": LOAD[0]}, r"load has the shape \(3, 5, 6\); it must be \(arms, seeds, steps, experts\)"),
        ({"load": LOAD[..., :1]}, "two experts or more"),
        ({"load": LOAD[:, :, :1], "steps": [0]}, "two steps and"),
        ({"load": LOAD[:, :0]}, r"load has the shape \(2, 0, 5, 6\)"),
        ({"load": [[[[0.5, 0.5], [1.0]]]]}, "load must be numbers of shape"),
        ({"load": "0.5"}, "load must be numbers of shape"),
        ({"load": 100 * LOAD}, "load must be shares from 0 to 1, which sum over the experts to at most 1"),
        ({"load": -LOAD}, "load must be shares"),
        ({"load": LOAD / 0}, "load must be shares"),
        ({"load": LOAD * torch.nan}, "load must be shares"),
        ({"steps": STEPS[:4]}, "there must be 5 in increasing order, as in load"),
        ({"steps": STEPS[::-1]}, r"steps=\[250, 100, 40, 10, 0\]; there must be 5 in increasing order"),
        ({"steps": [0, 1, 2, 3, 3.5]}, "a step=3.5; it must be a whole number"),
        ({"arms": ARMS[:1]}, r"arms=\['without balance loss'\]; there must be 2 different names"),
        ({"arms": ["a", "a"]}, "there must be 2 different names"),
        ({"arms": "ab"}, "arms='ab'; it must be a non-empty list"),
    ],
)
def test_expert_load_refuses(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        ExpertLoad(**{"load": LOAD, "steps": STEPS, "arms": ARMS} | given)


def test_the_initial_arm_must_be_one_of_the_arms():
    with pytest.raises(traitlets.TraitError, match="arm='neither'; it must be one of without balance loss, with"):
        ExpertLoad(LOAD, STEPS, ARMS, arm="neither")
