import torch
from torch.nn.functional import cross_entropy


def _trained(pairs, n_vocab):
    table = torch.zeros(n_vocab, n_vocab, requires_grad=True)
    for _ in range(100):
        (gradient,) = torch.autograd.grad(cross_entropy(table[pairs[:, 0]], pairs[:, 1]), table)
        table = (table - 10 * gradient).detach().requires_grad_()
    return table.detach()


def not_trained(pairs, n_vocab):
    """Your table is as good as none: all characters are equally likely. Does the optimizer take steps?"""
    return {"logits": torch.zeros(n_vocab, n_vocab)}


def previous_from_next(pairs, n_vocab):
    """Your table predicts the character before. Rows belong to the first of a pair, columns to the second."""
    return {"logits": _trained(pairs.flip(1), n_vocab)}


def probabilities_not_logits(pairs, n_vocab):
    """You return probabilities. The softmax comes later: return what goes into it."""
    return {"logits": _trained(pairs, n_vocab).softmax(-1)}


def one_row_for_all(pairs, n_vocab):
    """Each of your rows predicts the same: how often a character is, whatever came before it."""
    row = torch.bincount(pairs[:, 1], minlength=n_vocab).float().log().clamp(min=-20)
    return {"logits": row.expand(n_vocab, -1).contiguous()}


def ascent(pairs, n_vocab):
    """Your loss grows: the table makes likely what does not come. A step goes against the gradient."""
    return {"logits": -_trained(pairs, n_vocab)}
