"""Answers that students give to the exercises of chapter 12: right ones pass, wrong ones are told what is wrong."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bookbinder import ROOT
from llm_anatomy.notebook.checks import check


def told(name, answer):
    return check(f"optimization/{name}", answer)


# One step of AdamW


def adamw(update, beta2=0.999, results=lambda x, m, v: (x, m, v)):
    """A step whose update may be wrong, of the moments, the corrected moments, and what else is given."""

    def answer(x, gradient, m, v, t, eta, alpha, weight_decay):
        m, v = 0.9 * m + 0.1 * gradient, beta2 * v + (1 - beta2) * gradient**2
        m_hat, v_hat = m / (1 - 0.9**t), v / (1 - beta2**t)
        return results(x - update(x, m_hat, v_hat, eta, alpha, weight_decay), m, v)

    return answer


def right_update(x, m_hat, v_hat, eta, alpha, w):
    return eta * (alpha * m_hat / (v_hat**0.5 + 1e-8) + w * x)


def step_entry_by_entry(x, gradient, m, v, t, eta, alpha, weight_decay):
    rows = []
    for x_i, g, m_i, v_i in zip(x.tolist(), gradient.tolist(), m.tolist(), v.tolist(), strict=True):
        m_i, v_i = 0.9 * m_i + 0.1 * g, 0.999 * v_i + 0.001 * g * g
        ratio = (m_i / (1 - 0.9**t)) / (math.sqrt(v_i / (1 - 0.999**t)) + 1e-8)
        rows.append((x_i - eta * alpha * ratio - eta * weight_decay * x_i, m_i, v_i))
    return torch.tensor(rows).T.unbind()


@pytest.mark.parametrize("answer", [adamw(right_update), step_entry_by_entry])
def test_a_step_may_be_written_in_many_ways(answer):
    assert told("adamw_step", answer).status == "passed"


WRONG_STEPS = {
    "you multiply the decay by α": adamw(lambda x, m, v, eta, alpha, w: eta * alpha * (m / (v.sqrt() + 1e-8) + w * x)),
    "before its bias correction": lambda x, gradient, m, v, t, eta, alpha, w: (
        x
        - eta * w * x
        - eta
        * alpha
        * (0.9 * m + 0.1 * gradient)
        / (1 - 0.9**t)
        * math.sqrt(1 - 0.999**t)
        / ((0.999 * v + 0.001 * gradient**2).sqrt() + 1e-8),
        0.9 * m + 0.1 * gradient,
        0.999 * v + 0.001 * gradient**2,
    ),
    "adamw_step is wrong in its third value": adamw(right_update, beta2=0.95),
    "The weights come first": adamw(right_update, results=lambda x, m, v: (m, v, x)),
    "should shrink to 0.9 of itself": adamw(
        lambda x, m, v, eta, alpha, w: eta * alpha * m / (v.sqrt() + 1e-8) + alpha * w * x
    ),
    "a tensor instead of a tuple of 3 values": adamw(right_update, results=lambda x, m, v: x),
    "wrong in its first value": adamw(lambda x, m, v, eta, alpha, w: eta * (alpha * m / (v.sqrt() + 1e-6) + w * x)),
}


@pytest.mark.parametrize("words", WRONG_STEPS)
def test_a_wrong_step_is_told(words):
    result = told("adamw_step", WRONG_STEPS[words])
    assert result.status != "passed" and words in result.message


def test_a_step_in_place_is_told():
    def answer(x, gradient, m, v, t, eta, alpha, weight_decay):
        m.mul_(0.9).add_(0.1 * gradient)
        v.mul_(0.999).add_(0.001 * gradient**2)
        return x - right_update(x, m / (1 - 0.9**t), v / (1 - 0.999**t), eta, alpha, weight_decay), m, v

    assert "changes its argument m and v" in told("adamw_step", answer).message


# Numbers on paper

RIGHT_NUMBERS = [
    ("first_updates", [Fraction(3, 10), Fraction(9, 1000), 1, Fraction(316, 100), 1.26, 0.32]),
    ("first_updates", np.array([0.3, 0.009, 1, 10**0.5, 1.2576, 0.1**0.5])),
    ("opt_run", (992, 124 * 8 * 2048, 290.627, 26.919, 1.2e-4 / 4, 2)),
    ("two_weights", [Fraction(-1, 5), 0.04, -1.04, 9.94, 0.94, 2 / 20]),
    ("two_weights", np.array([-0.2, 0.0400001, -1.04, 9.94, 0.94, 0.1])),
    ("opt_run", torch.tensor([992, 2_031_616, 290.6, 26.9, 3e-5, 2.0])),
]


@pytest.mark.parametrize(("name", "numbers"), RIGHT_NUMBERS)
def test_numbers_may_be_given_in_many_ways(name, numbers):
    assert told(name, lambda: numbers).status == "passed"


WRONG_NUMBERS = [
    ("first_updates", [0.3, 0.009, 3, 9.49, 3.77, 0.95], "your third, fourth, fifth and sixth numbers are not right"),
    ("first_updates", [0.3, 0.009, 1, 3.16, 1.25, 0.31], "your fifth and sixth numbers are not right"),
    ("first_updates", [0.3, 0.009, 1, 3.2, 1.3, 0.3], "to two decimals"),
    ("first_updates", ["0.3"] * 6, "without quotes"),
    ("first_updates", [0.3, 0.009, 1, 3.16, 1.26], "six numbers are needed"),
    ("two_weights", [-0.2, 0.04, -1.04, 9.94, 0.94, 0.05], "after a single step"),
    ("two_weights", [-0.2, 0.04, -1.04, 9.94, 1.06, 0.2], "your fifth and sixth numbers are not right"),
    ("two_weights", [0.8, 0.64, -0.4, 9.94, 0.94, 0.1], "your first, second and third numbers are not right"),
    ("opt_run", [960, 120 * 8 * 2048, 281.2, 26.1, 3e-5, 2], "your first, second, third and fourth numbers"),
    ("opt_run", [992, 2_031_616, 290.6, 26.9, 1.2e-4, 2], "it is the largest rate"),
    ("opt_run", [992, 2_031_616.5, 290.6, 26.9, 3e-5, 2], "is a whole number"),
    ("two_weights", [2.2, 4.84, 5.92, 10.06, 1.06, 0.1], "first five numbers go uphill"),
    ("opt_run", [992, 2_031_616, 286.1, 26.5, 3e-5, 2], "follow from 2 million tokens"),
    ("opt_run", [992, 992 * 8 * 2048, 2325.0, 215.4, 3e-5, 2], "8 times too large"),
]


@pytest.mark.parametrize(("name", "numbers", "words"), WRONG_NUMBERS)
def test_wrong_numbers_are_told(name, numbers, words):
    result = told(name, lambda: numbers)
    assert result.status != "passed" and words in result.message


# Two decays


def decayed(conclusion="large gradients", first_sign=1, result=lambda rows, said: (rows, said), **options):
    def answer(sizes, n_steps):
        rows = []
        for method in (torch.optim.Adam, torch.optim.AdamW):
            weights = torch.ones(len(sizes), requires_grad=True)
            optimizer = method([weights], **{"lr": 0.01, "weight_decay": 0.1} | options)
            for step in range(n_steps):
                optimizer.zero_grad()
                (weights * sizes * first_sign * (-1) ** step).sum().backward()
                optimizer.step()
            rows.append(weights.detach())
        return result(rows, conclusion)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        decayed(),
        decayed(result=lambda rows, said: [torch.stack(rows).numpy(), said.upper() + " "]),
        decayed(result=lambda rows, said: ([row.tolist() for row in rows], said)),
    ],
)
def test_the_decay_may_be_measured_in_many_ways(answer):
    assert told("measured_decay", answer).status == "passed"


WRONG_DECAYS = {
    "begin with −s": decayed(first_sign=-1),
    "the wrong way round": decayed("small gradients"),
    "which is not one of the three strings": decayed("large"),
    "Set both to 0.1": lambda sizes, n_steps: (
        torch.stack(
            [decayed(weight_decay=0.0)(sizes, n_steps)[0][0], decayed(weight_decay=0.01)(sizes, n_steps)[0][1]]
        ),
        "large gradients",
    ),
    "measured_decay leads to": decayed(betas=(0.9, 0.95)),
    "has shape (3, 2)": decayed(result=lambda rows, said: (torch.stack(rows, 1), said)),
    "does the second one overwrite its weights?": decayed(result=lambda rows, said: ([rows[1], rows[1]], said)),
    "the table should come first": decayed(result=lambda rows, said: (said, rows)),
}


@pytest.mark.parametrize("words", WRONG_DECAYS)
def test_a_wrong_decay_is_told(words):
    result = told("measured_decay", WRONG_DECAYS[words])
    assert result.status != "passed" and words in result.message


# Where ε stands


def with_denominator(denominator, corrected=True, decay=lambda lr, w: lr * w):
    def answer(x, gradients, lr, weight_decay):
        m, v = torch.zeros_like(x), torch.zeros_like(x)
        for t, g in enumerate(gradients, 1):
            m, v = m + (g - m) / 10, v + (g * g - v) / 1000
            m_hat, v_hat = (m / (1 - 0.9**t), v / (1 - 0.999**t)) if corrected else (m, v)
            x = x - decay(lr, weight_decay) * x - lr * m_hat / denominator(v_hat)
        return x

    return answer


def right_denominator(v):
    return v.sqrt() + 1e-8


DENOMINATORS = {
    "Your ε is still added under the root": with_denominator(lambda v: (v + 1e-16).sqrt()),
    "of an AdamW without ε": with_denominator(lambda v: v.sqrt() + 1e-14),
    "nothing prevents a division by zero": with_denominator(torch.sqrt),
    "whichever is larger": with_denominator(lambda v: torch.maximum(v.sqrt(), torch.tensor(1e-8))),
    "Yours still do": with_denominator(lambda v: v.sqrt() + 1e-6),
    "the moments are not corrected for their bias": with_denominator(right_denominator, corrected=False),
    "they only decayed": with_denominator(right_denominator, decay=lambda lr, w: w),
    "Not attempted": with_denominator(lambda v: (v + 1e-8).sqrt()),
}


@pytest.mark.parametrize("words", DENOMINATORS)
def test_a_wrong_denominator_is_told(words):
    result = told("timid_updates", DENOMINATORS[words])
    assert result.status != "passed" and words in result.message


def test_the_right_denominator_passes():
    assert told("timid_updates", with_denominator(right_denominator)).status == "passed"


# Three phases


def phases(down, up=lambda s, n: s / n):
    def answer(step, n_steps, warmup_steps, decay_steps, floor):
        if step < warmup_steps:
            return up(step, warmup_steps)
        left = (n_steps - step) / decay_steps
        return 1 if left >= 1 else down(max(0, left), floor)

    return answer


def test_the_three_phases_may_be_given_in_many_ways():
    line = phases(lambda left, floor: torch.tensor(left * (1 - floor) + floor), up=lambda s, n: np.float32(s / n))
    assert told("three_phases", line).status == "passed"
    assert told(
        "three_phases", phases(lambda left, floor: Fraction(1) - Fraction((1 - left) * (1 - floor)))
    ).status == ("passed")


WRONG_PHASES = {
    "cut off where it meets the floor": phases(lambda left, floor: max(left, floor)),
    "the floor replaces it from step `n_steps` on": phases(lambda left, floor: left or floor),
    "Where `warmup_steps` is 0": lambda step, n_steps, warmup_steps, decay_steps, floor: min(
        step / max(1, warmup_steps), 1, max(floor, floor + (1 - floor) * (n_steps - step) / decay_steps)
    ),
    "It should end at the floor": phases(lambda left, floor: left),
    "along a cosine": phases(lambda left, floor: 1 - (1 - floor) * (0.5 + 0.5 * math.cos(math.pi * left))),
    "by the same amount in each step": phases(lambda left, floor: 1 - (1 - floor) * (1 - left) ** 1.5),
    "one step ahead": phases(lambda left, floor: floor + (1 - floor) * left, up=lambda s, n: (s + 1) / n),
    "returns nothing": phases(lambda left, floor: floor + (1 - floor) * left if left else None),
}


@pytest.mark.parametrize("words", WRONG_PHASES)
def test_wrong_phases_are_told(words):
    result = told("three_phases", WRONG_PHASES[words])
    assert result.status != "passed" and words in result.message


# Micro-batches


def accumulated(loss):
    def answer(w, x, targets, micro_batch_size):
        w = w.clone().requires_grad_()
        n, n_batches = (targets >= 0).sum(), math.ceil(len(x) / micro_batch_size)
        for i in range(0, len(x), micro_batch_size):
            logits = (x[i : i + micro_batch_size] @ w).transpose(1, 2)
            loss(logits, targets[i : i + micro_batch_size], n, n_batches, len(x)).backward()
        return w.grad

    return answer


RIGHT_LOSSES = [
    lambda logits, y, n, n_batches, n_rows: F.cross_entropy(logits, y, reduction="sum") / n,
    lambda logits, y, n, n_batches, n_rows: F.cross_entropy(logits, y, reduction="none").div(n).sum(),
    lambda logits, y, n, n_batches, n_rows: F.cross_entropy(logits, y) * ((y >= 0).sum() / n),
]


@pytest.mark.parametrize("loss", RIGHT_LOSSES)
def test_the_losses_may_be_added_in_many_ways(loss):
    assert told("unequal_micro_batches", accumulated(loss)).status == "passed"


WRONG_LOSSES = {
    "Not attempted": lambda logits, y, n, n_batches, n_rows: F.cross_entropy(logits, y) / n_batches,
    "Divide by the number of targets": lambda logits, y, n, n_batches, n_rows: F.cross_entropy(
        logits, y, reduction="sum"
    ),
    "by its number of sequences": lambda logits, y, n, n_batches, n_rows: F.cross_entropy(logits, y) * len(y) / n_rows,
    "The first is enough": lambda logits, y, n, n_batches, n_rows: (
        F.cross_entropy(logits, y, reduction="sum") / n / n_batches
    ),
    "You add up the means": lambda logits, y, n, n_batches, n_rows: F.cross_entropy(logits, y),
    "by `micro_batch_size`": lambda logits, y, n, n_batches, n_rows: (
        F.cross_entropy(logits, y) * math.ceil(n_rows / n_batches) / n_rows
    ),
    "divide the sum by the number of sequences": lambda logits, y, n, n_batches, n_rows: (
        F.cross_entropy(logits, y, reduction="sum") / n_rows
    ),
}


@pytest.mark.parametrize("words", WRONG_LOSSES)
def test_wrong_losses_are_told(words):
    result = told("unequal_micro_batches", accumulated(WRONG_LOSSES[words]))
    assert result.status != "passed" and words in result.message


# Loss scaling


def scaled(
    unscaled=lambda gradients, scale: gradients.float() / scale,
    bad=0,
    grows=lambda n, interval: n == interval,
    finite=lambda gradients: gradients.isfinite().all(),
    **changes,
):
    def answer(weights, gradients, lr, scale, n_good, growth_interval):
        update = unscaled(gradients, scale)
        if not finite(gradients):
            return changes.get("skipped", lambda w, update: w)(weights, update), scale * 0.5, bad
        n_good += 1
        if grows(n_good, growth_interval):
            return weights - lr * update, 2 * scale, 0
        return changes.get("result", lambda w: w)(weights - lr * update), scale, n_good

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        scaled(),
        scaled(unscaled=lambda gradients, scale: torch.from_numpy(gradients.numpy().astype("float32") / scale)),
        scaled(unscaled=lambda gradients, scale: gradients.to(torch.float32) * (1 / scale)),
        scaled(bad=torch.tensor(0)),
        scaled(finite=lambda gradients: math.isfinite(gradients.float().sum())),
    ],
)
def test_scaled_steps_may_be_written_in_many_ways(answer):
    assert told("scaled_step", answer).status == "passed"


WRONG_SCALES = {
    "You divide by the scale in float16": scaled(unscaled=lambda gradients, scale: (gradients / scale).float()),
    "still contains the scale": scaled(unscaled=lambda gradients, scale: gradients.float()),
    "grows one step late": scaled(grows=lambda n, interval: n > interval),
    "so look at each of them": scaled(finite=lambda gradients: math.isfinite(gradients.sum())),
    "Ten steps from the scale 8": scaled(bad=-1),
    "which the exercise asks for": scaled(result=lambda w: w.double()),
    "an infinite number": scaled(skipped=lambda w, update: w - update),
}


@pytest.mark.parametrize("words", WRONG_SCALES)
def test_wrong_scaled_steps_are_told(words):
    result = told("scaled_step", WRONG_SCALES[words])
    assert result.status != "passed" and words in result.message


def test_only_the_weights_have_a_dtype():
    page = (ROOT / "book/optimization/exercises.nb.md").read_text(encoding="utf-8")
    assert "| three results: floats, (n_weights,), in the dtype of `weights`; a number; a whole number |" in page
    assert "a whole number, in the dtype" not in page


# The log

LOG = {"overflow": "B", "bad batch": "C", "lost moments": "A", "high rate": "D", "checkpoint": 250}


@pytest.mark.parametrize("changes", [{}, {"overflow": "b"}, {"checkpoint": "250"}, {"checkpoint": torch.tensor(250)}])
def test_the_log_may_be_answered_in_many_ways(changes):
    assert told("read_the_log", lambda: LOG | changes).status == "passed"


WRONG_LOGS = {
    "before the alarm": {"checkpoint": 300},
    "checkpoints are saved in the steps": {"checkpoint": 286},
    "shows the checkpoints of the steps 100, 150, and so on up to 350": {"checkpoint": 400},
    "What is the update ratio of a step that is skipped?": {"overflow": "A", "lost moments": "B"},
    "is not one of the letters": {"overflow": 2},
    "belongs to another incident": {"overflow": "A"},
}


@pytest.mark.parametrize("words", WRONG_LOGS)
def test_wrong_readings_of_the_log_are_told(words):
    result = told("read_the_log", lambda: LOG | WRONG_LOGS[words])
    assert result.status != "passed" and words in result.message


def test_two_incidents_exchanged_and_a_wrong_checkpoint_are_both_told():
    message = told("read_the_log", lambda: LOG | {"overflow": "C", "bad batch": "B", "checkpoint": 300}).message
    assert "You have exchanged the overflow and the bad batch." in message
    assert "Your checkpoint is the newest one before the alarm" in message
    changes = {"overflow": "A", "lost moments": "D", "high rate": "B", "checkpoint": 100}
    assert told("read_the_log", lambda: LOG | changes).message == (
        'Not yet. Your checkpoint is too early. Your letters for "high rate", "lost moments" and "overflow" are not '
        "right. The hints tell you how to go on."
    )


def test_a_wrong_reading_does_not_give_the_right_one_away():
    for changes in (
        {"overflow": "C", "bad batch": "B", "checkpoint": 300},
        {"overflow": "C", "bad batch": "B", "checkpoint": 100},
        {"overflow": "A", "lost moments": "D", "high rate": "B"},
        {"overflow": "C", "bad batch": "B", "checkpoint": 200},
    ):
        result = told("read_the_log", lambda changes=changes: LOG | changes)
        assert result.status == "failed" and "'" not in result.message
        assert not any(
            words in result.message for words in ("250", "50 steps", "C for 'bad", "B for 'over", "A for 'lost")
        )


# A broken run


def run(kept=("step", "velocity", "generator"), offset=0, reseed=None):
    """A run that is killed, and that keeps only a part of what it needs."""

    def answer(x, y, n_steps, saved_at, momentum, dropout):
        generator = torch.Generator().manual_seed(0)
        w, velocity, step = torch.zeros(x.shape[1]), torch.zeros(x.shape[1]), 0
        killed = False
        while step < n_steps:
            if step == saved_at and not killed:
                killed = True
                step += offset if "step" in kept else -1
                velocity = velocity if "velocity" in kept else 0 * velocity
                if "generator" not in kept:
                    generator.manual_seed(0 if reseed is None else reseed(saved_at))
                continue
            row = x[step % len(x)] * (torch.rand(x.shape[1], generator=generator) >= dropout)
            velocity = momentum * velocity + (row @ w - y[step % len(x)]) * row
            w = w - 0.1 * (1 - step / n_steps) * velocity
            step += 1
        return w

    return answer


def test_a_run_that_keeps_everything_passes():
    assert told("resumed", run()).status == "passed"


WRONG_RUNS = {
    "Not attempted": run(kept=()),
    "is done again. Which step comes next?": run(kept=("velocity", "generator")),
    "but the velocity begins at zero again": run(kept=("step", "generator")),
    "the generator begins anew": run(kept=("step", "velocity")),
    "The number of the step is right now": run(kept=("step",)),
    "a step is left out": run(offset=1),
    "two steps are done again": run(offset=-2),
    "you seed the generator with the number of the step": run(kept=("step", "velocity"), reseed=lambda s: s),
    "the number of the last step": run(kept=("step", "velocity"), reseed=lambda s: s - 1),
    "whenever the run is killed": run(kept=("step", "velocity"), reseed=lambda s: 1),
}


@pytest.mark.parametrize("words", WRONG_RUNS)
def test_a_run_that_forgets_is_told_what(words):
    result = told("resumed", WRONG_RUNS[words])
    assert result.status != "passed" and words in result.message


# The optional ones


def clipped(gradients, max_norm):
    norm = torch.cat([gradient.flatten() for gradient in gradients.values()]).norm()
    factor = min(1.0, (max_norm / (norm + 1e-6)).item())
    return {name: gradient * factor for name, gradient in gradients.items()}, norm


def test_clipping_as_pytorch_does_it_passes():
    assert told("clip_gradients", clipped).status == "passed"


WRONG_CLIPPINGS = {
    "a dictionary instead of a tuple of 2 values": lambda gradients, max_norm: clipped(gradients, max_norm)[0],
    "as its first value": lambda gradients, max_norm: clipped(gradients, max_norm)[::-1],
    "Return the one before": lambda gradients, max_norm: (
        clipped(gradients, max_norm)[0],
        clipped(gradients, max_norm)[1].clamp(max=max_norm),
    ),
    "all zero become NaN": lambda gradients, max_norm: (
        {name: gradient * max_norm / clipped(gradients, max_norm)[1] for name, gradient in gradients.items()},
        clipped(gradients, max_norm)[1],
    ),
    "by its own norm": lambda gradients, max_norm: (
        {name: clipped({name: gradient}, max_norm)[0][name] for name, gradient in gradients.items()},
        clipped(gradients, max_norm)[1],
    ),
}


@pytest.mark.parametrize("words", WRONG_CLIPPINGS)
def test_wrong_clippings_are_told(words):
    result = told("clip_gradients", WRONG_CLIPPINGS[words])
    assert result.status != "passed" and words in result.message


def noise(
    size_of=lambda update: update.square().mean().sqrt(),
    said="largest at first",
    steps=(1, 2, 10, 100),
    draw=torch.randn,
    first=1,
    divided=True,
):
    def answer(seed, size):
        generator, found = torch.Generator().manual_seed(seed), []
        m = v = torch.zeros(10_000)
        for t in range(1, 102):
            gradient = size * draw(10_000, generator=generator)
            m, v = 0.9 * m + 0.1 * gradient, 0.95 * v + 0.05 * gradient**2
            if t - 1 + first in steps:
                denominator = (v / (1 - 0.95**t)).sqrt() if divided else 1
                found.append(size_of(m / (1 - 0.9**t) / denominator))
        return found, said

    return answer


@pytest.mark.parametrize("answer", [noise(), noise(lambda update: update.std().item()), noise(said="Largest at first")])
def test_the_updates_of_noise_may_be_measured_in_many_ways(answer):
    assert told("noise_updates", answer).status == "passed"


WRONG_NOISE = {
    "means of absolute values": noise(lambda update: update.abs().mean()),
    "Take the root of them": noise(lambda update: update.square().mean()),
    "a learning rate of 0.001": noise(lambda update: update.std() / 1000),
    "those of the steps 2, 3, 11 and 101": noise(first=0),
    "new gradients with mean 0": noise(said="always the same", draw=torch.rand),
    "grow with the gradients": noise(divided=False),
    "four numbers are needed": noise(steps=(1, 10, 100)),
    "the wrong way round": noise(said="largest at the end"),
}


@pytest.mark.parametrize("words", WRONG_NOISE)
def test_wrong_measurements_of_noise_are_told(words):
    result = told("noise_updates", WRONG_NOISE[words])
    assert result.status != "passed" and words in result.message


def rows(numbers=lambda step, rank, batch, n: step * batch + rank * n + np.arange(n), result=lambda e, p: (e, p)):
    def answer(step, rank, batch_size, world_size, n_sequences):
        found = numbers(step, rank, batch_size, batch_size // world_size)
        return result(found // n_sequences, found % n_sequences)

    return answer


@pytest.mark.parametrize(
    "answer",
    [rows(), rows(result=lambda e, p: [e.tolist(), p.tolist()]), rows(result=lambda e, p: np.stack((e, p)))],
)
def test_rows_may_be_given_in_many_ways(answer):
    assert told("rows_of_a_rank", answer).status == "passed"


WRONG_ROWS = {
    "The epochs come first": rows(result=lambda e, p: (p, e)),
    "two lists are needed": rows(result=lambda e, p: p.tolist()),
    "are whole numbers": rows(result=lambda e, p: (e + 0.5, p)),
    "the block of rank 0": rows(lambda step, rank, batch, n: step * batch + np.arange(n)),
    "Your ranks are counted from 1": rows(lambda step, rank, batch, n: step * batch + (rank - 1) * n + np.arange(n)),
    "sequences apart": rows(lambda step, rank, batch, n: (step + rank) * batch + np.arange(n)),
    "only one block after the last": rows(lambda step, rank, batch, n: (step + rank) * n + np.arange(n)),
    "one by one, in turn": rows(lambda step, rank, batch, n: step * batch + rank + batch // n * np.arange(n)),
}


@pytest.mark.parametrize("words", WRONG_ROWS)
def test_wrong_rows_are_told(words):
    result = told("rows_of_a_rank", WRONG_ROWS[words])
    assert result.status != "passed" and words in result.message
