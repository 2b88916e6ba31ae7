import torch

from llm_anatomy.shapes import Float, Tensor


def two_scales(
    x: Float[Tensor, "n_rows n_columns"], axis: int
) -> tuple[Float[Tensor, "n_rows n_columns"], Float[Tensor, "n_rows n_columns"]]:
    """Return x rescaled from 0 to 1, and x with mean 0 and standard deviation 1, both along the axis."""
    low, high = x.amin(axis, keepdim=True), x.amax(axis, keepdim=True)
    centred = x - x.mean(axis, keepdim=True)
    return (x - low) / (high - low), centred / centred.square().mean(axis, keepdim=True).sqrt()


def accepted_library(x, axis):
    """Asks PyTorch for both pairs of statistics, and returns a list."""
    low, high = torch.aminmax(x, dim=axis, keepdim=True)
    std, mean = torch.std_mean(x, dim=axis, correction=0, keepdim=True)
    return [(x - low) / (high - low), (x - mean) / std]


def accepted_line_by_line(x, axis):
    """Rescales one list of numbers after the other."""

    def rescaled(values):
        mean = sum(values) / len(values)
        sigma = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
        span = max(values) - min(values)
        return [(v - min(values)) / span for v in values], [(v - mean) / sigma for v in values]

    lines = (x if axis in (1, -1) else x.T).tolist()
    both = [torch.tensor(table) for table in zip(*map(rescaled, lines), strict=True)]
    return tuple(both if axis in (1, -1) else [table.T for table in both])


def accepted_unbiased_and_corrected(x, axis):
    """Takes the standard deviation that divides by n - 1, and corrects it."""
    n = x.shape[axis]
    sigma = x.std(axis, keepdim=True) * ((n - 1) / n) ** 0.5
    first = x - x.min(axis, keepdim=True).values
    return first / first.max(axis, keepdim=True).values, (x - x.mean(axis, keepdim=True)) / sigma


def cases(generator):
    batch = torch.tensor([[1.0, 3.0, 5.0, 7.0], [3.0, 4.0, 6.0, 2.0], [8.0, 3.0, 2.0, 1.0]])
    students = torch.tensor([[18.0, 20000.0], [21.5, 35000.0], [25.0, 50000.0]])
    drawn = (10 * torch.randn(5, 3, generator=generator)).round() / 10
    return [
        {"x": students, "axis": 0},
        {"x": torch.tensor([[0.0, 3.0, 9.0]]), "axis": 1},
        {"x": batch, "axis": 0},
        {"x": batch, "axis": -1},
        {"x": drawn, "axis": -2},
    ]


def property_from_0_to_1(answer, generator):
    x = torch.randn(4, 6, generator=generator)
    first = answer(x, 1)[0]
    ends = torch.stack((first.amin(1), first.amax(1)))
    assert torch.allclose(ends, torch.tensor([[0.0], [1.0]]).expand(2, 4), atol=1e-5), (
        "With axis 1, the smallest number in each row of your first table should be 0 and the largest 1."
    )


def property_mean_0_and_variance_1(answer, generator):
    x = 5 + 3 * torch.randn(7, 4, generator=generator)
    second = answer(x, 0)[1]
    mean, mean_square = second.mean(0), second.square().mean(0)
    assert torch.allclose(mean, torch.zeros(4), atol=1e-4) and torch.allclose(mean_square, torch.ones(4), atol=1e-4), (
        "With axis 0, each column of your second table should have mean 0, and its squares should have mean 1."
    )


def property_other_units(answer, generator):
    x = torch.randn(5, 3, generator=generator)
    before, after = answer(x, 0), answer(100 * x + 20, 0)
    assert all(torch.allclose(a, b, atol=1e-3) for a, b in zip(before, after, strict=True)), (
        "Your tables change when we measure all values in another unit, 100 x + 20. Neither should."
    )


def hidden_cases(generator):
    shapes = [(4, 6, 0), (7, 3, 1), (3, 5, -1), (6, 2, -2), (1, 8, 1)]
    return [{"x": 2 + 4 * torch.randn(m, n, generator=generator), "axis": axis} for m, n, axis in shapes]
