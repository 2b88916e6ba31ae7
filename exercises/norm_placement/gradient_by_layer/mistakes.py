import torch
import torch.nn.functional as F


def _norm(z):
    return F.rms_norm(z, z.shape[-1:])


def _gradients(x, weights, upstream, placement, final=_norm, norm=_norm, f=torch.tanh, loss=torch.sum):
    w, x = weights.detach().clone().requires_grad_(), x.detach().clone().requires_grad_()
    h, states = x, []
    for each in w:
        h = norm(h + f(h @ each)) if placement == "post" else h + f(norm(h) @ each)
        states.append(h)
    output = h if placement == "post" else final(h)
    return torch.autograd.grad(loss(output * upstream), [w, *states])


def _norms(gradient):
    return gradient.flatten(1).norm(dim=1)


def placements_exchanged(x, weights, upstream, placement):
    """Your "post" and "pre" are exchanged."""
    return _norms(_gradients(x, weights, upstream, {"post": "pre", "pre": "post"}[placement])[0])


def final_norm_missing(x, weights, upstream, placement):
    """Post-norm is right, but your pre-norm stack lacks the norm after its last layer."""
    return _norms(_gradients(x, weights, upstream, placement, final=lambda z: z)[0])


def one_norm_for_all(x, weights, upstream, placement):
    """You return the norm of all gradients together. Each layer has its own."""
    return _gradients(x, weights, upstream, placement)[0].norm()


def one_norm_for_each(x, weights, upstream, placement):
    """You return the same norm for each layer, that of all gradients together. Each layer has its own."""
    return _gradients(x, weights, upstream, placement)[0].norm().expand(len(weights))


def squares(x, weights, upstream, placement):
    """You return the squares of the norms: the root is missing."""
    return _norms(_gradients(x, weights, upstream, placement)[0]) ** 2


def root_of_the_mean(x, weights, upstream, placement):
    """You take the root of the mean of the squares. The norm is the root of their sum."""
    return _gradients(x, weights, upstream, placement)[0].square().mean((1, 2)).sqrt()


def spectral(x, weights, upstream, placement):
    """Your norm is the largest singular value. Here it is the root of the sum of the squares of all entries."""
    return torch.linalg.matrix_norm(_gradients(x, weights, upstream, placement)[0], ord=2)


def sum_of_absolute_values(x, weights, upstream, placement):
    """You sum the absolute values. The norm is the root of the sum of the squares."""
    return _gradients(x, weights, upstream, placement)[0].abs().sum((1, 2))


def norm_of_each_column(x, weights, upstream, placement):
    """You return a norm for each column of each gradient. A layer has one norm, over both axes of its matrix."""
    return _gradients(x, weights, upstream, placement)[0].norm(dim=1)


def gradients_themselves(x, weights, upstream, placement):
    """You return the gradients. Return the norm of each."""
    return _gradients(x, weights, upstream, placement)[0]


def norms_of_the_weights(x, weights, upstream, placement):
    """You return the norms of the matrices. The question is about their gradients."""
    return _norms(weights)


def gradients_of_the_states(x, weights, upstream, placement):
    """You return the norms of the gradients with respect to the stream after each layer. The question is about the
    matrices."""
    return torch.stack([g.norm() for g in _gradients(x, weights, upstream, placement)[1:]])


def last_layer_first(x, weights, upstream, placement):
    """Your norms are right, but they begin with the last layer. The first layer comes first."""
    return _norms(_gradients(x, weights, upstream, placement)[0]).flip(0)


def upstream_not_used(x, weights, upstream, placement):
    """Your loss is the sum of the outputs. Each output is multiplied by its entry of `upstream` first."""
    return _norms(_gradients(x, weights, torch.ones_like(upstream), placement)[0])


def mean_for_sum(x, weights, upstream, placement):
    """Your loss is a mean over all outputs. It should be their sum."""
    return _norms(_gradients(x, weights, upstream, placement, loss=torch.mean)[0])


def divided_by_the_tokens(x, weights, upstream, placement):
    """Your loss is a mean over the tokens. It should be their sum."""
    return _norms(_gradients(x, weights, upstream, placement)[0]) / len(x)


def layer_norm(x, weights, upstream, placement):
    """Your norm subtracts the mean. The norm of the statement does not."""

    def norm(z):
        return F.layer_norm(z, z.shape[-1:])

    return _norms(_gradients(x, weights, upstream, placement, final=norm, norm=norm)[0])


def no_tanh(x, weights, upstream, placement):
    """Your layers lack the tanh."""
    return _norms(_gradients(x, weights, upstream, placement, f=lambda z: z)[0])
