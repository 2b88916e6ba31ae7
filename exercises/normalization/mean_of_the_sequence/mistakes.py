import torch


def _normed(x, axes, eps, correction=0):
    return (x - x.mean(axes, keepdim=True)) / (x.var(axes, correction=correction, keepdim=True) + eps).sqrt()


def over_the_tokens(x, weight, bias, eps):
    """Your means are now taken over the tokens of a sequence, so tokens still read each other. The features of one
    token share a mean."""
    return _normed(x, 1, eps) * weight + bias


def over_the_batch(x, weight, bias, eps):
    """Your means are now taken over the sequences. The features of one token share a mean."""
    return _normed(x, 0, eps) * weight + bias


def batch_norm(x, weight, bias, eps):
    """You now compute a batch norm, with one mean for each feature. The features of one token share a mean."""
    return _normed(x, (0, 1), eps) * weight + bias


def one_mean_for_all(x, weight, bias, eps):
    """You now compute one mean for the whole batch. Each token has its own."""
    return _normed(x, (0, 1, 2), eps) * weight + bias


def token_features_mixed(x, weight, bias, eps):
    """Your rows do hold as many numbers as a token has, but they hold numbers of several tokens. A reshape does not
    move any number: is there a transpose that should not be there?"""
    rows = x.mT.reshape(-1, x.shape[-1])
    return _normed(rows, 1, eps).reshape(x.mT.shape).mT * weight + bias


def mean_mended_alone(x, weight, bias, eps):
    """Each token has its own mean now, but the variance is still that of the whole sequence."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean((1, 2), keepdim=True) + eps).sqrt() * weight + bias


def variance_mended_alone(x, weight, bias, eps):
    """Each token has its own divisor now, but the mean is still that of the whole sequence."""
    centred = x - x.mean((1, 2), keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def variance_mended_with_its_own_mean(x, weight, bias, eps):
    """Each token has its own variance now, but the mean that you subtract is still that of the whole sequence."""
    centred = x - x.mean((1, 2), keepdim=True)
    return centred / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * weight + bias


def causal_means(x, weight, bias, eps):
    """No token reads the future now, but each shares its mean with the tokens before it. A layer norm looks at a single
    token."""
    n = x.shape[-1] * torch.arange(1, x.shape[1] + 1).view(-1, 1)
    mean = x.sum(-1, keepdim=True).cumsum(1) / n
    mean_square = x.square().sum(-1, keepdim=True).cumsum(1) / n
    return (x - mean) / (mean_square - mean**2 + eps).sqrt() * weight + bias


def divided_by_one_less(x, weight, bias, eps):
    """The axis is right now, but your variance divides by one less than the number of features, which is PyTorch's
    default. The old code divided by their number."""
    return _normed(x, -1, eps, correction=1) * weight + bias


def eps_moved(x, weight, bias, eps):
    """The axis is right now, but you have moved epsilon out of the root, where it was right."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True).sqrt() + eps) * weight + bias


def rms_norm(x, weight, bias, eps):
    """The axis is right now, but you do not subtract the mean any more."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def no_weight_and_bias(x, weight, bias, eps):
    """The axis is right now, but the weight and the bias, which were right, are missing."""
    return _normed(x, -1, eps)
