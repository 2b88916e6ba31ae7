import math

import torch


def _angles(positions, d_model, base=10000, exponents=None):
    exponents = torch.arange(0, d_model, 2) / d_model if exponents is None else exponents
    return positions[..., None] / base**exponents


def _in_turn(first, second, d_model):
    return torch.stack((first, second), -1).flatten(-2)[..., :d_model]


def _code(angles, d_model):
    return _in_turn(angles.sin(), angles.cos(), d_model)


def _each_of_its_own(angles):
    """Sines of the even and cosines of the odd columns."""
    return torch.where(torch.arange(angles.shape[-1]) % 2 == 0, angles.sin(), angles.cos())


def factor_in_place_of_power(positions, d_model):
    """You multiply by 2t/d, as in a misprint on the slides (erratum E-09). Where is 2t/d in the formula?"""
    return _code(positions[..., None] / 10000 * (torch.arange(0, d_model, 2) / d_model), d_model)


def counts_coordinates(positions, d_model):
    """Your t counts coordinates, so your wavelengths grow twice as fast as they should (erratum E-10). It should count
    pairs."""
    return _code(_angles(positions, d_model, exponents=2 * torch.arange(0, d_model, 2) / d_model), d_model)


def without_the_two(positions, d_model):
    """Your wavelengths grow too slowly: the longest is less than √10000 times the shortest. Look for a missing factor
    in the exponent."""
    return _code(_angles(positions, d_model, exponents=torch.arange((d_model + 1) // 2) / d_model), d_model)


def a_frequency_for_each_coordinate(positions, d_model):
    """Your cosines have frequencies of their own. The sine and the cosine of a pair share one angle."""
    angles = _angles(positions, d_model, exponents=torch.arange(d_model) / d_model)
    return _each_of_its_own(angles)


def every_coordinate_counted(positions, d_model):
    """Your t counts coordinates, so each coordinate has a frequency of its own (erratum E-10). A pair should share
    one."""
    angles = _angles(positions, d_model, exponents=2 * torch.arange(d_model) / d_model)
    return _each_of_its_own(angles)


def exponent_up_to_one(positions, d_model):
    """Your slowest pair reaches the base itself, as in one known library. In the formula it stays a little below the
    base."""
    return _code(_angles(positions, d_model, exponents=torch.linspace(0, 1, (d_model + 1) // 2)), d_model)


def multiplied_by_the_power(positions, d_model):
    """You multiply positions by the power of 10000, so later pairs turn faster. The formula divides by it."""
    return _code(positions[..., None] * 10000 ** (torch.arange(0, d_model, 2) / d_model), d_model)


def base_e(positions, d_model):
    """Your wavelengths hardly grow: the last is less than e times the first. If you write the power with exp, the
    exponent needs the logarithm of 10000."""
    return _code(_angles(positions, d_model, base=math.e), d_model)


def pairs_counted_from_one(positions, d_model):
    """You count the pairs from 1. The first pair should have t = 0 and turn by 1 at each position."""
    return _code(_angles(positions, d_model, exponents=torch.arange(2, d_model + 2, 2) / d_model), d_model)


def frequencies_reversed(positions, d_model):
    """Your pairs run from the slowest to the fastest. The first pair has t = 0 and should be the fastest."""
    return _code(_angles(positions, d_model).flip(-1), d_model)


def halves(positions, d_model):
    """You put all sines before all cosines. Here the sine and the cosine of a pair are side by side."""
    angles = _angles(positions, d_model)
    return torch.cat((angles.sin(), angles.cos()), -1)[..., :d_model]


def cosine_first(positions, d_model):
    """In each pair you put the cosine before the sine. Compare your code of position 0 with 0, 1, 0, 1, …"""
    angles = _angles(positions, d_model)
    return _in_turn(angles.cos(), angles.sin(), d_model)


def sines_only(positions, d_model):
    """Both coordinates of each pair are sines. One of them should be a cosine."""
    angles = _angles(positions, d_model)
    return _in_turn(angles.sin(), angles.sin(), d_model)


def cosines_only(positions, d_model):
    """Both coordinates of each pair are cosines. One of them should be a sine."""
    angles = _angles(positions, d_model)
    return _in_turn(angles.cos(), angles.cos(), d_model)


def angles_only(positions, d_model):
    """You return the angles themselves. Take the sine for the even coordinates and the cosine for the odd ones."""
    angles = _angles(positions, d_model)
    return _in_turn(angles, angles, d_model)


def base_1000(positions, d_model):
    """Your base is 1000. Count the zeros in the formula."""
    return _code(_angles(positions, d_model, base=1000), d_model)


def whole_turns(positions, d_model):
    """You turn by 2π where the formula turns by 1. The fastest wavelength is 2π positions, not one position."""
    return _code(_angles(positions, d_model) * 2 * math.pi, d_model)


def degrees(positions, d_model):
    """You convert the angles between degrees and radians. PyTorch's sine takes the angles as the formula gives them."""
    return _code(torch.deg2rad(_angles(positions, d_model)), d_model)


def counted_from_one(positions, d_model):
    """All your codes belong to the next position. The code of position 0 should be 0, 1, 0, 1, …"""
    return _code(_angles(positions + 1, d_model), d_model)


def positions_not_used(positions, d_model):
    """You number the tokens 0, 1, 2, … yourself. Use the positions that you are given, which need not start at 0."""
    return _code(_angles(torch.arange(positions.shape[-1]).expand_as(positions), d_model), d_model)


def odd_width_raises(positions, d_model):
    """Your codes are right at even widths, but an odd width raises an error. At an odd width there is one sine more
    than there are cosines."""
    angles, encoding = _angles(positions, d_model), torch.zeros(*positions.shape, d_model)
    encoding[..., 0::2] = angles.sin()
    encoding[..., 1::2] = angles.cos()
    return encoding


def last_sine_missing(positions, d_model):
    """At an odd width you return one column too few. The last sine has no cosine, but it belongs to the code."""
    angles = _angles(positions, d_model)[..., : d_model // 2]
    return _in_turn(angles.sin(), angles.cos(), d_model)


def last_sine_zero(positions, d_model):
    """At an odd width your last coordinate is always 0. It should be the sine of a pair that has no cosine."""
    encoding = _code(_angles(positions, d_model), d_model)
    return torch.where(torch.arange(d_model) < d_model // 2 * 2, encoding, 0)


def width_rounded_down(positions, d_model):
    """At an odd width you use the frequencies of the next smaller width. In the exponent, use the width that is
    given."""
    return _code(_angles(positions, d_model, exponents=torch.arange(0, d_model, 2) / (d_model // 2 * 2)), d_model)


def one_column_too_many(positions, d_model):
    """At an odd width you return one column too many. The last sine then has no cosine."""
    return _code(_angles(positions, d_model), d_model + 1)


def width_made_even(positions, d_model):
    """At an odd width you use the frequencies of the next larger width. In the exponent, use the width that is
    given."""
    return _code(_angles(positions, d_model + d_model % 2), d_model)


def first_row_for_all(positions, d_model):
    """You use the positions of the first sequence for all sequences. Each row has its own positions."""
    return _code(_angles(positions[:1].expand_as(positions), d_model), d_model)


def rows_and_columns_exchanged(positions, d_model):
    """Your first two axes are exchanged. As in the positions, the first axis is the batch and the second is the
    tokens."""
    return _code(_angles(positions.T, d_model), d_model)


def tokens_in_columns(positions, d_model):
    """Your last two axes are exchanged. Return a row for each token and a column for each coordinate."""
    return _code(_angles(positions, d_model), d_model).mT


def first_sequence_alone(positions, d_model):
    """You return the codes of only one sequence. Each row of positions needs its own table, on a first axis."""
    return _code(_angles(positions[0], d_model), d_model)


def odd_width_out_of_range(positions, d_model):
    """Your codes are right at even widths, but an odd width raises an error. At an odd width there is one sine more
    than there are cosines."""
    encoding = torch.zeros(*positions.shape, d_model)
    for i in range(0, d_model, 2):
        angles = positions / 10000 ** (i / d_model)
        encoding[..., i], encoding[..., i + 1] = angles.sin(), angles.cos()
    return encoding


def no_axis_for_the_pairs(positions, d_model):
    """Your code raises an error as soon as there are several positions. Give the positions a new last axis for the
    pairs."""
    return _code(positions[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model), d_model)


def pairs_not_flattened(positions, d_model):
    """Your result has one axis too many: each pair is a row of two numbers. Flatten the last two axes."""
    angles = _angles(positions, d_model)
    return torch.stack((angles.sin(), angles.cos()), -1)


def halves_not_flattened(positions, d_model):
    """Your result has one axis too many: all sines are in one row and all cosines in another. The sine and the cosine
    of a pair should be side by side, on one axis."""
    angles = _angles(positions, d_model)
    return torch.stack((angles.sin(), angles.cos()), -2)


def stacked_in_front(positions, d_model):
    """You stack sines and cosines on a first axis and then reshape. A reshape keeps the numbers in their order, so
    stack them on a last axis."""
    angles = _angles(positions, d_model)
    return torch.stack((angles.sin(), angles.cos())).reshape(*positions.shape, -1)[..., :d_model]


def one_frequency(positions, d_model):
    """All your pairs turn equally fast, by 1 at each position. The power of 10000 should differ from pair to pair."""
    return _code(_angles(positions, d_model, base=1), d_model)


def decimal_logarithm(positions, d_model):
    """Your wavelengths grow too slowly: the longest is less than 55 times the shortest. With exp, use the natural
    logarithm of 10000."""
    return _code(_angles(positions, d_model, base=math.exp(4)), d_model)
