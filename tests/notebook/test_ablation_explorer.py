"""The ablation explorer: matched curves and differences against the rule by hand, its words, and what it refuses."""

import math

import pytest
import traitlets
from widget_examples import ablated

from llm_anatomy.data import table
from llm_anatomy.notebook import AblationExplorer
from llm_anatomy.notebook.widgets.ablation_explorer import MATCHED, TITLES, VERDICTS

RESULTS, CURVES, SPEEDS = ablated()
ROWS = {row["row"]: row for row in RESULTS}
NAMES = {row["name"]: row["row"] for row in RESULTS}
GROUPS = {row["row"]: row["group"] for row in table("narang2021")}
COST = {row["name"]: row for row in SPEEDS}


@pytest.fixture(scope="module")
def made():
    return AblationExplorer(RESULTS, CURVES, SPEEDS)


def shown(widget, **values):
    start = dict(matched="steps", group="all", relative=False, zoom=0.2, first=5, second=19)
    for name, value in (start | values).items():
        setattr(widget, name, value)
    return widget.outputs()


def loss_of(number, step):
    """The loss of a row after so many of its steps, by hand; None outside its curve."""
    row = ROWS[number]
    points = {one["step"]: one["loss"] for one in CURVES if one["name"] == row["name"]}
    if not 10 - 1e-3 <= step <= 200 + 1e-3:
        return None
    before = min(10 * int(step // 10 + 1e-6), 190)
    share = (step - before) / 10
    value = (1 - share) * points[before] + share * points[before + 10]
    return value + (row["loss"] - points[200] if math.isfinite(row["loss"]) else 0)


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("matched", MATCHED)
@pytest.mark.parametrize("number", [6, 18, 38, 47, 50])
def test_a_curve_is_read_where_its_cost_is_the_baselines(made, matched, number):
    found = shown(made, matched=matched, first=number)
    name = ROWS[number]["name"]
    cost = {"steps": 1.0, "time": COST[name]["time_ratio"], "FLOPs": COST[name]["flops_ratio"]}[matched]
    for n, drawn in enumerate(found["curve_first"], 1):
        expected = loss_of(number, 10 * n / cost)
        if expected is None or not found["low"] <= expected <= found["high"]:
            assert drawn != drawn
        else:
            assert drawn == pytest.approx(expected, abs=2e-4)
    assert found["where"][0] == pytest.approx(200 * min(1, cost), rel=1e-5)
    assert (found["times"][0], found["flops"][0]) == pytest.approx(
        (COST[name]["time_ratio"], COST[name]["flops_ratio"])
    )


def test_the_interval_stands_on_the_baseline_at_the_end(made):
    found = shown(made, matched="time", first=38)
    row, cost = ROWS[38], COST["lightweight_convolution"]["time_ratio"]
    base = loss_of(1, 200 * cost)
    assert cost < 1 and found["end"][0] == pytest.approx(base + row["time_difference"], abs=2e-4)
    assert found["end_low"][0] == pytest.approx(base + row["time_low"], abs=2e-4)
    assert found["end_high"][0] == pytest.approx(base + row["time_high"], abs=2e-4)
    relative = shown(made, matched="time", first=38, relative=True)
    assert relative["end"][0] == pytest.approx(row["time_difference"], abs=1e-5)
    assert relative["base"] == [0] * 20 and (relative["low"], relative["high"]) == pytest.approx((-0.2, 0.2))
    n = 15
    assert relative["curve_first"][n - 1] == pytest.approx(loss_of(38, 10 * n / cost) - loss_of(1, 10 * n), abs=3e-4)


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("matched", MATCHED)
@pytest.mark.parametrize("group", ["all", "activation", "embeddings", "architecture"])
def test_rows_are_sorted_by_their_difference_and_counted(made, matched, group):
    found, prefix = shown(made, matched=matched, group=group, zoom=10.0), MATCHED[matched]
    kept = [row for row in RESULTS[1:] if group in ("all", GROUPS[row["row"]])]
    expected = sorted(kept, key=lambda row: row[f"{prefix}difference"])
    listed = [number for number in found["shown"] if number == number]
    assert listed == [row["row"] for row in expected] and found["n_shown"] == len(kept)
    assert found["counts"] == [sum(row[f"{prefix}verdict"] == verdict for row in kept) for verdict in VERDICTS[:4]]
    for row, x, low, high, hue in zip(
        expected, found["differences"], found["left"], found["right"], found["verdict_hue"], strict=False
    ):
        assert VERDICTS[int(hue)] == row[f"{prefix}verdict"]
        if math.isfinite(row[f"{prefix}difference"]):
            assert (x, low, high) == pytest.approx([row[f"{prefix}{end}"] for end in ("difference", "low", "high")])
        else:
            assert x != x
    drawn = [any(y == y for y in curve) for curve in found["drawn"]]
    assert drawn[0] is False and sum(drawn) <= len(kept)


def test_what_is_outside_the_frame_is_hollow_at_its_edge(made):
    found = shown(made, zoom=0.05)
    listed = [number for number in found["shown"] if number == number]
    for number, x, hollow in zip(listed, found["differences"], found["outside"], strict=False):
        own = ROWS[number]["difference"]
        if math.isfinite(own):
            assert bool(hollow) == (abs(own) > 0.05) and x == pytest.approx(max(-0.05, min(0.05, own)))
    assert any(found["outside"])


@pytest.mark.syllabus("CMU-21")
def test_words_are_complete(made):
    shown(made, group="activation", matched="time", first=6, second=14)
    six, fourteen = ROWS[6], ROWS[14]
    counts = [sum(ROWS[n]["time_verdict"] == verdict for n in range(2, 13)) for verdict in VERDICTS[:4]]
    numbers = [[f"{row[f'time_{end}']:.3f}".replace("-", "−") for end in ("difference", "low", "high")]
               for row in (six, fourteen)]  # fmt: skip
    assert repr(made) == (
        f"At equal time, group activation: {counts[0]} better, {counts[1]} worse, {counts[2]} within noise, "
        f"{counts[3]} unstable. "
        "GeGLU: difference {}, from {} to {}, {}. ReZero: difference {}, from {} to {}, {}.".format(
            *numbers[0], six["time_verdict"], *numbers[1], fourteen["time_verdict"]
        )
    )
    shown(made, second=14)
    assert repr(made).endswith("ReZero: no interval is known, unstable.")


def test_every_row_has_a_short_title_of_its_own(made):
    titles = [title for title in made.data["titles"] if title]
    assert len(set(titles)) == 52 and max(map(len, titles)) <= 19 and set(TITLES) <= set(NAMES)


def test_rows_may_be_missing_and_stop_early():
    few = [row for row in RESULTS if row["row"] in (1, 6, 47)]
    curves = [row for row in CURVES if row["name"] != "geglu" or row["step"] <= 50]
    widget = AblationExplorer(few, curves, [])
    assert widget.data["parameters"][6] == "unknown" and (widget.first, widget.second) == (6, 47)
    found = widget.outputs()
    assert [y == y for y in found["curve_first"]][5:] == [False] * 15 and found["times"] == [1, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(results=RESULTS[1:]), "results must have the row 'baseline' and another one"),
        (dict(results=RESULTS[:1]), "results must have the row 'baseline' and another one"),
        (dict(results=[*RESULTS, RESULTS[2] | {"row": 53}]), "row=53; it must be a number of the table narang2021"),
        (dict(results=[RESULTS[0], RESULTS[1] | {"verdict": "good"}]), "verdict='good'; it must be one of better"),
        (dict(first="gpt"), "first='gpt'; it must be one of gelu, swish"),
        (dict(second="baseline"), "second='baseline'; it must be one of gelu"),
        (dict(curves=[row for row in CURVES if row["name"] != "elu"]), "there is no curve of elu"),
        (dict(curves=[row for row in CURVES if row["step"] != 30]), "must be at equal distances from 0"),
    ],
)
def test_what_does_not_fit_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        AblationExplorer(**(dict(results=RESULTS, curves=CURVES, speeds=SPEEDS) | given))


def test_other_values_are_refused(made):
    with pytest.raises(traitlets.TraitError, match="first=1; it must be a whole number from 2 to 52"):
        made.first = 1
