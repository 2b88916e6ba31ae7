import torch
import torch.nn.functional as F


def _gradients(table, ids, targets, reduction="mean"):
    reading, scoring = (table.clone().requires_grad_() for _ in range(2))
    loss = F.cross_entropy(reading[ids] @ scoring.T, targets, reduction=reduction)
    return torch.autograd.grad(loss, (reading, scoring))


def output_only(table, ids, targets):
    """You count only the use at the output. The table also embeds the token that is read: is that copy detached?"""
    return _gradients(table, ids, targets)[1]


def input_only(table, ids, targets):
    """You count only the use at the input. The table also scores the next token: is that copy detached?"""
    return _gradients(table, ids, targets)[0]


def averaged(table, ids, targets):
    """You average the gradients of the two uses. They are added."""
    return sum(_gradients(table, ids, targets)) / 2


def sum_over_the_batch(table, ids, targets):
    """Your loss is the sum over the batch. It should be the mean."""
    return sum(_gradients(table, ids, targets, "sum"))


def subtracted(table, ids, targets):
    """You subtract one gradient from the other. Add them."""
    reading, scoring = _gradients(table, ids, targets)
    return reading - scoring


def wrong_sign(table, ids, targets):
    """Your gradient has the wrong sign. Return the gradient itself, not the direction of the step."""
    return -sum(_gradients(table, ids, targets))


def as_a_pair(table, ids, targets):
    """You return the gradients of the two uses side by side. There is only one table: add them."""
    return _gradients(table, ids, targets)


def ids_and_targets_exchanged(table, ids, targets):
    """You exchanged the tokens that are read with the targets."""
    return sum(_gradients(table, targets, ids))


def no_softmax(table, ids, targets):
    """Your loss has no softmax: it only raises the score of the target. The scores of all tokens have to compete."""
    tied = table.clone().requires_grad_()
    scores = tied[ids] @ tied.T
    return torch.autograd.grad(-scores[torch.arange(len(ids)), targets].mean(), tied)[0]


def repeated_tokens_once(table, ids, targets):
    """Where a token is read several times, you count only one of them. Indexed assignment adds once: use index_add."""
    x = table[ids]
    slope = ((x @ table.T).softmax(1) - F.one_hot(targets, len(table))) / len(ids)
    gradient = slope.T @ x
    gradient[ids] += slope @ table
    return gradient


def loss_itself(table, ids, targets):
    """You return the loss. Return its gradient."""
    return F.cross_entropy(table[ids] @ table.T, targets)


def updated_table(table, ids, targets):
    """You return a table after a step. Return the gradient."""
    return table - sum(_gradients(table, ids, targets))


def softmax_twice(table, ids, targets):
    """Your softmax is applied twice. PyTorch's cross_entropy expects scores and applies it itself."""
    tied = table.clone().requires_grad_()
    loss = F.cross_entropy((tied[ids] @ tied.T).softmax(1), targets)
    return torch.autograd.grad(loss, tied)[0]
