import torch


def _between(x, y):
    return y[None, :] - x[:, None]


def own_directions_forgotten(angles, positions, theta):
    """You compare the turns alone, as if all words pointed the same way at first. Each has a direction of its own."""
    return _between(positions, positions).mul(theta).cos()


def positions_forgotten(angles, positions, theta):
    """You compare the words as they are without RoPE. How far does each turn at its position?"""
    return _between(angles, angles).cos()


def turned_back(angles, positions, theta):
    """You turn against the direction of the angles. A later position turns a word further, not back."""
    return _between(angles - positions * theta, angles - positions * theta).cos()


def distance_without_sign(angles, positions, theta):
    """You use how far apart the words are and not which comes first. The order of the two matters."""
    return (_between(angles, angles) + _between(positions, positions).abs() * theta).cos()


def turns_added(angles, positions, theta):
    """You add the turns of two words. Two hands of a clock that move together keep the angle between them."""
    return (_between(angles, angles) + (positions[:, None] + positions) * theta).cos()


def one_of_the_two_turned(angles, positions, theta):
    """You turn one word of each two and leave the other where it was. Then its absolute position matters."""
    return _between(angles, angles + positions * theta).cos()


def same_turn_for_all(angles, positions, theta):
    """You turn one word of each two by theta, whatever the positions. The turn grows with each position."""
    return (_between(angles, angles) + theta).cos()


def order_in_the_list(angles, positions, theta):
    """You count the words as they are listed. Their positions are given, and may have gaps and any order."""
    turned = angles + torch.arange(len(positions)) * theta
    return _between(turned, turned).cos()


def angle_not_cosine(angles, positions, theta):
    """You return the angles. One step is left."""
    turned = angles + positions * theta
    return _between(turned, turned)


def sine(angles, positions, theta):
    """You return sines. A word compared with itself should give 1."""
    turned = angles + positions * theta
    return _between(turned, turned).sin()


def in_degrees(angles, positions, theta):
    """You read the angles as degrees. PyTorch's cosine takes radians, and that is what you are given."""
    turned = angles + positions * theta
    return torch.deg2rad(_between(turned, turned)).cos()


def turn_multiplied(angles, positions, theta):
    """You multiply a word's own angle by its turn. A turn is added to the angle that the word has."""
    turned = angles * positions * theta
    return _between(turned, turned).cos()


def sum_of_the_two(angles, positions, theta):
    """You take the cosine of a sum. The angle between two arrows is the difference of their directions."""
    turned = angles + positions * theta
    return (turned[None, :] + turned[:, None]).cos()


def cosines_multiplied(angles, positions, theta):
    """You multiply the cosines of two directions. Take the difference of the directions first; then one cosine is
    enough."""
    turned = angles + positions * theta
    return torch.outer(turned.cos(), turned.cos())


def one_for_each_word(angles, positions, theta):
    """You return one number for each word. Each word is compared with each, so there is a row and a column for it."""
    return (angles + positions * theta).cos()


def theta_added(angles, positions, theta):
    """You add the position and theta to the angle. A position turns a word by as many times theta."""
    turned = angles + positions + theta
    return _between(turned, turned).cos()


def distances_without_sign(angles, positions, theta):
    """You take both differences without their sign. Which word is ahead, and which comes first, decides whether a turn
    brings them closer."""
    return (_between(angles, angles).abs() + _between(positions, positions).abs() * theta).cos()


def angle_turned_too(angles, positions, theta):
    """You multiply the word's own angle by theta as well. Only its position is multiplied."""
    turned = (angles + positions) * theta
    return _between(turned, turned).cos()


def difference_of_cosines(angles, positions, theta):
    """You subtract cosines. Subtract the directions first, and take the cosine of the difference."""
    turned = (angles + positions * theta).cos()
    return _between(turned, turned)


def neighbours_only(angles, positions, theta):
    """You compare each word with the next one only. Any two words are compared, so there is a row and a column for
    each."""
    return (angles + positions * theta).diff().cos()


def no_new_axis(angles, positions, theta):
    """You compare each word with itself alone, and every cosine is 1. For all pairs one of the two needs a new axis."""
    return torch.ones_like(angles)


def angle_without_sign(angles, positions, theta):
    """You return the size of each angle. One step is left: its cosine."""
    turned = angles + positions * theta
    return _between(turned, turned).abs()
