import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def batch_norm_step(
    x: Float[Tensor, "batch n_features"],
    running_mean: Float[Tensor, "n_features"],
    running_var: Float[Tensor, "n_features"],
    momentum: float,
    eps: float,
) -> tuple[Float[Tensor, "batch n_features"], Float[Tensor, "n_features"], Float[Tensor, "n_features"]]:
    """Return the batch after normalization, the new running mean and the new running variance."""
    mean, variance = x.mean(0), x.var(0, correction=0)
    normed = (x - mean) / (variance + eps).sqrt()
    unbiased = variance * len(x) / (len(x) - 1)
    return normed, running_mean.lerp(mean, momentum), running_var.lerp(unbiased, momentum)


def accepted_library(x, running_mean, running_var, momentum, eps):
    """Lets PyTorch update copies of the averages."""
    mean, var = running_mean.clone(), running_var.clone()
    return F.batch_norm(x, mean, var, training=True, momentum=momentum, eps=eps), mean, var


def accepted_module(x, running_mean, running_var, momentum, eps):
    """Sets up PyTorch's module, and returns its buffers in a list."""
    norm = torch.nn.BatchNorm1d(x.shape[1], eps=eps, momentum=momentum, affine=False)
    norm.running_mean.copy_(running_mean)
    norm.running_var.copy_(running_var)
    return [norm(x), norm.running_mean, norm.running_var]


def accepted_feature_by_feature(x, running_mean, running_var, momentum, eps):
    """Goes through the columns, with sums alone; the averages are detached."""
    n, columns, means, variances = len(x), [], [], []
    for i, column in enumerate(x.unbind(1)):
        mean = column.sum() / n
        squares = ((column - mean) ** 2).sum()
        columns.append((column - mean) * torch.rsqrt(squares / n + eps))
        means.append((1 - momentum) * running_mean[i] + momentum * mean.detach())
        variances.append((1 - momentum) * running_var[i] + momentum * squares.detach() / (n - 1))
    return torch.stack(columns, 1), torch.stack(means), torch.stack(variances)


def accepted_mean_of_squares(x, running_mean, running_var, momentum, eps):
    """Takes the variance as the mean of squares minus the square of the mean."""
    mean = x.mean(0, keepdim=True)
    var = (x**2).mean(0, keepdim=True) - mean**2
    b = x.size(0)
    new_mean = running_mean + momentum * (mean[0] - running_mean)
    return (x - mean) / torch.sqrt(var + eps), new_mean, running_var + momentum * (var[0] * b / (b - 1) - running_var)


def cases(generator):
    lecture = torch.tensor([[1.0, 3.0, 5.0, 7.0], [3.0, 4.0, 6.0, 2.0], [8.0, 3.0, 2.0, 1.0]])

    def drawn(batch, n_features, momentum, eps):
        x, mean, var = (
            (10 * torch.randn(*shape, generator=generator)).round() / 10
            for shape in ((batch, n_features), (n_features,), (n_features,))
        )
        return {"x": x, "running_mean": mean, "running_var": var.abs() + 0.5, "momentum": momentum, "eps": eps}

    first = {"x": lecture, "running_mean": torch.zeros(4), "running_var": torch.ones(4), "momentum": 0.1, "eps": 1e-5}
    small = {"x": torch.tensor([[1.0], [5.0]]), "running_mean": torch.tensor([2.0])}
    small |= {"running_var": torch.tensor([4.0]), "momentum": 0.25, "eps": 0.5}
    return [first, small, drawn(5, 3, 0.3, 0.01), drawn(4, 2, 0.9, 0.1)]


def property_mean_0_and_variance_1(answer, generator):
    x = 3 + 2 * torch.randn(6, 3, generator=generator)
    normed = answer(x, torch.zeros(3), torch.ones(3), 0.1, 1e-6)[0]
    ones, zeros = torch.ones(3), torch.zeros(3)
    assert torch.allclose(normed.mean(0), zeros, atol=1e-4) and torch.allclose(
        normed.square().mean(0), ones, atol=1e-4
    ), "After normalization, each feature should have mean 0 over the batch, and its squares should have mean 1."


def property_running_averages_do_not_matter_in_training(answer, generator):
    x = torch.randn(5, 2, generator=generator)
    one, other = (
        answer(x, torch.full((2,), a), torch.full((2,), b), 0.1, 0.01)[0] for a, b in ((0.0, 1.0), (4.0, 9.0))
    )
    assert torch.allclose(one, other, atol=1e-5), (
        "Your normalized batch changes when we change the old running averages. In training, they are only updated."
    )


def hidden_cases(generator):
    def drawn(batch, n_features, momentum, eps):
        x = 1 + 2 * torch.randn(batch, n_features, generator=generator)
        mean, var = torch.randn(n_features, generator=generator), 0.5 + torch.rand(n_features, generator=generator)
        return {"x": x, "running_mean": mean, "running_var": var, "momentum": momentum, "eps": eps}

    return [drawn(6, 4, 0.1, 1e-5), drawn(2, 5, 0.4, 0.2), drawn(9, 3, 0.75, 0.05), drawn(3, 7, 1.0, 1e-3)]
