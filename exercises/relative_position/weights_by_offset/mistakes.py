import torch


def _offsets(query_positions, key_positions):
    return key_positions[None, :] - query_positions[:, None]


def _one_hot(offsets, r_max, dtype):
    """(queries, keys, columns): 1 where a pair has the column's offset, 0 elsewhere."""
    return (offsets.unsqueeze(2) == torch.arange(-r_max, r_max + 1)).to(dtype)


def _summed(weights, offsets, r_max):
    columns = _one_hot(offsets.clamp(min=-r_max, max=r_max), r_max, weights.dtype)
    return (weights.unsqueeze(3) * columns).sum(2)


def query_minus_key(weights, query_positions, key_positions, r_max):
    """Your columns are in reverse order, so past and future are exchanged. Look at the sign of your offsets."""
    return _summed(weights, -_offsets(query_positions, key_positions), r_max)


def distance_only(weights, query_positions, key_positions, r_max):
    """You count the weight on the past as weight on the future. Your offsets have lost their sign."""
    return _summed(weights, _offsets(query_positions, key_positions).abs(), r_max)


def far_keys_left_out(weights, query_positions, key_positions, r_max):
    """The weight on keys beyond the bounds is lost in your answer. It belongs to the outermost offsets."""
    return (weights.unsqueeze(3) * _one_hot(_offsets(query_positions, key_positions), r_max, weights.dtype)).sum(2)


def clipped_one_too_early(weights, query_positions, key_positions, r_max):
    """Your first and last column are always zero. Look at the bounds of your clipping."""
    bound = max(r_max - 1, 0)
    return _summed(weights, _offsets(query_positions, key_positions).clamp(-bound, bound), r_max)


def offset_as_index(weights, query_positions, key_positions, r_max):
    """You use the offset itself as the column, and a negative one counts from the end. Which offset does column 0
    belong to?"""
    offsets = _offsets(query_positions, key_positions).clamp(-r_max, r_max)
    return _summed(weights, offsets, r_max).roll(-r_max, -1)


def last_key_counts(weights, query_positions, key_positions, r_max):
    """If several keys have the same offset, the last one overwrites the others. Add their weights."""
    columns = _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max
    found = weights.new_zeros(weights.shape[0], weights.shape[1], 2 * r_max + 1)
    for i in range(weights.shape[1]):
        for j in range(weights.shape[2]):
            found[:, i, columns[i, j]] = weights[:, i, j]
    return found


def mean_of_equals(weights, query_positions, key_positions, r_max):
    """If several keys have the same offset, you take the mean of their weights. Add them."""
    offsets = _offsets(query_positions, key_positions)
    return _summed(weights, offsets, r_max) / _summed(torch.ones_like(weights), offsets, r_max).clamp(min=1)


def keys_counted(weights, query_positions, key_positions, r_max):
    """You count the keys at each offset. Add their weights."""
    return _summed(torch.ones_like(weights), _offsets(query_positions, key_positions), r_max)


def mean_over_queries(weights, query_positions, key_positions, r_max):
    """All queries of a head have the same row, their mean. Each query should have its own row."""
    found = _summed(weights, _offsets(query_positions, key_positions), r_max)
    return found.mean(1, keepdim=True).expand_as(found)


def mean_over_heads(weights, query_positions, key_positions, r_max):
    """All heads have the same matrix, their mean. Each head should have its own."""
    found = _summed(weights, _offsets(query_positions, key_positions), r_max)
    return found.mean(0, keepdim=True).expand_as(found)


def positions_not_used(weights, query_positions, key_positions, r_max):
    """You count queries and keys from 0. Use the positions that are given."""
    positions = torch.arange(weights.shape[1]), torch.arange(weights.shape[2])
    return _summed(weights, _offsets(*positions), r_max)


def position_of_the_key(weights, query_positions, key_positions, r_max):
    """You collect the weights by the key's own position. Use its offset from the query."""
    return _summed(weights, _offsets(0 * query_positions, key_positions), r_max)


