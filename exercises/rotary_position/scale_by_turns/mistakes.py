import math

import torch


def _frequencies(d_head, base):
    return base ** -(torch.arange(0, d_head, 2) / d_head)


def _turns(d_head, base, n_trained):
    return n_trained * _frequencies(d_head, base) / (2 * math.pi)


def _ramp(turns):
    return ((turns - 1) / 3).clamp(0, 1)


def _blend(frequencies, kept, factor):
    return frequencies * (kept + (1 - kept) / factor)


def radians_not_turns(d_head, base, factor, n_trained):
    """You count radians where full turns are asked, so planes are kept that should be slowed."""
    frequencies = _frequencies(d_head, base)
    return _blend(frequencies, _ramp(n_trained * frequencies), factor)


def turns_at_the_new_length(d_head, base, factor, n_trained):
    """You count the turns in the longer text. What counts is what a plane has met in training."""
    return _blend(_frequencies(d_head, base), _ramp(_turns(d_head, base, n_trained * factor)), factor)


def ramp_not_held(d_head, base, factor, n_trained):
    """Your ramp goes on beyond its ends: fast planes become faster than they were. Hold it between 0 and 1."""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) - 1) / 3, factor)


def fast_ones_slowed(d_head, base, factor, n_trained):
    """You slow the fast planes and keep the slow ones. Which of them has met all its angles?"""
    return _blend(_frequencies(d_head, base), 1 - _ramp(_turns(d_head, base, n_trained)), factor)


def no_ramp(d_head, base, factor, n_trained):
    """Each of your planes is either kept or slowed by the whole factor. Between 1 and 4 turns lies a ramp."""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) >= 4).float(), factor)


def no_ramp_from_one_turn_on(d_head, base, factor, n_trained):
    """You keep each plane with a full turn and slow the others whole. Between 1 and 4 turns lies a ramp."""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) >= 1).float(), factor)


def divided_by_four(d_head, base, factor, n_trained):
    """Your ramp is not steep enough: it should reach 1 at 4 turns. How long is it from 1 to 4?"""
    return _blend(_frequencies(d_head, base), ((_turns(d_head, base, n_trained) - 1) / 4).clamp(0, 1), factor)


def all_slowed(d_head, base, factor, n_trained):
    """You slow all planes alike. That is position interpolation."""
    return _frequencies(d_head, base) / factor


def faster_not_slower(d_head, base, factor, n_trained):
    """Your slow planes become faster. To read further, they turn less from position to position."""
    kept = _ramp(_turns(d_head, base, n_trained))
    return _frequencies(d_head, base) * (kept + (1 - kept) * factor)


def wavelengths_blended(d_head, base, factor, n_trained):
    """On the ramp you blend how slow the planes are, not their frequencies. Both ends are right, the middle is not."""
    kept = _ramp(_turns(d_head, base, n_trained))
    return _frequencies(d_head, base) / (kept + (1 - kept) * factor)


def slow_part_only(d_head, base, factor, n_trained):
    """Your fast planes stand still. The formula has two parts, and the first one keeps them."""
    return _frequencies(d_head, base) * (1 - _ramp(_turns(d_head, base, n_trained))) / factor


def another_base(d_head, base, factor, n_trained):
    """You change the base. That is NTK-aware scaling, which does not look at the trained length."""
    return _frequencies(d_head, base * factor ** (d_head / (d_head - 2)))


def two_forgotten(d_head, base, factor, n_trained):
    """Your slower planes turn too fast from the start: the exponent lacks its factor of 2."""
    frequencies = base ** -(torch.arange(d_head // 2) / d_head)
    return _blend(frequencies, _ramp(n_trained * frequencies / (2 * math.pi)), factor)
