import torch


def _turn(x, angles):
    return torch.view_as_real(torch.view_as_complex(x.contiguous()) * torch.polar(torch.ones_like(angles), angles))


def _angles(x, positions, theta):
    return positions.to(x.dtype) * theta


def clockwise(x, positions, theta):
    """You turn clockwise. With vectors in the rows, a matrix on the right does the opposite of one on the left."""
    return _turn(x, -_angles(x, positions, theta))


def same_turn_for_all(x, positions, theta):
    """You turn every vector by theta. The angle must depend on the position of the token."""
    return _turn(x, torch.full_like(x[:, 0], theta))


def order_in_the_list(x, positions, theta):
    """You count the tokens as they are listed. Their positions are given; they need not begin at 0 and may have
    gaps."""
    return _turn(x, _angles(x, torch.arange(len(x)), theta))


def counted_from_one(x, positions, theta):
    """You turn each vector by one position too many. A token at position 0 stays as it is."""
    return _turn(x, _angles(x, positions + 1, theta))


def sine_and_cosine_exchanged(x, positions, theta):
    """Sine and cosine are exchanged. At position 0, where the angle is zero, nothing should move: try it."""
    return _turn(x, torch.pi / 2 - _angles(x, positions, theta))


def no_minus(x, positions, theta):
    """All signs are plus, so lengths change. One of the four entries of the matrix is negative: which?"""
    angles = _angles(x, positions, theta)
    return x * angles.cos()[:, None] + x.flip(-1) * angles.sin()[:, None]


def mirrored(x, positions, theta):
    """Your matrix mirrors the plane instead of turning it: the minus is at the wrong entry."""
    return _turn(x * torch.tensor([1, -1], dtype=x.dtype), _angles(x, positions, theta))


def theta_in_degrees(x, positions, theta):
    """You read theta as degrees. PyTorch's sine and cosine take radians, and theta is in radians already."""
    return _turn(x, torch.deg2rad(_angles(x, positions, theta)))


def first_entry_already_turned(x, positions, theta):
    """Your second entry is made from the first after its turn. Both need the vector as it was before."""
    angles = _angles(x, positions, theta)
    first = x[:, 0] * angles.cos() - x[:, 1] * angles.sin()
    return torch.stack((first, first * angles.sin() + x[:, 1] * angles.cos()), -1)


def theta_to_the_power(x, positions, theta):
    """You raise theta to the power of the position. The angle grows by the same amount from each position to the
    next."""
    return _turn(x, theta ** _angles(x, positions, 1.0))


def added_not_multiplied(x, positions, theta):
    """You add the cosine and the sine to the vector, as a sinusoidal encoding would. Here nothing is added to it."""
    angles = _angles(x, positions, theta)
    return x + torch.stack((angles.cos(), angles.sin()), -1)


def changes_its_argument(x, positions, theta):
    """The result is right, but you write it into x, and the caller still needs x. Make a new tensor."""
    x[:] = _turn(x, _angles(x, positions, theta))
    return x


def two_minuses(x, positions, theta):
    """Both of your sines have a minus, so lengths change. One of the four entries of the matrix is negative: which?"""
    angles = _angles(x, positions, theta)
    return x * angles.cos()[:, None] - x.flip(-1) * angles.sin()[:, None]


def stacked_as_rows(x, positions, theta):
    """The numbers are right, but they stand in wrong rows: a reshape moves none of them. Along which axis do you stack
    the two entries?"""
    return _turn(x, _angles(x, positions, theta)).T.reshape(-1, 2)


def entries_in_the_rows(x, positions, theta):
    """Your rows are the two entries and your columns are tokens. Return a row for each token, as in x."""
    return _turn(x, _angles(x, positions, theta)).T


def turn_of_the_first_token(x, positions, theta):
    """You turn all vectors by the angle of the first token. Each has a position of its own."""
    return _turn(x, _angles(x, positions[:1], theta).expand(len(x)))


def angle_added(x, positions, theta):
    """You add the angle to the entries of the vector. That moves the arrow's tip sideways; a turn mixes its two
    entries."""
    return x + _angles(x, positions, theta)[:, None]


def cosines_only(x, positions, theta):
    """You multiply each entry by the cosine, and the sines are missing. A turn mixes the two entries."""
    return x * _angles(x, positions, theta).cos()[:, None]


def theta_forgotten(x, positions, theta):
    """You turn each vector by its position, in radians. The position counts how often it is turned by theta."""
    return _turn(x, _angles(x, positions, 1.0))


def entries_exchanged(x, positions, theta):
    """The numbers are right, but the two entries of each vector are exchanged."""
    return _turn(x, _angles(x, positions, theta)).flip(-1)


def overwritten_on_the_way(x, positions, theta):
    """You write into x, so the second entry is made from a first one that is turned already, and the caller's x is
    changed. Make a new tensor."""
    angles = _angles(x, positions, theta)
    x[:, 0] = x[:, 0] * angles.cos() - x[:, 1] * angles.sin()
    x[:, 1] = x[:, 0] * angles.sin() + x[:, 1] * angles.cos()
    return x


def first_token_not_turned(x, positions, theta):
    """You count the positions from that of the first token, which you do not turn. The products are the same, but here
    each vector is turned by its whole position."""
    return _turn(x, _angles(x, positions - positions[0], theta))


def axis_missing(x, positions, theta):
    """Your code works for one token alone. With several there are as many angles, and each belongs to a whole row of
    x: which axis do the angles need?"""
    angles = _angles(x, positions, theta)
    return x * angles.cos() + torch.stack((-x[:, 1], x[:, 0]), -1) * angles.sin()


def still_complex(x, positions, theta):
    """Your result holds complex numbers, one for each token. Read each as two real numbers again."""
    return torch.view_as_complex(_turn(x, _angles(x, positions, theta)))


def in_turns(x, positions, theta):
    """You multiply by 2π, as if theta counted turns. It is in radians already."""
    return _turn(x, _angles(x, positions, 2 * torch.pi * theta))
