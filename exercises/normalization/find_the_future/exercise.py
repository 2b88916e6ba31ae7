import torch

from llm_anatomy.shapes import Float, Tensor


def find_the_future(
    x: Float[Tensor, "batch n_tokens d_model"], axes: list[int], eps: float
) -> tuple[Float[Tensor, "n_tokens n_tokens"], bool]:
    """Return how strongly the outputs at each position depend on the inputs at each, and whether on later ones."""

    def layer(x):
        variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean) / (variance + eps).sqrt()

    derivatives = torch.autograd.functional.jacobian(layer, x)  # (batch, n_tokens, d_model, batch, n_tokens, d_model)
    influence = derivatives.square().sum((0, 2, 3, 5)).sqrt()
    return influence, bool((influence.triu(1) > 1e-4).any())


def accepted_one_output_at_a_time(x, axes, eps):
    """Asks for the gradient of each output by itself, and adds up squares."""
    x = x.detach().clone().requires_grad_()
    centred = x - x.mean(dim=tuple(axes), keepdim=True)
    y = centred * torch.rsqrt((centred**2).mean(dim=tuple(axes), keepdim=True) + eps)
    n = x.shape[1]
    squares = torch.zeros(n, n)
    for i in range(n):
        for output in y[:, i].flatten():
            (gradient,) = torch.autograd.grad(output, x, retain_graph=True)
            squares[i] += gradient.pow(2).sum(dim=(0, 2))
    table = squares.sqrt()
    return [table, any(table[i, j] > 1e-4 for i in range(n) for j in range(i + 1, n))]


def accepted_small_changes(x, axes, eps):
    """Changes one number after the other, in float64, and looks at what happens to all outputs."""
    x = x.double()

    def layer(x):
        mean = x.mean(axes, keepdim=True)
        return (x - mean) / ((x - mean).square().mean(axes, keepdim=True) + eps) ** 0.5

    squares = torch.zeros(x.shape[1], x.shape[1], dtype=torch.float64)
    for index in torch.cartesian_prod(*(torch.arange(n) for n in x.shape)).tolist():
        step = torch.zeros_like(x)
        step[tuple(index)] = 1e-4
        squares[:, index[1]] += ((layer(x + step) - layer(x - step)) / 2e-4).square().sum((0, 2))
    return squares.sqrt(), bool((squares.sqrt().triu(1) > 1e-4).any())


def accepted_by_formula(x, axes, eps):
    """Knows the derivative of a standardization, and looks at the axes for the second answer."""
    x = x.double()
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    std = (variance + eps).sqrt().expand_as(x).flatten()
    y = ((x - mean) / (variance + eps).sqrt()).flatten()
    numbers = torch.arange(x.numel()).view_as(x)
    group = numbers.amin(axes, keepdim=True).expand_as(x).flatten()
    together = (group[:, None] == group).double()
    n = x.numel() / len(group.unique())
    jacobian = (torch.eye(x.numel()) - together * (1 + torch.outer(y, y)) / n) / std[:, None]
    return jacobian.view(*x.shape, *x.shape).square().sum((0, 2, 3, 5)).sqrt().float(), 1 in axes


def cases(generator):
    def drawn(batch, n_tokens, d_model, axes, eps):
        x = (10 * torch.randn(batch, n_tokens, d_model, generator=generator)).round() / 10
        return {"x": x, "axes": axes, "eps": eps}

    small = {"x": torch.tensor([[[1.0], [5.0]]]), "axes": [1], "eps": 5.0}
    return [
        drawn(2, 3, 4, [0, 1], 1e-3),  # batch norm
        small,
        drawn(2, 4, 3, [2], 1e-3),  # layer norm
        drawn(3, 2, 2, [0], 0.1),  # each position over the batch
        drawn(2, 3, 2, [1, 2], 0.01),
    ]


def property_layer_norm(answer, generator):
    table, future = answer(torch.randn(2, 4, 5, generator=generator), [2], 0.01)
    assert not bool(future) and (table - table.diag().diag()).abs().max() < 1e-4, (
        "Layer norm takes its statistics from one token, so each output depends on its own position alone. Your table "
        "or your decision for the axis 2 says otherwise."
    )
    assert table.diag().min() > 1e-2, (
        "With layer norm, an output does depend on the features of its own token, but your table has a zero there. Do "
        "derivatives cancel in a sum of outputs, or do you change all features of a token by the same number?"
    )


def property_batch_norm(answer, generator):
    table, future = answer(torch.randn(3, 4, 2, generator=generator), [0, 1], 0.01)
    assert bool(future) and table.min() > 1e-3, (
        "Batch norm takes one mean over all positions, so each output depends on every position. Your table or your "
        "decision for the axes 0 and 1 says otherwise."
    )


def property_four_digits(answer, generator):
    x = torch.randn(1, 3, 2, generator=generator)
    table = answer(x, [1], 0.1)[0]

    def layer(x):
        return (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 0.1).sqrt()

    right = torch.autograd.functional.jacobian(layer, x).square().sum((0, 2, 3, 5)).sqrt()
    gap = ((table - right) / right).abs().max()
    assert not 1e-4 < gap < 0.02, (
        f"Your table is nearly right, but off by up to {gap:.2g} of an entry. If you take derivatives from small "
        "changes, compute in float64."
    )


def hidden_cases(generator):
    every = [([0, 1], 1e-3), ([2], 0.05), ([0], 0.01), ([1], 0.1), ([0, 2], 0.02), ([0, 1, 2], 1e-3)]
    sizes = [(2, 4, 3), (3, 3, 4), (4, 3, 2), (2, 5, 2), (3, 4, 2), (2, 3, 5)]
    return [
        {"x": torch.randn(*shape, generator=generator), "axes": axes, "eps": eps}
        for shape, (axes, eps) in zip(sizes, every, strict=True)
    ]
