import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def layer_norm_gradient(
    x: Float[Tensor, "n_tokens d_model"], upstream: Float[Tensor, "n_tokens d_model"], eps: float
) -> Float[Tensor, "n_tokens d_model"]:
    """Return the gradient with respect to x, given the one with respect to the layer norm of x."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    s = (variance + eps).sqrt()
    y = (x - mean) / s
    along_y = y * (upstream * y).mean(dim=-1, keepdim=True)
    return (upstream - upstream.mean(dim=-1, keepdim=True) - along_y) / s


def accepted_autograd(x, upstream, eps):
    """Lets autograd do it."""
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, x.shape[-1:], eps=eps), x, upstream)[0]


def accepted_jacobian(x, upstream, eps):
    """Builds the matrix of derivatives of each token."""
    d, rows = x.shape[-1], []
    for token, g in zip(x, upstream, strict=True):
        centred = token - token.mean()
        s = (centred.square().mean() + eps).sqrt()
        centring = torch.eye(d) - 1 / d
        jacobian = centring / s - torch.outer(centred, centred) / (d * s**3)
        rows.append(jacobian.T @ g)
    return torch.stack(rows)


def accepted_chain_rule(x, upstream, eps):
    """Goes back step by step: division, root, variance, mean."""
    d = x.shape[-1]
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)
    inverse = (variance + eps) ** -0.5
    to_inverse = (upstream * centred).sum(-1, keepdim=True)
    to_variance = to_inverse * -0.5 * inverse**3
    to_centred = upstream * inverse + to_variance * 2 * centred / d
    return to_centred - to_centred.mean(-1, keepdim=True)


def cases(generator):
    def drawn(n_tokens, d_model, eps):
        x, upstream = ((10 * torch.randn(n_tokens, d_model, generator=generator)).round() / 10 for _ in range(2))
        return {"x": x, "upstream": upstream, "eps": eps}

    small = {"x": torch.tensor([[1.0, 5.0]]), "upstream": torch.tensor([[2.0, 7.0]]), "eps": 5.0}
    lecture = torch.tensor([[1.0, 3.0, 5.0, 7.0], [3.0, 4.0, 6.0, 2.0], [8.0, 3.0, 2.0, 1.0]])
    first = {"x": lecture, "upstream": torch.tensor([[1.0, 0, 0, 0], [0, 2.0, 0, 0], [1.0, 1.0, 3.0, 0]]), "eps": 1e-5}
    return [first, small, drawn(2, 5, 0.1), drawn(4, 4, 0.5)]


def property_nothing_along_the_ones(answer, generator):
    x, upstream = (torch.randn(3, 6, generator=generator) for _ in range(2))
    total = answer(x, upstream, 0.1).sum(-1)
    assert torch.allclose(total, torch.zeros(3), atol=1e-4), (
        "If all entries of a token grow by the same number, its layer norm does not change, so each token's gradient "
        "should sum to zero. Yours does not."
    )


def property_nothing_along_x(answer, generator):
    x, upstream = (torch.randn(3, 6, generator=generator) for _ in range(2))
    product = (answer(x, upstream, 0.0) * x).sum(-1)
    assert torch.allclose(product, torch.zeros(3), atol=1e-3), (
        "With an epsilon of 0, a token that is twice as large has the same layer norm, so the gradient should have no "
        "component along x. Yours has one."
    )


def property_a_constant_upstream(answer, generator):
    x = torch.randn(3, 5, generator=generator)
    found = answer(x, torch.full((3, 5), 2.0), 0.1)
    assert torch.allclose(found, torch.zeros(3, 5), atol=1e-4), (
        "The outputs of a token sum to zero, whatever x is. So if `upstream` is the same for all features, the "
        "gradient should be zero. Yours is not."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_model, eps):
        x, upstream = (torch.randn(n_tokens, d_model, generator=generator) for _ in range(2))
        return {"x": 1 + 2 * x, "upstream": upstream, "eps": eps}

    return [drawn(3, 5, 1e-3), drawn(5, 3, 0.3), drawn(2, 8, 1.0), drawn(6, 6, 0.05)]
