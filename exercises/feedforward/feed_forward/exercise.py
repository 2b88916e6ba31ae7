import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.shapes import Float, Tensor


def feed_forward(
    x: Float[Tensor, "*tokens d_model"],
    w_1: Float[Tensor, "d_model d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
    activation: str,
) -> Float[Tensor, "*tokens d_model"]:
    """Return the output of a feed-forward layer without biases, for each token on its own."""
    functions = {"relu": F.relu, "squared_relu": lambda z: F.relu(z).square(), "gelu": F.gelu, "swish": F.silu}
    return functions[activation](x @ w_1) @ w_2


def accepted_by_formula(x, w_1, w_2, activation):
    """Writes the four formulas out."""
    z = torch.einsum("...d, df -> ...f", x, w_1)
    if activation == "gelu":
        hidden = z * torch.distributions.Normal(0.0, 1.0).cdf(z)
    elif activation == "swish":
        hidden = z / (1 + torch.exp(-z))
    else:
        hidden = z.clamp(min=0) ** (2 if activation == "squared_relu" else 1)
    return torch.einsum("...f, fd -> ...d", hidden, w_2)


def accepted_modules(x, w_1, w_2, activation):
    """Puts the transposed weights into two linear layers of PyTorch's."""
    up, down = nn.Linear(*w_1.shape, bias=False), nn.Linear(*w_2.shape, bias=False)
    up.weight, down.weight = nn.Parameter(w_1.T), nn.Parameter(w_2.T)
    between = {"relu": nn.ReLU(), "squared_relu": nn.ReLU(), "gelu": nn.GELU(), "swish": nn.SiLU()}[activation]
    hidden = between(up(x))
    return down(hidden * hidden if activation == "squared_relu" else hidden)


def accepted_unit_by_unit(x, w_1, w_2, activation):
    """Adds up what each hidden unit contributes."""
    y = torch.zeros_like(x)
    for reads, writes in zip(w_1.T, w_2, strict=True):
        z = (x * reads).sum(-1, keepdim=True)
        gate = {"gelu": (1 + torch.erf(z / 2**0.5)) / 2, "swish": torch.sigmoid(z)}.get(activation, (z > 0).float())
        y = y + z * gate * (z if activation == "squared_relu" else 1) * writes
    return y


NAMES = ("relu", "squared_relu", "gelu", "swish")


def cases(generator):
    def tenths(*shape):
        return (10 * torch.randn(*shape, generator=generator)).round() / 10

    def drawn(*shape, d_ff, activation):
        d_model = shape[-1]
        return {"x": tenths(*shape), "w_1": tenths(d_model, d_ff), "w_2": tenths(d_ff, d_model)} | {
            "activation": activation
        }

    one = torch.ones(1, 1)
    small = [
        {"x": torch.tensor([-2.0]), "w_1": torch.tensor([[1.0, -1.0]]), "w_2": torch.tensor([[3.0], [5.0]])}
        | {"activation": "relu"},
        *({"x": torch.ones(1), "w_1": one, "w_2": one, "activation": name} for name in ("gelu", "swish")),
    ]
    return [
        *small,
        *(drawn(2, 3, d_ff=5, activation=name) for name in NAMES),
        *(drawn(2, 4, 3, d_ff=6, activation=name) for name in NAMES),
        drawn(2, d_ff=2, activation="squared_relu"),
    ]


def property_tokens_do_not_meet(answer, generator):
    x, w_1, w_2 = (torch.randn(*shape, generator=generator) for shape in ((2, 3, 4), (4, 6), (6, 4)))
    changed = x.clone()
    changed[0, 1] = 2 - x[0, 1]
    for name in NAMES:
        difference = (answer(x, w_1, w_2, name) - answer(changed, w_1, w_2, name)).abs().sum(-1)
        others = difference.flatten()[[0, 2, 3, 4, 5]]
        assert others.max() < 1e-4, (
            f"With {name}, we change one token, and your output for another token changes. Each token is on its own."
        )


def property_twice_the_token(answer, generator):
    x, w_1, w_2 = (torch.randn(*shape, generator=generator) for shape in ((3, 4), (4, 6), (6, 4)))
    for name, factor in (("relu", 2), ("squared_relu", 4)):
        assert torch.allclose(answer(2 * x, w_1, w_2, name), factor * answer(x, w_1, w_2, name), atol=1e-3), (
            f"With {name}, twice the token should give {factor} times the output. Yours does not."
        )


def property_twice_the_last_matrix(answer, generator):
    x, w_1, w_2 = (torch.randn(*shape, generator=generator) for shape in ((3, 4), (4, 6), (6, 4)))
    for name in NAMES:
        assert torch.allclose(answer(x, w_1, -2 * w_2, name), -2 * answer(x, w_1, w_2, name), atol=1e-3), (
            f"With {name}, −2 times W₂ should give −2 times the output, because no activation comes after W₂. Yours "
            "does not."
        )


def hidden_cases(generator):
    def drawn(*shape, d_ff, activation):
        x, w_1, w_2 = (
            torch.randn(*each, generator=generator) for each in (shape, (shape[-1], d_ff), (d_ff, shape[-1]))
        )
        return {"x": x, "w_1": w_1, "w_2": w_2, "activation": activation}

    return [
        *(drawn(4, 3, d_ff=7, activation=name) for name in NAMES),
        *(drawn(2, 3, 5, d_ff=4, activation=name) for name in NAMES),
        drawn(4, d_ff=3, activation="gelu"),
        drawn(3, 3, d_ff=3, activation="squared_relu"),
    ]
