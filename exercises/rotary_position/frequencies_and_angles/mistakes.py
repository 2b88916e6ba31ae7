import math

import torch


def _table(positions, d_head, base, exponents):
    return positions[:, None] * base ** -exponents.float()


def _right(positions, d_head, base):
    return _table(positions, d_head, base, torch.arange(d_head // 2) * 2 / d_head)


def two_forgotten(positions, d_head, base):
    """Your slowest plane is too fast: the paces should spread over the base, and yours over its root. Count planes."""
    return _table(positions, d_head, base, torch.arange(d_head // 2) / d_head)


def two_too_many(positions, d_head, base):
    """Your paces fall too quickly, twice as fast as they should. Is the 2 of the formula there once or twice?"""
    return _table(positions, d_head, base, torch.arange(d_head // 2) * 4 / d_head)


def counted_from_one(positions, d_head, base):
    """Your first plane is already slowed down. The formula with 2i counts from 0; counted from 1 it has i − 1."""
    return _table(positions, d_head, base, torch.arange(1, d_head // 2 + 1) * 2 / d_head)


def one_too_many(positions, d_head, base):
    """You have one angle more than there are planes, as on the slide with erratum E-53. Count the pairs of entries."""
    return _table(positions, d_head, base, torch.arange(d_head // 2 + 1) * 2 / d_head)


def one_for_each_entry(positions, d_head, base):
    """You have an angle for each entry. The two entries of a plane share one."""
    return _table(positions, d_head, base, torch.arange(d_head) * 2 / d_head)


def each_twice(positions, d_head, base):
    """You list each angle twice, ready to be multiplied with neighbours. Here each plane is wanted once."""
    return _right(positions, d_head, base).repeat_interleave(2, -1)


def all_twice(positions, d_head, base):
    """You list the angles and then all of them again, ready for pairing across halves. Here each is wanted once."""
    return _right(positions, d_head, base).repeat(1, 2)


def exponent_positive(positions, d_head, base):
    """Your planes become faster from one to the next. Look at the sign of the exponent."""
    return _table(positions, d_head, base, -torch.arange(d_head // 2) * 2 / d_head)


def last_is_one_over_base(positions, d_head, base):
    """You spread the paces evenly down to 1/base itself. The list stops one step before it."""
    return _table(positions, d_head, base, torch.linspace(0, 1, d_head // 2))


def base_fixed(positions, d_head, base):
    """You take 10000 whatever the base. It is given, and newer models set it higher."""
    return _right(positions, d_head, 10000)


def order_in_the_list(positions, d_head, base):
    """You count the tokens as they are listed. Their positions are given, and they need not begin at 0 or follow on."""
    return _right(torch.arange(len(positions)), d_head, base)


def frequencies_only(positions, d_head, base):
    """You return the pace of each plane. How far has it turned at each position?"""
    return _right(torch.ones(1), d_head, base)[0]


def planes_in_the_rows(positions, d_head, base):
    """Your rows are planes and your columns are positions. Tokens have the rows in this book."""
    return _right(positions, d_head, base).T


def in_turns(positions, d_head, base):
    """You multiply by 2π, as if the frequencies counted turns. They are radians per position already."""
    return _right(positions, d_head, base) * 2 * math.pi
