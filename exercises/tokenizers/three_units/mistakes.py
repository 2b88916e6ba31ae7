import math

import torch


def _losses(scores, targets):
    return -scores.log_softmax(1)[torch.arange(len(targets)), targets]


def _three(loss, bits, n_bytes):
    return loss, loss.exp(), bits / n_bytes


def bits_of_the_mean(scores, targets, n_bytes):
    """The first two numbers are right. For the third you divide the bits of one token by the bytes of the whole text.
    Take the bits of the whole text."""
    loss = _losses(scores, targets).mean()
    return _three(loss, loss / math.log(2), n_bytes)


def nats_per_byte(scores, targets, n_bytes):
    """The first two numbers are right. Your third is in nats per byte: a bit is ln 2 nats."""
    losses = _losses(scores, targets)
    return _three(losses.mean(), losses.sum(), n_bytes)


def multiplied_by_ln_2(scores, targets, n_bytes):
    """The first two numbers are right. For the third you multiply by ln 2. A loss is a larger number in bits than in
    nats."""
    losses = _losses(scores, targets)
    return _three(losses.mean(), losses.sum() * math.log(2), n_bytes)


def bits_per_token(scores, targets, n_bytes):
    """The first two numbers are right. Your third is in bits per token. Divide by the bytes, not by the tokens."""
    loss = _losses(scores, targets).mean()
    return loss, loss.exp(), loss / math.log(2)


def sum_not_mean(scores, targets, n_bytes):
    """You return the loss of the whole text. The first number is the mean over the tokens, and the perplexity follows
    from it."""
    losses = _losses(scores, targets)
    return _three(losses.sum(), losses.sum() / math.log(2), n_bytes)


def no_logarithm_of_two_in_perplexity(scores, targets, n_bytes):
    """The loss is right. Your perplexity is 2 to the power of the loss in nats: nats and 2 do not belong together."""
    losses = _losses(scores, targets)
    return losses.mean(), 2 ** losses.mean(), losses.sum() / math.log(2) / n_bytes


def softmax_missing(scores, targets, n_bytes):
    """You take the scores for logarithms of probabilities. They become such only through a softmax over the
    vocabulary."""
    losses = -scores[torch.arange(len(targets)), targets]
    return _three(losses.mean(), losses.sum() / math.log(2), n_bytes)


def wrong_sign(scores, targets, n_bytes):
    """Your loss has the wrong sign. The logarithm of a probability is below 0, and the loss is minus that."""
    losses = -_losses(scores, targets)
    return _three(losses.mean(), losses.sum() / math.log(2), n_bytes)


def over_the_tokens(scores, targets, n_bytes):
    """Your softmax runs over the tokens of the text. It should run over the vocabulary, in each row."""
    losses = -scores.log_softmax(0)[torch.arange(len(targets)), targets]
    return _three(losses.mean(), losses.sum() / math.log(2), n_bytes)


def overflowing_softmax(scores, targets, n_bytes):
    """With large scores your numbers are not finite. Exponentiate only after you have subtracted the largest score of
    the row, or use a function that does."""
    p = scores.exp() / scores.exp().sum(1, keepdim=True)
    losses = -p[torch.arange(len(targets)), targets].log()
    return _three(losses.mean(), losses.sum() / math.log(2), n_bytes)


def logarithm_of_softmax(scores, targets, n_bytes):
    """With large scores your numbers are not finite: a probability is rounded to 0, and its logarithm is −∞. Take
    softmax and logarithm in one step."""
    losses = -scores.softmax(1).log()[torch.arange(len(targets)), targets]
    return _three(losses.mean(), losses.sum() / math.log(2), n_bytes)


def whole_distribution(scores, targets, n_bytes):
    """You average over the whole vocabulary. Only the probability of the token that really came counts."""
    losses = -scores.log_softmax(1).mean(1)
    return _three(losses.mean(), losses.sum() / math.log(2), n_bytes)


def entropy_of_the_model(scores, targets, n_bytes):
    """You compute the entropy of the model's own distribution. The loss asks how probable the target was, so the
    targets must appear in it."""
    log_p = scores.log_softmax(1)
    losses = -(log_p.exp() * log_p).sum(1)
    return _three(losses.mean(), losses.sum() / math.log(2), n_bytes)


def perplexity_left_out(scores, targets, n_bytes):
    """You return two numbers. The perplexity, the second of three, is missing."""
    losses = _losses(scores, targets)
    return losses.mean(), losses.sum() / math.log(2) / n_bytes


def perplexity_per_byte(scores, targets, n_bytes):
    """Your perplexity is that of a byte. The second number is the exponential of the first, the loss per token."""
    losses = _losses(scores, targets)
    return losses.mean(), (losses.sum() / n_bytes).exp(), losses.sum() / math.log(2) / n_bytes


def probability_of_the_target(scores, targets, n_bytes):
    """You return the mean probability of the targets. Take minus the logarithm of each probability first."""
    p = (-_losses(scores, targets)).exp()
    return _three(p.mean(), p.sum() / math.log(2), n_bytes)


def softmax_twice(scores, targets, n_bytes):
    """Your softmax is applied twice. PyTorch's cross_entropy expects scores and applies it itself."""
    losses = _losses(scores.softmax(1), targets)
    return _three(losses.mean(), losses.sum() / math.log(2), n_bytes)


def next_token_for_target(scores, targets, n_bytes):
    """You shift the targets by one. Row t of the scores already belongs to target t."""
    losses = _losses(scores[:-1], targets[1:]) if len(targets) > 1 else _losses(scores, targets)
    return _three(losses.mean(), losses.sum() / math.log(2), n_bytes)
