def curves_exchanged():
    """You have exchanged the two curves. Which one is solid?"""
    return 40, 10, 16


def lengths_exchanged():
    """The number of entries is right, but your two lengths are exchanged."""
    return 40, 10, 256


def at_three_quarters():
    """You read off the lengths at which three quarters of the words are right. Use the grey line at one half."""
    return 6, 24, 256


def root_of_the_factor():
    """Your two lengths are right, but the number of entries is too small. It grows in proportion to the length."""
    return 10, 40, 128


def square_of_the_factor():
    """Your two lengths are right, but the number of entries is too large. It grows in proportion to the length."""
    return 10, 40, 1024


def factor_alone():
    """Your two lengths are right, but the third number is only the factor by which the curve is stretched. The solid
    curve has 64 entries."""
    return 10, 40, 4


def divided_by_the_factor():
    """Your two lengths are right, but you divide by the factor where you should multiply. Which of the vectors holds
    more?"""
    return 10, 40, 16


def same_number():
    """Your two lengths are right, but 64 is the number of entries of the solid curve. The dashed curve has another."""
    return 10, 40, 64
