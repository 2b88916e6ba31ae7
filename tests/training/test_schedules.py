"""The schedule against those of the transformers library and of a course."""

import math

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup, get_cosine_with_min_lr_schedule_with_warmup

from llm_anatomy.training.schedules import warmup_then_cosine


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
def test_what_is_out_of_range_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        warmup_then_cosine(*arguments)
