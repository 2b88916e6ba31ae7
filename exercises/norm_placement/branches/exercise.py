import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def branches(
    x: Float[Tensor, "n_tokens d_model"], weights: Float[Tensor, "n_layers d_model d_model"]
) -> Float[Tensor, "n_parts n_tokens d_model"]:
    """Return the input and the branch of each layer, whose sum is the output of the stack."""
    parts = [x]
    for w in weights:
        parts.append(torch.tanh(F.rms_norm(x, x.shape[-1:]) @ w))
        x = x + parts[-1]
    return torch.stack(parts)


def accepted_differences(x, weights):
    """Keeps the streams, and subtracts each from the next one."""
    streams = [x]
    for w in weights:
        h = streams[-1]
        streams.append(h + (F.rms_norm(h, h.shape[-1:]) @ w).tanh())
    return torch.cat((x[None], torch.stack(streams).diff(dim=0)))


def accepted_sum_of_the_parts(x, weights):
    """Fills a tensor, and sums up what is there so far."""
    parts = torch.zeros(len(weights) + 1, *x.shape)
    parts[0] = x
    for i in range(len(weights)):
        stream = parts[: i + 1].sum(0)
        rms = (stream.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt()
        parts[i + 1] = torch.tanh(stream / rms @ weights[i])
    return parts


def accepted_recursion(x, weights):
    """Takes the last layer off the stack."""
    if len(weights) == 0:
        return x.unsqueeze(0)
    earlier = accepted_recursion(x, weights[:-1])
    normed = torch.nn.RMSNorm(x.shape[-1], elementwise_affine=False)(earlier.sum(dim=0))
    return torch.vstack((earlier, torch.einsum("td, de -> te", normed, weights[-1]).tanh()[None]))


def cases(generator):
    def drawn(n_layers, n_tokens, d_model, size):
        x = size * (10 * torch.randn(n_tokens, d_model, generator=generator)).round() / 10
        return {"x": x, "weights": (10 * torch.randn(n_layers, d_model, d_model, generator=generator)).round() / 10}

    small = {"x": torch.tensor([[1.0, 7.0]]), "weights": torch.tensor([[[1.0, -1.0], [0.0, 0.5]]])}
    return [drawn(4, 2, 3, 1), small, drawn(3, 5, 4, 4), drawn(2, 3, 6, 0.5)]


def property_the_input_comes_first(answer, generator):
    x, weights = (torch.randn(*shape, generator=generator) for shape in ((3, 5), (4, 5, 5)))
    parts = answer(x, weights)
    assert len(parts) == 5, "For 4 layers there should be 5 parts: the input and 4 branches."
    assert torch.allclose(parts[0], x, atol=1e-5), "The first part should be the input itself."


def property_sum_is_the_output(answer, generator):
    x, weights = (torch.randn(*shape, generator=generator) for shape in ((3, 5), (4, 5, 5)))
    total = answer(x, weights).sum(0)
    for w in weights:
        x = x + torch.tanh(F.rms_norm(x, x.shape[-1:]) @ w)
    assert torch.allclose(total, x, atol=1e-4), "The sum of your parts is not the output of the stack."


def property_later_layers(answer, generator):
    x, weights = (torch.randn(*shape, generator=generator) for shape in ((2, 4), (5, 4, 4)))
    changed = weights.clone()
    changed[3] *= -2
    one, other = answer(x, weights), answer(x, changed)
    assert torch.allclose(one[:4], other[:4], atol=1e-5), (
        "When we change the fourth of five matrices, the branches of the first three layers change too. No layer reads "
        "what later layers add."
    )
    assert not torch.allclose(one[4], other[4], atol=1e-3), (
        "When we change the fourth of five matrices, the branch of the fourth layer should change. Yours does not."
    )
    assert not torch.allclose(one[5], other[5], atol=1e-3), (
        "When we change the fourth of five matrices, the branch of the fifth layer should change too, since it reads "
        "what the fourth layer has added. Yours does not."
    )


def hidden_cases(generator):
    def drawn(n_layers, n_tokens, d_model):
        x, weights = (torch.randn(*s, generator=generator) for s in ((n_tokens, d_model), (n_layers, d_model, d_model)))
        return {"x": 1 + 2 * x, "weights": 0.7 * weights}

    return [drawn(5, 3, 4), drawn(1, 4, 6), drawn(7, 2, 5), drawn(3, 6, 2)]
