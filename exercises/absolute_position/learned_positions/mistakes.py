import math

import torch
import torch.nn.functional as F


def _columns(positions, table):
    return table.T[positions.clamp(min=0)] * (positions >= 0)[..., None]


def last_position_for_padding(x, positions, table):
    """Padding receives the vector of the last position: in Python, index −1 is the last. It should receive nothing."""
    return x + table.T[positions]


def first_position_for_padding(x, positions, table):
    """Padding receives the vector of position 0, to which you moved it. Take that away again."""
    return x + table.T[positions.clamp(min=0)]


def padding_refused(x, positions, table):
    """You refuse position −1. It marks padding: nothing is added there, and nothing is wrong with it."""
    if (positions < 0).any():
        raise ValueError("a position is below 0")
    return x + table.T[positions]


def last_position_refused(x, positions, table):
    """Your bound is off by one: you refuse the last position of the table. Its n columns are positions 0 to n − 1."""
    if (positions >= table.shape[1] - 1).any():
        raise ValueError("a position is beyond the table")
    return x + _columns(positions, table)


def last_position_and_padding_refused(x, positions, table):
    """You refuse positions that the table has. Its n columns are the positions 0 to n − 1, and −1 marks padding."""
    if (positions < 0).any() or (positions >= table.shape[1] - 1).any():
        raise ValueError("a position is outside")
    return x + _columns(positions, table)


def rows_looked_up(x, positions, table):
    """You look up rows of the table, and there are too few of them unless it is square. Each position has a column."""
    return x + table[positions]


def one_hot_times_rows(x, positions, table):
    """You multiply by the table from the wrong side, which picks rows. Each position has a column."""
    one_hot = F.one_hot(positions + 1, table.shape[1] + 1)[..., 1:].float()
    return x + one_hot @ table


def padding_wiped_out(x, positions, table):
    """You set padding to zero. It should stay as it is."""
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
    """You reshape the table to have positions in rows, which mixes them. Transpose it instead."""
    return x + _columns(positions, table.reshape(table.shape[1], -1).T)


def replaced(x, positions, table):
    """You return the vectors of the positions alone. Add them to the tokens."""
    return x * (positions < 0)[..., None] + _columns(positions, table)


def multiplied(x, positions, table):
    """You multiply the tokens by the vectors of their positions. Add them."""
    return torch.where(positions[..., None] < 0, x, x * _columns(positions, table))


def concatenated(x, positions, table):
    """You concatenate the vectors of the positions. Add them, so that the width stays (erratum E-20)."""
    return torch.cat((x, _columns(positions, table)), -1)


def taken_away(x, positions, table):
    """You subtract the vectors of the positions. Add them."""
    return x - _columns(positions, table)


def added_for_padding_alone(x, positions, table):
    """You add a vector to padding and none to the tokens. It should be the reverse: look at your condition."""
    return x + table.T[positions.clamp(min=0)] * (positions < 0)[..., None]


def position_0_left_out(x, positions, table):
    """You add nothing at position 0. It is a position like any other; only −1 is padding."""
    return x + _columns(positions, table) * (positions > 0)[..., None]


def tokens_scaled_up(x, positions, table):
    """You multiply the tokens by the root of their width, as the first Transformer did. Here they stay as they are."""
    return x * math.sqrt(x.shape[-1]) + _columns(positions, table)


def changes_the_tokens(x, positions, table):
    """The result is right, but the caller's tokens are changed in place. Make a new tensor."""
    x += _columns(positions, table)
    return x


def changes_the_positions(x, positions, table):
    """The result is right, but you write over the caller's positions of padding. Use clamp or where, which make a new
    tensor."""
    is_padding = positions < 0
    positions[is_padding] = 0
    return x + table.T[positions] * ~is_padding[..., None]


def padding_made_position_0(x, positions, table):
    """You make padding position 0 in the caller's tensor, so it receives a vector, and you change what you were given.
    It should receive nothing."""
    positions[positions < 0] = 0
    return x + table.T[positions]


def zero_column_in_front(x, positions, table):
    """You put a column of zeros in front of the table, so that each position finds the vector of the one before. Where
    does index −1 look?"""
    return x + torch.cat((torch.zeros_like(table[:, :1]), table), 1).T[positions]


def mask_without_an_axis(x, positions, table):
    """Your condition has an entry for each token, and it meets the coordinates. Give it an axis of size 1 for them."""
    return x + table.T[positions.clamp(min=0)] * (positions >= 0)


def axes_of_the_columns(x, positions, table):
    """The columns that you pick have their coordinates on the first axis, and those of the tokens are on the last."""
    return x + table[:, positions]


def bound_by_the_rows(x, positions, table):
    """You refuse positions that the table has. The positions are its columns, and your bound is another number."""
    if (positions > table.shape[0]).any():
        raise ValueError("a position is beyond the table")
    return x + _columns(positions, table)
