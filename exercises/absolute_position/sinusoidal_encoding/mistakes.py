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
    """You multiply by 2t/d, as the garbled slide does (erratum E-09). Where does 2t/d stand in the formula?"""
    return _code(positions[..., None] / 10000 * (torch.arange(0, d_model, 2) / d_model), d_model)


def counts_coordinates(positions, d_model):
    """Your t counts coordinates, so wavelengths grow twice as fast as they should (erratum E-10). It counts pairs."""
    return _code(_angles(positions, d_model, exponents=2 * torch.arange(0, d_model, 2) / d_model), d_model)


def without_the_two(positions, d_model):
    """Your wavelengths grow too slowly, up to about the root of 10000. Look for a factor in the exponent."""
    return _code(_angles(positions, d_model, exponents=torch.arange((d_model + 1) // 2) / d_model), d_model)


def a_frequency_for_each_coordinate(positions, d_model):
    """Your cosines have frequencies of their own. Sine and cosine of a pair share one angle."""
    angles = _angles(positions, d_model, exponents=torch.arange(d_model) / d_model)
    return _each_of_its_own(angles)


def every_coordinate_counted(positions, d_model):
    """Your t counts coordinates, so that each has a frequency of its own (erratum E-10). A pair shares one."""
    angles = _angles(positions, d_model, exponents=2 * torch.arange(d_model) / d_model)
    return _each_of_its_own(angles)


def exponent_up_to_one(positions, d_model):
    """Your slowest pair reaches the base itself, as in one known library. By the formula it stays a little below."""
    return _code(_angles(positions, d_model, exponents=torch.linspace(0, 1, (d_model + 1) // 2)), d_model)


def halves(positions, d_model):
    """You put all sines before all cosines. Here the two of a pair stand side by side."""
    angles = _angles(positions, d_model)
    return torch.cat((angles.sin(), angles.cos()), -1)[..., :d_model]


def cosine_first(positions, d_model):
    """In each pair you put the cosine before the sine. Compare with position 0, which is 0, 1, 0, 1, …"""
    angles = _angles(positions, d_model)
    return _in_turn(angles.cos(), angles.sin(), d_model)


def sines_only(positions, d_model):
    """Both coordinates of each pair are sines. One of them should be a cosine."""
    angles = _angles(positions, d_model)
    return _in_turn(angles.sin(), angles.sin(), d_model)


def base_1000(positions, d_model):
    """Your base is 1000. Count the zeros in the formula."""
    return _code(_angles(positions, d_model, base=1000), d_model)


def whole_turns(positions, d_model):
    """You turn by 2π where the formula turns by 1. The fastest wavelength is 2π positions, not one."""
    return _code(_angles(positions, d_model) * 2 * math.pi, d_model)


def degrees(positions, d_model):
    """You convert the angles between degrees and radians. PyTorch's sine takes them as the formula gives them."""
    return _code(torch.deg2rad(_angles(positions, d_model)), d_model)


def counted_from_one(positions, d_model):
    """All your codes belong to the next position. Position 0 should be 0, 1, 0, 1, …"""
    return _code(_angles(positions + 1, d_model), d_model)


def positions_not_used(positions, d_model):
    """You number the tokens 0, 1, 2, … yourself. The positions are given, and need not start at 0."""
    return _code(_angles(torch.arange(positions.shape[-1]).expand_as(positions), d_model), d_model)


def one_column_too_many(positions, d_model):
    """At an odd width you return one column too many. The last sine then has no cosine."""
    return _code(_angles(positions, d_model), d_model + 1)


def width_made_even(positions, d_model):
    """At an odd width you compute for the next even one and cut. The exponent has the width that is asked."""
    return _code(_angles(positions, d_model + d_model % 2), d_model)


def first_row_for_all(positions, d_model):
    """You give the positions of the first sequence to all. Each row has positions of its own."""
    return _code(_angles(positions[:1].expand_as(positions), d_model), d_model)


def first_sequence_alone(positions, d_model):
    """You return the codes of one sequence. Each row of positions wants a table of its own, on a first axis."""
    return _code(_angles(positions[0], d_model), d_model)
