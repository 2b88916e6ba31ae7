import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def broken(
    x: Float[Tensor, "n_tokens d_model"],
    weights: Float[Tensor, "n_layers d_model d_model"],
    gain: Float[Tensor, "d_model"],
    unembedding: Float[Tensor, "d_model n_vocab"],
) -> Float[Tensor, "n_tokens n_vocab"]:
    """Return the logits of a pre-norm stack."""
    for w in weights:
        normed = F.rms_norm(x, x.shape[-1:])
        x = x + torch.relu(normed @ w)
    return (gain * x) @ unembedding


def last_norm(
    x: Float[Tensor, "n_tokens d_model"],
    weights: Float[Tensor, "n_layers d_model d_model"],
    gain: Float[Tensor, "d_model"],
    unembedding: Float[Tensor, "d_model n_vocab"],
) -> Float[Tensor, "n_tokens n_vocab"]:
    """Return the logits of a pre-norm stack."""
    for w in weights:
        normed = F.rms_norm(x, x.shape[-1:])
        x = x + torch.relu(normed @ w)
    return (gain * F.rms_norm(x, x.shape[-1:])) @ unembedding


def accepted_gain_in_the_norm(x, weights, gain, unembedding):
    """Gives the gain to the norm."""
    for w in weights:
        x = x + torch.relu(F.rms_norm(x, x.shape[-1:]) @ w)
    return F.rms_norm(x, gain.shape, gain) @ unembedding


def accepted_divided_at_the_end(x, weights, gain, unembedding):
    """Divides the logits of each token by the size of its stream."""
    for w in weights:
        normed = F.rms_norm(x, x.shape[-1:])
        x = x + torch.relu(normed @ w)
    size = (x.pow(2).mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt()
    return ((gain * x) @ unembedding) / size


def accepted_module(x, weights, gain, unembedding):
    """Sets up PyTorch's module, with the gain as its weight, and a name of its own for the stream."""
    final = torch.nn.RMSNorm(len(gain))
    final.weight.data = gain.clone()
    stream = x
    for i in range(len(weights)):
        stream = stream + F.relu(torch.einsum("td, de -> te", F.rms_norm(stream, gain.shape), weights[i]))
    return final(stream).matmul(unembedding)


def cases(generator):
    def drawn(n_layers, n_tokens, d_model, n_vocab):
        shapes = (n_tokens, d_model), (n_layers, d_model, d_model), (d_model,), (d_model, n_vocab)
        values = [(10 * torch.randn(*shape, generator=generator)).round() / 10 for shape in shapes]
        return dict(zip(("x", "weights", "gain", "unembedding"), values, strict=True)) | {"x": 2 * values[0]}

    small = {"x": torch.tensor([[1.0, 7.0]]), "weights": torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])}
    small |= {"gain": torch.tensor([2.0, 1.0]), "unembedding": torch.tensor([[1.0], [3.0]])}
    return [small, drawn(4, 3, 5, 6), drawn(2, 4, 3, 7), drawn(3, 2, 6, 4)]


def property_size_of_the_stream(answer, generator):
    x, gain, unembedding = (torch.randn(*shape, generator=generator) for shape in ((3, 5), (5,), (5, 4)))
    none = torch.zeros(2, 5, 5)
    assert torch.allclose(answer(x, none, gain, unembedding), answer(3 * x, none, gain, unembedding), atol=1e-3), (
        "With all weights zero, the logits of 3 * x should be those of x. They still differ."
    )


def hidden_cases(generator):
    def drawn(n_layers, n_tokens, d_model, n_vocab):
        shapes = (n_tokens, d_model), (n_layers, d_model, d_model), (d_model,), (d_model, n_vocab)
        values = [torch.randn(*shape, generator=generator) for shape in shapes]
        return dict(zip(("x", "weights", "gain", "unembedding"), values, strict=True)) | {"x": 1 + 2 * values[0]}

    return [drawn(5, 2, 4, 3), drawn(1, 3, 6, 8), drawn(8, 4, 5, 2)]
