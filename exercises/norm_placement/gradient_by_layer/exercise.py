import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def gradient_by_layer(
    x: Float[Tensor, "n_tokens d_model"],
    weights: Float[Tensor, "n_layers d_model d_model"],
    upstream: Float[Tensor, "n_tokens d_model"],
    placement: str,
) -> Float[Tensor, "n_layers"]:
    """Return the norm of the gradient with respect to the matrix of each layer."""

    def norm(z):
        return F.rms_norm(z, z.shape[-1:])

    recorded = weights.detach().clone().requires_grad_()
    for w in recorded:
        x = norm(x + torch.tanh(x @ w)) if placement == "post" else x + torch.tanh(norm(x) @ w)
    output = x if placement == "post" else norm(x)
    (gradient,) = torch.autograd.grad((output * upstream).sum(), recorded)
    return gradient.flatten(1).norm(dim=1)


def accepted_backward(x, weights, upstream, placement):
    """Makes a parameter of each matrix, and runs backward."""
    layers = [torch.nn.Parameter(w.clone()) for w in weights]
    norm = torch.nn.RMSNorm(x.shape[1], elementwise_affine=False)
    for w in layers:
        x = norm(x + (x @ w).tanh()) if placement == "post" else x + (norm(x) @ w).tanh()
    if placement == "pre":
        x = norm(x)
    x.backward(upstream)
    return torch.tensor([w.grad.square().sum().sqrt().item() for w in layers])


def accepted_functional(x, weights, upstream, placement):
    """Writes the loss as a function of all matrices."""

    def norm(z):
        return z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + torch.finfo(z.dtype).eps)

    def loss(weights):
        h = x
        for i in range(weights.shape[0]):
            h = norm(h + (h @ weights[i]).tanh()) if placement == "post" else h + (norm(h) @ weights[i]).tanh()
        return ((h if placement == "post" else norm(h)) * upstream).sum()

    return torch.linalg.matrix_norm(torch.func.grad(loss)(weights))


def accepted_by_hand(x, weights, upstream, placement):
    """Runs the chain rule backwards through the layers, in float64."""
    x, weights, g = x.double(), weights.double(), upstream.double()

    def rms(z):
        return z.square().mean(-1, keepdim=True).sqrt()

    def through_norm(z, g):
        y = z / rms(z)
        return (g - y * (g * y).mean(-1, keepdim=True)) / rms(z)

    kept = []
    for w in weights:
        read = x if placement == "post" else x / rms(x)
        branch = (read @ w).tanh()
        kept.append((x, read, branch))
        x = (x + branch) / rms(x + branch) if placement == "post" else x + branch
    g = g if placement == "post" else through_norm(x, g)
    norms = []
    for w, (x, read, branch) in zip(weights.flip(0), kept[::-1], strict=True):
        g = through_norm(x + branch, g) if placement == "post" else g
        inner = g * (1 - branch**2)
        norms.append((read.T @ inner).norm())
        g = g + (inner @ w.T if placement == "post" else through_norm(x, inner @ w.T))
    return torch.stack(norms[::-1])


def cases(generator):
    def drawn(n_layers, n_tokens, d_model, placement):
        shapes = {"x": (n_tokens, d_model), "weights": (n_layers, d_model, d_model), "upstream": (n_tokens, d_model)}
        values = {name: (10 * torch.randn(*s, generator=generator)).round() / 10 for name, s in shapes.items()}
        return values | {"x": 2 * values["x"], "placement": placement}

    small = {"x": torch.tensor([[1.0, 7.0]]), "weights": torch.tensor([[[0.2, -0.1], [0.0, 0.1]]])}
    small |= {"upstream": torch.tensor([[3.0, 1.0]])}
    few = [small | {"placement": placement} for placement in ("post", "pre")]
    return [drawn(6, 4, 5, "post"), drawn(6, 4, 5, "pre"), *few, drawn(3, 2, 4, "pre"), drawn(2, 5, 3, "post")]


def property_same_result_twice(answer, generator):
    shapes = {"x": (3, 4), "weights": (5, 4, 4), "upstream": (3, 4)}
    values = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
    once, twice = (torch.as_tensor(answer(*values.values(), "pre")).detach().clone() for _ in range(2))
    assert torch.allclose(once, twice), (
        "Called twice with the same tensors, your function returns two different results. Do gradients add up in the "
        "`grad` of a tensor that you are given? Ask for the gradients of a copy."
    )


def property_upstream_scales(answer, generator):
    x, weights, upstream = (torch.randn(*shape, generator=generator) for shape in ((3, 4), (5, 4, 4), (3, 4)))
    for placement in ("post", "pre"):
        one, other = (torch.as_tensor(answer(x, weights, s * upstream, placement)) for s in (1.0, -3.0))
        assert torch.allclose(3 * one, other, rtol=1e-3, atol=1e-4), (
            "With `upstream` multiplied by −3, each norm should be 3 times as large. Yours is not."
        )


def property_size_of_the_stream(answer, generator):
    x, weights, upstream = (torch.randn(*shape, generator=generator) for shape in ((3, 4), (2, 4, 4), (3, 4)))
    small, large = (torch.as_tensor(answer(s * x, weights, upstream, "pre")) for s in (1.0, 1000.0))
    assert (large < 0.1 * small).all(), (
        "In a pre-norm stack, a large stream makes the gradients of all branches small, because the final norm divides "
        "by its size. With x multiplied by 1000, your norms are not below a tenth of what they were."
    )


def hidden_cases(generator):
    def drawn(n_layers, n_tokens, d_model, placement):
        shapes = {"x": (n_tokens, d_model), "weights": (n_layers, d_model, d_model), "upstream": (n_tokens, d_model)}
        values = {name: 0.8 * torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        return values | {"x": 1 + 2 * values["x"], "placement": placement}

    return [drawn(4, 3, 6, "post"), drawn(5, 2, 4, "pre"), drawn(1, 4, 3, "pre"), drawn(3, 6, 5, "post")]
