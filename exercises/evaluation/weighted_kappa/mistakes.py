def _kappa(first, second, weight, chance=None):
    n = len(first)
    own = sum(weight(a, b) for a, b in zip(first, second, strict=True))
    by_chance = sum(weight(a, b) for a in first for b in second) / n if chance is None else chance
    return 1 - own / by_chance if by_chance else float("nan")


def _plain(a, b):
    return a != b


def _quadratic(a, b):
    return (a - b) ** 2


def _both(first, second):
    return _kappa(first, second, _plain), _kappa(first, second, _quadratic)


def agreement(first, second, n_levels):
    """Your first number is the share of answers about which the experts agree. It ignores what happens by chance."""
    share = sum(a == b for a, b in zip(first, second, strict=True)) / len(first)
    return share, _both(first, second)[1]


def linear(first, second, n_levels):
    """Your second number has linear weights, |a − b|. Square them."""
    return _both(first, second)[0], _kappa(first, second, lambda a, b: abs(a - b))


def plain_twice(first, second, n_levels):
    """Both your numbers are the plain κ."""
    return (_both(first, second)[0],) * 2


def exchanged(first, second, n_levels):
    """Your two numbers are exchanged: the plain κ comes first."""
    return _both(first, second)[::-1]


def levels_equally_likely(first, second, n_levels):
    """You take all levels to be equally likely by chance. Each expert has habits, $n_a$ and $m_b$."""
    levels = range(1, n_levels + 1)

    def chance(weight):
        return len(first) * sum(weight(a, b) for a in levels for b in levels) / n_levels**2

    return tuple(_kappa(first, second, weight, chance(weight)) for weight in (_plain, _quadratic))


def one_distribution(first, second, n_levels):
    """You mix the ratings of both experts before you work out what happens by chance. That is another coefficient
    (Scott's π); κ keeps the two experts apart."""
    both = [*first, *second]

    def chance(weight):
        return sum(weight(a, b) for a in both for b in both) / (4 * len(first))

    return tuple(_kappa(first, second, weight, chance(weight)) for weight in (_plain, _quadratic))


def first_expert_twice(first, second, n_levels):
    """For what happens by chance, you use the ratings of the first expert for both of them."""
    return tuple(
        _kappa(first, second, w, sum(w(a, b) for a in first for b in first) / len(first)) for w in (_plain, _quadratic)
    )


def ratio_alone(first, second, n_levels):
    """You return the ratio of the two sums. κ is 1 minus this ratio."""
    return tuple(1 - kappa for kappa in _both(first, second))


def weights_of_agreement(first, second, n_levels):
    """Your weights are turned round: they are 0 for an agreement, and not for a disagreement."""
    return _kappa(first, second, lambda a, b: a == b), _kappa(first, second, lambda a, b: (n_levels - abs(a - b)) ** 2)


def agreement_of_the_plain(first, second, n_levels):
    """Your plain κ has the wrong weights: they are 0 for an agreement and 1 for a disagreement."""
    return _kappa(first, second, lambda a, b: a == b), _both(first, second)[1]


def chance_divided_twice(first, second, n_levels):
    """You divide by n twice. One of the two sums is then of shares, and the other one of numbers of answers."""
    n = len(first)
    return tuple(1 - n * (1 - kappa) for kappa in _both(first, second))


def chance_not_divided(first, second, n_levels):
    """You do not divide the products of $n_a$ and $m_b$ by n."""
    n = len(first)
    return tuple(1 - (1 - kappa) / n for kappa in _both(first, second))


def correlation(first, second, n_levels):
    """Your second number is the correlation of the ratings. It does not notice if one expert is more lenient."""
    n = len(first)
    a, b = sum(first) / n, sum(second) / n
    product = sum((x - a) * (y - b) for x, y in zip(first, second, strict=True))
    spread = sum((x - a) ** 2 for x in first) * sum((y - b) ** 2 for y in second)
    return _both(first, second)[0], product / spread**0.5


def divided_by_agreement(first, second, n_levels):
    """Your plain κ subtracts chance from the agreement, but does not divide by what is left, 1 minus chance."""
    n = len(first)
    chance = sum(a == b for a in first for b in second) / n**2
    share = sum(a == b for a, b in zip(first, second, strict=True)) / n
    return share - chance, _both(first, second)[1]


def second_expert_twice(first, second, n_levels):
    """For what happens by chance, you use the ratings of the second expert for both of them."""
    return tuple(
        _kappa(first, second, w, sum(w(a, b) for a in second for b in second) / len(first))
        for w in (_plain, _quadratic)
    )