def first_head_only(weights, query_positions, key_positions, r_max):
    """Only your first head is filled, and the others are 0. scatter_add does not broadcast: the column numbers must
    have the shape of the weights."""
    found = _summed(weights, _offsets(query_positions, key_positions), r_max)
    return found * (torch.arange(len(weights)) == 0)[:, None, None]


def one_column_short(weights, query_positions, key_positions, r_max):
    """You have 2 r_max columns, so offset r_max has none. Remember the column of offset 0."""
    columns = _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max
    found = weights.new_zeros(*weights.shape[:2], 2 * r_max)
    return found.scatter_add(2, columns.expand_as(weights), weights)


def last_offset_missing(weights, query_positions, key_positions, r_max):
    """The column of offset r_max is missing. A range in Python ends before its upper bound."""
    return _summed(weights, _offsets(query_positions, key_positions), r_max)[:, :, :-1]


def future_one_too_early(weights, query_positions, key_positions, r_max):
    """You have 2 r_max columns and clip the future at r_max - 1, as DeBERTa does. Here the bounds are symmetric, so
    there are 2 r_max + 1 columns."""
    offsets = _offsets(query_positions, key_positions).clamp(max=r_max - 1)
    return _summed(weights, offsets, r_max)[:, :, :-1]


def not_clipped(weights, query_positions, key_positions, r_max):
    """Keys beyond the bounds get a column outside your matrix. They belong to the outermost offsets."""
    columns = _offsets(query_positions, key_positions) + r_max
    found = weights.new_zeros(*weights.shape[:2], 2 * r_max + 1)
    return found.scatter_add(2, columns.expand_as(weights), weights)


def far_keys_outside(weights, query_positions, key_positions, r_max):
    """Keys beyond the bounds get a column that lies outside your matrix or counts from its end. They belong to the
    outermost offsets."""
    columns = _offsets(query_positions, key_positions) + r_max
    found = weights.new_zeros(*weights.shape[:2], 2 * r_max + 1)
    for i in range(weights.shape[1]):
        for j in range(weights.shape[2]):
            found[:, i, columns[i, j]] += weights[:, i, j]
    return found


def no_column_for_the_past(weights, query_positions, key_positions, r_max):
    """You use the offset itself as the column, but a column cannot be negative. Which offset does column 0 belong
    to?"""
    columns = _offsets(query_positions, key_positions).clamp(-r_max, r_max)
    found = weights.new_zeros(*weights.shape[:2], 2 * r_max + 1)
    return found.scatter_add(2, columns.expand_as(weights), weights)


def largest_of_equals(weights, query_positions, key_positions, r_max):
    """If several keys have the same offset, you take the largest of their weights. Add them."""
    columns = _one_hot(_offsets(query_positions, key_positions).clamp(-r_max, r_max), r_max, weights.dtype)
    return (weights.unsqueeze(3) * columns).amax(2)


def sum_over_queries(weights, query_positions, key_positions, r_max):
    """You also sum over the queries. Each query should have its own row."""
    return _summed(weights, _offsets(query_positions, key_positions), r_max).sum(1)


def offsets_first(weights, query_positions, key_positions, r_max):
    """Your matrices have a row for each offset. They should have a row for each query and a column for each offset."""
    return _summed(weights, _offsets(query_positions, key_positions), r_max).mT


def divided_by_the_number_of_keys(weights, query_positions, key_positions, r_max):
    """You divide by the number of keys. The weights of an offset are added, not averaged."""
    return _summed(weights, _offsets(query_positions, key_positions), r_max) / weights.shape[2]


def future_in_the_middle(weights, query_positions, key_positions, r_max):
    """All weight on the future ends up at offset 0. After you add r_max, up to which column does the matrix go?"""
    return _summed(weights, _offsets(query_positions, key_positions).clamp(max=0), r_max)


def sum_over_heads(weights, query_positions, key_positions, r_max):
    """You also sum over the heads. Each head should have its own matrix."""
    return _summed(weights, _offsets(query_positions, key_positions), r_max).sum(0)


def offsets_before_heads(weights, query_positions, key_positions, r_max):
    """Your offsets are on the first axis. They belong on the last, with a column for each offset."""
    return _summed(weights, _offsets(query_positions, key_positions), r_max).movedim(2, 0)
