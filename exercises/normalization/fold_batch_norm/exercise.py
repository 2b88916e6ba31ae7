import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def fold_batch_norm(
    w: Float[Tensor, "d_out d_in"],
    b: Float[Tensor, "d_out"],
    scale: Float[Tensor, "d_out"],
    shift: Float[Tensor, "d_out"],
    running_mean: Float[Tensor, "d_out"],
    running_var: Float[Tensor, "d_out"],
    eps: float,
) -> tuple[Float[Tensor, "d_out d_in"], Float[Tensor, "d_out"]]:
    """Return weight and bias of the linear layer that does what the layer and its batch norm do in evaluation."""
    factor = scale / (running_var + eps).sqrt()
    return factor[:, None] * w, factor * (b - running_mean) + shift


def accepted_library(w, b, scale, shift, running_mean, running_var, eps):
    """PyTorch has a function for this."""
    fused = torch.nn.utils.fusion.fuse_linear_bn_weights(w, b, running_mean, running_var, eps, scale, shift)
    return [each.detach() for each in fused]


def accepted_by_trying(w, b, scale, shift, running_mean, running_var, eps):
    """Sends zeros and unit vectors through both layers: a linear layer is known by what it does with these."""

    def both(x):
        return F.batch_norm(F.linear(x, w, b), running_mean, running_var, scale, shift, training=False, eps=eps)

    bias = both(torch.zeros(1, w.shape[1]))
    return (both(torch.eye(w.shape[1])) - bias).T, bias[0]


def accepted_diagonal_matrix(w, b, scale, shift, running_mean, running_var, eps):
    """Writes batch norm as a diagonal matrix and a vector, and multiplies."""
    diagonal = torch.diag(scale * torch.rsqrt(running_var + eps))
    return diagonal @ w, diagonal @ b + shift - diagonal @ running_mean


NAMES = "b", "scale", "shift", "running_mean", "running_var"


def cases(generator):
    def tenths(*shape):
        return (10 * torch.randn(*shape, generator=generator)).round() / 10

    def drawn(d_out, d_in, eps):
        vectors = {name: tenths(d_out) for name in NAMES}
        return {"w": tenths(d_out, d_in)} | vectors | {"running_var": vectors["running_var"].abs() + 0.2, "eps": eps}

    numbers = {"b": 5.0, "scale": 3.0, "shift": 1.0, "running_mean": 2.0, "running_var": 3.0}
    small = {"w": torch.tensor([[4.0]])} | {name: torch.tensor([x]) for name, x in numbers.items()} | {"eps": 1.0}
    return [small, drawn(4, 3, 0.01), drawn(2, 5, 0.3), drawn(3, 3, 0.1)]


def property_one_layer_for_two(answer, generator):
    norm, layer = torch.nn.BatchNorm1d(4).eval(), torch.nn.Linear(6, 4)
    for tensor in (*norm.parameters(), *layer.parameters(), norm.running_mean):
        tensor.data = torch.randn(tensor.shape, generator=generator)
    norm.running_var = 0.5 + torch.rand(4, generator=generator)
    given = layer.weight, layer.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var
    w, b = answer(*(each.detach() for each in given), norm.eps)
    x = torch.randn(5, 6, generator=generator)
    assert torch.allclose(F.linear(x, w, b), norm(layer(x)).detach(), atol=1e-4), (
        "We put your weight and bias into a linear layer, and it does not do what PyTorch's linear layer and its batch "
        "norm do in evaluation."
    )


def property_a_norm_that_does_nothing(answer, generator):
    w, b = torch.randn(3, 2, generator=generator), torch.randn(3, generator=generator)
    found = answer(w, b, torch.ones(3), torch.zeros(3), torch.zeros(3), torch.full((3,), 0.75), 0.25)
    assert all(torch.allclose(x, y, atol=1e-5) for x, y in zip(found, (w, b), strict=True)), (
        "With scale 1, shift 0, running mean 0, running variance 0.75 and epsilon 0.25, the batch norm changes "
        "nothing. Your weight or bias does change."
    )


def hidden_cases(generator):
    def drawn(d_out, d_in, eps):
        vectors = {name: torch.randn(d_out, generator=generator) for name in NAMES}
        vectors["running_var"] = 0.3 + vectors["running_var"].square()
        return {"w": torch.randn(d_out, d_in, generator=generator)} | vectors | {"eps": eps}

    return [drawn(5, 3, 1e-5), drawn(2, 7, 0.1), drawn(4, 4, 0.4), drawn(1, 6, 0.05)]
