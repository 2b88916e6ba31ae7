import torch.nn.functional as F


def _gradient(w, x, targets, micro_batch_size, share, reduction="sum"):
    """Adds up the gradients of the micro-batches' losses, each divided by what `share` says."""
    w = w.clone().requires_grad_()
    for rows, some in zip(x.split(micro_batch_size), targets.split(micro_batch_size), strict=True):
        if (some != -100).any():
            loss = F.cross_entropy((rows @ w).flatten(0, 1), some.flatten(), ignore_index=-100, reduction=reduction)
            (loss / share(some)).backward()
    return w.grad


def not_divided(w, x, targets, micro_batch_size):
    """Your gradient is that of the sum of the losses. Divide by the number of targets that count."""
    return _gradient(w, x, targets, micro_batch_size, lambda some: 1)


def all_tokens_counted(w, x, targets, micro_batch_size):
    """You divide the sum by the number of all targets. Those that are −100 do not count."""
    return _gradient(w, x, targets, micro_batch_size, lambda some: targets.numel())


def divided_by_sequences(w, x, targets, micro_batch_size):
    """You divide the sum by the number of sequences. The mean is one over targets."""
    return _gradient(w, x, targets, micro_batch_size, lambda some: len(x))


def divided_by_micro_batches(w, x, targets, micro_batch_size):
    """You divide the sum by the number of micro-batches. The mean is one over targets."""
    return _gradient(w, x, targets, micro_batch_size, lambda some: -(-len(x) // micro_batch_size))


def weighted_by_sequences(w, x, targets, micro_batch_size):
    """You weigh the mean of each micro-batch by its number of sequences. Sequences have different numbers of
    targets."""
    return _gradient(w, x, targets, micro_batch_size, lambda some: len(x) / len(some), "mean")


def empty_micro_batches_not_counted(w, x, targets, micro_batch_size):
    """You average over the micro-batches that have targets. It is still a mean of means: each of these has the same
    share, however many targets it has."""
    n = sum(bool((some != -100).any()) for some in targets.split(micro_batch_size))
    return _gradient(w, x, targets, micro_batch_size, lambda some: n, "mean")


def means_added(w, x, targets, micro_batch_size):
    """You add up the means of the micro-batches. Each target should have the same share in the whole gradient."""
    return _gradient(w, x, targets, micro_batch_size, lambda some: 1, "mean")


def divided_twice(w, x, targets, micro_batch_size):
    """You divide by the number of targets and, in addition, by the number of micro-batches. The first is enough."""
    n = (targets != -100).sum() * -(-len(x) // micro_batch_size)
    return _gradient(w, x, targets, micro_batch_size, lambda some: n)


def mean_divided_by_targets(w, x, targets, micro_batch_size):
    """You divide each micro-batch's mean by the number of all targets. It is the sum of its losses that has to be
    divided by it."""
    n = (targets != -100).sum()
    return _gradient(w, x, targets, micro_batch_size, lambda some: n, "mean")


def mean_of_sequences(w, x, targets, micro_batch_size):
    """You average over the targets of each sequence first, and then over the sequences. Each target should have the
    same share in the gradient."""
    n = int((targets != -100).any(1).sum())
    return _gradient(w, x, targets, 1, lambda some: n, "mean")


def only_the_last(w, x, targets, micro_batch_size):
    """Your gradient is that of the last micro-batch, divided by all targets. The gradients of the others have to be
    kept and added."""
    last = slice((len(x) - 1) // micro_batch_size * micro_batch_size, None)
    n = (targets != -100).sum()
    return _gradient(w, x[last], targets[last], micro_batch_size, lambda some: n)


def incomplete_micro_batch_dropped(w, x, targets, micro_batch_size):
    """You leave out the last micro-batch where it is smaller than the others."""
    n, full = (targets != -100).sum(), len(x) // micro_batch_size * micro_batch_size
    return _gradient(w, x[:full], targets[:full], micro_batch_size, lambda some: n)


def hidden_targets_counted_as_zero(w, x, targets, micro_batch_size):
    """Your targets of −100 count as the token 0. They should not count at all."""
    targets = targets.clamp(min=0)
    return _gradient(w, x, targets, micro_batch_size, lambda some: targets.numel())


def sign(w, x, targets, micro_batch_size):
    """Your gradient has the wrong sign."""
    n = -(targets != -100).sum()
    return _gradient(w, x, targets, micro_batch_size, lambda some: n)


def sums_divided_by_own_targets_and_weighted_twice(w, x, targets, micro_batch_size):
    """You multiply each micro-batch's sum of losses by its share of the targets. The sum has grown with the number of
    its targets already; only a mean has to be weighted."""
    n = (targets != -100).sum()
    return _gradient(w, x, targets, micro_batch_size, lambda some: n / (some != -100).sum())


def mean_of_all_sequences(w, x, targets, micro_batch_size):
    """You average over the targets of each sequence first, and then over all sequences, also those without a target
    that counts. Each target should have the same share in the gradient."""
    return _gradient(w, x, targets, 1, lambda some: len(x), "mean")


def weighted_by_micro_batch_size(w, x, targets, micro_batch_size):
    """You weigh the mean of each micro-batch by `micro_batch_size`. The last one may be smaller, and sequences have
    different numbers of targets."""
    return _gradient(w, x, targets, micro_batch_size, lambda some: len(x) / micro_batch_size, "mean")
