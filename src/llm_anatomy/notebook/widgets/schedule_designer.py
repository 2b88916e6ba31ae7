"""The schedule designer: the learning rate over a run, and what all rates sum up to."""

import torch
from torch import Tensor

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

SCHEDULES = ["cosine", "linear", "constant", "inverse square root", "WSD"]
HUES = ["query", "key", "none", "position", "value"]
STEPS = [1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 143_052, 350_000]
WARMUPS = [0, 100, 200, 500, 1000, 2000, 4000, 10_000, 20_000]
RATES = [1e-5, 3e-5, 6e-5, 1.2e-4, 1.5e-4, 3e-4, 7e-4, 1e-3, 3e-3, 1e-2]
SETTINGS = {  # (schedule, steps, warm-up, maximum, floor)
    "a small run": ("cosine", 5000, 500, 1e-3, 0.1),
    "Transformer (base)": ("inverse square root", 100_000, 4000, 7e-4, 0.0),
    "LLaMA 65B": ("cosine", 350_000, 2000, 1.5e-4, 0.1),
    "OPT-175B, run 12.08": ("linear", 143_052, 2000, 1.2e-4, 0.05),
}
SAID = [
    "The cosine is above the straight line in the first half of the decay and below it in the second: its area is that "
    "of the linear schedule.",
    "The rate falls by the same amount at each step. The area is that of the cosine.",
    "The rate never falls, and the floor has no effect. Such a run can go on for as long as you like.",
    "The rate after the warm-up does not depend on the number of steps, so the run can go on. The floor has an effect "
    "only where the curve would be below it.",
    "WSD is short for warm-up, stable, decay. Up to the decay, which takes the last {decay_steps} steps, the rate does "
    "not depend on the number of steps.",
]


