import math

import torch


def _table(positions, d_head, base, exponents):
    return positions[:, None] * base ** -exponents.float()


def _right(positions, d_head, base):
    return _table(positions, d_head, base, torch.arange(d_head // 2) * 2 / d_head)


def two_forgotten(positions, d_head, base):
    """Your frequencies fall too slowly: they span only the square root of the base, but should span the base. Count the
    planes."""
    return _table(positions, d_head, base, torch.arange(d_head // 2) / d_head)


def two_too_many(positions, d_head, base):
    """Your frequencies fall twice as fast as they should. Is the 2 of the formula in your code once or twice?"""
    return _table(positions, d_head, base, torch.arange(d_head // 2) * 4 / d_head)


def counted_from_one(positions, d_head, base):
    """Your first plane is already too slow. In the formula, i begins at 0, where the frequency is 1."""
    return _table(positions, d_head, base, torch.arange(1, d_head // 2 + 1) * 2 / d_head)


def one_too_many(positions, d_head, base):
    """You return one angle more than there are planes, as on the slide with erratum E-53. Count the pairs of
    entries."""
    return _table(positions, d_head, base, torch.arange(d_head // 2 + 1) * 2 / d_head)


def one_for_each_entry(positions, d_head, base):
    """You return an angle for each entry. The two entries of a plane share one angle."""
    return _table(positions, d_head, base, torch.arange(d_head) * 2 / d_head)


def each_twice(positions, d_head, base):
    """You list each angle twice in a row, as the rotation of neighbours needs it. Here each plane should appear
    once."""
    return _right(positions, d_head, base).repeat_interleave(2, -1)


def all_twice(positions, d_head, base):
    """You list all angles and then all of them again, as the half-split layout needs it. Here each plane should appear
    once."""
    return _right(positions, d_head, base).repeat(1, 2)


def exponent_positive(positions, d_head, base):
    """Your frequencies increase from plane to plane. Look at the sign of the exponent."""
    return _table(positions, d_head, base, -torch.arange(d_head // 2) * 2 / d_head)


def last_is_one_over_base(positions, d_head, base):
    """Your frequencies go down to exactly 1/base. The last one should be one step before that."""
    return _table(positions, d_head, base, torch.linspace(0, 1, d_head // 2))


def base_fixed(positions, d_head, base):
    """You always use base 10000. The base is an argument, and newer models use larger ones."""
    return _right(positions, d_head, 10000)


def order_in_the_list(positions, d_head, base):
    """You number the tokens in the order in which they are listed. Their positions are given: they need not begin at 0
    and may have gaps."""
    return _right(torch.arange(len(positions)), d_head, base)


def frequencies_only(positions, d_head, base):
    """You return the frequency of each plane. By which angle has it rotated at each position?"""
    return _right(torch.ones(1), d_head, base)[0]


def planes_in_the_rows(positions, d_head, base):
    """Your rows are planes and your columns are positions. In this book the rows are tokens."""
    return _right(positions, d_head, base).T


def in_turns(positions, d_head, base):
    """You multiply by 2π, as if a frequency were a number of turns. Frequencies are already in radians per position."""
    return _right(positions, d_head, base) * 2 * math.pi


def whole_division(positions, d_head, base):
    """All your planes except the first rotate alike, because their exponents are rounded to integers. Do you use //
    where / is needed?"""
    return _table(positions, d_head, base, -(-torch.arange(d_head // 2) * 2 // d_head))


def all_alike(positions, d_head, base):
    """All your planes rotate by one radian per position, because the exponent is always 0. Do you round it with //
    where / is needed?"""
    return _table(positions, d_head, base, torch.zeros(d_head // 2))


def added_not_multiplied(positions, d_head, base):
    """You add the position to the frequency. The angle is their product."""
    return positions[:, None] + _right(torch.ones(1), d_head, base)


def cosines(positions, d_head, base):
    """You return the cosines of the angles. Return the angles themselves."""
    return _right(positions, d_head, base).cos()


def sines(positions, d_head, base):
    """You return the sines of the angles. Return the angles themselves."""
    return _right(positions, d_head, base).sin()


def one_position_too_far(positions, d_head, base):
    """Your angles are one position too large. At position 0 all angles are 0."""
    return _right(positions + 1, d_head, base)


def wrong_logarithm(positions, d_head, base):
    """Your frequencies fall too slowly. With exp you need the natural logarithm of the base, not the logarithm to base
    10."""
    return _right(positions, d_head, math.exp(math.log10(base)))


def within_one_turn(positions, d_head, base):
    """You subtract full turns from the angles. That does not change their sine and cosine, but here you should return
    the angles themselves."""
    return _right(positions, d_head, base) % (2 * math.pi)


def slowest_first(positions, d_head, base):
    """You list the slowest plane first. Plane 0 is the fastest, with a frequency of 1."""
    return _right(positions, d_head, base).flip(-1)


def frequency_for_each_entry(positions, d_head, base):
    """You compute a frequency for each entry. The two entries of a plane share one, so there are half as many."""
    return _table(positions, d_head, base, torch.arange(d_head) / d_head)


def evenly_spaced(positions, d_head, base):
    """Your frequencies are evenly spaced between the two ends. Each should be smaller than the one before by the same
    factor."""
    return positions[:, None] * torch.linspace(1, 1 / base, d_head // 2)
