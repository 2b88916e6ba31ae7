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
    """You count radians, not full turns, so you keep planes that should be slowed down."""
    frequencies = _frequencies(d_head, base)
    return _blend(frequencies, _ramp(n_trained * frequencies), factor)


def turns_at_the_new_length(d_head, base, factor, n_trained):
    """You count the turns in the longer text. Count those within the trained length, because only these angles occurred
    in training."""
    return _blend(_frequencies(d_head, base), _ramp(_turns(d_head, base, n_trained * factor)), factor)


def ramp_not_held(d_head, base, factor, n_trained):
    """Your ramp continues beyond its ends, so fast planes become even faster. Clip k to values between 0 and 1."""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) - 1) / 3, factor)


def fast_ones_slowed(d_head, base, factor, n_trained):
    """You slow down the fast planes and keep the slow ones. Which planes have seen all their angles in training?"""
    return _blend(_frequencies(d_head, base), 1 - _ramp(_turns(d_head, base, n_trained)), factor)


def no_ramp(d_head, base, factor, n_trained):
    """You either keep a plane or slow it down by the whole factor. Between 1 and 4 turns there should be a ramp."""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) >= 4).float(), factor)


def no_ramp_from_one_turn_on(d_head, base, factor, n_trained):
    """You keep each plane that makes a full turn and slow down the others by the whole factor. Between 1 and 4 turns
    there should be a ramp."""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) >= 1).float(), factor)


def divided_by_four(d_head, base, factor, n_trained):
    """Your ramp is not steep enough: it should reach 1 at 4 turns. How long is it from 1 to 4?"""
    return _blend(_frequencies(d_head, base), ((_turns(d_head, base, n_trained) - 1) / 4).clamp(0, 1), factor)


def all_slowed(d_head, base, factor, n_trained):
    """You slow down all planes by the same factor, which is position interpolation. How many turns does each plane make
    within the trained length?"""
    return _frequencies(d_head, base) / factor


def faster_not_slower(d_head, base, factor, n_trained):
    """Your slow planes become faster. For longer texts they should rotate less from position to position."""
    kept = _ramp(_turns(d_head, base, n_trained))
    return _frequencies(d_head, base) * (kept + (1 - kept) * factor)


def wavelengths_blended(d_head, base, factor, n_trained):
    """On the ramp you average wavelengths, not frequencies. So both ends are right, but the planes in between are
    not."""
    kept = _ramp(_turns(d_head, base, n_trained))
    return _frequencies(d_head, base) / (kept + (1 - kept) * factor)


def slow_part_only(d_head, base, factor, n_trained):
    """Your fast planes have a frequency of 0. The formula has two parts, and the first one keeps the fast planes."""
    return _frequencies(d_head, base) * (1 - _ramp(_turns(d_head, base, n_trained))) / factor


def another_base(d_head, base, factor, n_trained):
    """You change the base. That is NTK-aware scaling, which does not depend on the trained length."""
    return _frequencies(d_head, base * factor ** (d_head / (d_head - 2)))


def two_forgotten(d_head, base, factor, n_trained):
    """Your slower planes rotate too fast even before the scaling: the factor 2 is missing in the exponent."""
    frequencies = base ** -(torch.arange(d_head // 2) / d_head)
    return _blend(frequencies, _ramp(n_trained * frequencies / (2 * math.pi)), factor)


def ramp_from_zero(d_head, base, factor, n_trained):
    """Your ramp begins at 0 turns. It should begin at 1 turn, where a plane is slowed down by the whole factor, and end
    at 4."""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) / 4).clamp(0, 1), factor)


def half_turns(d_head, base, factor, n_trained):
    """You count half turns: a full turn has 2π radians, not π. So you keep planes that should be slowed down."""
    return _blend(_frequencies(d_head, base), _ramp(2 * _turns(d_head, base, n_trained)), factor)


def multiplied_by_two_pi(d_head, base, factor, n_trained):
    """You multiply by 2π to convert radians to turns. A turn is more than a radian, so there are fewer turns than
    radians."""
    return _blend(_frequencies(d_head, base), _ramp(4 * math.pi**2 * _turns(d_head, base, n_trained)), factor)


def whole_turns(d_head, base, factor, n_trained):
    """You round the turns down to integers. A plane that makes 2.9 turns should be further up the ramp than one that
    makes 2."""
    return _blend(_frequencies(d_head, base), _ramp(_turns(d_head, base, n_trained).floor()), factor)


def share_kept(d_head, base, factor, n_trained):
    """You return the k of the formula. Return the frequencies that follow from it."""
    return _ramp(_turns(d_head, base, n_trained))


def multiplier(d_head, base, factor, n_trained):
    """You return the factor by which each frequency is multiplied. Return the new frequencies."""
    return _blend(1, _ramp(_turns(d_head, base, n_trained)), factor)


def nothing_slowed(d_head, base, factor, n_trained):
    """Your frequencies are those of RoPE as it was trained. Which planes should be slowed down?"""
    return _frequencies(d_head, base)


def counted_from_one(d_head, base, factor, n_trained):
    """Your first plane is already too slow. The index i begins at 0, where the frequency is 1."""
    frequencies = base ** -((torch.arange(0, d_head, 2) + 2) / d_head)
    return _blend(frequencies, _ramp(n_trained * frequencies / (2 * math.pi)), factor)


def ramp_reversed(d_head, base, factor, n_trained):
    """Both ends are right, but your ramp runs in the wrong direction: a plane with 3.9 turns should be nearly
    unchanged, and one with 1.1 slowed down by nearly the whole factor."""
    turns = _turns(d_head, base, n_trained)
    between = (turns > 1) & (turns < 4)
    return _blend(_frequencies(d_head, base), torch.where(between, 1 - _ramp(turns), _ramp(turns)), factor)


def ramp_not_held_above(d_head, base, factor, n_trained):
    """Your ramp continues above 1, so fast planes become even faster. Clip k at both ends."""
    return _blend(_frequencies(d_head, base), ((_turns(d_head, base, n_trained) - 1) / 3).clamp(min=0), factor)


def ramp_not_held_below(d_head, base, factor, n_trained):
    """Your ramp continues below 0, so the slowest planes are slowed down by more than the factor. Clip k at both
    ends."""
    return _blend(_frequencies(d_head, base), ((_turns(d_head, base, n_trained) - 1) / 3).clamp(max=1), factor)


def outer_brackets_missing(d_head, base, factor, n_trained):
    """You multiply only the first part of the sum by the frequency. Multiply the whole sum by it."""
    kept = _ramp(_turns(d_head, base, n_trained))
    return _frequencies(d_head, base) * kept + (1 - kept) / factor


def inner_brackets_missing(d_head, base, factor, n_trained):
    """You divide only k by the factor, but 1 − k should be divided. Are parentheses missing?"""
    kept = _ramp(_turns(d_head, base, n_trained))
    return _frequencies(d_head, base) * (kept + 1 - kept / factor)


def pi_above_the_line(d_head, base, factor, n_trained):
    """You divide by 2 and then multiply by π, where you should divide by 2π. Are parentheses missing?"""
    return _blend(_frequencies(d_head, base), _ramp(math.pi**2 * _turns(d_head, base, n_trained)), factor)


def bracket_of_the_ramp_missing(d_head, base, factor, n_trained):
    """Your ramp runs from a third of a turn to four thirds. Are there parentheses around turns − 1?"""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) - 1 / 3).clamp(0, 1), factor)
