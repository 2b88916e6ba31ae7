def _step(x, running_mean, running_var, momentum, eps, inside=0, kept=1, keep=None):
    mean, keep = x.mean(0), 1 - momentum if keep is None else keep
    normed = (x - mean) / (x.var(0, correction=inside) + eps).sqrt()
    return (
        normed,
        keep * running_mean + (1 - keep) * mean,
        keep * running_var + (1 - keep) * x.var(0, correction=kept),
    )


def population_in_the_running_variance(x, running_mean, running_var, momentum, eps):
    """The normalized batch is right, but the variance that enters your running average divides by B. The statement
    names another divisor there."""
    return _step(x, running_mean, running_var, momentum, eps, kept=0)


def unbiased_in_the_batch(x, running_mean, running_var, momentum, eps):
    """Your running averages are right, but you normalize the batch by the variance that divides by B − 1, which is
    PyTorch's default."""
    return _step(x, running_mean, running_var, momentum, eps, inside=1)


def variances_exchanged(x, running_mean, running_var, momentum, eps):
    """Your two variances are exchanged: which one normalizes the batch, and which one enters the running average?"""
    return _step(x, running_mean, running_var, momentum, eps, inside=1, kept=0)


def momentum_of_the_old(x, running_mean, running_var, momentum, eps):
    """Your momentum is the weight of the old average. Here it is that of the new batch, as in PyTorch."""
    return _step(x, running_mean, running_var, momentum, eps, keep=momentum)


def momentum_of_the_old_and_population(x, running_mean, running_var, momentum, eps):
    """Your momentum is the weight of the old average; here it is that of the new batch. Look also at what the variance
    in the running average is divided by."""
    return _step(x, running_mean, running_var, momentum, eps, keep=momentum, kept=0)


def eps_scaled_into_the_running_variance(x, running_mean, running_var, momentum, eps):
    """Epsilon has entered your running variance. It is only added under the root that normalizes."""
    normed, mean, _ = _step(x, running_mean, running_var, momentum, eps)
    variance = (x.var(0, correction=0) + eps) * len(x) / (len(x) - 1)
    return normed, mean, running_var.lerp(variance, momentum)


def averages_exchanged(x, running_mean, running_var, momentum, eps):
    """Your numbers are right, but their order is not: the running mean comes before the running variance."""
    normed, mean, variance = _step(x, running_mean, running_var, momentum, eps)
    return normed, variance, mean


def averages_replaced(x, running_mean, running_var, momentum, eps):
    """Your running averages are those of this batch alone. Some part of the old ones should stay."""
    return _step(x, running_mean, running_var, momentum, eps, keep=0)


def averages_not_updated(x, running_mean, running_var, momentum, eps):
    """You return the old running averages. In training, each batch moves them."""
    return _step(x, running_mean, running_var, momentum, eps, keep=1)


def only_the_mean_updated(x, running_mean, running_var, momentum, eps):
    """Your running mean is right, but the running variance is the old one."""
    normed, mean, _ = _step(x, running_mean, running_var, momentum, eps)
    return normed, mean, running_var


def added_without_forgetting(x, running_mean, running_var, momentum, eps):
    """You add to the running averages without making the old ones smaller, so they would grow forever. The two weights
    of an average add up to 1."""
    normed = _step(x, running_mean, running_var, momentum, eps)[0]
    return normed, running_mean + momentum * x.mean(0), running_var + momentum * x.var(0)


def averages_of_the_normalized_batch(x, running_mean, running_var, momentum, eps):
    """Your running averages take in the statistics of the batch after its normalization. They should take in those of
    the batch as it came."""
    normed = _step(x, running_mean, running_var, momentum, eps)[0]
    return normed, *_step(normed, running_mean, running_var, momentum, eps)[1:]


def averages_started_anew(x, running_mean, running_var, momentum, eps):
    """Your running averages start from 0 and 1, as a new module does, and not from those that you are given."""
    return _step(x, 0 * running_mean, 1 + 0 * running_var, momentum, eps)