class ScheduleDesigner(Widget):
    r"""Show the learning rate of a run under five schedules, and the sum of its rates.

    All schedules rise linearly to the maximum during the warm-up. With the factor :math:`\eta_t` of the maximum rate α
    at step t and n steps, the area under the curve is :math:`\alpha \sum_t \eta_t`, as much as :math:`\sum_t \eta_t`
    steps at the maximum. The schedules are those of :mod:`llm_anatomy.training.schedules`. If the warm-up is longer
    than the run, the maximum is never reached.

    Args:
        setting: the initial setting: "a small run" or a published one, "Transformer (base)", "LLaMA 65B" or "OPT-175B,
            run 12.08". It sets the schedule, the steps, the warm-up, the maximum and the floor; each can then be moved.
        caption: one sentence that says what to look for.

    Source: Loshchilov and Hutter (2019), algorithm 2; Vaswani et al. (2017), section 5.3; Hu et al. (2024), section 4;
    Touvron et al. (2023), section 2.3, with the steps of 1.4 trillion tokens, 4 million in a batch; GT-03, GT-39.

    >>> ScheduleDesigner("OPT-175B, run 12.08")  # doctest: +NORMALIZE_WHITESPACE
    linear schedule, 143052 steps, warm-up of 2000 steps, maximum 0.00012, floor 5 % of it. At step 71526 the learning
    rate is 0.0000638. The mean rate is 52.5 % of the maximum; the area is that of 75052 steps at the maximum.
    """

    sentence = (
        "{schedule} schedule, {n_steps} steps, warm-up of {warmup} steps, maximum {max_lr:.5f}, floor {percent:.0f} % "
        "of it. At step {step} the learning rate is {rate:.7f}. The mean rate is {mean:.1f} % of the maximum; the area "
        "is that of {equal:.0f} steps at the maximum."
    )

    def __init__(self, setting: str = "a small run", *, caption: str = ""):
        names = "schedule", "n_steps", "warmup", "max_lr", "floor"
        sets = {name: dict(zip(names, values, strict=True)) for name, values in SETTINGS.items()}
        choice = Choice(SETTINGS, setting, sets=sets)
        start = sets[setting] if setting in sets else sets["a small run"]  # the choice refuses others
        super().__init__(
            caption=caption,
            data={"hues": HUES, "names": SCHEDULES, "said": SAID, "bar_hues": ["none", "weights"]},
            setting=choice,
            schedule=Choice(SCHEDULES, start["schedule"]),
            n_steps=Slider(start["n_steps"], values=STEPS, label="total steps"),
            warmup=Slider(start["warmup"], values=WARMUPS, label="warm-up steps"),
            max_lr=Slider(start["max_lr"], values=RATES, digits=5, label="maximum rate"),
            floor=Slider(start["floor"], values=[0.0, 0.05, 0.1, 0.2, 0.5], label="floor"),
            decay=Slider(10, values=[5, 10, 20, 40], label="decay of WSD, %"),
            step=Slider(start["n_steps"] // 2, 0, "n_steps"),
        )

    def compute(self, setting, schedule, n_steps, warmup, max_lr, floor, decay, step):
        n, w = n_steps.float(), warmup.float()
        decay_steps = torch.minimum((decay * n / 100).round(), (n - w).clamp(min=1))
        rising = torch.minimum(n, w)
        steps = torch.cat((torch.arange(20) / 20 * rising, rising + torch.arange(201) / 200 * (n - rising)))
        factors = 100 * schedule_factors(steps, n, w, floor, decay_steps)
        means = ((factors[:, 1:] + factors[:, :-1]) / 2 * (steps[1:] - steps[:-1])).sum(1) / n
        own, mean = (rows.index_select(0, schedule[None])[0] for rows in (factors, means))
        now = schedule_factors(step.float()[None], n, w, floor, decay_steps).index_select(0, schedule[None])[0, 0]
        zero = torch.zeros(1)
        return {
            "steps": steps, "factors": factors, "own": own, "now": 100 * now, "rate": max_lr * now,
            "fill_x": torch.cat((steps, n[None], zero))[None], "fill_y": torch.cat((own, zero, zero))[None],
            "means": means, "mean": mean, "equal": mean * n / 100, "total": max_lr * mean * n / 100,
            "bar_hue": (torch.arange(len(SCHEDULES)) == schedule).int(), "percent": 100 * floor,
            "decay_steps": decay_steps, "long": w >= n,
        }  # fmt: skip

    def marks(self):
        curve = m.plot(
            m.area("fill_x", "fill_y", hue="normalization", share=[0.25]),
            *[m.line(f"factors[{i}]", "steps", hue=hue, width=1.5, faint=True) for i, hue in enumerate(HUES)],
            m.line("own", "steps", hue="@hues[schedule]", width=3),
            m.dots("step", "now", hue="@hues[schedule]", label="{rate:.7f}"),
            x=m.axis(0, "n_steps", "step"), y=m.axis(0, 120, "% of the maximum", ticks=[0, 25, 50, 75, 100]),
            title="Learning rate: {schedule}", hint="thin: the other schedules", pick={"x": "step"}, height=260,
        )  # fmt: skip
        means = m.plot(
            m.bars("means", across=True, hue="@bar_hues[bar_hue]", text="{value:.1f}"),
            x=m.axis(0, 120, ticks=[]), y=m.axis(labels="names"),
            title="Mean rate", hint="% of the maximum; the area divided by the steps", height=200,
        )  # fmt: skip
        facts = {
            "learning rate at step {step}": "{rate:.7f}",
            "area: sum of all rates": "{total:.2f}",
            "as many steps at the maximum": "{equal:.0f}",
        }
        words = "{long|{said[schedule]}|The warm-up is as long as the run, or longer: there is no decay.}"
        controls = m.row("n_steps", "warmup"), m.row("max_lr", "floor")
        return ["setting", "schedule", curve, "step", *controls, "decay", means, m.facts(**facts), m.note(words)]


def schedule_factors(step: Tensor, n: Tensor, warmup: Tensor, floor: Tensor, decay_steps: Tensor) -> Tensor:
    """Return the factor of the maximum rate at each step, up to step n, for each schedule: (schedules, steps)."""

    def cosine(progress):
        return floor + (1 - floor) * (1 + torch.cos(torch.pi * progress)) / 2

    after = (step - warmup).clamp(min=0)
    progress = after / (n - warmup).clamp(min=1)
    late = (step - torch.maximum(n - decay_steps, warmup)).clamp(min=0) / decay_steps
    timescale = torch.where(warmup > 0, warmup, 10_000)
    inverse = (timescale / (timescale + after)).sqrt().maximum(floor)
    constant = torch.ones_like(step)
    later = torch.stack((cosine(progress), 1 - (1 - floor) * progress, constant, inverse, cosine(late)))
    return torch.where(step < warmup, step / warmup.clamp(min=1), later)
