import torch


def _normed(x, mask, eps, mean, variance):
    return ((x - mean) / (variance + eps).sqrt()).masked_fill(~mask[..., None], 0.0)


def _statistics(x, mask, correction=0):
    tokens = x[mask]
    mean = tokens.sum(0) / len(tokens)
    return mean, (tokens - mean).square().sum(0) / (len(tokens) - correction)


def padding_counted(x, mask, eps):
    """The padding enters your mean and your variance. Only tokens count."""
    return _normed(x, mask, eps, x.mean((0, 1)), x.var((0, 1), correction=0))


def padding_counted_and_kept(x, mask, eps):
    """You do not use the mask: the padding enters your mean and your variance, and it is not zero in the result."""
    return (x - x.mean((0, 1))) / (x.var((0, 1), correction=0) + eps).sqrt()


def zeros_counted(x, mask, eps):
    """You set the padding to zero, but these zeros are still counted in the mean and the variance, as if they were
    tokens."""
    x = x * mask[..., None]
    return _normed(x, mask, eps, x.mean((0, 1)), x.var((0, 1), correction=0))


def zeros_counted_in_the_divisors(x, mask, eps):
    """Your sums leave the padding out, but you divide them by the number of all positions. How many tokens are
    there?"""
    kept, n = mask[..., None], mask.numel()
    mean = (kept * x).sum((0, 1)) / n
    return _normed(x, mask, eps, mean, (kept * (x - mean) ** 2).sum((0, 1)) / n)


def zeros_counted_in_the_variance(x, mask, eps):
    """Your mean is right, but the zeros of the padding are in the variance: after the mean is subtracted, they are not
    zeros any more."""
    kept, n = mask[..., None], mask.sum()
    mean = (kept * x).sum((0, 1)) / n
    return _normed(x, mask, eps, mean, ((kept * x - mean) ** 2).sum((0, 1)) / n)


def padding_in_the_variance(x, mask, eps):
    """Your mean is right, but the squared deviations of the padding are in the variance."""
    mean = x[mask].mean(0)
    return _normed(x, mask, eps, mean, (x - mean).square().mean((0, 1)))


def all_positions_in_the_variance(x, mask, eps):
    """Your mean is right, but your variance divides by the number of all positions instead of that of the tokens."""
    mean = x[mask].mean(0)
    return _normed(x, mask, eps, mean, (x[mask] - mean).square().sum(0) / mask.numel())


def padding_not_zero(x, mask, eps):
    """Your tokens are right, but the padding in your result is not zero."""
    mean, variance = _statistics(x, mask)
    return (x - mean) / (variance + eps).sqrt()


def padding_unchanged(x, mask, eps):
    """Your tokens are right, but the padding in your result is that of x. It should be zero."""
    return torch.where(mask[..., None], padding_not_zero(x, mask, eps), x)


def each_sequence(x, mask, eps):
    """You take the statistics of each sequence on its own. Batch norm takes them over all sequences of the batch."""
    rows = [_normed(a[None], m[None], eps, *_statistics(a[None], m[None])) for a, m in zip(x, mask, strict=True)]
    return torch.cat(rows)


def each_position(x, mask, eps):
    """You take the statistics of each position on its own. A feature has one mean over all tokens of all sequences."""
    columns = [_normed(x[:, [t]], mask[:, [t]], eps, *_statistics(x[:, [t]], mask[:, [t]])) for t in range(x.shape[1])]
    return torch.cat(columns, 1)


def each_token(x, mask, eps):
    """You normalize each token over its features, which is layer norm. Batch norm has one mean for each feature."""
    return _normed(x, mask, eps, x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True))


def one_mean_for_all(x, mask, eps):
    """You take one mean and one variance for all features together. Each feature has its own."""
    return _normed(x, mask, eps, x[mask].mean(), x[mask].var(correction=0))


def mean_of_means(x, mask, eps):
    """You average the means of the sequences, so that a token in a short sequence counts more than one in a long
    sequence. All tokens should count the same."""
    kept, n = mask[..., None], mask.sum(1)[:, None]
    mean = ((kept * x).sum(1) / n).mean(0)
    return _normed(x, mask, eps, mean, ((kept * (x - mean) ** 2).sum(1) / n).mean(0))


def mask_inverted(x, mask, eps):
    """You take the statistics of the padding. True marks the tokens."""
    return _normed(x, mask, eps, *_statistics(x, ~mask))


def mask_turned_round(x, mask, eps):
    """Your mask is the wrong way round: you standardize the padding and set the tokens to zero. True marks the
    tokens."""
    return _normed(x, ~mask, eps, *_statistics(x, ~mask))


def mask_turned_round_in_products(x, mask, eps):
    """Your mask is the wrong way round: you standardize the padding and multiply the tokens by zero. True marks the
    tokens."""
    mean, variance = _statistics(x, ~mask)
    return (x - mean) / (variance + eps).sqrt() * ~mask[..., None]


def padding_always_on_the_right(x, mask, eps):
    """You count the tokens of each sequence, but look for them at its start. The padding may also be on the left: the
    mask tells where the tokens are."""
    on_the_right = torch.arange(mask.shape[1]) < mask.sum(1)[:, None]
    return _normed(x, mask, eps, *_statistics(x, on_the_right))


def divided_by_one_less(x, mask, eps):
    """Your variance divides by one less than the number of tokens, which is PyTorch's default."""
    return _normed(x, mask, eps, *_statistics(x, mask, correction=1))


def eps_outside_the_root(x, mask, eps):
    """You add epsilon to the standard deviation. Where does it stand in the formula?"""
    mean, variance = _statistics(x, mask)
    return ((x - mean) / (variance.sqrt() + eps)).masked_fill(~mask[..., None], 0.0)


def no_eps(x, mask, eps):
    """You leave out epsilon, so a constant feature would become 0/0."""
    return _normed(x, mask, 0.0, *_statistics(x, mask))


def no_root(x, mask, eps):
    """You divide by the variance. The formula divides by its root."""
    mean, variance = _statistics(x, mask)
    return ((x - mean) / (variance + eps)).masked_fill(~mask[..., None], 0.0)


def not_centred(x, mask, eps):
    """You divide by the right number, but do not subtract the mean."""
    return _normed(x, mask, eps, 0.0, x[mask].var(0, correction=0))


def tokens_without_their_shape(x, mask, eps):
    """You return the tokens alone, as a table. The result should have the shape of x, with zeros at the padding."""
    mean, variance = _statistics(x, mask)
    return (x[mask] - mean) / (variance + eps).sqrt()
