import torch

from llm_anatomy.shapes import Float, Tensor


def layer_norm(
    x: Float[Tensor, "*batch d_model"], weight: Float[Tensor, "d_model"], bias: Float[Tensor, "d_model"], eps: float
) -> Float[Tensor, "*batch d_model"]:
    """Return x with each token standardized over its features, then scaled by weight and shifted by bias."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return weight * (x - mean) / (variance + eps).sqrt() + bias


def accepted_mean_squares(x, weight, bias, eps):
    """Centres first, and takes the mean of squares of what is left."""
    centred = x - x.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps)
    return torch.addcmul(bias, centred * scale, weight)


def accepted_token_by_token(x, weight, bias, eps):
    """Takes one token at a time, with sums."""
    tokens = []
    for token in x.reshape(-1, x.shape[-1]):
        mean = token.sum() / len(token)
        std = ((token - mean).square().sum() / len(token) + eps) ** 0.5
        tokens.append((token - mean) / std * weight + bias)
    return torch.stack(tokens).view(x.shape)


def accepted_matrix(x, weight, bias, eps):
    """Centres by a matrix, and takes lengths of vectors."""
    d = x.shape[-1]
    centred = x @ (torch.eye(d) - 1 / d)
    length = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    return centred / (length**2 / d + eps).sqrt() * weight + bias


def cases(generator):
    lecture = torch.tensor([[1.0, 3.0, 5.0, 7.0], [3.0, 4.0, 6.0, 2.0], [8.0, 3.0, 2.0, 1.0]])

    def drawn(*shape, eps):
        x = (10 * torch.randn(*shape, generator=generator)).round() / 10
        weight, bias = ((10 * torch.randn(shape[-1], generator=generator)).round() / 10 for _ in range(2))
        return {"x": x, "weight": weight, "bias": bias, "eps": eps}

    small = {"x": torch.tensor([1.0, 5.0]), "weight": torch.tensor([2.0, 3.0]), "bias": torch.tensor([1.0, 0.0])}
    return [
        {"x": lecture, "weight": torch.ones(4), "bias": torch.zeros(4), "eps": 1e-5},
        small | {"eps": 5.0},
        drawn(2, 3, 4, eps=0.1),
        drawn(3, 3, eps=0.01),
    ]


def property_tokens_do_not_meet(answer, generator):
    x, ones = torch.randn(2, 3, 4, generator=generator), torch.ones(4)
    changed = x.clone()
    changed[1, 2] = torch.tensor([9.0, -3.0, 5.0, 0.0])
    same = torch.allclose(answer(x, ones, 0 * ones, 0.01)[0], answer(changed, ones, 0 * ones, 0.01)[0], atol=1e-5)
    assert same, (
        "Your outputs for the first sequence change when we change a token of the second. Each token is on its own."
    )


def property_mean_is_the_bias(answer, generator):
    x = 2 + 3 * torch.randn(5, 6, generator=generator)
    mean = answer(x, torch.ones(6), torch.full((6,), 0.5), 0.01).mean(-1)
    assert torch.allclose(mean, torch.full((5,), 0.5), atol=1e-4), (
        "With a weight of 1 and a bias of 0.5 for all features, the mean of each token should be 0.5. Yours is not."
    )


def property_equal_features(answer, generator):
    found = answer(torch.full((2, 3), 4.0), torch.ones(3), torch.tensor([1.0, 2.0, 3.0]), 0.01)
    assert torch.allclose(found, torch.tensor([1.0, 2.0, 3.0]).expand(2, 3), atol=1e-3), (
        "If all features of a token are equal, its variance is 0, and only the bias should be left. Your result is "
        "different: where does epsilon stand?"
    )


def property_gradient(answer, generator):
    given = [torch.randn(*shape, generator=generator).requires_grad_() for shape in ((2, 4), (4,), (4,))]
    x, weight, bias = given
    upstream = torch.randn(2, 4, generator=generator)

    def gradients(output):
        total = (output * upstream).sum()
        return torch.autograd.grad(total, given, allow_unused=True) if total.requires_grad else [None] * 3

    names, found = ("x", "weight", "bias"), gradients(answer(*given, 0.01))
    lost = [name for name, each in zip(names, found, strict=True) if each is None]
    assert not lost, (
        f"PyTorch cannot follow your output back to {', '.join(lost)}, so nothing could be learned there. Is there an "
        ".item(), .tolist(), .numpy(), .data, .detach() or a torch.no_grad() on the way? A new nn.Parameter or a "
        "module with parameters of its own has the same effect."
    )
    centred = x - x.mean(-1, keepdim=True)
    right = gradients(weight * centred / (centred.square().mean(-1, keepdim=True) + 0.01).sqrt() + bias)
    same = [torch.allclose(*pair, rtol=1e-3, atol=1e-4) for pair in zip(found, right, strict=True)]
    assert same[0], (
        "Your outputs are right, but the gradient of x is not. The mean and the variance depend on x, so the gradient "
        "flows through both of them: compute them without .detach(), .data and torch.no_grad()."
    )
    assert all(same), (
        f"Your outputs are right, but the gradient of {names[same.index(False)]} is not. Is there a .detach() or "
        ".data where the output uses it?"
    )


def hidden_cases(generator):
    def drawn(*shape, eps):
        x, weight, bias = (torch.randn(*each, generator=generator) for each in (shape, shape[-1:], shape[-1:]))
        return {"x": 1 + 2 * x, "weight": weight, "bias": bias, "eps": eps}

    return [
        drawn(3, 5, 4, eps=1e-5),
        drawn(7, eps=0.2),
        drawn(2, 3, 2, 6, eps=0.05),
        drawn(5, 5, eps=1e-3),
        drawn(1, 9, eps=0.1),
    ]
