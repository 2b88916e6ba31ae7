import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def feed_forward(
    x: Float[Tensor, "batch n_tokens d_model"],
    w_1: Float[Tensor, "d_ff d_model"],
    b_1: Float[Tensor, "d_ff"],
    w_2: Float[Tensor, "d_model d_ff"],
    b_2: Float[Tensor, "d_model"],
) -> Float[Tensor, "batch n_tokens d_model"]:
    """Return the output of the feed-forward layer for every token."""
    inner = (x @ w_1.T + b_1).clamp(min=0)  # (batch, n_tokens, d_ff)
    return inner @ w_2.T + b_2


def accepted_linear(x, w_1, b_1, w_2, b_2):
    """Leaves the products to PyTorch's function."""
    return F.linear(F.relu(F.linear(x, w_1, b_1)), w_2, b_2)


def accepted_einsum(x, w_1, b_1, w_2, b_2):
    """Names the axes, and masks what is negative."""
    inner = torch.einsum("...d,fd->...f", x, w_1) + b_1
    return torch.einsum("...f,df->...d", inner * (inner > 0), w_2) + b_2


def accepted_sum_of_neurons(x, w_1, b_1, w_2, b_2):
    """Adds up what each neuron writes, one after the other."""
    output = b_2.expand_as(x)
    for read, bias, write in zip(w_1, b_1, w_2.T, strict=True):
        output = output + torch.relu((x * read).sum(-1, keepdim=True) + bias) * write
    return output


def tenths(generator, *shape):
    return (10 * torch.randn(*shape, generator=generator)).round() / 10


def cases(generator):
    def drawn(batch, n_tokens, d_model, d_ff):
        shapes = {"x": (batch, n_tokens, d_model), "w_1": (d_ff, d_model), "b_1": (d_ff,), "w_2": (d_model, d_ff)}
        return {name: tenths(generator, *shape) for name, shape in (shapes | {"b_2": (d_model,)}).items()}

    small = {"x": [[[1.0]]], "w_1": [[2.0], [-3.0]], "b_1": [1.0, 1.0], "w_2": [[1.0, 4.0]], "b_2": [-5.0]}
    return [drawn(2, 3, 4, 5), {name: torch.tensor(x) for name, x in small.items()}, drawn(1, 3, 3, 3)]


def weights_of(generator):
    return [torch.randn(*shape, generator=generator) for shape in ((6, 4), (6,), (4, 6), (4,))]


def property_one_token(answer, generator):
    weights, x = weights_of(generator), torch.randn(2, 3, 4, generator=generator)
    alone = answer(x[1:, 2:], *weights)
    assert torch.allclose(alone, answer(x, *weights)[1:, 2:], atol=1e-4), (
        "A token alone should get the same output as in its text. Yours gets another one, so something mixes tokens."
    )


def property_all_negative(answer, generator):
    w_1, _, w_2, b_2 = weights_of(generator)
    x = torch.randn(2, 3, 4, generator=generator)
    assert torch.allclose(answer(x, w_1, torch.full((6,), -100.0), w_2, b_2), b_2.expand(2, 3, 4), atol=1e-4), (
        "If W_1 x + b_1 is negative everywhere, nothing but b_2 should be left. Something else is left in yours."
    )


def property_gradient(answer, generator):
    x, weights = torch.randn(2, 3, 4, generator=generator, requires_grad=True), weights_of(generator)
    total = answer(x, *weights).sum()
    assert total.requires_grad and torch.autograd.grad(total, x, allow_unused=True)[0] is not None, (
        "PyTorch cannot follow your output back to x, so nothing could be learned. Is there a .detach(), .item() or "
        ".tolist() on the way?"
    )


def hidden_cases(generator):
    def drawn(batch, n_tokens, d_model, d_ff):
        shapes = {"x": (batch, n_tokens, d_model), "w_1": (d_ff, d_model), "b_1": (d_ff,), "w_2": (d_model, d_ff)}
        return {name: torch.randn(*s, generator=generator) for name, s in (shapes | {"b_2": (d_model,)}).items()}

    return [drawn(3, 4, 5, 9), drawn(2, 7, 6, 4), drawn(1, 5, 4, 4), drawn(4, 3, 2, 6)]
