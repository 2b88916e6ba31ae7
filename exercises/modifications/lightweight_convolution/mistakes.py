import torch
import torch.nn.functional as F


def _mixed(u, weights, before=None, after=0):
    """The sum over a window, for weights (channels, width)."""
    width = weights.shape[1]
    padded = F.pad(u, (0, 0, width - 1 - after if before is None else before, after))
    return sum(weights[:, j] * padded[j : j + len(u)] for j in range(width))


def _repeated(u, weights):
    return weights.repeat_interleave(u.shape[1] // len(weights), dim=0)


def without_softmax(u, kernel):
    """Your weights are the numbers of the kernel. They should be their softmax."""
    return _mixed(u, _repeated(u, kernel))


def softmax_over_heads(u, kernel):
    """Your softmax runs over the heads. It should run over the window, for each head by itself."""
    return _mixed(u, _repeated(u, kernel.softmax(0)))


def turned_round(u, kernel):
    """Your window is the wrong way round: the last weight belongs to the token itself."""
    return _mixed(u, _repeated(u, kernel.softmax(-1).flip(-1)))


def centred(u, kernel):
    """Your window is centred on the token, so that it reads later tokens. It should end at the token itself."""
    return _mixed(u, _repeated(u, kernel.softmax(-1)), after=(kernel.shape[1] - 1) // 2 or kernel.shape[1] // 2)


def starts_at_the_token(u, kernel):
    """Your window begins at the token and reads later tokens. It should end at the token."""
    return _mixed(u, _repeated(u, kernel.softmax(-1)), after=kernel.shape[1] - 1)


def heads_dealt_out(u, kernel):
    """You deal out the channels to the heads in turn. The channels of a head are neighbours."""
    return _mixed(u, kernel.softmax(-1).repeat(u.shape[1] // len(kernel), 1))


def first_kernel_for_all(u, kernel):
    """All your channels use the kernel of the first head. Each head has its own."""
    return _mixed(u, kernel.softmax(-1)[:1].expand(u.shape[1], -1))


def one_too_early(u, kernel):
    """Your window ends one token too early. It contains the token itself."""
    return _mixed(u, _repeated(u, kernel.softmax(-1)), before=kernel.shape[1])


def normalized_at_the_beginning(u, kernel):
    """Near the beginning of the text, you divide by the weights of the tokens that exist. The weights should stay as
    they are."""
    weights = _repeated(u, kernel.softmax(-1))
    return _mixed(u, weights) / _mixed(torch.ones_like(u), weights)


def first_token_repeated(u, kernel):
    """Before the beginning of the text, you repeat the first token. There, tokens should be zero."""
    width = kernel.shape[1]
    return _mixed(torch.cat((u[:1].expand(width - 1, -1), u)), _repeated(u, kernel.softmax(-1)))[width - 1 :]


def joined_at_the_ends(u, kernel):
    """Before the beginning of the text, you read the tokens of its end. There, tokens should be zero."""
    weights, width = _repeated(u, kernel.softmax(-1)), kernel.shape[1]
    return sum(weights[:, j] * u.roll(width - 1 - j, 0) for j in range(width))


def negative_indices(u, kernel):
    """Before the beginning of the text, your indices are negative, and Python counts these from the end. There, tokens
    should be zero."""
    weights, width = kernel.softmax(-1).repeat_interleave(u.shape[1] // len(kernel), dim=0), kernel.shape[1]
    return torch.stack([sum(weights[:, j] * u[t - (width - 1) + j] for j in range(width)) for t in range(len(u))])
