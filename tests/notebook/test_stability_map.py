"""The stability map: its counts against a loop over the runs, what is drawn, its words, and what it refuses."""

import math

import pytest
import torch
import traitlets

from llm_anatomy.notebook import StabilityMap

PLACEMENTS, RATES, DEPTHS, SEEDS, BOUND = ["post", "pre"], [0.0005, 0.002, 0.01], [2, 4, 6, 12], 5, 3.0
LOSSES = 2.5 + torch.rand(2, 2, 4, 3, SEEDS, generator=torch.Generator().manual_seed(0))
LOSSES[0, 1, 2, 1, 3], LOSSES[0, 1, 2, 1, 4], LOSSES[1, 0, 0, 2] = torch.inf, torch.nan, torch.nan
LOSSES[0, 0, 0, 0, :2] = torch.tensor([BOUND, 3.001])


def widget(**changes):
    given = {"placements": PLACEMENTS, "rates": RATES, "depths": DEPTHS, "losses": LOSSES, "failed_above": BOUND}
    return StabilityMap(**given | changes)


def put(shown, placement, warmup, depth, rate):
    shown.placement, shown.warmup = PLACEMENTS[placement], bool(warmup)
    shown.depth, shown.rate = str(DEPTHS[depth]), f"{RATES[rate]:g}"


@pytest.mark.syllabus("CMU-18", "CMU-19", "GT-13", "GT-15")
@pytest.mark.parametrize("placement", [0, 1])
@pytest.mark.parametrize("warmup", [0, 1])
def test_each_cell_counts_the_seeds_that_trained(placement, warmup):
    shown = widget()
    for depth in range(len(DEPTHS)):
        for rate in range(len(RATES)):
            put(shown, placement, warmup, depth, rate)
            found, runs = shown.outputs(), LOSSES[placement, warmup, depth, rate].tolist()
            ran = [loss for loss in runs if not math.isnan(loss)]
            trained = sum(loss <= BOUND for loss in ran)
            cell = found["counts"][depth][rate]
            assert cell == trained if ran else math.isnan(cell)
            assert (found["trained"], found["runs"]) == (trained, len(ran))
            assert found["losses"] == pytest.approx(runs, nan_ok=True)
            assert [f for f, loss in zip(found["failed"], runs, strict=True) if loss == loss] == [
                not loss <= BOUND for loss in ran
            ]
            assert (found["down"], found["across"], found["from"], found["to"]) == (depth, rate, rate - 0.5, rate + 0.5)
    everywhere = LOSSES[placement, warmup].flatten().tolist()
    assert found["all_trained"] == sum(loss <= BOUND for loss in everywhere)
    assert found["all_runs"] == sum(loss == loss for loss in everywhere)


def test_a_row_shows_all_seeds_of_its_rates_and_those_that_diverged_higher():
    shown = widget()
    put(shown, 0, 1, 2, 1)
    found, at = shown.outputs(), shown.data["at"]
    row = LOSSES[0, 1, 2].flatten().tolist()
    largest = LOSSES[LOSSES.isfinite()].max().item()
    for x, y, failed, i in zip(at, found["row"], found["row_failed"], range(len(row)), strict=True):
        assert abs(x - i // SEEDS) <= 0.25
        if row[i] == math.inf:
            assert largest < y < shown.high + shown.step and failed
        elif row[i] == row[i]:
            assert y == pytest.approx(row[i]) and shown.low < y and failed == (row[i] > BOUND)
        else:
            assert math.isnan(y)
    assert len({*at}) == len(at)
    for bound in (1.0, 9.0):
        low, high = (getattr(widget(failed_above=bound), end) for end in ("low", "high"))
        assert low < min(bound, LOSSES[LOSSES.isfinite()].min()) and max(bound, largest) < high


def test_words_are_complete():
    shown = widget()
    put(shown, 0, 1, 2, 1)
    a, b, c = (f"{loss:.2f} ({'trained' if loss <= BOUND else 'failed'})" for loss in LOSSES[0, 1, 2, 1, :3].tolist())
    trained, total = (LOSSES[0, 1, 2, 1] <= BOUND).sum(), (LOSSES[0, 1] <= BOUND).sum()
    assert repr(shown) == (
        f"post with warm-up, 6 layers, maximum learning rate 0.002: {trained} of 4 seeds trained; the losses are {a}, "
        f"{b}, {c}, ∞ (failed). On the whole map, {total} of 59 runs trained."
    )
    put(shown, 1, 0, 0, 2)
    assert repr(shown).startswith("pre without warm-up, 2 layers, maximum learning rate 0.01: there is no run. On")
    one = widget(depths=[1], losses=LOSSES[:, :, :1])
    assert ", 1 layer, maximum" in repr(one)


def test_the_bound_itself_has_trained():
    shown = widget()
    put(shown, 0, 0, 0, 0)
    assert shown.outputs()["failed"][:2] == [0, 1]


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"placements": ["pre", "pre"]}, "the names must differ"),
        ({"rates": [0.002, 0.0005, 0.01]}, r"rates=\[0.002, 0.0005, 0.01\]; it must be a list of increasing numbers"),
        ({"rates": [0.0, 0.0005, 0.01]}, "learning rates must be positive"),
        ({"rates": ["a"]}, "rate='a'; it must be a finite number"),
        ({"depths": [2, 4, 4, 12]}, "it must be a list of increasing numbers"),
        ({"depths": [2, 4, 6]}, r"losses of shape \(2, 2, 4, 3, 5\); it must be \(2, 2, 3, 3, seeds\)"),
        ({"losses": LOSSES[:, 0]}, r"losses of shape \(2, 4, 3, 5\); it must be \(2, 2, 4, 3, seeds\)"),
        ({"losses": LOSSES * math.nan}, "losses has no finite entry"),
        ({"failed_above": math.inf}, "failed_above=inf; it must be a finite number"),
    ],
)
def test_stability_map_refuses(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        widget(**changes)


def test_a_cell_that_is_not_there_is_refused():
    with pytest.raises(traitlets.TraitError, match="rate='0.004'; it must be one of 0.0005, 0.002, 0.01"):
        widget().rate = "0.004"
