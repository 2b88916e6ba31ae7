import torch

from llm_anatomy.shapes import Float, Tensor


def broken(
    x: Float[Tensor, "n_weights"],
    gradients: Float[Tensor, "n_steps n_weights"],
    lr: float,
    weight_decay: float,
) -> Float[Tensor, "n_weights"]:
    """Return the weights after one step of AdamW for each row of gradients."""
    m, v = torch.zeros_like(x), torch.zeros_like(x)
    for t, gradient in enumerate(gradients, 1):
        m = torch.lerp(m, gradient, 0.1)
        v = torch.lerp(v, gradient**2, 0.001)
        step_size = lr / (1 - 0.9**t)
        denominator = torch.sqrt(v / (1 - 0.999**t) + 1e-8)
        x = (1 - lr * weight_decay) * x - step_size * m / denominator
    return x


def timid_updates(
    x: Float[Tensor, "n_weights"],
    gradients: Float[Tensor, "n_steps n_weights"],
    lr: float,
    weight_decay: float,
) -> Float[Tensor, "n_weights"]:
    """Return the weights after one step of AdamW for each row of gradients."""
    m, v = torch.zeros_like(x), torch.zeros_like(x)
    for t, gradient in enumerate(gradients, 1):
        m = torch.lerp(m, gradient, 0.1)
        v = torch.lerp(v, gradient**2, 0.001)
        step_size = lr / (1 - 0.9**t)
        denominator = torch.sqrt(v / (1 - 0.999**t)) + 1e-8
        x = (1 - lr * weight_decay) * x - step_size * m / denominator
    return x


def accepted_library(x, gradients, lr, weight_decay):
    """Lets PyTorch do it."""
    weights = x.clone().requires_grad_()
    optimizer = torch.optim.AdamW([weights], lr=lr, weight_decay=weight_decay)
    for gradient in gradients:
        weights.grad = gradient.clone()
        optimizer.step()
    return weights.detach()


def accepted_sums(x, gradients, lr, weight_decay):
    """Computes the moments of all steps at once, as weighted sums."""
    n_steps = len(gradients)
    age = torch.arange(n_steps, dtype=torch.float64)[:, None] - torch.arange(n_steps)

    def corrected(values, beta):
        weights = torch.where(age >= 0, beta ** age.clamp(min=0), 0.0)
        return weights / weights.sum(1, keepdim=True) @ values.double()

    ratio = corrected(gradients, 0.9) / (corrected(gradients**2, 0.999) ** 0.5 + 1e-8)
    for row in ratio:
        x = (1 - lr * weight_decay) * x - lr * row
    return x


def accepted_arrays(x, gradients, lr, weight_decay):
    """Computes with NumPy, and corrects the rate instead of the moments."""
    x, m, v = x.numpy().astype(float), 0.0, 0.0
    for t, g in enumerate(gradients.numpy().astype(float), 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        root = (1 - 0.999**t) ** 0.5
        x = x - lr * weight_decay * x - lr * root / (1 - 0.9**t) * m / (v**0.5 + 1e-8 * root)
    return x


NAMES = ("x", "gradients", "lr", "weight_decay")


def cases(generator):
    def drawn(n_steps, n, size, lr, weight_decay):
        x = (10 * torch.randn(n, generator=generator)).round() / 10
        gradients = ((10 * torch.randn(n_steps, n, generator=generator)).round() + 0.5) / 10
        return dict(zip(NAMES, (x, size * gradients, lr, weight_decay), strict=True))

    small = dict(zip(NAMES, (torch.tensor([1.0]), torch.tensor([[1e-5]]), 0.5, 0.0), strict=True))
    none = dict(zip(NAMES, (torch.tensor([1.0, 2.0]), torch.tensor([[0.0, 1e-8]] * 2), 0.5, 0.1), strict=True))
    return [
        drawn(4, 3, 1.0, 0.1, 0.1),
        small,
        none,
        drawn(5, 2, 1e-5, 0.3, 0.0),
        drawn(3, 4, 1e-8, 0.4, 0.2),
        drawn(6, 5, 3e-4, 0.2, 0.1),
    ]


def property_size_of_the_gradients(answer, generator):
    x, gradients = torch.randn(5, generator=generator), torch.randn(6, 5, generator=generator)
    gradients += 0.2 * gradients.sign()
    ordinary, tiny = (answer(x, size * gradients, 0.1, 0.0) for size in (1.0, 1e-5))
    assert torch.allclose(ordinary, tiny, atol=3e-3), (
        "If all gradients are multiplied by 0.00001, the weights should hardly change. Yours still do."
    )


def property_zero_gradients(answer, generator):
    x = torch.randn(5, generator=generator)
    assert torch.allclose(answer(x, torch.zeros(1, 5), 0.5, 0.2), 0.9 * x, atol=1e-4), (
        "With a gradient of zero, the old weights were right: they only decayed. Yours are not right any more."
    )


def hidden_cases(generator):
    def drawn(n_steps, n, size, lr, weight_decay):
        gradients = torch.randn(n_steps, n, generator=generator)
        gradients += 0.2 * gradients.sign()
        values = (torch.randn(n, generator=generator), size * gradients, lr, weight_decay)
        return dict(zip(NAMES, values, strict=True))

    zero = drawn(3, 4, 1e-8, 0.3, 0.1)
    zero["gradients"][:, 1] = 0
    return [drawn(5, 4, 2e-5, 0.3, 0.1), drawn(2, 6, 1e-6, 0.2, 0.0), zero, drawn(7, 3, 1.0, 0.1, 0.2)]