def running_standard_deviation(x, running_mean, running_var, momentum, eps):
    """You average the standard deviation. The running average is that of the variance."""
    normed, mean, _ = _step(x, running_mean, running_var, momentum, eps)
    return normed, mean, (1 - momentum) * running_var + momentum * x.std(0)


def eps_in_the_running_variance(x, running_mean, running_var, momentum, eps):
    """Your running variance contains epsilon. It only protects the division."""
    normed, mean, var = _step(x, running_mean, running_var, momentum, eps)
    return normed, mean, var + momentum * eps


def eps_outside_the_root(x, running_mean, running_var, momentum, eps):
    """You add epsilon to the standard deviation. Where does it stand in the formula?"""
    _, mean, var = _step(x, running_mean, running_var, momentum, eps)
    return (x - x.mean(0)) / (x.std(0, correction=0) + eps), mean, var


def no_eps(x, running_mean, running_var, momentum, eps):
    """Your normalized batch does without epsilon, so a constant feature would become 0/0."""
    _, mean, var = _step(x, running_mean, running_var, momentum, eps)
    return (x - x.mean(0)) / x.std(0, correction=0), mean, var


def no_root(x, running_mean, running_var, momentum, eps):
    """You divide the batch by the variance. The formula divides by its root."""
    _, mean, var = _step(x, running_mean, running_var, momentum, eps)
    return (x - x.mean(0)) / (x.var(0, correction=0) + eps), mean, var


def not_centred(x, running_mean, running_var, momentum, eps):
    """You divide the batch by the root, but do not subtract the mean."""
    _, mean, var = _step(x, running_mean, running_var, momentum, eps)
    return x / (x.var(0, correction=0) + eps).sqrt(), mean, var


def old_averages_normalize(x, running_mean, running_var, momentum, eps):
    """You normalize the batch with the old running averages, as evaluation does. In training, the batch is normalized
    with its own statistics."""
    _, mean, var = _step(x, running_mean, running_var, momentum, eps)
    return (x - running_mean) / (running_var + eps).sqrt(), mean, var


def new_averages_normalize(x, running_mean, running_var, momentum, eps):
    """You normalize the batch with the new running averages. In training, the batch is normalized with its own
    statistics."""
    _, mean, var = _step(x, running_mean, running_var, momentum, eps)
    return (x - mean) / (var + eps).sqrt(), mean, var


def each_sample(x, running_mean, running_var, momentum, eps):
    """You normalize each sample over its features, which is layer norm. Batch norm has one mean for each feature."""
    _, mean, var = _step(x, running_mean, running_var, momentum, eps)
    own = x.var(1, correction=0, keepdim=True)
    return (x - x.mean(1, keepdim=True)) / (own + eps).sqrt(), mean, var


def one_mean_for_all(x, running_mean, running_var, momentum, eps):
    """Your statistics are those of all numbers of the batch together. Each feature has its own."""
    keep = 1 - momentum
    normed = (x - x.mean()) / (x.var(correction=0) + eps).sqrt()
    return normed, keep * running_mean + momentum * x.mean(), keep * running_var + momentum * x.var()


def averages_changed_in_place(x, running_mean, running_var, momentum, eps):
    """Your three results are right, but you also change the running averages that you are given. Return new tensors."""
    normed, mean, var = _step(x, running_mean, running_var, momentum, eps)
    return normed, running_mean.copy_(mean), running_var.copy_(var)


def averages_first(x, running_mean, running_var, momentum, eps):
    """Your results are right, but not in the right order: the normalized batch comes first, then mean and variance."""
    normed, mean, var = _step(x, running_mean, running_var, momentum, eps)
    return mean, var, normed


def normalized_batch_only(x, running_mean, running_var, momentum, eps):
    """You return the normalized batch alone. Return the new running averages as well."""
    return _step(x, running_mean, running_var, momentum, eps)[0]
