import torch
import torch.nn.functional as F


def _norm(z):
    return F.rms_norm(z, z.shape[-1:])


def _both(x, weights, norm=_norm, f=torch.tanh):
    streams, parts = [x], [x]
    for w in weights:
        parts.append(f(norm(streams[-1]) @ w))
        streams.append(streams[-1] + parts[-1])
    return torch.stack(parts), torch.stack(streams)


def streams_for_branches(x, weights):
    """You return the stream after each layer. Return what each layer adds to it."""
    return _both(x, weights)[1]


def all_read_the_input(x, weights):
    """All of your layers read the input of the stack. Each layer reads what the layers before it have made of it."""
    return torch.stack([x, *(torch.tanh(_norm(x) @ w) for w in weights)])


def each_reads_the_branch_before(x, weights):
    """Each of your layers reads the branch of the layer before it alone. It should read the whole stream."""
    parts = [x]
    for w in weights:
        parts.append(torch.tanh(_norm(parts[-1]) @ w))
    return torch.stack(parts)


def input_missing(x, weights):
    """Your branches are right, but the input of the stack is missing, which is the first part of the sum."""
    return _both(x, weights)[0][1:]


def input_last(x, weights):
    """Your parts are right, but the input of the stack comes last. It should come first."""
    parts = _both(x, weights)[0]
    return torch.cat((parts[1:], parts[:1]))


def reversed_order(x, weights):
    """Your parts are right, but they come in reverse order. The input is the first part."""
    return _both(x, weights)[0].flip(0)


def norm_of_the_input_first(x, weights):
    """Your branches are right, but the first part is the norm of the input. It should be the input itself."""
    parts = _both(x, weights)[0]
    return torch.cat((_norm(x)[None], parts[1:]))


def output_last(x, weights):
    """Your parts are right, but you return one more behind them, the output of the stack."""
    parts, streams = _both(x, weights)
    return torch.cat((parts, streams[-1:]))


def sum_alone(x, weights):
    """You return the output of the stack. Return the parts of which it is the sum."""
    return _both(x, weights)[1][-1]


def no_norm(x, weights):
    """Your layers read the stream itself. They should read its norm."""
    return _both(x, weights, lambda z: z)[0]


def no_tanh(x, weights):
    """Your branches lack the tanh."""
    return _both(x, weights, f=lambda z: z)[0]


def norm_on_the_stream(x, weights):
    """Your norm stands on the stream, so that each branch is added to a normed copy. Only the branch reads the norm."""
    parts = [x]
    for w in weights:
        x = _norm(x)
        parts.append(torch.tanh(x @ w))
        x = x + parts[-1]
    return torch.stack(parts)


def post_norm(x, weights):
    """These are the branches of a post-norm stack, in which each sum is normalized."""
    parts = [x]
    for w in weights:
        parts.append(torch.tanh(x @ w))
        x = _norm(x + parts[-1])
    return torch.stack(parts)


def normed_branches(x, weights):
    """You normalize the outputs of the layers. The norm belongs to what they read."""
    parts = [x]
    for w in weights:
        parts.append(_norm(torch.tanh(x @ w)))
        x = x + parts[-1]
    return torch.stack(parts)


def layer_norm(x, weights):
    """Your norm subtracts the mean. The norm of the statement does not."""
    return _both(x, weights, lambda z: F.layer_norm(z, z.shape[-1:]))[0]


def weights_transposed(x, weights):
    """You multiply by the transposed matrices. A token is a row, which is multiplied by a matrix from the right."""
    return _both(x, weights.mT)[0]


def matrices_in_reverse_order(x, weights):
    """You begin with the last matrix. The first layer has the first one."""
    return _both(x, weights.flip(0))[0]


def changed_in_place(x, weights):
    """Your parts are right, but you also change the caller's x. Use `x = x + …` instead of `+=`."""
    parts, streams = _both(x, weights)
    x.copy_(streams[-1])
    return parts


def aliased(x, weights):
    """Your branches are right, but the first part is the output of the stack, and x has changed as well: `+=` changes
    the tensor that you have put into the list."""
    parts, streams = _both(x, weights)
    x.copy_(streams[-1])
    return torch.cat((streams[-1:], parts[1:]))


def norm_after_the_matrix(x, weights):
    """Your norm comes after the product with the matrix. It belongs to what the layer reads, before the product."""
    parts = [x]
    for w in weights:
        parts.append(torch.tanh(_norm(x @ w)))
        x = x + parts[-1]
    return torch.stack(parts)
