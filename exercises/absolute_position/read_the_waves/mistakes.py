import math


def half_a_wave():
    """You read half a wave, and your width follows from it. A wave is complete when the curve is at 0 again and also
    moves in the same direction."""
    return 31.4, 46, 9


def half_a_wave_alone():
    """You read half a wave. A wave is complete when the curve is at 0 again and also moves in the same direction."""
    return 31.4, 32, 9


def too_short():
    """Your wavelength is too short, and your width follows from it. Where does the curve rise through 0 again?"""
    return 55, 34, 9


def too_long():
    """Your wavelength is too long, and your width follows from it. Where does the curve rise through 0 again?"""
    return 70, 30.5, 9


def a_quarter_of_a_wave():
    """You read how long the curve takes to reach its first crest, which is a quarter of a wave. Your width follows from
    this."""
    return 15.7, 80, 9


def angle_of_one_not_a_turn():
    """You return the wavelength divided by 2π. In this many positions the pair turns by an angle of 1, not by a whole
    turn."""
    return 10, 32, 9


def frequency_for_wavelength():
    """You return the angle by which the pair turns at each position. The wavelength is the number of positions after
    which it repeats."""
    return 0.1, 32, 9


def half_the_width():
    """Your width is half of what it should be. Did you put t where the formula has 2t, or did you count pairs?"""
    return 62.8, 16, 9


def twice_the_width():
    """Your width is twice what it should be. Column 8 does not belong to pair 8: how many columns does a pair have?"""
    return 62.8, 64, 9


def width_without_two_pi():
    """For the width, divide the wavelength by 2π before you solve for d."""
    return 62.8, 8 * math.log(10000) / math.log(62.8), 9


def half_the_width_away():
    """You look for the cosine half the width further on. Here the sine and the cosine of a pair are side by side."""
    return 62.8, 32, 24


def the_column_before():
    """You took the column before column 8, but the dashed column is on the other side: in each pair the sine comes
    first, in an even column."""
    return 62.8, 32, 7


def column_of_the_next_pair():
    """Column 10 is the sine of the next pair, which starts at 0 and is slower. Where does the dashed curve start?"""
    return 62.8, 32, 10


def pair_for_column():
    """You return the number of the pair. The dashed curve is one of the two columns of that pair."""
    return 62.8, 32, 4


def column_8_itself():
    """Column 8 is the solid curve that starts at 0. The dashed one has the same wavelength and starts at 1."""
    return 62.8, 32, 8
