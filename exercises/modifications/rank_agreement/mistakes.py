from itertools import combinations


def _signs(first, second):
    def sign(x):
        return (x > 0) - (x < 0)

    pairs = combinations(range(len(first)), 2)
    return [(sign(first[i] - first[j]), sign(second[i] - second[j])) for i, j in pairs]


def _free(signs):
    return (sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs)) ** 0.5


def _tau(first, second):
    signs = _signs(first, second)
    return sum(a * b for a, b in signs) / _free(signs)


def all_pairs_below(first, second):
    """You divide by the number of all pairs. Where there are ties, the denominator is smaller."""
    signs = _signs(first, second)
    return sum(a * b for a, b in signs) / len(signs)


def pairs_without_any_tie(first, second):
    """You divide by the number of pairs that are concordant or discordant. A pair that ties in one experiment only
    still counts below."""
    signs = _signs(first, second)
    return sum(a * b for a, b in signs) / sum(a * b != 0 for a, b in signs)


def concordant_share(first, second):
    """You do not subtract the discordant pairs."""
    signs = _signs(first, second)
    return sum(a * b > 0 for a, b in signs) / _free(signs)


def ties_as_agreement(first, second):
    """You count pairs that tie in both experiments as concordant. They are neither."""
    signs = _signs(first, second)
    return sum(1 if a == b else -1 if a * b < 0 else 0 for a, b in signs) / _free(signs)


def ties_as_disagreement(first, second):
    """You count every pair that is not concordant as discordant. A pair with a tie is neither."""
    signs = _signs(first, second)
    return sum(1 if a * b > 0 else -1 for a, b in signs) / _free(signs)


def one_tie_as_disagreement(first, second):
    """You count a pair that ties in one experiment only as discordant. It is neither."""
    signs = _signs(first, second)
    return sum(-1 if a != b else abs(a) for a, b in signs) / _free(signs)


def root_forgotten(first, second):
    """The root in your denominator is missing."""
    return _tau(first, second) / _free(_signs(first, second))


def every_pair_twice_above(first, second):
    """In your numerator, every pair counts twice, and in the denominator once."""
    return 2 * _tau(first, second)


def neighbours_alone(first, second):
    """You compare neighbours in the list only. All pairs count."""
    signs = _signs(first, second)
    n, kept, start = len(first), [], 0
    for i in range(n - 1):
        kept.append(signs[start])
        start += n - 1 - i
    return sum(a * b for a, b in kept) / _free(kept)


def correlation_of_losses(first, second):
    """You correlate the losses themselves (Pearson). Only the order within each pair counts."""
    a, b = (_centred(x) for x in (first, second))
    return sum(x * y for x, y in zip(a, b, strict=True)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


def correlation_of_ranks(first, second):
    """You correlate the ranks, which is Spearman's coefficient. Kendall's counts pairs."""
    return correlation_of_losses(_ranks(first), _ranks(second))


def sign(first, second):
    """Your sign is wrong: concordant pairs count positively."""
    return -_tau(first, second)


def _centred(numbers):
    mean = sum(numbers) / len(numbers)
    return [x - mean for x in numbers]


def _ranks(numbers):
    return [sum(y < x for y in numbers) + (sum(y == x for y in numbers) + 1) / 2 for x in numbers]


def correlation_of_positions(first, second):
    """You correlate the positions in the two orders, which is Spearman's coefficient, where ties should share
    a rank. Kendall's counts pairs."""
    orders = (sorted(range(len(x)), key=x.__getitem__) for x in (first, second))
    return correlation_of_losses(*([order.index(i) for i in range(len(order))] for order in orders))
