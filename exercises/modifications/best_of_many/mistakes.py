import math


def _cdf(z):
    return 0.5 * math.erfc(-z / 2**0.5)


def _of_best(n):
    step = 0.004
    grid = [-9 + step * i for i in range(4501)]
    chances = [_cdf(z) ** n for z in grid]
    return sum((a + b) / 2 * (q - p) for a, b, p, q in zip(grid, grid[1:], chances, chances[1:], strict=False))


def _answer(n_variants, n_runs, std, gap):
    scale = std / n_runs**0.5
    return _of_best(n_variants) * scale, 1 - _cdf(gap / scale) ** n_variants


def single_runs(n_variants, n_runs, std, gap):
    """Your means scatter as much as single runs. The mean of several runs scatters less."""
    return _of_best(n_variants) * std, 1 - _cdf(gap / std) ** n_variants


def divided_by_the_number_of_runs(n_variants, n_runs, std, gap):
    """You divide the standard deviation by the number of runs. That of a mean is divided by its root."""
    return _of_best(n_variants) * std / n_runs, 1 - _cdf(gap * n_runs / std) ** n_variants


def wrong_sign(n_variants, n_runs, std, gap):
    """Your mean lead is the difference from the baseline, which is negative. A lead is positive."""
    lead, probability = _answer(n_variants, n_runs, std, gap)
    return -lead, probability


def no_selection(n_variants, n_runs, std, gap):
    """Your mean lead is that of any row, and your probability that of one row. Which row is published?"""
    return 0.0, 1 - _cdf(gap * n_runs**0.5 / std)


def one_variant(n_variants, n_runs, std, gap):
    """Your mean lead is right, but your probability is that of a single variant."""
    return _answer(n_variants, n_runs, std, gap)[0], 1 - _cdf(gap * n_runs**0.5 / std)


def no_lead_on_average(n_variants, n_runs, std, gap):
    """Your probability is right, but your mean lead is zero, which is that of any row. The best row leads."""
    return 0.0, _answer(n_variants, n_runs, std, gap)[1]


def smaller_leads(n_variants, n_runs, std, gap):
    """Your mean lead is right, but your probability is that of a lead of less than `gap`."""
    lead, probability = _answer(n_variants, n_runs, std, gap)
    return lead, 1 - probability


def either_direction(n_variants, n_runs, std, gap):
    """Your mean lead is right, but your probability also counts rows that are worse by `gap`."""
    scale = std / n_runs**0.5
    return _answer(n_variants, n_runs, std, gap)[0], 1 - (2 * _cdf(gap / scale) - 1) ** n_variants


def furthest_row(n_variants, n_runs, std, gap):
    """You take the row that is furthest from the baseline, whether it is better or worse."""
    scale, step = std / n_runs**0.5, 0.004
    grid = [step * i for i in range(2301)]
    chances = [(2 * _cdf(z) - 1) ** n_variants for z in grid]
    pairs = zip(grid, grid[1:], chances, chances[1:], strict=False)
    mean = sum((a + b) / 2 * (q - p) for a, b, p, q in pairs)
    return scale * mean, 1 - (2 * _cdf(gap / scale) - 1) ** n_variants


def expected_number(n_variants, n_runs, std, gap):
    """Your mean lead is right, but your second number is how many such rows there are on average. Several of them in
    one table count once."""
    scale = std / n_runs**0.5
    return _answer(n_variants, n_runs, std, gap)[0], min(1.0, n_variants * (1 - _cdf(gap / scale)))


def spread_for_the_lead(n_variants, n_runs, std, gap):
    """Your probability is right, but in place of the mean lead, you return the standard deviation of a row."""
    return std / n_runs**0.5, _answer(n_variants, n_runs, std, gap)[1]


def worst_row(n_variants, n_runs, std, gap):
    """Your numbers are those of the worst row."""
    scale = std / n_runs**0.5
    return -_of_best(n_variants) * scale, (1 - _cdf(gap / scale)) ** n_variants


def best_single_run(n_variants, n_runs, std, gap):
    """Your lead is that of the best of all single runs. First take the mean of the runs of each variant."""
    return _of_best(n_variants * n_runs) * std, 1 - _cdf(gap / std) ** (n_variants * n_runs)
