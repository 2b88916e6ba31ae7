import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def swish_and_slope(
    z: Float[Tensor, "n_points"], beta: float
) -> tuple[Float[Tensor, "n_points"], Float[Tensor, "n_points"]]:
    """Return the values of Swish at the points z, and its derivatives there."""
    gate = torch.sigmoid(beta * z)
    return z * gate, gate + beta * z * gate * (1 - gate)


def accepted_from_the_value(z, beta):
    """Writes the derivative by means of the value, in a list."""
    gate = 1 / (1 + torch.exp(-beta * z))
    value = z * gate
    return [value, beta * value + gate * (1 - beta * value)]


def accepted_autograd(z, beta):
    """Lets autograd do it."""
    z = z.clone().requires_grad_()
    value = z * torch.sigmoid(beta * z)
    return value, torch.autograd.grad(value.sum(), z)[0]


def accepted_scaled_silu(z, beta):
    """Stretches PyTorch's SiLU, which is Swish with β = 1, by hyperbolic functions for the slope."""
    if beta == 0:
        return z / 2, torch.full_like(z, 0.5)
    u = (beta * z).double()
    slope = (1 + torch.tanh(u / 2)) / 2 + u / (2 * torch.cosh((u / 2).clamp(-300, 300))) ** 2
    return F.silu(u) / beta, slope


def accepted_small_steps(z, beta):
    """Measures the slope by small steps, in float64."""
    z = z.double()
    above, here, below = (each * torch.sigmoid(beta * each) for each in (z + 1e-5, z, z - 1e-5))
    return here, (above - below) / 2e-5


def cases(generator):
    def drawn(n_points, beta):
        return {"z": (20 * torch.randn(n_points, generator=generator)).round() / 10, "beta": beta}

    return [
        {"z": torch.tensor([-3.0, -1.0, 0.0, 1.0, 3.0]), "beta": 1.0},
        {"z": torch.tensor([1.0]), "beta": 2.0},
        {"z": torch.tensor([-1.0, 2.0]), "beta": 0.0},
        drawn(6, 0.5),
        drawn(7, -1.5),
        drawn(4, 3.0),
        {"z": torch.tensor([-100.0, 1.0, 100.0]), "beta": 10.0},
    ]


def property_half_at_zero(answer, generator):
    slopes = [float(answer(torch.zeros(1), beta)[1][0]) for beta in (0.0, 0.5, 1.0, 8.0, -2.0)]
    assert all(abs(slope - 0.5) < 1e-5 for slope in slopes), (
        "At z = 0, the derivative of Swish should be one half for every β. Yours is not."
    )


def property_slopes_on_both_sides(answer, generator):
    z = 3 * torch.randn(6, generator=generator)
    for beta in (1.0, 2.5):
        total = answer(z, beta)[1] + answer(-z, beta)[1]
        assert torch.allclose(total, torch.ones_like(total), atol=1e-4), (
            "The derivatives of Swish at z and at −z should add up to 1. Yours do not."
        )


def property_between_linear_and_relu(answer, generator):
    z = 3 * torch.randn(6, generator=generator)
    z = z + z.sign() / 2
    linear, relu = answer(z, 0.0), answer(z, 50.0)
    assert torch.allclose(linear[0].float(), z / 2, atol=1e-5), "With β = 0, Swish should be z/2. Yours is not."
    assert torch.allclose(relu[0].float(), z.clamp(min=0), atol=1e-4), (
        "With a large β, Swish should be almost ReLU. Yours is not."
    )
    assert torch.allclose(relu[1].float(), (z > 0).float(), atol=1e-4), (
        "With a large β, the derivative should be almost that of ReLU, 0 on the left and 1 on the right. Yours is not."
    )


def hidden_cases(generator):
    def drawn(n_points, beta):
        return {"z": 2 * torch.randn(n_points, generator=generator), "beta": beta}

    return [
        drawn(7, 1.0),
        drawn(5, 0.25),
        drawn(6, 2.0),
        drawn(3, -0.75),
        drawn(4, 0.0),
        {"z": torch.tensor([-25.0, -0.1, 0.2, 25.0]), "beta": 40.0},
    ]
