import math

import torch


def _table(positions, d_head, base, exponents):
    return positions[:, None] * base ** -exponents.float()


def _right(positions, d_head, base):
    return _table(positions, d_head, base, torch.arange(d_head // 2) * 2 / d_head)


def two_forgotten(positions, d_head, base):
    """Your slowest plane is too fast: the frequencies should span the base, and yours span its root. Count the
    planes."""
    return _table(positions, d_head, base, torch.arange(d_head // 2) / d_head)


def two_too_many(positions, d_head, base):
    """Your frequencies fall twice as fast as they should. Is the 2 of the formula there once or twice?"""
    return _table(positions, d_head, base, torch.arange(d_head // 2) * 4 / d_head)


def counted_from_one(positions, d_head, base):
    """Your first plane is already too slow. The formula with 2i counts from 0; counted from 1 it has i − 1."""
    return _table(positions, d_head, base, torch.arange(1, d_head // 2 + 1) * 2 / d_head)


def one_too_many(positions, d_head, base):
    """You have one angle more than there are planes, as on the slide with erratum E-53. Count the pairs of entries."""
    return _table(positions, d_head, base, torch.arange(d_head // 2 + 1) * 2 / d_head)


def one_for_each_entry(positions, d_head, base):
    """You have an angle for each entry. The two entries of a plane share one."""
    return _table(positions, d_head, base, torch.arange(d_head) * 2 / d_head)


def each_twice(positions, d_head, base):
    """You list each angle twice, ready to be multiplied with neighbours. Here you return each plane once."""
    return _right(positions, d_head, base).repeat_interleave(2, -1)


def all_twice(positions, d_head, base):
    """You list the angles and then all of them again, ready for pairing across halves. Here you return each angle
    once."""
    return _right(positions, d_head, base).repeat(1, 2)


def exponent_positive(positions, d_head, base):
    """Your planes become faster from one to the next. Look at the sign of the exponent."""
    return _table(positions, d_head, base, -torch.arange(d_head // 2) * 2 / d_head)


def last_is_one_over_base(positions, d_head, base):
    """Your frequencies go down to 1/base itself. The list stops one step before it."""
    return _table(positions, d_head, base, torch.linspace(0, 1, d_head // 2))


def base_fixed(positions, d_head, base):
    """You take 10000 whatever the base. It is given, and newer models set it higher."""
    return _right(positions, d_head, 10000)


def order_in_the_list(positions, d_head, base):
    """You count the tokens as they are listed. Their positions are given; they need not begin at 0 and may have
    gaps."""
    return _right(torch.arange(len(positions)), d_head, base)


def frequencies_only(positions, d_head, base):
    """You return the frequency of each plane. How far has it turned at each position?"""
    return _right(torch.ones(1), d_head, base)[0]


def planes_in_the_rows(positions, d_head, base):
    """Your rows are planes and your columns are positions. In this book the rows are tokens."""
    return _right(positions, d_head, base).T


def in_turns(positions, d_head, base):
    """You multiply by 2π, as if the frequencies counted turns. They are radians per position already."""
    return _right(positions, d_head, base) * 2 * math.pi


def whole_division(positions, d_head, base):
    """All your planes but the first turn alike: their exponents are rounded to whole numbers. Is there a // where a /
    should be?"""
    return _table(positions, d_head, base, -(-torch.arange(d_head // 2) * 2 // d_head))


def all_alike(positions, d_head, base):
    """All your planes turn by one radian per position: the exponent is always 0. It should differ from plane to plane;
    does a // round it away?"""
    return _table(positions, d_head, base, torch.zeros(d_head // 2))


def added_not_multiplied(positions, d_head, base):
    """You add the position to the frequency. An angle is so many times the frequency."""
    return positions[:, None] + _right(torch.ones(1), d_head, base)


def cosines(positions, d_head, base):
    """You return the cosines of the angles. The angles themselves are asked for."""
    return _right(positions, d_head, base).cos()


def sines(positions, d_head, base):
    """You return the sines of the angles. The angles themselves are asked for."""
    return _right(positions, d_head, base).sin()


def one_position_too_far(positions, d_head, base):
    """Your planes have turned one position too far. At position 0 all angles are 0."""
    return _right(positions + 1, d_head, base)


def wrong_logarithm(positions, d_head, base):
    """Your frequencies fall too slowly: an exponential needs the natural logarithm of the base, not that to base 10."""
    return _right(positions, d_head, math.exp(math.log10(base)))


def within_one_turn(positions, d_head, base):
    """You leave out full turns. They do not change sine and cosine, but here the angle itself is asked for."""
    return _right(positions, d_head, base) % (2 * math.pi)


def slowest_first(positions, d_head, base):
    """You list the slowest plane first. Plane 0 is the fastest, with a frequency of 1."""
    return _right(positions, d_head, base).flip(-1)


def frequency_for_each_entry(positions, d_head, base):
    """You have a frequency for each entry. The two entries of a plane share one, so there are half as many."""
    return _table(positions, d_head, base, torch.arange(d_head) / d_head)


def evenly_spaced(positions, d_head, base):
    """Your frequencies lie evenly between the two ends. Each should be smaller than the last by the same factor."""
    return positions[:, None] * torch.linspace(1, 1 / base, d_head // 2)
