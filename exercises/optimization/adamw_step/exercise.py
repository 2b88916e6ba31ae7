import numpy as np
import torch

from llm_anatomy.shapes import Float, Tensor


def adamw_step(
    x: Float[Tensor, "n_weights"],
    gradient: Float[Tensor, "n_weights"],
    m: Float[Tensor, "n_weights"],
    v: Float[Tensor, "n_weights"],
    t: int,
    eta: float,
    alpha: float,
    weight_decay: float,
) -> tuple[Float[Tensor, "n_weights"], Float[Tensor, "n_weights"], Float[Tensor, "n_weights"]]:
    """Return the weights and the two moments after step t."""
    m = 0.9 * m + 0.1 * gradient
    v = 0.999 * v + 0.001 * gradient**2
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
    return x - eta * (alpha * m_hat / (v_hat.sqrt() + 1e-8) + weight_decay * x), m, v


def accepted_decay_first(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Shrinks a copy of the weights first, and corrects the rate instead of the moments."""
    m, v = torch.lerp(gradient, m, 0.9), torch.lerp(gradient.square(), v, 0.999)
    root = (1 - 0.999**t) ** 0.5
    rate = eta * alpha * root / (1 - 0.9**t)
    return [x * (1 - eta * weight_decay) - rate * m / (v.sqrt() + 1e-8 * root), m, v]


def accepted_library(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Lets PyTorch do it, with the decay divided by α."""
    weights = torch.nn.Parameter(x.clone())
    optimizer = torch.optim.AdamW([weights], lr=eta * alpha, weight_decay=weight_decay / alpha)
    state = {"step": torch.tensor(t - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.state[weights] = state
    weights.grad = gradient.clone()
    optimizer.step()
    return weights.detach(), state["exp_avg"], state["exp_avg_sq"]


def accepted_arrays(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Computes with NumPy in double precision."""
    x, gradient, m, v = (each.numpy().astype(np.float64) for each in (x, gradient, m, v))
    m = m + (gradient - m) / 10
    v = v + (gradient * gradient - v) / 1000
    ratio = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return x - eta * alpha * ratio - eta * weight_decay * x, m, v


NAMES = ("x", "gradient", "m", "v", "t", "eta", "alpha", "weight_decay")


def cases(generator):
    def drawn(n, t, eta, alpha, weight_decay, size=1.0):
        x, gradient, m = ((10 * torch.randn(n, generator=generator)).round() / 10 for _ in range(3))
        v = (10 * torch.rand(n, generator=generator)).round() / 10 + 0.1
        values = (x, size * gradient, size * m, size**2 * v, t, eta, alpha, weight_decay)
        return dict(zip(NAMES, values, strict=True))

    zero = torch.zeros(1)
    first = (torch.tensor([1.0]), torch.tensor([2.0]), zero, zero, 1, 1.0, 0.001, 0.1)
    return [
        dict(zip(NAMES, first, strict=True)),
        drawn(3, 2, 0.5, 0.1, 0.2),
        drawn(5, 7, 0.25, 0.3, 0.04),
        drawn(4, 3, 0.8, 0.2, 0.3, size=1e-5),
        drawn(2, 1000, 0.1, 2.0, 0.5),
    ]


def property_scale_of_the_gradient(answer, generator):
    x, gradient = torch.randn(2, 6, generator=generator)
    zero = torch.zeros(6)
    small, large = (answer(x, size * gradient, zero, zero, 1, 1.0, 0.1, 0.0)[0] for size in (1.0, 1000.0))
    assert torch.allclose(torch.as_tensor(small), torch.as_tensor(large), atol=1e-4), (
        "In the first step, with moments that are zero, a gradient that is 1,000 times as large should lead to the "
        "same weights."
    )


def property_decay_alone(answer, generator):
    x, zero = torch.randn(6, generator=generator), torch.zeros(6)
    after = torch.as_tensor(answer(x, zero, zero, zero, 3, 0.5, 0.01, 0.2)[0])
    assert torch.allclose(after, 0.9 * x, atol=1e-4), (
        "With gradient and moments zero, η = 0.5 and w = 0.2, each weight should shrink to 0.9 of itself, whatever α "
        "is."
    )


def hidden_cases(generator):
    def drawn(n, t, eta, alpha, weight_decay, size=1.0):
        x, gradient, m = torch.randn(3, n, generator=generator)
        v = 0.1 + torch.rand(n, generator=generator)
        values = (x, size * gradient, size * m, size**2 * v, t, eta, alpha, weight_decay)
        return dict(zip(NAMES, values, strict=True))

    return [
        drawn(6, 1, 0.7, 0.2, 0.1),
        drawn(3, 4, 0.3, 0.5, 0.25),
        drawn(5, 20, 1.0, 0.1, 0.05),
        drawn(4, 2, 0.6, 0.3, 0.2, size=2e-6),
    ]
