import numpy as np
import torch

from llm_anatomy.shapes import Float, Tensor


def matched_losses(
    steps: Float[Tensor, "n_points"],
    baseline: Float[Tensor, "n_points"],
    variant: Float[Tensor, "n_points"],
    time_ratio: float,
) -> tuple[float, float]:
    """Return the losses of the baseline and of the variant after the same time."""

    def at(step, losses):
        after = int(torch.searchsorted(steps, step).clamp(1, len(steps) - 1))
        share = (step - steps[after - 1]) / (steps[after] - steps[after - 1])
        return (losses[after - 1] + share * (losses[after] - losses[after - 1])).item()

    last = steps[-1]
    return at(last * min(1.0, time_ratio), baseline), at(last / max(1.0, time_ratio), variant)


def accepted_numpy(steps, baseline, variant, time_ratio):
    """Uses NumPy's interpolation, and returns a list."""
    n = float(steps[-1])
    if time_ratio >= 1:
        return [baseline[-1], np.interp(n / time_ratio, steps.numpy(), variant.numpy())]
    return [np.interp(n * time_ratio, steps.numpy(), baseline.numpy()), variant[-1]]


def accepted_clock(steps, baseline, variant, time_ratio):
    """Reads both curves against the time, and returns a tensor."""
    times, own_times = steps.tolist(), (steps * time_ratio).tolist()
    stop = min(times[-1], own_times[-1])

    def at(times, losses):
        for i in range(1, len(times)):
            if stop <= times[i] * (1 + 1e-6):
                before, after = times[i - 1], times[i]
                return losses[i - 1] * (after - stop) / (after - before) + losses[i] * (stop - before) / (
                    after - before
                )

    return torch.stack([at(times, baseline), at(own_times, variant)])


def observe(returned, steps, baseline, variant, time_ratio):
    """the two losses, that of the baseline first"""
    numbers = returned.tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 2, "two losses are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return tuple(map(float, numbers))


NAMES = ("steps", "baseline", "variant", "time_ratio")


def cases(generator):
    steps = torch.tensor([40.0, 80.0, 120.0, 160.0, 200.0])
    baseline = torch.tensor([4.61, 3.72, 3.21, 2.92, 2.71])
    variant = torch.tensor([4.53, 3.58, 3.04, 2.741, 2.651])
    uneven = (torch.tensor([2.0, 6.0, 16.0]), torch.tensor([8.0, 4.0, 5.0]), torch.tensor([9.0, 3.0, 6.0]))
    early = torch.tensor([[1.0, 3, 8, 32], [9, 7, 4, 5], [8, 6, 3, 2]])  # indices are not in proportion to steps
    return [
        dict(zip(NAMES, each, strict=True))
        for each in (
            (steps, baseline, variant, 1.25),
            (*uneven, 2.0),
            (*uneven, 0.1875),
            (steps, baseline, variant, 0.75),
            (steps, baseline, variant, 1.0),
            (steps, baseline, variant, 3.125),
            (*early, 0.1875),
        )
    ]


def property_equal_speed(answer, generator):
    steps, losses = torch.tensor([10.0, 30.0, 60.0]), 2 + torch.rand(2, 3, generator=generator)
    found = torch.tensor([float(loss) for loss in answer(steps, *losses, 1.0)])
    assert torch.allclose(found, losses[:, -1], atol=1e-4), (
        "If both are equally fast, they should be read at the end of their runs. Yours are not."
    )


def hidden_cases(generator):
    def drawn(n, ratio):
        between = 70 + torch.randperm(560, generator=generator)[: n - 2].sort().values
        steps = torch.tensor([60.0, *between.tolist(), 640.0])
        losses = 5 - torch.rand(2, n, generator=generator).cumsum(1) * 2 / n
        losses += torch.rand(2, n, generator=generator)  # a loss may also rise
        return dict(zip(NAMES, (steps, *losses, ratio), strict=True))

    return [drawn(6, 1.25), drawn(8, 0.625), drawn(5, 2.5), drawn(9, 0.375)]
