def curves_exchanged():
    """Your first number is above one and your second below it. The solid curve falls and the dashed one rises: did you
    exchange the curves, or divide the wrong way round?"""
    return 1.1, 0.9, 21.85


def solid_divided_the_wrong_way_round():
    """Your first number is above one, but the solid curve falls: did you divide the wrong way round?"""
    return 1 / 0.9, 1.1, 21.85


def dashed_divided_the_wrong_way_round():
    """Your second number is below one, but the dashed curve rises: did you divide the wrong way round?"""
    return 0.9, 1 / 1.1, 21.85


def growth_in_ten_steps():
    """Your first two numbers are factors for ten steps. The spectral radius is the factor of a single step."""
    return 0.9**10, 1.1**10, 21.85


def steps_to_a_half():
    """Your number of steps is the one in which the norm falls to a half. It should fall to a
    tenth."""
    return 0.9, 1.1, 6.58


def steps_to_one_over_e():
    """Your number of steps is the one in which the norm falls to 1/e. It should fall to a tenth: use ln 10."""
    return 0.9, 1.1, 9.49


def too_many_steps():
    """Your number of steps is too large: count from a point where the line is straight, not from step 0."""
    return 0.9, 1.1, 38.0


def both_level():
    """You read both curves as level. They fall and rise: compare two points that are far apart."""
    return 1.0, 1.0, 21.85


def solid_too_small():
    """Your first number is too small. Compare two points of the straight part of the solid curve."""
    return 0.8, 1.1, 21.85


def solid_too_small_and_steps():
    """Your first number is too small, and so is your number of steps. Compare two points of the straight part of the
    solid curve."""
    return 0.8, 1.1, 10.3


def dashed_too_large():
    """Your second number is too large. Compare two points of the straight part of the dashed curve."""
    return 0.9, 1.3, 21.85


def dashed_too_small():
    """Your second number is too small. Compare two points of the straight part of the dashed curve."""
    return 0.9, 1.05, 21.85


def all_too_large():
    """All three numbers are too large. Does your line begin at step 0, where the curves are still bent? Take two points
    of the straight part, from step 20 on."""
    return 0.93, 1.13, 31.0
