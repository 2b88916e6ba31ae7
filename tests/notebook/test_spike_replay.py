"""The spike replay: every stored run as it is in the table, its words, and what is refused."""

import itertools
import math

import pytest
import traitlets

from llm_anatomy.data import table
from llm_anatomy.notebook import SpikeReplay
from llm_anatomy.notebook.widgets.spike_replay import CAUSES, COLUMNS, LAST


def small_table():
    """A loss that jumps at step 21, unless a run goes back to step 15, and is repaired or skips batches."""
    keys = [("none", None, None)]
    for cause in ("rate", "data", "fp16"):
        keys += [(cause, None, None), *((cause, at, count) for at in (15, 25) for count in (0, 4, 8))]
        keys += [(f"{cause} repaired", at, 0) for at in (15, 25) if cause != "data"]
    rows = []
    for cause, at, count in keys:
        saved = at == 15 and (cause.endswith("repaired") or (cause == "data" and count == 8))
        for step in range(1 if at is None else at + 1, 61):
            size = 4.0 if cause != "none" and step > 20 and not saved else 1.0
            numbers = 2 + size * 3 / step, 0.2 * size**3, 0.01 * size**2, 4 * size
            if cause == "fp16" and at is None and step > 40:
                numbers = math.nan, math.inf, 0.0, math.nan
            names = "loss", "gradient_norm", "update_ratio", "activation_maximum"
            run = {"cause": cause, "rewound": at, "skipped": count, "step": step}
            rows.append(run | dict(zip(names, numbers, strict=True)))
    return rows


STORED, SMALL = table("optimization_spikes"), small_table()


def numbers_of(rows, cause, rewound=None, skipped=None):
    """The numbers of a run by step."""
    own = [row for row in rows if (row["cause"], row["rewound"], row["skipped"]) == (cause, rewound, skipped)]
    return {row["step"]: [row[name] * (100 if name == "update_ratio" else 1) for name in COLUMNS] for row in own}


@pytest.fixture(scope="module", params=[STORED, SMALL], ids=["stored", "small"])
def rows(request):
    return request.param


@pytest.fixture(scope="module")
def made(rows):
    return SpikeReplay(rows)


def shown(widget, cause="rate", rewound="no", skipped=0, repaired=False, step=None):
    widget.cause, widget.rewound, widget.skipped, widget.repaired = cause, rewound, skipped, repaired
    widget.step = step or widget.data["steps"][0]
    return widget.outputs()


def check_drawn(drawn, expected, steps):
    """Compare lines with the numbers of a run by step, which are rounded to 8 bits."""
    for i, name in enumerate(COLUMNS):
        numbers = [expected[step][i] for step in steps]
        clean = [x if math.isfinite(x) and x > 0 else math.nan for x in numbers]
        close = {"abs": 0.05} if name == "loss" else {"rel": 0.05}
        assert drawn[i] == pytest.approx(clean, nan_ok=True, **close)


