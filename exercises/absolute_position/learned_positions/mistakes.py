import math

import torch


def _columns(positions, table):
    return table.T[positions.clamp(min=0)] * (positions >= 0)[..., None]


def last_position_for_padding(x, positions, table):
    """Padding receives the vector of the last position: in Python, index −1 is the last. It should receive nothing."""
    return x + table.T[positions]


def first_position_for_padding(x, positions, table):
    """Padding receives the vector of position 0, to which you moved it. Take that away again."""
    return x + table.T[positions.clamp(min=0)]


def padding_wiped_out(x, positions, table):
    """You set padding to zero. Nothing is to be added to it, and nothing taken from it."""
    return (x + _columns(positions, table)) * (positions >= 0)[..., None]


def positions_not_used(x, positions, table):
    """You count the tokens of a row yourself. The positions are given, and need not start at 0."""
    counted = torch.arange(positions.shape[1]) % table.shape[1]
    return x + _columns(torch.where(positions < 0, -1, counted), table)


def first_row_for_all(x, positions, table):
    """You give the positions of the first sequence to all. Each row has positions of its own."""
    return x + _columns(positions[:1].expand_as(positions), table)


def counted_from_one(x, positions, table):
    """Each token receives the vector of the position before its own. Position 0 has the first column."""
    return x + _columns((positions - 1).clamp(min=-1), table)


def one_column_further(x, positions, table):
    """Each token receives the vector of the position after its own. Position 0 has the first column."""
    return x + _columns(torch.where(positions < 0, -1, (positions + 1) % table.shape[1]), table)


def reshaped_table(x, positions, table):
    """You reshape the table to have positions in rows, which mixes them. Rows and columns have to change places."""
    return x + _columns(positions, table.reshape(table.shape[1], -1).T)


def replaced(x, positions, table):
    """You return the vectors of the positions alone. They are added to the tokens."""
    return x * (positions < 0)[..., None] + _columns(positions, table)


def multiplied(x, positions, table):
    """You multiply tokens and vectors of positions. They are added."""
    return torch.where(positions[..., None] < 0, x, x * _columns(positions, table))


def concatenated(x, positions, table):
    """You put the vectors of the positions beside the tokens. They are added, so that the width stays (erratum
    E-20)."""
    return torch.cat((x, _columns(positions, table)), -1)


def tokens_scaled_up(x, positions, table):
    """You multiply the tokens by the root of their width, as the first Transformer did. Here they stay as they are."""
    return x * math.sqrt(x.shape[-1]) + _columns(positions, table)


def changes_the_tokens(x, positions, table):
    """The result is right, but the caller's tokens are changed in place. Make a new tensor."""
    x += _columns(positions, table)
    return x
