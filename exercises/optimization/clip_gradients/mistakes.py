def _norm(gradients):
    return sum(gradient.square().sum().item() for gradient in gradients.values()) ** 0.5


def _clipped(gradients, max_norm, norm=None, factor=None, logged=None):
    norm = _norm(gradients) if norm is None else norm
    factor = (max_norm / norm if norm > max_norm else 1) if factor is None else factor
    return {name: factor * gradient for name, gradient in gradients.items()}, norm if logged is None else logged


def each_by_itself(gradients, max_norm):
    """Your norm is right, but you clip each tensor by its own norm. All tensors get the same factor."""
    clipped = {
        name: gradient * min(1, max_norm / max(gradient.norm().item(), 1e-9)) for name, gradient in gradients.items()
    }
    return clipped, _norm(gradients)


def each_entry(gradients, max_norm):
    """Your norm is right, but you clip each entry by itself. All entries get the same factor."""
    return {name: gradient.clamp(-max_norm, max_norm) for name, gradient in gradients.items()}, _norm(gradients)


def small_ones_enlarged(gradients, max_norm):
    """You also change gradients whose norm is below `max_norm`. These should stay as they are."""
    norm = _norm(gradients)
    return _clipped(gradients, max_norm, factor=max_norm / norm if norm else 1)


def norm_afterwards(gradients, max_norm):
    """Your gradients are right, but you return the norm after the clipping. Return the one before."""
    return _clipped(gradients, max_norm, logged=min(max_norm, _norm(gradients)))


def norms_added(gradients, max_norm):
    """Your norm is the sum of the norms of the tensors. Add up the squares and take the root at the end."""
    return _clipped(gradients, max_norm, norm=sum(gradient.norm().item() for gradient in gradients.values()))


def largest_norm_of_a_tensor(gradients, max_norm):
    """Your norm is that of the tensor with the largest one. All tensors together have a norm."""
    return _clipped(gradients, max_norm, norm=max(gradient.norm().item() for gradient in gradients.values()))


def no_root(gradients, max_norm):
    """Your norm is the sum of the squares. Take the root of it."""
    return _clipped(gradients, max_norm, norm=_norm(gradients) ** 2)


def largest_entry(gradients, max_norm):
    """Your norm is the largest absolute value of an entry. It should be the root of the sum of the squares."""
    return _clipped(gradients, max_norm, norm=max(gradient.abs().max().item() for gradient in gradients.values()))


def sum_of_absolute_values(gradients, max_norm):
    """Your norm is the sum of the absolute values. It should be the root of the sum of the squares."""
    return _clipped(gradients, max_norm, norm=sum(gradient.abs().sum().item() for gradient in gradients.values()))


def root_of_the_mean(gradients, max_norm):
    """Your norm is the root of the mean of the squares. It should be the root of their sum."""
    n = sum(gradient.numel() for gradient in gradients.values())
    return _clipped(gradients, max_norm, norm=_norm(gradients) / n**0.5)


def divided_by_the_norm(gradients, max_norm):
    """Your norm is right, but large gradients end with a norm of 1 instead of `max_norm`."""
    norm = _norm(gradients)
    return _clipped(gradients, max_norm, factor=1 / norm if norm > max_norm else 1)


def not_clipped(gradients, max_norm):
    """Your norm is right, but the gradients are returned as they were."""
    return _clipped(gradients, max_norm, factor=1)


def set_to_zero(gradients, max_norm):
    """Your norm is right, but you set large gradients to zero. That skips the step; clipping makes it smaller."""
    return _clipped(gradients, max_norm, factor=0 if _norm(gradients) > max_norm else 1)


def changed_in_place(gradients, max_norm):
    """Your results are right, but you also change the caller's gradients. Make new tensors."""
    clipped, norm = _clipped(gradients, max_norm)
    for name in gradients:
        gradients[name].copy_(clipped[name])
    return gradients, norm


def small_ones_enlarged_and_zeros_lost(gradients, max_norm):
    """You also change gradients whose norm is below `max_norm`, and those that are all zero become NaN. These should
    stay as they are."""
    norm = _norm(gradients)
    return _clipped(gradients, max_norm, factor=max_norm / norm if norm else float("nan"))