@pytest.mark.syllabus("GT-03")
@pytest.mark.parametrize("repaired", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("cause", CAUSES)
def test_each_choice_shows_its_run_of_the_table(rows, made, cause, at, repaired):
    steps, rewound = made.data["steps"], made.controls["rewound"].options[at]
    normal, base = numbers_of(rows, "none"), numbers_of(rows, cause)
    for skipped in made.controls["skipped"].values:
        found = shown(made, cause, rewound, skipped, repaired)
        own, mended = dict(base), repaired and cause != "data"
        if at:
            key = (f"{cause} repaired", int(rewound), 0) if mended else (cause, int(rewound), skipped)
            own |= numbers_of(rows, *key)
            assert found["mended"] == mended and found["checkpoint"] == int(rewound)
        assert found["back"] == (at > 0) == (found["checkpoint"] == found["checkpoint"])
        check_drawn(found["own"], own, steps)
        check_drawn(found["base"], base, steps)
        check_drawn(found["normal"], normal, steps)
        losses = [own[step][0] for step in steps[-LAST:]]
        assert found["ended"] == all(map(math.isfinite, losses))
        assert found["end"] == pytest.approx(sum(losses) / LAST if found["ended"] else 0, rel=1e-5)
        assert found["sound"] == pytest.approx(sum(normal[step][0] for step in steps[-LAST:]) / LAST)


def test_numbers_of_a_step_have_two_digits_and_small_losses_one_decimal(made):
    for cause, step in itertools.product(CAUSES, made.data["steps"][::4]):
        found = shown(made, cause, step=step)
        for i, line in enumerate(found["own"]):
            drawn = line[made.data["steps"].index(step)]
            assert found["found"][i] == (drawn == drawn)
            assert found["dot"][i] == pytest.approx(drawn, nan_ok=True)
            written = round(drawn, 1) if i == 0 and drawn < 1 else float(f"{drawn:.1e}") if drawn == drawn else 0
            assert found["now"][i] == pytest.approx(written, rel=1e-5)


def test_steps_begin_at_half_of_the_first_checkpoint(rows, made):
    first = int(made.controls["rewound"].options[1])
    assert made.data["steps"] == sorted({row["step"] for row in rows if row["step"] >= first / 2})


def test_a_missing_number_of_the_run_without_a_spike_is_left_out():
    rows = [row | {"update_ratio": 0.0} if row["step"] == 60 else row for row in SMALL]
    found = SpikeReplay(rows).outputs()
    assert [value == value for value in found["normal"][2]] == [True] * 52 + [False]
    assert [value == value for value in found["own"][2]] == [True] * 52 + [False]


def test_all_that_is_drawn_lies_within_the_axes(made):
    for cause, rewound in itertools.product(CAUSES, made.controls["rewound"].options):
        found = shown(made, cause, rewound)
        for i, (low, high) in enumerate(made.ends):
            drawn = [value for name in ("own", "base", "normal") for value in found[name][i] if value == value]
            assert (0 if i == 0 else low) < min(drawn) and max(drawn) < high


def test_words_are_complete():
    made = SpikeReplay(SMALL)
    shown(made, "fp16", step=50)
    assert repr(made) == (
        "fp16 overflow, without a rewind. At step 50: loss not finite, gradient norm not finite, update ratio in % not "
        "finite, largest activation not finite. The mean loss of the last 10 steps shown is not finite; without the "
        "spike it is 2.05."
    )
    shown(made, "fp16", "15", repaired=True, step=50)
    assert repr(made).startswith("fp16 overflow, rewound to step 15, and repaired. At step 50: loss 2.1, gradient")
    shown(made, "data", "15", 8, repaired=True, step=50)
    assert repr(made).startswith("bad data, rewound to step 15, with 8 batches skipped. At step 50: loss 2.1, gradient")


def without(**at):
    return [row for row in SMALL if any(row[name] != value for name, value in at.items())]


@pytest.mark.parametrize(
    "rows, sentence",
    [
        ([], r"the rows lack the runs \[\('none', None, None\)\] of"),
        (without(cause="data", rewound=25, skipped=4), r"the rows lack the runs \[\('data', 25, 4\)\] of"),
        (without(cause="rate repaired", rewound=15), r"the rows lack the runs \[\('rate repaired', 15, 0\)\] of"),
        (without(cause="data", rewound=None, step=20), "the rows lack a step; each run must have the steps of"),
        ([row | {"loss": math.nan} for row in SMALL], "the run without a spike has a number that is not finite, or a"),
        ([row | {"loss": 0.0} for row in SMALL], "the run without a spike has a number that is not finite, or a loss"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows, sentence):
    with pytest.raises(ValueError, match=sentence):
        SpikeReplay(rows)


def test_an_unknown_cause_is_refused():
    with pytest.raises(traitlets.TraitError, match="cause='nan'; it must be one of rate, data, fp16"):
        SpikeReplay(SMALL, "nan")
