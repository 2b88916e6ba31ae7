import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def broken(
    x: Float[Tensor, "batch n_tokens d_model"],
    weight: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"],
    eps: float,
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Return x after a layer norm."""
    rows = x.flatten(1)
    centred = rows - rows.mean(dim=1, keepdim=True)
    variance = centred.square().mean(dim=1, keepdim=True)
    normed = centred / (variance + eps).sqrt()
    return normed.view_as(x) * weight + bias


def mean_of_the_sequence(
    x: Float[Tensor, "batch n_tokens d_model"],
    weight: Float[Tensor, "d_model"],
    bias: Float[Tensor, "d_model"],
    eps: float,
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Return x after a layer norm."""
    rows = x.flatten(0, 1)
    centred = rows - rows.mean(dim=1, keepdim=True)
    variance = centred.square().mean(dim=1, keepdim=True)
    normed = centred / (variance + eps).sqrt()
    return normed.view_as(x) * weight + bias


def accepted_no_rows(x, weight, bias, eps):
    """Leaves x as it is and counts the axis from the end."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps) * weight + bias


def accepted_library(x, weight, bias, eps):
    """Calls PyTorch's layer norm."""
    return F.layer_norm(x, x.shape[2:], weight, bias, eps)


def accepted_reshape(x, weight, bias, eps):
    """Keeps the code, with rows of the right length, and undoes the reshape."""
    rows = x.reshape(-1, len(weight))
    variance, mean = torch.var_mean(rows, 1, correction=0, keepdim=True)
    return ((rows - mean) / (variance + eps) ** 0.5 * weight + bias).reshape(x.shape)


def cases(generator):
    def drawn(batch, n_tokens, d_model, eps):
        x = (10 * torch.randn(batch, n_tokens, d_model, generator=generator)).round() / 10
        weight, bias = ((10 * torch.randn(d_model, generator=generator)).round() / 10 for _ in range(2))
        return {"x": x, "weight": weight, "bias": bias, "eps": eps}

    small = {"x": torch.tensor([[[1.0, 5.0], [0.0, 4.0]]]), "weight": torch.tensor([3.0, 3.0])}
    return [
        small | {"bias": torch.tensor([0.0, 1.0]), "eps": 5.0},
        drawn(2, 3, 4, 0.1),
        drawn(3, 2, 5, 0.01),
        drawn(2, 1, 3, 0.1),
    ]


def property_no_looking_ahead(answer, generator):
    x, ones = torch.randn(2, 4, 3, generator=generator), torch.ones(3)
    changed = torch.cat((x[:, :3], 2 - 3 * x[:, 3:]), 1)
    assert torch.allclose(answer(x, ones, ones, 0.01)[:, :3], answer(changed, ones, ones, 0.01)[:, :3], atol=1e-5), (
        "The future still leaks: when we change the last token, the outputs of earlier tokens change too."
    )


def property_sequences_do_not_meet(answer, generator):
    x, ones = torch.randn(2, 4, 3, generator=generator), torch.ones(3)
    changed = torch.cat((x[:1], 2 - 3 * x[1:]))
    assert torch.allclose(answer(x, ones, ones, 0.01)[0], answer(changed, ones, ones, 0.01)[0], atol=1e-5), (
        "When we change the second sequence, the outputs of the first one change too. They did not before."
    )


def hidden_cases(generator):
    def drawn(batch, n_tokens, d_model, eps):
        x = 1 + 2 * torch.randn(batch, n_tokens, d_model, generator=generator)
        weight, bias = (torch.randn(d_model, generator=generator) for _ in range(2))
        return {"x": x, "weight": weight, "bias": bias, "eps": eps}

    return [drawn(3, 5, 4, 1e-3), drawn(2, 6, 3, 0.2), drawn(4, 2, 7, 0.05)]
