import torch

from llm_anatomy.shapes import Float, Int, Tensor


def warm_up(steps: Int[Tensor, "n_steps"], warmup_steps: int, peak: float) -> Float[Tensor, "n_steps"]:
    """Return the learning rate at each step, with a linear warm-up and a decay by the root of the step."""
    s = steps.float()
    return peak * torch.minimum(s / warmup_steps, (warmup_steps / s).sqrt())


def accepted_where(steps, warmup_steps, peak):
    """Decides for each step in which part it is."""
    return torch.where(steps <= warmup_steps, peak * steps / warmup_steps, peak * warmup_steps**0.5 * steps**-0.5)


def accepted_loop(steps, warmup_steps, peak):
    """Takes one step after the other."""
    rates = []
    for step in steps.tolist():
        rates.append(peak * step / warmup_steps if step < warmup_steps else peak * (warmup_steps / step) ** 0.5)
    return torch.tensor(rates)


def accepted_paper(steps, warmup_steps, peak):
    """Uses the formula of the paper, multiplied by the factor that brings its peak to the given one."""
    rates = torch.minimum(steps.double() ** -0.5, steps * warmup_steps**-1.5)
    return peak * warmup_steps**0.5 * rates


def cases(generator):
    def drawn(n_steps, last, warmup_steps, peak):
        steps = torch.randperm(last, generator=generator)[:n_steps] + 1
        return {"steps": steps, "warmup_steps": warmup_steps, "peak": peak}

    return [
        {"steps": torch.tensor([1, 400, 4000, 16000, 100000]), "warmup_steps": 4000, "peak": 1.0},
        {"steps": torch.tensor([1, 4, 16]), "warmup_steps": 4, "peak": 2.0},
        drawn(8, 40, 12, 3.0),
        drawn(6, 9, 1, 0.5),
        drawn(5, 30, 60, 7.0),  # warm-up alone
    ]


def property_peak(answer, generator):
    rates = torch.as_tensor(answer(torch.arange(1, 50), 9, 3.0))
    assert rates.argmax() == 8 and abs(rates[8] - 3) < 1e-4, (
        "With a warm-up of 9 steps, the learning rate should be largest at step 9, and equal to the peak there."
    )


def property_no_jump(answer, generator):
    rates = torch.as_tensor(answer(torch.arange(1, 400), 100, 1.0))
    assert rates.diff().abs().max() < 0.011, (
        "With a warm-up of 100 steps and a peak of 1, your learning rate changes by more than 0.01 from one step to "
        "the next somewhere. It should grow by 0.01 in each step of the warm-up, and change by less after it."
    )


def hidden_cases(generator):
    def drawn(n_steps, last, warmup_steps, peak):
        steps = torch.randperm(last, generator=generator)[:n_steps] + 1
        return {"steps": steps, "warmup_steps": warmup_steps, "peak": peak}

    return [drawn(7, 50, 20, 1.5), drawn(9, 300, 40, 0.8), drawn(4, 20, 1, 2.0), drawn(6, 12, 100, 30.0)]
