import torch


def _between(x, y):
    return y[None, :] - x[:, None]


def own_directions_forgotten(angles, positions, theta):
    """You compare only the rotations, as if all words pointed in the same direction at first. Each word has its own
    direction."""
    return _between(positions, positions).mul(theta).cos()


def positions_forgotten(angles, positions, theta):
    """You compare the words without RoPE. By how much is each word rotated at its position?"""
    return _between(angles, angles).cos()


def turned_back(angles, positions, theta):
    """You rotate in the negative direction. A later position should increase a word's angle."""
    return _between(angles - positions * theta, angles - positions * theta).cos()


def distance_without_sign(angles, positions, theta):
    """You use the distance between the words, whichever comes first. The order of the two matters."""
    return (_between(angles, angles) + _between(positions, positions).abs() * theta).cos()


def turns_added(angles, positions, theta):
    """You add the rotations of the two words. If both arrows rotate by the same amount, the angle between them should
    not change."""
    return (_between(angles, angles) + (positions[:, None] + positions) * theta).cos()


def one_of_the_two_turned(angles, positions, theta):
    """You rotate only one of the two words, so its absolute position matters. Rotate both."""
    return _between(angles, angles + positions * theta).cos()


def same_turn_for_all(angles, positions, theta):
    """You rotate one of the two words by theta, whatever the positions are. The rotation is the position times
    theta."""
    return (_between(angles, angles) + theta).cos()


def order_in_the_list(angles, positions, theta):
    """You number the words in the order in which they are listed. Their positions are given, and they may have gaps and
    any order."""
    turned = angles + torch.arange(len(positions)) * theta
    return _between(turned, turned).cos()


def angle_not_cosine(angles, positions, theta):
    """You return the angles. One step is missing."""
    turned = angles + positions * theta
    return _between(turned, turned)


def sine(angles, positions, theta):
    """You return sines. The cosine of a word with itself is 1."""
    turned = angles + positions * theta
    return _between(turned, turned).sin()


def in_degrees(angles, positions, theta):
    """You treat the angles as degrees. They are in radians, as PyTorch's cosine expects."""
    turned = angles + positions * theta
    return torch.deg2rad(_between(turned, turned)).cos()


def turn_multiplied(angles, positions, theta):
    """You multiply a word's own angle by its rotation. Add the rotation to the angle."""
    turned = angles * positions * theta
    return _between(turned, turned).cos()


def sum_of_the_two(angles, positions, theta):
    """You take the cosine of a sum. The angle between two arrows is the difference of their directions."""
    turned = angles + positions * theta
    return (turned[None, :] + turned[:, None]).cos()


def cosines_multiplied(angles, positions, theta):
    """You multiply the cosines of two directions. Take the difference of the directions first, then one cosine."""
    turned = angles + positions * theta
    return torch.outer(turned.cos(), turned.cos())


def one_for_each_word(angles, positions, theta):
    """You return one number for each word. Any two words are compared, so there should be a row and a column for
    each."""
    return (angles + positions * theta).cos()


def theta_added(angles, positions, theta):
    """You add the position and theta to the angle. The rotation is the position times theta."""
    turned = angles + positions + theta
    return _between(turned, turned).cos()


def distances_without_sign(angles, positions, theta):
    """You drop the sign of both differences. Which arrow is ahead, and which word comes first, decides whether a
    rotation brings the arrows closer."""
    return (_between(angles, angles).abs() + _between(positions, positions).abs() * theta).cos()


def angle_turned_too(angles, positions, theta):
    """You multiply the word's own angle by theta as well. Only the position is multiplied by theta."""
    turned = (angles + positions) * theta
    return _between(turned, turned).cos()


def difference_of_cosines(angles, positions, theta):
    """You subtract cosines. Subtract the directions first, and take the cosine of the difference."""
    turned = (angles + positions * theta).cos()
    return _between(turned, turned)


def neighbours_only(angles, positions, theta):
    """You compare each word only with the next one. Any two words are compared, so there should be a row and a column
    for each."""
    return (angles + positions * theta).diff().cos()


def no_new_axis(angles, positions, theta):
    """You compare each word only with itself, so every cosine is 1. To get all pairs, one of the two tensors needs a
    new axis."""
    return torch.ones_like(angles)


def angle_without_sign(angles, positions, theta):
    """You return the absolute value of each angle. One step is missing: its cosine."""
    turned = angles + positions * theta
    return _between(turned, turned).abs()
