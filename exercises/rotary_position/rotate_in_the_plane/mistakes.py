import torch


def _turn(x, angles):
    return torch.view_as_real(torch.view_as_complex(x.contiguous()) * torch.polar(torch.ones_like(angles), angles))


def _angles(x, positions, theta):
    return positions.to(x.dtype) * theta


def clockwise(x, positions, theta):
    """You turn clockwise. With vectors in the rows, a matrix on the right does the opposite of one on the left."""
    return _turn(x, -_angles(x, positions, theta))


def same_turn_for_all(x, positions, theta):
    """You turn every vector by theta. The position of the token must come in."""
    return _turn(x, torch.full_like(x[:, 0], theta))


def order_in_the_list(x, positions, theta):
    """You count the tokens as they are listed. Their positions are given, and they need not begin at 0 or follow on."""
    return _turn(x, _angles(x, torch.arange(len(x)), theta))


def counted_from_one(x, positions, theta):
    """You turn each vector by one position too many. A token at position 0 stays as it is."""
    return _turn(x, _angles(x, positions + 1, theta))


def sine_and_cosine_exchanged(x, positions, theta):
    """Sine and cosine have changed places. At position 0, where the angle is zero, nothing should move: try it."""
    return _turn(x, torch.pi / 2 - _angles(x, positions, theta))


def no_minus(x, positions, theta):
    """All signs are plus, so lengths change. One of the four entries of the matrix is negative: which?"""
    angles = _angles(x, positions, theta)
    return x * angles.cos()[:, None] + x.flip(-1) * angles.sin()[:, None]


def mirrored(x, positions, theta):
    """Your matrix mirrors the plane instead of turning it: the minus stands with the wrong entry."""
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
