import torch


def _turn(x, angles):
    return torch.view_as_real(torch.view_as_complex(x.contiguous()) * torch.polar(torch.ones_like(angles), angles))


def _angles(x, positions, theta):
    return positions.to(x.dtype) * theta


def clockwise(x, positions, theta):
    """You rotate clockwise. If the vectors are rows and you multiply by the matrix from the right, it rotates them in
    the opposite direction."""
    return _turn(x, -_angles(x, positions, theta))


def same_turn_for_all(x, positions, theta):
    """You rotate every vector by theta. The angle depends on the position of the token."""
    return _turn(x, torch.full_like(x[:, 0], theta))


def order_in_the_list(x, positions, theta):
    """You number the tokens in the order in which they are listed. Their positions are given: they need not begin at 0
    and may have gaps."""
    return _turn(x, _angles(x, torch.arange(len(x)), theta))


def counted_from_one(x, positions, theta):
    """You rotate each vector by one position too many. A token at position 0 is not rotated."""
    return _turn(x, _angles(x, positions + 1, theta))


def sine_and_cosine_exchanged(x, positions, theta):
    """You exchange sine and cosine. Test it at position 0: the angle is zero, so nothing should change."""
    return _turn(x, torch.pi / 2 - _angles(x, positions, theta))


def no_minus(x, positions, theta):
    """All your signs are positive, so lengths change. Which of the four entries of the matrix is negative?"""
    angles = _angles(x, positions, theta)
    return x * angles.cos()[:, None] + x.flip(-1) * angles.sin()[:, None]


def mirrored(x, positions, theta):
    """Your matrix is a reflection, not a rotation, because the minus is at the wrong entry."""
    return _turn(x * torch.tensor([1, -1], dtype=x.dtype), _angles(x, positions, theta))


def theta_in_degrees(x, positions, theta):
    """You treat theta as degrees. It is in radians, as PyTorch's sine and cosine expect."""
    return _turn(x, torch.deg2rad(_angles(x, positions, theta)))


def first_entry_already_turned(x, positions, theta):
    """You compute the second entry from a first entry that is already rotated. Both need the vector as it was
    before."""
    angles = _angles(x, positions, theta)
    first = x[:, 0] * angles.cos() - x[:, 1] * angles.sin()
    return torch.stack((first, first * angles.sin() + x[:, 1] * angles.cos()), -1)


def theta_to_the_power(x, positions, theta):
    """You raise theta to the power of the position. The angle is the position times theta."""
    return _turn(x, theta ** _angles(x, positions, 1.0))


def added_not_multiplied(x, positions, theta):
    """You add the cosine and the sine to the vector, as a sinusoidal encoding does. A rotation multiplies by them."""
    angles = _angles(x, positions, theta)
    return x + torch.stack((angles.cos(), angles.sin()), -1)


def changes_its_argument(x, positions, theta):
    """The result is right, but you write it into x, which the caller still needs. Make a new tensor."""
    x[:] = _turn(x, _angles(x, positions, theta))
    return x


def two_minuses(x, positions, theta):
    """Both of your sines have a minus, so lengths change. Which one of the four entries of the matrix is negative?"""
    angles = _angles(x, positions, theta)
    return x * angles.cos()[:, None] - x.flip(-1) * angles.sin()[:, None]


def stacked_as_rows(x, positions, theta):
    """The numbers are right, but they are in the wrong rows, and a reshape does not move them. Along which axis do you
    stack the two entries?"""
    return _turn(x, _angles(x, positions, theta)).T.reshape(-1, 2)


def entries_in_the_rows(x, positions, theta):
    """Your rows are the two entries and your columns are tokens. Return a row for each token, as in x."""
    return _turn(x, _angles(x, positions, theta)).T


def turn_of_the_first_token(x, positions, theta):
    """You rotate all vectors by the angle of the first token. Each token has its own position."""
    return _turn(x, _angles(x, positions[:1], theta).expand(len(x)))


def angle_added(x, positions, theta):
    """You add the angle to the entries of the vector, which shifts the vector. A rotation mixes its two entries."""
    return x + _angles(x, positions, theta)[:, None]


def cosines_only(x, positions, theta):
    """You multiply each entry by the cosine, but the sines are missing. A rotation mixes the two entries."""
    return x * _angles(x, positions, theta).cos()[:, None]


def theta_forgotten(x, positions, theta):
    """You rotate each vector by its position in radians. The angle is the position times theta."""
    return _turn(x, _angles(x, positions, 1.0))


def entries_exchanged(x, positions, theta):
    """The numbers are right, but the two entries of each vector are exchanged."""
    return _turn(x, _angles(x, positions, theta)).flip(-1)


def overwritten_on_the_way(x, positions, theta):
    """You write into x, so the second entry is computed from a first entry that is already rotated, and the caller's x
    changes. Make a new tensor."""
    angles = _angles(x, positions, theta)
    x[:, 0] = x[:, 0] * angles.cos() - x[:, 1] * angles.sin()
    x[:, 1] = x[:, 0] * angles.sin() + x[:, 1] * angles.cos()
    return x


def first_token_not_turned(x, positions, theta):
    """You count positions from that of the first token. The dot products are the same, but here each vector should be
    rotated by its full position."""
    return _turn(x, _angles(x, positions - positions[0], theta))


def axis_missing(x, positions, theta):
    """Your code works only for one token. With several tokens, each angle belongs to a whole row of x, so which axis do
    the angles need?"""
    angles = _angles(x, positions, theta)
    return x * angles.cos() + torch.stack((-x[:, 1], x[:, 0]), -1) * angles.sin()


def still_complex(x, positions, theta):
    """You return complex numbers, one for each token. Turn each into two real numbers again."""
    return torch.view_as_complex(_turn(x, _angles(x, positions, theta)))


def in_turns(x, positions, theta):
    """You multiply by 2π, as if theta were a number of turns. It is already in radians."""
    return _turn(x, _angles(x, positions, 2 * torch.pi * theta))
