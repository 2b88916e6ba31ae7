import math

import torch
import torch.nn.functional as F


def _columns(positions, table):
    return table.T[positions.clamp(min=0)] * (positions >= 0)[..., None]


def last_position_for_padding(x, positions, table):
    """Padding receives the vector of the last position, because in Python index −1 is the last. It should receive
    nothing."""
    return x + table.T[positions]


def first_position_for_padding(x, positions, table):
    """Padding receives the vector of position 0, to which you moved it. Remove this vector again."""
    return x + table.T[positions.clamp(min=0)]


def padding_refused(x, positions, table):
    """You refuse position −1. It is allowed: it marks padding, to which nothing is added."""
    if (positions < 0).any():
        raise ValueError("a position is below 0")
    return x + table.T[positions]


def last_position_refused(x, positions, table):
    """Your bound is off by one: you refuse the last position of the table. Its n columns are positions 0 to n − 1."""
    if (positions >= table.shape[1] - 1).any():
        raise ValueError("a position is beyond the table")
    return x + _columns(positions, table)


def last_position_and_padding_refused(x, positions, table):
    """You refuse positions that are allowed. The n columns of the table are positions 0 to n − 1, and −1 marks
    padding."""
    if (positions < 0).any() or (positions >= table.shape[1] - 1).any():
        raise ValueError("a position is outside")
    return x + _columns(positions, table)


def rows_looked_up(x, positions, table):
    """You look up rows of the table, and there are too few of them unless the table is square. Each position has a
    column."""
    return x + table[positions]


def one_hot_times_rows(x, positions, table):
    """You multiply by the table from the wrong side, which selects rows. Each position has a column."""
    one_hot = F.one_hot(positions + 1, table.shape[1] + 1)[..., 1:].float()
    return x + one_hot @ table


def padding_wiped_out(x, positions, table):
    """You set padding to zero. Leave it as it is."""
    return (x + _columns(positions, table)) * (positions >= 0)[..., None]


def positions_not_used(x, positions, table):
    """You number the tokens of a row yourself. Use the positions that you are given, which need not start at 0."""
    counted = torch.arange(positions.shape[1]) % table.shape[1]
    return x + _columns(torch.where(positions < 0, -1, counted), table)


def first_row_for_all(x, positions, table):
    """You use the positions of the first sequence for all sequences. Each row has its own positions."""
    return x + _columns(positions[:1].expand_as(positions), table)


def counted_from_one(x, positions, table):
    """Each token receives the vector of the position before its own. Position 0 has the first column."""
    return x + _columns((positions - 1).clamp(min=-1), table)


def one_column_further(x, positions, table):
    """Each token receives the vector of the position after its own. Position 0 has the first column."""
    return x + _columns(torch.where(positions < 0, -1, (positions + 1) % table.shape[1]), table)


def reshaped_table(x, positions, table):
    """You reshape the table to get positions in rows, which mixes their vectors. Transpose the table instead."""
    return x + _columns(positions, table.reshape(table.shape[1], -1).T)


def replaced(x, positions, table):
    """You return only the vectors of the positions. Add them to the tokens."""
    return x * (positions < 0)[..., None] + _columns(positions, table)


def multiplied(x, positions, table):
    """You multiply the tokens by the vectors of their positions. Add the vectors instead."""
    return torch.where(positions[..., None] < 0, x, x * _columns(positions, table))


def concatenated(x, positions, table):
    """You concatenate the vectors of the positions. Add them, so that the width stays the same (erratum E-20)."""
    return torch.cat((x, _columns(positions, table)), -1)


def taken_away(x, positions, table):
    """You subtract the vectors of the positions. Add them instead."""
    return x - _columns(positions, table)


def added_for_padding_alone(x, positions, table):
    """You add a vector to padding and nothing to the tokens. It should be the other way round: look at your
    condition."""
    return x + table.T[positions.clamp(min=0)] * (positions < 0)[..., None]


def position_0_left_out(x, positions, table):
    """You add nothing at position 0. It is a position like any other; only −1 is padding."""
    return x + _columns(positions, table) * (positions > 0)[..., None]


def tokens_scaled_up(x, positions, table):
    """You multiply the tokens by the root of their width, as the first Transformer did. Here they stay as they are."""
    return x * math.sqrt(x.shape[-1]) + _columns(positions, table)


def changes_the_tokens(x, positions, table):
    """The result is right, but you change the caller's tokens in place. Make a new tensor."""
    x += _columns(positions, table)
    return x


def changes_the_positions(x, positions, table):
    """The result is right, but you overwrite the caller's positions of padding. Use clamp or where, which make a new
    tensor."""
    is_padding = positions < 0
    positions[is_padding] = 0
    return x + table.T[positions] * ~is_padding[..., None]


def padding_made_position_0(x, positions, table):
    """You set the positions of padding to 0 in the caller's tensor. You should not change this tensor, and padding
    should receive no vector."""
    positions[positions < 0] = 0
    return x + table.T[positions]


def zero_column_in_front(x, positions, table):
    """You put a column of zeros in front of the table, so each position gets the vector of the position before it.
    Which column does index −1 select?"""
    return x + torch.cat((torch.zeros_like(table[:, :1]), table), 1).T[positions]


def mask_without_an_axis(x, positions, table):
    """Your condition has one entry for each token, but it is applied to the coordinates. Give it a last axis of size
    1."""
    return x + table.T[positions.clamp(min=0)] * (positions >= 0)


def axes_of_the_columns(x, positions, table):
    """The columns that you select have their coordinates on the first axis, but the tokens have theirs on the last
    axis."""
    return x + table[:, positions]


def bound_by_the_rows(x, positions, table):
    """You refuse positions that the table has. Its positions are its columns, but your bound is not the number of
    columns."""
    if (positions > table.shape[0]).any():
        raise ValueError("a position is beyond the table")
    return x + _columns(positions, table)
