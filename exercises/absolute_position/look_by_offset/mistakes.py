import torch


def _turn(offset, d_model, exponents=None):
    """Moves rows that are codes by the offset."""
    exponents = torch.arange(0, d_model, 2) / d_model if exponents is None else exponents
    angles = offset / 10000**exponents
    sine, cosine = angles.sin(), angles.cos()
    return torch.block_diag(*torch.stack((cosine, -sine, sine, cosine), -1).reshape(-1, 2, 2))


def other_direction(offset, d_model):
    """Your head looks the other way. Is your matrix made for columns, or is it the keys that you have moved?"""
    return 1000 * _turn(offset, d_model).T, torch.eye(d_model)


def twice_as_far(offset, d_model):
    """Your head looks twice as far. Queries and keys are both moved, in opposite directions: one of them is enough."""
    return 1000 * _turn(offset, d_model), _turn(-offset, d_model)


def at_itself(offset, d_model):
    """Each token attends to itself. If queries and keys are moved alike, the moves cancel."""
    return 1000 * torch.eye(d_model), torch.eye(d_model)


def too_soft(offset, d_model):
    """Each token prefers the right one, but not enough: it gets less than 0.99. What makes a softmax sharper?"""
    return _turn(offset, d_model), torch.eye(d_model)


def one_position_only(offset, d_model):
    """Your head looks one position on, whatever the offset. The angle has to grow with the offset."""
    return 1000 * _turn(1, d_model), torch.eye(d_model)


def one_position_too_far(offset, d_model):
    """Your head looks one position too far on. Offset 0 is the token itself."""
    return 1000 * _turn(offset + 1, d_model), torch.eye(d_model)


def one_angle_for_all(offset, d_model):
    """You turn every pair by the same angle. Each pair has a frequency of its own."""
    return 1000 * _turn(offset, d_model, torch.zeros(d_model // 2)), torch.eye(d_model)


def without_the_two(offset, d_model):
    """Your frequencies fall too slowly. Look for a factor in the exponent of 10000."""
    return 1000 * _turn(offset, d_model, torch.arange(d_model // 2) / d_model), torch.eye(d_model)


def counts_coordinates(offset, d_model):
    """Your frequencies fall twice as fast as they should. The 2t in the exponent already is a coordinate."""
    return 1000 * _turn(offset, d_model, 2 * torch.arange(0, d_model, 2) / d_model), torch.eye(d_model)


def pairs_of_halves(offset, d_model):
    """You pair a coordinate with the one half the width away. Here the two of a pair are neighbours."""
    blocks = _turn(offset, d_model).unflatten(0, (-1, 2)).unflatten(2, (-1, 2))
    return 1000 * blocks.permute(1, 0, 3, 2).reshape(d_model, d_model), torch.eye(d_model)


def coordinates_moved(offset, d_model):
    """You move the coordinates along. It is the position that moves: each coordinate stays and takes a new value."""
    return 1000 * torch.eye(d_model).roll(offset, 1), torch.eye(d_model)
