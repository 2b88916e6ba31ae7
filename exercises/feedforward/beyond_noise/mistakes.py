import math


def _tails(gap, std):
    return math.erfc(gap / (std * 2**0.5))


def _right(gap, std_a, std_b):
    return _tails(gap, math.hypot(std_a, std_b))


def _decided(probability, n_comparisons):
    return probability, "beyond noise" if probability < 0.05 / n_comparisons else "within noise"


def one_direction(gap, std_a, std_b, n_comparisons):
    """You count only the pairs in which one given variant is ahead. Those in which the other is ahead count, too."""
    return _decided(_right(gap, std_a, std_b) / 2, n_comparisons)


def standard_deviations_added(gap, std_a, std_b, n_comparisons):
    """You add the two standard deviations. It is the variances that add up."""
    return _decided(_tails(gap, std_a + std_b), n_comparisons)


def variances_without_a_root(gap, std_a, std_b, n_comparisons):
    """You take the sum of the variances for a standard deviation. The root is missing."""
    return _decided(_tails(gap, std_a**2 + std_b**2), n_comparisons)


def variances_averaged(gap, std_a, std_b, n_comparisons):
    """You count the gap in units that are too small by a factor of √2. This happens if the variances are averaged
    instead of added, or if the argument of erfc lacks the root of 2."""
    return _decided(_tails(gap, math.hypot(std_a, std_b) / 2**0.5), n_comparisons)


def standard_deviations_averaged(gap, std_a, std_b, n_comparisons):
    """You average the two standard deviations. The variance of a difference is the sum of the two variances."""
    return _decided(_tails(gap, (std_a + std_b) / 2), n_comparisons)


def first_spread_alone(gap, std_a, std_b, n_comparisons):
    """Your probability contains only the spread of the first variant. Both runs scatter."""
    return _decided(_tails(gap, std_a), n_comparisons)


def second_spread_alone(gap, std_a, std_b, n_comparisons):
    """Your probability contains only the spread of the second variant. Both runs scatter."""
    return _decided(_tails(gap, std_b), n_comparisons)


def closer_than_the_gap(gap, std_a, std_b, n_comparisons):
    """Your probability is that of results that are less than `gap` apart. How probable is at least `gap`?"""
    return _decided(1 - _right(gap, std_a, std_b), n_comparisons)


def number_of_comparisons_ignored(gap, std_a, std_b, n_comparisons):
    """Your probability is right, but your bound is always 0.05. Divide it by the number of comparisons."""
    return _decided(_right(gap, std_a, std_b), 1)


def bound_multiplied(gap, std_a, std_b, n_comparisons):
    """Your probability is right, but you multiply the bound by the number of comparisons. More comparisons make the
    bound stricter."""
    return _decided(_right(gap, std_a, std_b), 1 / n_comparisons)


def decision_turned_round(gap, std_a, std_b, n_comparisons):
    """Your probability is right, but your decision is the wrong way round. A gap that is improbable by chance is beyond
    noise."""
    probability = _right(gap, std_a, std_b)
    return probability, "within noise" if probability < 0.05 / n_comparisons else "beyond noise"


def always_beyond(gap, std_a, std_b, n_comparisons):
    """Your probability is right, but you decide for "beyond noise" whatever it is."""
    return _right(gap, std_a, std_b), "beyond noise"


def always_within(gap, std_a, std_b, n_comparisons):
    """Your probability is right, but you decide for "within noise" whatever it is."""
    return _right(gap, std_a, std_b), "within noise"


def beyond_one_standard_deviation(gap, std_a, std_b, n_comparisons):
    """Your probability is right, but your decision compares the gap with the larger standard deviation instead of the
    probability with its bound."""
    return _right(gap, std_a, std_b), "beyond noise" if gap > max(std_a, std_b) else "within noise"


def decision_of_the_larger_bound(gap, std_a, std_b, n_comparisons):
    """Your probability is right, but your bound is 0.01. It should be 0.05, divided by the number of comparisons."""
    return _right(gap, std_a, std_b), "beyond noise" if _right(gap, std_a, std_b) < 0.01 else "within noise"


def beyond_both_standard_deviations(gap, std_a, std_b, n_comparisons):
    """Your probability is right, but your decision compares the gap with the sum of the standard deviations instead of
    the probability with its bound."""
    return _right(gap, std_a, std_b), "beyond noise" if gap > std_a + std_b else "within noise"


def beyond_two_standard_deviations(gap, std_a, std_b, n_comparisons):
    """Your probability is right, but your decision asks whether the gap exceeds two standard deviations of the
    difference. The bound depends on the number of comparisons."""
    return _right(gap, std_a, std_b), "beyond noise" if gap > 2 * math.hypot(std_a, std_b) else "within noise"


def probability_multiplied(gap, std_a, std_b, n_comparisons):
    """Your decision is right, but you return the probability times the number of comparisons. Return the probability
    itself."""
    return min(1, n_comparisons * _right(gap, std_a, std_b)), _decided(_right(gap, std_a, std_b), n_comparisons)[1]


def same_numbers_for_both(gap, std_a, std_b, n_comparisons):
    """Your probability is that for two runs that deviate in the same direction, by the same number of standard
    deviations. Draw the runs of the second variant from random numbers of their own."""
    return _decided(_tails(gap, abs(std_a - std_b) or 1e-9), n_comparisons)


def larger_spread_alone(gap, std_a, std_b, n_comparisons):
    """Your probability contains only the larger of the two spreads. Both runs scatter."""
    return _decided(_tails(gap, max(std_a, std_b)), n_comparisons)
