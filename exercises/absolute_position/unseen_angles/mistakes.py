import math

import torch


def _wavelengths(d_model, exponents=None):
    exponents = torch.arange(0, d_model, 2) / d_model if exponents is None else exponents
    return 2 * math.pi * 10000**exponents


def _beyond(positions, last, wavelengths):
    return torch.remainder(positions[:, None], wavelengths) > last


def every_new_position(positions, d_model, n_trained):
    """You call every new position unseen on every pair. A fast pair has long since gone through the whole circle."""
    return (positions[:, None] >= n_trained).expand(-1, d_model // 2)


def long_waves_at_every_new_position(positions, d_model, n_trained):
    """You ask whether the wavelength is longer than training. But a slow pair, too, returns to angles that it has
    already had."""
    return (positions[:, None] >= n_trained) & (_wavelengths(d_model) > n_trained)


def half_a_wave(positions, d_model, n_trained):
    """Your wavelengths are half as long as they should be. Sine and cosine together repeat after 2π."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model) / 2)


def without_two_pi(positions, d_model, n_trained):
    """You take 10000^(2t/d) as the wavelength. In this many positions a pair turns by an angle of 1, not by a whole
    turn."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model) / (2 * math.pi))


def one_position_more(positions, d_model, n_trained):
    """You count position n as trained. The positions of training begin at 0: which one is the last?"""
    return _beyond(positions, n_trained, _wavelengths(d_model))


def from_n_on(positions, d_model, n_trained):
    """You call an angle seen if it lies between those of positions n − 1 and n. Training ends at n − 1, and remainders
    need not be whole numbers."""
    return torch.remainder(positions[:, None], _wavelengths(d_model)) >= n_trained


def last_position_unseen(positions, d_model, n_trained):
    """You call the last position of training unseen. Only what lies beyond it is new."""
    return torch.remainder(positions[:, None], _wavelengths(d_model)) >= n_trained - 1


def one_position_less(positions, d_model, n_trained):
    """You count too few positions as trained. The trained positions are 0 to n − 1."""
    return _beyond(positions, n_trained - 2, _wavelengths(d_model))


def whole_wavelengths(positions, d_model, n_trained):
    """You round the wavelengths to whole numbers, and the error adds up over many turns. Keep their decimals."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model).round())


def only_the_first_pair(positions, d_model, n_trained):
    """In your result only the first pair is ever new, although the slow pairs take long to complete a turn. Do your
    wavelengths grow with t, and do you compare positions with positions?"""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model, -torch.arange(0, d_model, 2) / d_model))


def beyond_one_wavelength(positions, d_model, n_trained):
    """You mark positions beyond the first wavelength. There, a pair repeats what it did before, so nothing is new."""
    return positions[:, None] > _wavelengths(d_model)


def slow_pairs_throughout(positions, d_model, n_trained):
    """You only ask whether the wavelength of each pair is longer than training, and do not use the positions. At the
    positions of training, even a slow pair has angles that training has seen."""
    return (_wavelengths(d_model) > n_trained).expand(len(positions), -1)


def true_means_seen(positions, d_model, n_trained):
    """You mark what training has seen. True should mark what it has not seen."""
    return ~_beyond(positions, n_trained - 1, _wavelengths(d_model))


def without_the_two(positions, d_model, n_trained):
    """Your wavelengths grow too slowly. Look for a missing factor in the exponent of 10000."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model, torch.arange(d_model // 2) / d_model))


def counts_coordinates(positions, d_model, n_trained):
    """Your wavelengths grow twice as fast as they should. The 2t in the exponent is already the number of a
    coordinate."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model, 2 * torch.arange(0, d_model, 2) / d_model))


def each_pair_twice(positions, d_model, n_trained):
    """You return a column for each coordinate. The two coordinates of a pair share an angle: return one column for each
    pair."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model)).repeat_interleave(2, -1)


def pairs_in_rows(positions, d_model, n_trained):
    """Your rows are pairs. Return a row for each position and a column for each pair."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model)).T


def any_pair(positions, d_model, n_trained):
    """You return one answer for each position. Each pair needs its own answer."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model)).any(-1)


def a_wavelength_for_each_coordinate(positions, d_model, n_trained):
    """You return a column for each coordinate, with a wavelength of its own. The two coordinates of a pair share a
    wavelength: return one column for each pair."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model, torch.arange(d_model) / d_model))


def no_axis_for_the_pairs(positions, d_model, n_trained):
    """Your positions and your wavelengths are on the same axis. Give the positions a new last axis for the pairs."""
    return torch.remainder(positions, _wavelengths(d_model)) > n_trained - 1


def end_of_training_within_its_turn(positions, d_model, n_trained):
    """You compare with the angle at which training ended. If training took more than one turn, it has gone through all
    angles."""
    wavelengths = _wavelengths(d_model)
    return torch.remainder(positions[:, None], wavelengths) > torch.remainder(torch.tensor(n_trained - 1), wavelengths)
