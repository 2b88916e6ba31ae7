"""The schedule designer: against the schedules of training, sums over all steps, and what is refused."""

import pytest
import torch
import traitlets

from llm_anatomy.data import table
from llm_anatomy.notebook import ScheduleDesigner
from llm_anatomy.notebook.widgets.schedule_designer import SCHEDULES, SETTINGS, schedule_factors
from llm_anatomy.training import schedules

NAMES = dict(
    zip(SCHEDULES, ("cosine", "linear", "constant_with_warmup", "inverse_sqrt", "warmup_stable_decay"), strict=True)
)


def by_step(schedule, steps, n, warmup, floor, decay_steps):
    more = {"decay_steps": decay_steps} if schedule == "WSD" else {}
    function = schedules.SCHEDULES[NAMES[schedule]]
    return [function(step, n, warmup, floor, **more) for step in steps]


@pytest.fixture(scope="module")
def made():
    return ScheduleDesigner()


def shown(widget, **at):
    for name, value in at.items():
        setattr(widget, name, value)
    return widget.outputs()


def test_all_schedules_of_training_are_here():
    assert list(NAMES.values()) == list(schedules.SCHEDULES)


@pytest.mark.syllabus("GT-39")
@pytest.mark.parametrize("n, warmup, floor, decay_steps", [(1000, 0, 0.0, 100), (1000, 200, 0.2, 50), (640, 3, 1, 637)])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_factors_are_those_of_training_at_every_step(schedule, n, warmup, floor, decay_steps):
    steps = list(range(n + 1))
    given = torch.tensor(steps).float(), *(torch.tensor(float(x)) for x in (n, warmup, floor, decay_steps))
    found = schedule_factors(*given)[SCHEDULES.index(schedule)]
    assert found.tolist() == pytest.approx(by_step(schedule, steps, n, warmup, floor, decay_steps), abs=2e-6)


@pytest.mark.parametrize(
    "n_steps, warmup, floor, decay", [(1000, 100, 0.1, 10), (2000, 0, 0.0, 5), (5000, 4000, 0.5, 40)]
)
def test_areas_are_the_sums_over_all_steps(made, n_steps, warmup, floor, decay):
    at = {"n_steps": n_steps, "warmup": warmup, "floor": floor, "decay": decay, "max_lr": 3e-4, "step": n_steps // 3}
    for i, schedule in enumerate(SCHEDULES):
        found = shown(made, schedule=schedule, **at)
        decay_steps = min(n_steps * decay // 100, n_steps - warmup)
        factors = by_step(schedule, range(1, n_steps + 1), n_steps, warmup, floor, decay_steps)
        assert found["decay_steps"] == decay_steps
        assert found["equal"] == pytest.approx(sum(factors), rel=2e-3)
        assert found["total"] == pytest.approx(3e-4 * sum(factors), rel=2e-3)
        assert found["mean"] == found["means"][i] == pytest.approx(100 * sum(factors) / n_steps, rel=2e-3)
        assert found["rate"] == pytest.approx(3e-4 * factors[n_steps // 3 - 1], rel=1e-4)
        assert found["now"] == pytest.approx(100 * factors[n_steps // 3 - 1], rel=1e-4) and not found["long"]
        assert [bool(hue) for hue in found["bar_hue"]] == [schedule == name for name in SCHEDULES]
        drawn = zip(found["steps"], found["own"], strict=True)
        assert found["own"] == found["factors"][i] and max(found["own"]) == pytest.approx(100)
        assert list(zip(found["fill_x"][0], found["fill_y"][0], strict=True)) == [*drawn, (n_steps, 0), (0, 0)]


@pytest.mark.parametrize("warmup, floor", [(0, 0.0), (500, 0.1), (4000, 0.5)])
def test_cosine_and_line_have_the_same_area_as_the_notes_say(made, warmup, floor):
    found = shown(made, schedule="cosine", n_steps=5000, warmup=warmup, floor=floor)
    cosine, linear, constant, *_ = found["means"]
    assert cosine == pytest.approx(linear, rel=1e-3) and constant == pytest.approx(100 - warmup / 100, rel=1e-4)
    gap = torch.tensor(found["factors"][0]) - torch.tensor(found["factors"][1])
    steps, middle = torch.tensor(found["steps"]), (5000 + warmup) / 2
    assert (gap[(steps >= warmup) & (steps <= middle)] > -1e-3).all() and (gap[steps >= middle] < 1e-3).all()


@pytest.mark.parametrize("n_steps, warmup", [(1000, 1000), (1000, 20_000)])
def test_a_warm_up_that_is_too_long_only_rises(made, n_steps, warmup):
    found = shown(made, n_steps=n_steps, warmup=warmup, step=500)
    assert found["long"] and found["now"] == pytest.approx(100 * 500 / warmup)
    for row in found["factors"]:
        assert row == sorted(row) and row[-1] == pytest.approx(100 * n_steps / warmup)
    assert found["mean"] == pytest.approx(50 * n_steps / warmup, rel=1e-4)


@pytest.mark.syllabus("GT-03")
def test_settings_are_the_published_ones(made):
    llama = next(row for row in table("llama_sizes") if row["label"] == "65B")
    steps = 1e12 * llama["n_tokens_T"] / (1e6 * llama["batch_size_M_tokens"])
    assert SETTINGS["LLaMA 65B"] == ("cosine", steps, 2000, llama["learning_rate"], 0.1)
    schedule, n_steps, warmup, max_lr, floor = SETTINGS["OPT-175B, run 12.08"]
    assert (schedule, n_steps, warmup, max_lr, floor * max_lr) == ("linear", 143_052, 2000, 1.2e-4, pytest.approx(6e-6))
    assert SETTINGS["Transformer (base)"][3] == pytest.approx((512 * 4000) ** -0.5, rel=2e-3)
    made.setting = "LLaMA 65B"
    for setting, values in SETTINGS.items():
        made.setting = setting
        assert (made.schedule, made.n_steps, made.warmup, made.max_lr, made.floor) == values
        assert ScheduleDesigner(setting).values() == made.values() | {"step": values[1] // 2, "decay": 10}


def test_words_are_complete(made):
    shown(made, setting="Transformer (base)", schedule="inverse square root", step=16_000)
    shown(made, n_steps=100_000, warmup=4000, max_lr=7e-4, floor=0.0)
    assert repr(made) == (
        "inverse square root schedule, 100000 steps, warm-up of 4000 steps, maximum 0.00070, floor 0 % of it. At step "
        "16000 the learning rate is 0.0003500. The mean rate is 34.0 % of the maximum; the area is that of 34002 steps "
        "at the maximum."
    )


@pytest.mark.parametrize(
    "name, value, sentence",
    [
        ("n_steps", 1234, "n_steps=1234; it must be one of 1000, 2000"),
        ("floor", 2.0, "floor=2.0; it must be a number from 0 to 0.5"),
        ("schedule", "step", "schedule='step'; it must be one of cosine, linear"),
    ],
)
def test_other_values_are_refused(made, name, value, sentence):
    with pytest.raises(traitlets.TraitError, match=sentence):
        setattr(made, name, value)


def test_another_setting_is_refused():
    with pytest.raises(traitlets.TraitError, match="setting='GPT-3'; it must be one of a small run, Transformer"):
        ScheduleDesigner("GPT-3")
