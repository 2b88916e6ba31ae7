def _parts(x, eps):
    s = (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    return (x - x.mean(-1, keepdim=True)) / s, s


def _mean(x):
    return x.mean(-1, keepdim=True)


def statistics_constant(x, upstream, eps):
    """You treat mean and standard deviation as constants. Both depend on every entry of x."""
    return upstream / _parts(x, eps)[1]


def deviation_constant(x, upstream, eps):
    """Your gradient passes the mean, but its part through the standard deviation, which depends on every entry of x as
    well, is missing or always zero. The mean of y is zero, so a product with this mean is zero, too."""
    return (upstream - _mean(upstream)) / _parts(x, eps)[1]


def mean_constant(x, upstream, eps):
    """Your gradient passes the standard deviation, but the part through the mean is missing."""
    y, s = _parts(x, eps)
    return (upstream - y * _mean(upstream * y)) / s


def not_divided(x, upstream, eps):
    """You remove the right parts, but the division by s is missing."""
    y, _ = _parts(x, eps)
    return upstream - _mean(upstream) - y * _mean(upstream * y)


def multiplied_by_s(x, upstream, eps):
    """You remove the right parts, but multiply by s. The larger x is, the smaller its gradient."""
    y, s = _parts(x, eps)
    return (upstream - _mean(upstream) - y * _mean(upstream * y)) * s


def divided_by_the_variance(x, upstream, eps):
    """You remove the right parts, but divide by the square of s."""
    y, s = _parts(x, eps)
    return (upstream - _mean(upstream) - y * _mean(upstream * y)) / s**2


def sums_for_means(x, upstream, eps):
    """You subtract sums over the features. Mean and variance divide by d, and this factor stays in both parts."""
    y, s = _parts(x, eps)
    d = x.shape[-1]
    return (upstream - d * _mean(upstream) - d * y * _mean(upstream * y)) / s


def sum_in_the_last_part(x, upstream, eps):
    """The part through the mean is right, but in the part through s the factor 1/d of the variance is missing."""
    y, s = _parts(x, eps)
    return (upstream - _mean(upstream) - y * x.shape[-1] * _mean(upstream * y)) / s


def no_product_with_upstream(x, upstream, eps):
    """In the part through s, you average the upstream gradient before it meets y. The mean is that of their product."""
    y, s = _parts(x, eps)
    return (upstream - _mean(upstream) - y * _mean(upstream)) / s


def not_multiplied_by_y(x, upstream, eps):
    """The part through s is the same for all entries in your gradient. An entry that is far from the mean changes s
    more than others."""
    y, s = _parts(x, eps)
    return (upstream - _mean(upstream) - _mean(upstream * y)) / s


def x_for_y(x, upstream, eps):
    """In the part through s stands x itself where the normalized y should stand."""
    s = _parts(x, eps)[1]
    return (upstream - _mean(upstream) - x * _mean(upstream * x)) / s


def centred_for_y(x, upstream, eps):
    """In the part through s stands the centred x where the normalized y should stand."""
    s, c = _parts(x, eps)[1], x - _mean(x)
    return (upstream - _mean(upstream) - c * _mean(upstream * c)) / s


def last_part_halved(x, upstream, eps):
    """The part through s is half as large as it should be. The derivative of the root has a factor 1/2, and that of the
    square has a factor 2."""
    y, s = _parts(x, eps)
    return (upstream - _mean(upstream) - y * _mean(upstream * y) / 2) / s


def last_part_doubled(x, upstream, eps):
    """The part through s is twice as large as it should be. The derivative of the root has a factor 1/2, and that of
    the square has a factor 2."""
    y, s = _parts(x, eps)
    return (upstream - _mean(upstream) - 2 * y * _mean(upstream * y)) / s


def last_part_added(x, upstream, eps):
    """The part through s has the wrong sign. A larger s makes the outputs smaller."""
    y, s = _parts(x, eps)
    return (upstream - _mean(upstream) + y * _mean(upstream * y)) / s


def mean_added(x, upstream, eps):
    """The part through the mean has the wrong sign. A larger mean makes the outputs smaller."""
    y, s = _parts(x, eps)
    return (upstream + _mean(upstream) - y * _mean(upstream * y)) / s


def no_eps(x, upstream, eps):
    """Your s leaves out epsilon."""
    y, s = _parts(x, 0.0)
    return (upstream - _mean(upstream) - y * _mean(upstream * y)) / s


def y_without_eps(x, upstream, eps):
    """Your s is right, but the y in the part through s is the one without epsilon."""
    y, s = _parts(x, 0.0)[0], _parts(x, eps)[1]
    return (upstream - _mean(upstream) - y * _mean(upstream * y)) / s


def divided_by_one_less(x, upstream, eps):
    """Your variance divides by one less than the number of features, which is PyTorch's default."""
    s = (x.var(-1, keepdim=True) + eps).sqrt()
    y = (x - _mean(x)) / s
    return (upstream - _mean(upstream) - y * _mean(upstream * y)) / s


def gradient_of_rms_norm(x, upstream, eps):
    """This is the gradient of RMSNorm, which does not subtract the mean."""
    s = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    y = x / s
    return (upstream - y * _mean(upstream * y)) / s


def over_the_tokens(x, upstream, eps):
    """Your means run over the tokens. Each token is normalized over its own features."""
    s = (x.var(0, correction=0) + eps).sqrt()
    y = (x - x.mean(0)) / s
    return (upstream - upstream.mean(0) - y * (upstream * y).mean(0)) / s


def gradient_of_the_sum(x, upstream, eps):
    """Your gradient is zero, as that of the sum of all outputs is. The loss weighs each output by `upstream` before
    they are added up."""
    return 0 * x


def forward_result(x, upstream, eps):
    """You return the layer norm of x, times the upstream gradient. That is no derivative."""
    return upstream * _parts(x, eps)[0]
