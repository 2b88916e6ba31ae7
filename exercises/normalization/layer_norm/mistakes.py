def _normed(x, axes=-1, correction=0, eps=0.0):
    return (x - x.mean(axes, keepdim=True)) / (x.var(axes, correction=correction, keepdim=True) + eps).sqrt()


def divided_by_one_less(x, weight, bias, eps):
    """Your variance divides by one less than the number of features, which is PyTorch's default. The formula divides by
    d."""
    return weight * _normed(x, correction=1, eps=eps) + bias


def divided_by_one_less_and_eps_outside(x, weight, bias, eps):
    """Your standard deviation divides by one less than the number of features, which is PyTorch's default, and you add
    epsilon after the root."""
    return weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + bias


def eps_outside_the_root(x, weight, bias, eps):
    """You add epsilon to the standard deviation. Where does it stand in the formula?"""
    return weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps) + bias


def eps_in_the_numerator(x, weight, bias, eps):
    """You add epsilon to what is divided. It should keep the divisor away from zero."""
    return weight * (x - x.mean(-1, keepdim=True) + eps) / x.std(-1, correction=0, keepdim=True) + bias


def no_eps(x, weight, bias, eps):
    """You leave out epsilon, so a token whose features are equal becomes 0/0."""
    return weight * _normed(x) + bias


def eps_squared(x, weight, bias, eps):
    """You add the square of epsilon to the variance. Add epsilon itself."""
    return weight * _normed(x, eps=eps**2) + bias


def over_the_first_axis(x, weight, bias, eps):
    """You take the statistics over the first axis, as batch norm does. Layer norm takes them over the features of a
    token."""
    return weight * _normed(x, 0, eps=eps) + bias


def axis_not_kept(x, weight, bias, eps):
    """Your means have one axis less than x, so PyTorch lines them up with the features, or finds that they do not fit.
    Each token needs its own mean in its own row."""
    return weight * (x - x.mean(-1)) / (x.var(-1, correction=0) + eps).sqrt() + bias


def over_the_tokens(x, weight, bias, eps):
    """You take the statistics over the second-to-last axis, which holds the tokens of a sequence. Layer norm takes them
    over the features of one token."""
    return weight * _normed(x, -2 if x.dim() > 1 else -1, eps=eps) + bias


def over_everything(x, weight, bias, eps):
    """You take one mean and one variance of all numbers. Each token has its own."""
    return weight * _normed(x, list(range(x.dim())), eps=eps) + bias


def over_the_whole_sequence(x, weight, bias, eps):
    """You take the statistics over all axes but the first, so all tokens of a sequence share a mean. Each token has its
    own."""
    return weight * _normed(x, list(range(min(1, x.dim() - 1), x.dim())), eps=eps) + bias


def batch_norm(x, weight, bias, eps):
    """You take the statistics of each feature over all tokens, as batch norm does. Layer norm takes those of each token
    over its features."""
    return weight * _normed(x, list(range(x.dim() - 1)) or -1, eps=eps) + bias


def gain_of_the_input(x, weight, bias, eps):
    """You multiply the gain by x itself, so the standardized value is never used. This is a slip on the slide (erratum
    E-04)."""
    return weight * x + bias


def gain_before_the_mean(x, weight, bias, eps):
    """You multiply x by the gain before you subtract the mean. The gain multiplies the standardized value."""
    return (weight * x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() + bias


def no_root(x, weight, bias, eps):
    """You divide by the variance. The formula divides by its root."""
    return weight * (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + eps) + bias


def not_centred(x, weight, bias, eps):
    """You divide by the right number, but do not subtract the mean."""
    return weight * x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() + bias


def rms_norm(x, weight, bias, eps):
    """You divide by the root mean square of x and do not subtract the mean, as RMSNorm does."""
    return weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt() + bias


def deviations_from_zero(x, weight, bias, eps):
    """You subtract the mean, but the squares in your variance are those of x itself. They should be those of the
    deviations from the mean."""
    return weight * (x - x.mean(-1, keepdim=True)) / (x.square().mean(-1, keepdim=True) + eps).sqrt() + bias


def centred_only(x, weight, bias, eps):
    """You subtract the mean, but divide by nothing."""
    return weight * (x - x.mean(-1, keepdim=True)) + bias


def sum_of_squares(x, weight, bias, eps):
    """You divide by the length of the centred token: the squares are added up but not divided by d."""
    centred = x - x.mean(-1, keepdim=True)
    return weight * centred / (centred.square().sum(-1, keepdim=True) + eps).sqrt() + bias


def no_bias(x, weight, bias, eps):
    """The bias is missing."""
    return weight * _normed(x, eps=eps)


def no_weight(x, weight, bias, eps):
    """The gain is missing."""
    return _normed(x, eps=eps) + bias


def neither_weight_nor_bias(x, weight, bias, eps):
    """You standardize each token, but the gain and the bias are missing."""
    return _normed(x, eps=eps)


def bias_before_the_weight(x, weight, bias, eps):
    """You add the bias before you multiply by the gain. The bias comes last."""
    return weight * (_normed(x, eps=eps) + bias)


def bias_divided(x, weight, bias, eps):
    """You divide the bias by the standard deviation as well. The bias comes last."""
    return (weight * (x - x.mean(-1, keepdim=True)) + bias) / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()


def length_without_eps(x, weight, bias, eps):
    """You divide by the length of the centred token: the squares are added up but not divided by d, and epsilon is
    missing."""
    centred = x - x.mean(-1, keepdim=True)
    return weight * centred / centred.norm(dim=-1, keepdim=True) + bias


def bias_standardized(x, weight, bias, eps):
    """You scale and shift x first and standardize afterwards, which removes part of it again. Gain and bias come
    last."""
    return _normed(weight * x + bias, eps=eps)


def weight_and_bias_exchanged(x, weight, bias, eps):
    """Gain and bias are exchanged."""
    return bias * _normed(x, eps=eps) + weight


def bias_subtracted(x, weight, bias, eps):
    """You subtract the bias. Add it."""
    return weight * _normed(x, eps=eps) - bias


def one_gain_for_all(x, weight, bias, eps):
    """You use one gain for all features. Each feature has its own (erratum E-84)."""
    return weight[0] * _normed(x, eps=eps) + bias


def one_plus_weight(x, weight, bias, eps):
    """You multiply by one plus the weight, as Gemma's norm does. Here the gain is the weight itself."""
    return (1 + weight) * _normed(x, eps=eps) + bias
