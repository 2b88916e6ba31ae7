import math

import torch


def _wavelengths(d_model, exponents=None):
    exponents = torch.arange(0, d_model, 2) / d_model if exponents is None else exponents
    return 2 * math.pi * 10000**exponents


def _beyond(positions, last, wavelengths):
    return torch.remainder(positions[:, None], wavelengths) > last


def every_new_position(positions, d_model, n_trained):
    """You call every new position unseen on every pair. A fast pair has passed through the whole circle long before."""
    return (positions[:, None] >= n_trained).expand(-1, d_model // 2)


def long_waves_at_every_new_position(positions, d_model, n_trained):
    """You ask whether the wavelength is longer than training. A slow pair comes round too, to where it has been."""
    return (positions[:, None] >= n_trained) & (_wavelengths(d_model) > n_trained)


def half_a_wave(positions, d_model, n_trained):
    """Your wavelengths are half as long as they should be. Sine and cosine together return after 2π."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model) / 2)


def without_two_pi(positions, d_model, n_trained):
    """You take 10000^(2t/d) for the wavelength. That is how long a pair takes to turn by 1, not by a whole turn."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model) / (2 * math.pi))


def one_position_more(positions, d_model, n_trained):
    """You count position n as trained. The positions of training begin at 0: which is their last?"""
    return _beyond(positions, n_trained, _wavelengths(d_model))


def true_means_seen(positions, d_model, n_trained):
    """You mark what was seen. True means: never seen."""
    return ~_beyond(positions, n_trained - 1, _wavelengths(d_model))


def without_the_two(positions, d_model, n_trained):
    """Your wavelengths grow too slowly. Look for a factor in the exponent of 10000."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model, torch.arange(d_model // 2) / d_model))


def counts_coordinates(positions, d_model, n_trained):
    """Your wavelengths grow twice as fast as they should. The 2t in the exponent already is a coordinate."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model, 2 * torch.arange(0, d_model, 2) / d_model))


def each_pair_twice(positions, d_model, n_trained):
    """You return a column for each coordinate. The two of a pair share an angle: one column for each pair."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model)).repeat_interleave(2, -1)


def pairs_in_rows(positions, d_model, n_trained):
    """Your pairs have the rows. Positions have the rows, and pairs the columns."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model)).T


def any_pair(positions, d_model, n_trained):
    """You return one answer for each position. Each pair has its own."""
    return _beyond(positions, n_trained - 1, _wavelengths(d_model)).any(-1)
