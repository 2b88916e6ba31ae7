import statistics


def _t(baseline, variant, deviation=statistics.stdev, sign=1.0, of_both=None):
    n = len(baseline)
    differences = [sign * (b - a) for a, b in zip(baseline, variant, strict=True)]
    mean = statistics.fmean(differences)
    apart = (of_both or (lambda: ((deviation(baseline) ** 2 + deviation(variant) ** 2) / n) ** 0.5))()
    return mean, mean / (deviation(differences) / n**0.5), mean / apart


def baseline_minus_variant(baseline, variant):
    """All your signs are wrong: a difference is that of the variant minus the baseline."""
    return _t(baseline, variant, sign=-1.0)


def absolute_differences(baseline, variant):
    """You take the differences without their signs, so that losses and gains add up."""
    n = len(baseline)
    d = [abs(b - a) for a, b in zip(baseline, variant, strict=True)]
    mean = statistics.fmean(d)
    apart = ((statistics.variance(baseline) + statistics.variance(variant)) / n) ** 0.5
    return mean, mean / ((statistics.stdev(d) or 1e-9) / n**0.5), mean / apart


def divided_by_n(baseline, variant):
    """Your standard deviations are too small: the sum of the squares is divided by n − 1."""
    return _t(baseline, variant, statistics.pstdev)


def deviation_not_of_the_mean(baseline, variant):
    """You divide by the standard deviation of the differences. That of their mean is smaller, by the root of n."""
    mean, paired, apart = _t(baseline, variant)
    return mean, paired / len(baseline) ** 0.5, apart / len(baseline) ** 0.5


def paired_without_the_root(baseline, variant):
    """Your paired t is too small, by the root of n. The other t is right."""
    mean, paired, apart = _t(baseline, variant)
    return mean, paired / len(baseline) ** 0.5, apart


def divided_by_the_number(baseline, variant):
    """In both denominators, you divide by n outside of the root. There is the root of n outside, or n inside of it."""
    mean, paired, apart = _t(baseline, variant)
    return mean, paired * len(baseline) ** 0.5, apart * len(baseline) ** 0.5


def variances_for_deviations(baseline, variant):
    """Your paired t has the variance of the differences in its denominator. Its root is missing."""
    mean, paired, apart = _t(baseline, variant)
    differences = [b - a for a, b in zip(baseline, variant, strict=True)]
    return mean, paired / statistics.stdev(differences), apart


def not_paired(baseline, variant):
    """Both your values of t are that of two lists which are not paired."""
    mean, _, apart = _t(baseline, variant)
    return mean, apart, apart


def paired_twice(baseline, variant):
    """Both your values of t are the paired one."""
    mean, paired, _ = _t(baseline, variant)
    return mean, paired, paired


def exchanged(baseline, variant):
    """Your two values of t are exchanged: the paired one comes first."""
    mean, paired, apart = _t(baseline, variant)
    return mean, apart, paired


def deviations_added(baseline, variant):
    """Your last number adds the two standard deviations. It is the variances that add up."""
    n = len(baseline)
    both = (statistics.stdev(baseline) + statistics.stdev(variant)) / n**0.5
    return _t(baseline, variant, of_both=lambda: both)


def spread_of_the_baseline_alone(baseline, variant):
    """Your last number contains the spread of the baseline alone. The variant's runs scatter, too."""
    return _t(baseline, variant, of_both=lambda: statistics.stdev(baseline) / len(baseline) ** 0.5)


def sorted_first(baseline, variant):
    """You sort the losses, so that runs of different seeds stand beside each other. The pairs are given."""
    return _t(sorted(baseline), sorted(variant))


def without_a_sign(baseline, variant):
    """Your values of t have no sign. The sign of t is that of the mean difference."""
    mean, paired, apart = _t(baseline, variant)
    return mean, abs(paired), abs(apart)


def paired_divided_by_the_number(baseline, variant):
    """Your paired t is too large, by the root of n: divide the standard deviation by the root of n, and not by n.
    The other t is right."""
    mean, paired, apart = _t(baseline, variant)
    return mean, paired * len(baseline) ** 0.5, apart


def mean_of_the_variances(baseline, variant):
    """Your last number averages the two variances. They add up."""
    mean, paired, apart = _t(baseline, variant)
    return mean, paired, 2**0.5 * apart
