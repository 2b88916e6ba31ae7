"""The schedules against those of the transformers library and of a course."""

import math

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup, get_cosine_with_min_lr_schedule_with_warmup, get_scheduler

from llm_anatomy.training.schedules import (
    SCHEDULES,
    warmup_stable_decay,
    warmup_then_constant,
    warmup_then_cosine,
    warmup_then_inverse_sqrt,
    warmup_then_linear,
)


@pytest.mark.parametrize(("n_steps", "warmup_steps"), [(17, 5), (9, 0), (4, 3)])
def test_the_rates_are_those_of_the_library(n_steps, warmup_steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = get_cosine_schedule_with_warmup(optimizer, warmup_steps, n_steps)
    for step in range(1, n_steps + 1):
        optimizer.step()
        theirs.step()  # theirs counts the steps that are done
        assert warmup_then_cosine(step, n_steps, warmup_steps) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)


@pytest.mark.parametrize(("n_steps", "warmup_steps", "min_lr_rate"), [(17, 5, 0.1), (9, 0, 0.3), (4, 3, 1.0)])
def test_the_floor_is_that_of_the_library(n_steps, warmup_steps, min_lr_rate):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=2.0)
    theirs = get_cosine_with_min_lr_schedule_with_warmup(optimizer, warmup_steps, n_steps, min_lr_rate=min_lr_rate)
    for step in range(n_steps + 1):
        rate = 2.0 * warmup_then_cosine(step, n_steps, warmup_steps, min_lr_rate)
        assert rate == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        theirs.step()


def course_schedule(step, max_lr, min_lr, warmup_steps, n_steps):
    """As the assignments of Stanford's CS336 and nanoGPT state it: linear, cosine, and the minimum beyond."""
    if step < warmup_steps:
        return step / warmup_steps * max_lr
    if step > n_steps:
        return min_lr
    angle = (step - warmup_steps) / (n_steps - warmup_steps) * math.pi
    return min_lr + 0.5 * (1 + math.cos(angle)) * (max_lr - min_lr)


@pytest.mark.parametrize(("warmup_steps", "n_steps"), [(7, 21), (0, 5), (4, 5)])
def test_the_rates_are_those_of_a_course_at_every_step_and_beyond(warmup_steps, n_steps):
    for step in range(n_steps + 20):
        expected = course_schedule(step, 3e-4, 3e-5, warmup_steps, n_steps)
        assert 3e-4 * warmup_then_cosine(step, n_steps, warmup_steps, 0.1) == pytest.approx(expected, rel=1e-12)
    # exactly, at the steps where a formula may slip by one
    assert warmup_then_cosine(0, n_steps, warmup_steps, 0.1) == (0.0 if warmup_steps else 1.0)
    assert warmup_then_cosine(warmup_steps, n_steps, warmup_steps, 0.1) == 1.0
    assert [warmup_then_cosine(step, n_steps, warmup_steps, 0.1) for step in (n_steps, n_steps + 1, 10**9)] == [0.1] * 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((-1, 5), "step=-1 must be at least 0"),
        ((1, 5, 5), "warmup_steps=5 must be at least 0 and below n_steps=5"),
        ((1, 5, 2, 3e4), "min_lr_rate=30000.0 must be from 0 to 1; it is a fraction"),
        ((1, 5, 2, -0.1), "min_lr_rate=-0.1 must be from 0 to 1"),
    ],
)
@pytest.mark.parametrize("schedule", SCHEDULES.values())
def test_what_is_out_of_range_is_refused(schedule, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        schedule(*arguments)


def rates_of_the_library(name, n_steps, warmup_steps, **more):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    if name == "constant_with_warmup":  # theirs does not know the number of steps
        theirs = get_scheduler(name, optimizer, num_warmup_steps=warmup_steps)
    else:
        theirs = get_scheduler(name, optimizer, warmup_steps, n_steps, scheduler_specific_kwargs=more)
    rates = []
    for _ in range(n_steps + 5):  # and beyond the run
        rates.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    return rates


@pytest.mark.syllabus("GT-39")
@pytest.mark.parametrize(("n_steps", "warmup_steps", "decay_steps"), [(40, 7, 11), (9, 0, 9), (9, 8, 1), (6, 2, 3)])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_names_and_rates_are_those_of_the_library(name, n_steps, warmup_steps, decay_steps):
    own, theirs = {}, {}
    if name == "warmup_stable_decay":
        own, theirs = {"decay_steps": decay_steps}, {"num_decay_steps": decay_steps}
    expected = rates_of_the_library(name, n_steps, warmup_steps, **theirs)
    steps = range(n_steps + 1 if name == "cosine" else n_steps + 5)  # their cosine rises again after the run
    found = [SCHEDULES[name](step, n_steps, warmup_steps, **own) for step in steps]
    assert found == pytest.approx(expected[: len(found)], abs=1e-12)


def test_the_floor_of_warmup_stable_decay_is_that_of_the_library_after_the_warmup():
    expected = rates_of_the_library("warmup_stable_decay", 30, 5, num_decay_steps=8, min_lr_ratio=0.2)
    found = [warmup_stable_decay(step, 30, 5, 0.2, decay_steps=8) for step in range(35)]
    assert found[5:] == pytest.approx(expected[5:], abs=1e-12)
    assert found[:6] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])  # theirs begins at 0.2


def test_floors():
    assert [warmup_then_linear(step, 10, 2, 0.2) for step in (1, 2, 6, 10, 11)] == pytest.approx(
        [0.5, 1, 0.6, 0.2, 0.2]
    )
    assert [warmup_then_inverse_sqrt(step, 10, 4, 0.4) for step in (1, 4, 16, 64)] == pytest.approx([0.25, 1, 0.5, 0.4])
    assert warmup_then_constant(1, 10, 4, 0.4) == 0.25 and warmup_then_constant(20, 10, 4, 0.4) == 1.0


def test_the_decay_takes_a_tenth_of_the_run_if_nothing_else_is_said():
    assert [warmup_stable_decay(step, 100, 20) for step in (20, 90, 95, 100)] == pytest.approx([1, 1, 0.5, 0])
    assert [warmup_stable_decay(step, 3, 2) for step in range(4)] == pytest.approx(
        [0, 0.5, 1, 0]
    )  # there is one step left
    with pytest.raises(ValueError, match="decay_steps=8 must be from 1 to 7, the steps after the warm-up"):
        warmup_stable_decay(1, 10, 3, decay_steps=8)
    with pytest.raises(ValueError, match="decay_steps=0 must be from 1"):
        warmup_stable_decay(1, 10, 3, decay_steps=0)
