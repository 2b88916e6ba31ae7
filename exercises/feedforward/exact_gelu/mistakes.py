import math

import torch


def _exact(z, root=2**0.5):
    return z * (1 + torch.erf(z / root)) / 2


def _tanh(z, factor=(2 / math.pi) ** 0.5, cubic=0.044715, power=3):
    return z * (1 + torch.tanh(factor * (z + cubic * z**power))) / 2


def _with_distance(exact, approximate):
    return exact, approximate, (exact - approximate).abs().max()


def root_of_two_missing(z):
    """Your exact values take erf of z. In the normal density, the exponent is −t²/2, so the argument needs a factor."""
    return _with_distance(_exact(z, 1.0), _tanh(z))


def multiplied_by_the_root(z):
    """Your exact values multiply z by the root of 2 before erf. Divide by it."""
    return _with_distance(_exact(z, 0.5**0.5), _tanh(z))


def distribution_from_minus_one(z):
    """Your exact values multiply z by erf itself, which lies between −1 and 1. A probability lies between 0 and 1."""
    return _with_distance(z * torch.erf(z / 2**0.5), _tanh(z))


def half_missing(z):
    """In your exact values, the factor one half is missing. erf goes from −1 to 1, and a probability from 0 to 1."""
    return _with_distance(2 * _exact(z), _tanh(z))


def halves_missing(z):
    """The factor one half is missing in both formulas."""
    return _with_distance(2 * _exact(z), 2 * _tanh(z))


def density(z):
    """Your exact values multiply z by the density of the normal distribution. Φ is the probability of a number up to
    z."""
    return _with_distance(z * torch.exp(-z * z / 2) / (2 * math.pi) ** 0.5, _tanh(z))


def other_tail(z):
    """Your exact values multiply z by the probability of a number *above* z."""
    return _with_distance(z - _exact(z), _tanh(z))


def distribution_alone(z):
    """Your exact values are Φ(z) alone. GELU multiplies it by z."""
    return _with_distance(torch.special.ndtr(z), _tanh(z))


def sigmoid(z):
    """Your exact values are z σ(1.702 z), another approximation."""
    return _with_distance(z * torch.sigmoid(1.702 * z), _tanh(z))


def swish(z):
    """Your exact values are z σ(z), which is Swish. The normal distribution has another Φ."""
    return _with_distance(z * torch.sigmoid(z), _tanh(z))


def cubic_term_missing(z):
    """Your exact values are right, but in the approximation the term with z³ is missing."""
    return _with_distance(_exact(z), _tanh(z, cubic=0.0))


def square_for_the_cube(z):
    """Your exact values are right, but in the approximation you square z where the formula has z³."""
    return _with_distance(_exact(z), _tanh(z, power=2))


def factor_without_root(z):
    """Your exact values are right, but the approximation has 2/π where the formula has its root."""
    return _with_distance(_exact(z), _tanh(z, factor=2 / math.pi))


def factor_for_z_alone(z):
    """Your exact values are right, but in the approximation the factor √(2/π) multiplies only z. It multiplies the
    whole sum."""
    inner = (2 / math.pi) ** 0.5 * z + 0.044715 * z**3
    return _with_distance(_exact(z), z * (1 + torch.tanh(inner)) / 2)


def exact_twice(z):
    """Your second result is the first once more, so the distance is 0. The second should be the approximation."""
    return _with_distance(_exact(z), _exact(z))


def approximation_twice(z):
    """Your first result is the approximation, so the distance is 0. The first should be the exact values."""
    return _with_distance(_tanh(z), _tanh(z))


def approximation_first(z):
    """The distance is right, but your first two results are in the wrong order: the exact values come first."""
    return _with_distance(_tanh(z), _exact(z))


def signed_distance(z):
    """Your values are right, but for the distance you take the largest difference with its sign. A distance is an
    absolute value."""
    return _exact(z), _tanh(z), (_exact(z) - _tanh(z)).max()


def signed_distance_turned(z):
    """Your values are right, but for the distance you take the largest difference, approximate minus exact, with its
    sign. A distance is an absolute value."""
    return _exact(z), _tanh(z), (_tanh(z) - _exact(z)).max()


def all_distances(z):
    """Your values are right, but you return all distances. Return the largest."""
    return _exact(z), _tanh(z), (_exact(z) - _tanh(z)).abs()


def mean_distance(z):
    """Your values are right, but your third result is the mean of the distances. Return the largest."""
    return _exact(z), _tanh(z), (_exact(z) - _tanh(z)).abs().mean()


def values_alone(z):
    """Your two tables of values are right. Return their largest distance as a third result."""
    return _exact(z), _tanh(z)
