import torch


def _turn(offset, d_model, exponents=None):
    """Moves rows that are codes by the offset."""
    exponents = torch.arange(0, d_model, 2) / d_model if exponents is None else exponents
    angles = offset / 10000**exponents
    sine, cosine = angles.sin(), angles.cos()
    return torch.block_diag(*torch.stack((cosine, -sine, sine, cosine), -1).reshape(-1, 2, 2))


def other_direction(offset, d_model):
    """Your head attends in the other direction. Is your matrix made for columns, have you moved the keys instead of the
    queries, or have you taken the cosine as the first of each pair?"""
    return 1000 * _turn(offset, d_model).T, torch.eye(d_model)


def twice_as_far(offset, d_model):
    """Your head attends twice as far away. Have you moved both the queries and the keys? Move only one of them."""
    return 1000 * _turn(offset, d_model), _turn(-offset, d_model)


def at_itself(offset, d_model):
    """Each token attends to itself. Either nothing is moved, or queries and keys are moved in the same way and the two
    moves cancel."""
    return 1000 * torch.eye(d_model), torch.eye(d_model)


def too_soft(offset, d_model):
    """Each token prefers the right one, but gives it less than 0.99 of its weight. What makes a softmax sharper?"""
    return _turn(offset, d_model), torch.eye(d_model)


def one_position_only(offset, d_model):
    """Your head attends one position ahead, whatever the offset is. The angle has to grow with the offset."""
    return 1000 * _turn(1, d_model), torch.eye(d_model)


def one_position_too_far(offset, d_model):
    """Your head attends one position too far ahead. With offset 0, a token should attend to itself."""
    return 1000 * _turn(offset + 1, d_model), torch.eye(d_model)


def one_position_too_near(offset, d_model):
    """Your head attends one position too far back. With offset 0, a token should attend to itself."""
    return 1000 * _turn(offset - 1, d_model), torch.eye(d_model)


def one_position_back(offset, d_model):
    """Your head attends one position back, whatever the offset is. The angle has to grow with the offset."""
    return 1000 * _turn(-1, d_model), torch.eye(d_model)


def sign_of_offset_lost(offset, d_model):
    """Your head always attends to later tokens. With a negative offset it should attend to an earlier token."""
    return 1000 * _turn(abs(offset), d_model), torch.eye(d_model)


def least_similar(offset, d_model):
    """Your scores are lowest where they should be highest, because their sign is wrong."""
    return -1000 * _turn(offset, d_model), torch.eye(d_model)


def angles_in_whole_turns(offset, d_model):
    """You turn by 2π where the formula turns by 1. The fastest pair turns by 1 from one position to the next."""
    return 1000 * _turn(2 * torch.pi * offset, d_model), torch.eye(d_model)


def angle_inverted(offset, d_model):
    """You multiply the offset by the power of 10000, so later pairs turn faster. They should turn more slowly."""
    return 1000 * _turn(offset, d_model, -torch.arange(0, d_model, 2) / d_model), torch.eye(d_model)


def one_angle_for_all(offset, d_model):
    """You turn every pair by the same angle. Each pair has its own frequency."""
    return 1000 * _turn(offset, d_model, torch.zeros(d_model // 2)), torch.eye(d_model)


def without_the_two(offset, d_model):
    """Your frequencies fall too slowly. Look for a missing factor in the exponent of 10000."""
    return 1000 * _turn(offset, d_model, torch.arange(d_model // 2) / d_model), torch.eye(d_model)


def counts_coordinates(offset, d_model):
    """Your frequencies fall twice as fast as they should. The 2t in the exponent is already the number of a
    coordinate."""
    return 1000 * _turn(offset, d_model, 2 * torch.arange(0, d_model, 2) / d_model), torch.eye(d_model)


def pairs_of_halves(offset, d_model):
    """You pair each coordinate with the one half the width away. Here the two coordinates of a pair are neighbours."""
    blocks = _turn(offset, d_model).unflatten(0, (-1, 2)).unflatten(2, (-1, 2))
    return 1000 * blocks.permute(1, 0, 3, 2).reshape(d_model, d_model), torch.eye(d_model)


def coordinates_moved(offset, d_model):
    """You move the coordinates. Move the position instead: each coordinate stays where it is and takes a new value."""
    return 1000 * torch.eye(d_model).roll(offset, 1), torch.eye(d_model)


def no_minus_sign(offset, d_model):
    """Your blocks are not rotations. In a rotation the two sines have opposite signs."""
    turned = _turn(offset, d_model)
    odd_rows = torch.arange(d_model)[:, None] % 2 == 1
    return 1000 * torch.where(odd_rows, turned, turned.T), torch.eye(d_model)


def cosines_alone(offset, d_model):
    """You multiply each coordinate by a cosine. To move a code, you have to mix the sine and the cosine of each
    pair."""
    return 1000 * _turn(offset, d_model).diagonal().diag(), torch.eye(d_model)


def diagonal_moved(offset, d_model):
    """You move the coordinates, and some of them are lost at the edge. Move the position instead: each coordinate stays
    where it is and takes a new value."""
    return 1000 * torch.eye(2 * d_model)[:d_model].roll(offset, 1)[:, :d_model], torch.eye(d_model)
