"""The schedule against the one of the transformers library."""

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup

from llm_anatomy.training.schedules import warmup_then_cosine


@pytest.mark.parametrize(("n_steps", "warmup_steps"), [(17, 5), (9, 0), (4, 3)])
def test_the_rates_are_those_of_the_library(n_steps, warmup_steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = get_cosine_schedule_with_warmup(optimizer, warmup_steps, n_steps)
    for step in range(1, n_steps + 1):
        optimizer.step()
        theirs.step()  # theirs counts the steps that are done
        assert warmup_then_cosine(step, n_steps, warmup_steps) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0, 5), "step=0 must be from 1 to n_steps=5"),
        ((6, 5), "step=6"),
        ((1, 5, 5), "warmup_steps=5 must be at least 0 and below n_steps=5"),
    ],
)
def test_steps_outside_the_run_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        warmup_then_cosine(*arguments)
