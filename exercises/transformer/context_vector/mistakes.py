def curves_exchanged():
    """You have exchanged the two curves. Which one is solid?"""
    return 40, 10, 16


def lengths_exchanged():
    """Your two lengths are exchanged. Which curve is solid?"""
    return 40, 10, 256


def at_three_quarters():
    """You read off the lengths at which three quarters of the words are right. Use the grey line at one half."""
    return 6, 24, 256


def solid_at_three_quarters():
    """Your length for the solid curve is the one at which three quarters of the words are right.
    Use the grey line at one half."""
    return 6, 40, 256


def dashed_at_three_quarters():
    """Your length for the dashed curve is the one at which three quarters of the words are right.
    Use the grey line at one half."""
    return 10, 24, 256


def root_of_the_factor():
    """Your number of entries is too small. It grows in proportion to the length, not to its root."""
    return 10, 40, 128


def square_of_the_factor():
    """Your number of entries is too large. It grows in proportion to the length, not to its square."""
    return 10, 40, 1024


def factor_alone():
    """Your number of entries is only the factor by which the dashed curve is stretched. The solid curve has 64
    entries."""
    return 10, 40, 4


def divided_by_the_factor():
    """For the number of entries, you divide by the factor where you should multiply. Which of the vectors holds
    more?"""
    return 10, 40, 16


def same_number():
    """Your number of entries is that of the solid curve. The dashed curve has another."""
    return 10, 40, 64
