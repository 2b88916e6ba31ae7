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
    """You count radians instead of full turns, so you keep planes that should be slowed."""
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
    """You keep each plane with a full turn and slow the others by the whole factor. Between 1 and 4 turns lies a
    ramp."""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) >= 1).float(), factor)


def divided_by_four(d_head, base, factor, n_trained):
    """Your ramp is not steep enough: it should reach 1 at 4 turns. How long is it from 1 to 4?"""
    return _blend(_frequencies(d_head, base), ((_turns(d_head, base, n_trained) - 1) / 4).clamp(0, 1), factor)


def all_slowed(d_head, base, factor, n_trained):
    """You slow all planes alike, which is position interpolation. How many turns does each make within the trained
    length?"""
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


def ramp_from_zero(d_head, base, factor, n_trained):
    """Your ramp begins at 0 turns. It should begin at 1, where the whole factor counts, and reach 4."""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) / 4).clamp(0, 1), factor)


def half_turns(d_head, base, factor, n_trained):
    """You count half turns: a full turn has 2π radians, not π. So you keep planes that should be slowed."""
    return _blend(_frequencies(d_head, base), _ramp(2 * _turns(d_head, base, n_trained)), factor)


def multiplied_by_two_pi(d_head, base, factor, n_trained):
    """You multiply by 2π to get from radians to turns. A turn is more than a radian, so there are fewer of them."""
    return _blend(_frequencies(d_head, base), _ramp(4 * math.pi**2 * _turns(d_head, base, n_trained)), factor)


def whole_turns(d_head, base, factor, n_trained):
    """You round the turns down to whole ones. A plane that makes 2.9 turns stands further up the ramp than one that
    makes 2."""
    return _blend(_frequencies(d_head, base), _ramp(_turns(d_head, base, n_trained).floor()), factor)


def share_kept(d_head, base, factor, n_trained):
    """You return the k of the formula. Return the frequencies that follow from it."""
    return _ramp(_turns(d_head, base, n_trained))


def multiplier(d_head, base, factor, n_trained):
    """You return by what each frequency is multiplied. Return the new frequencies."""
    return _blend(1, _ramp(_turns(d_head, base, n_trained)), factor)


def nothing_slowed(d_head, base, factor, n_trained):
    """Your frequencies are those of RoPE as it was trained. Which planes are to be slowed?"""
    return _frequencies(d_head, base)


def counted_from_one(d_head, base, factor, n_trained):
    """Your first plane is already too slow: i runs from 0 on."""
    frequencies = base ** -((torch.arange(0, d_head, 2) + 2) / d_head)
    return _blend(frequencies, _ramp(n_trained * frequencies / (2 * math.pi)), factor)


def ramp_reversed(d_head, base, factor, n_trained):
    """Both ends are right, but your ramp runs the wrong way: a plane with 3.9 turns is nearly kept, one with 1.1 is
    slowed nearly by the whole factor."""
    turns = _turns(d_head, base, n_trained)
    between = (turns > 1) & (turns < 4)
    return _blend(_frequencies(d_head, base), torch.where(between, 1 - _ramp(turns), _ramp(turns)), factor)


def ramp_not_held_above(d_head, base, factor, n_trained):
    """Your ramp goes on above 1: fast planes become faster than they were. Hold it at both ends."""
    return _blend(_frequencies(d_head, base), ((_turns(d_head, base, n_trained) - 1) / 3).clamp(min=0), factor)


def ramp_not_held_below(d_head, base, factor, n_trained):
    """Your ramp goes on below 0: the slowest planes are slowed by more than the factor. Hold it at both ends."""
    return _blend(_frequencies(d_head, base), ((_turns(d_head, base, n_trained) - 1) / 3).clamp(max=1), factor)


def outer_brackets_missing(d_head, base, factor, n_trained):
    """You multiply only the kept part by the frequency. Both parts of the sum belong to it."""
    kept = _ramp(_turns(d_head, base, n_trained))
    return _frequencies(d_head, base) * kept + (1 - kept) / factor


def inner_brackets_missing(d_head, base, factor, n_trained):
    """You divide k alone by the factor. What is to be divided is 1 − k: is a bracket missing?"""
    kept = _ramp(_turns(d_head, base, n_trained))
    return _frequencies(d_head, base) * (kept + 1 - kept / factor)


def pi_above_the_line(d_head, base, factor, n_trained):
    """You divide by 2 and then multiply by π, where you should divide by 2π. Is a bracket missing?"""
    return _blend(_frequencies(d_head, base), _ramp(math.pi**2 * _turns(d_head, base, n_trained)), factor)


def bracket_of_the_ramp_missing(d_head, base, factor, n_trained):
    """Your ramp runs from a third of a turn to four thirds. Is there a bracket around turns − 1?"""
    return _blend(_frequencies(d_head, base), (_turns(d_head, base, n_trained) - 1 / 3).clamp(0, 1), factor)
