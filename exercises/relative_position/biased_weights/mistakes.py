import torch


def _offsets(query_positions, key_positions):
    return key_positions[None, :] - query_positions[:, None]


def _bias(table, offsets):
    r_max = (table.shape[1] - 1) // 2
    return table[:, torch.clamp(offsets, min=-r_max, max=r_max) + r_max]


def _scaled(query, key):
    return query @ key.transpose(1, 2) * query.shape[2] ** -0.5


def bias_after_softmax(query, key, table, query_positions, key_positions):
    """You add the numbers to the weights, so that they no longer add up to one. They belong to the scores."""
    return _scaled(query, key).softmax(-1) + _bias(table, _offsets(query_positions, key_positions))


def bias_over_the_root(query, key, table, query_positions, key_positions):
    """Your numbers are divided by the root too. Look at what is inside the fraction and what is outside."""
    root = query.shape[2] ** 0.5
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions)) / root).softmax(-1)


def no_scale(query, key, table, query_positions, key_positions):
    """Your products are not scaled. T5 leaves out the root, but this scheme has it."""
    return (query @ key.mT + _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def bias_as_a_factor(query, key, table, query_positions, key_positions):
    """You multiply the scores by the numbers of the table. Add them."""
    return (_scaled(query, key) * _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def no_bias(query, key, table, query_positions, key_positions):
    """The table has no influence: this is attention without any position."""
    return _scaled(query, key).softmax(-1)


def query_minus_key(query, key, table, query_positions, key_positions):
    """Your table runs backwards: past and future are exchanged. Look at the sign of your offsets."""
    return (_scaled(query, key) + _bias(table, -_offsets(query_positions, key_positions))).softmax(-1)


def distance_only(query, key, table, query_positions, key_positions):
    """A key before the query gets the number of the key that is as far after it. The sign of the offset is lost."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions).abs())).softmax(-1)


def offset_as_index(query, key, table, query_positions, key_positions):
    """You index the table with the offset itself. A negative index counts from the end: which offset has column 0?"""
    r_max = table.shape[1] // 2
    offsets = _offsets(query_positions, key_positions).clamp(-r_max, r_max)
    return (_scaled(query, key) + table[:, offsets]).softmax(-1)


def no_clip(query, key, table, query_positions, key_positions):
    """For keys beyond the range, your column is outside the table or counts from its end. They share the outermost
    number."""
    return (_scaled(query, key) + table[:, _offsets(query_positions, key_positions) + table.shape[1] // 2]).softmax(-1)


def clipped_one_too_early(query, key, table, query_positions, key_positions):
    """The two outermost numbers of your table are never used. Look at the bounds of your clip."""
    offsets, r_max = _offsets(query_positions, key_positions), table.shape[1] // 2
    return (_scaled(query, key) + _bias(table, offsets.clamp(1 - r_max, r_max - 1))).softmax(-1)


def one_head_for_all(query, key, table, query_positions, key_positions):
    """All heads get the numbers of the first. Each row of the table belongs to one head."""
    return (_scaled(query, key) + _bias(table[:1], _offsets(query_positions, key_positions))).softmax(-1)


def positions_not_used(query, key, table, query_positions, key_positions):
    """You count queries and keys from 0. Take the positions that you were given."""
    positions = torch.arange(query.shape[1]), torch.arange(key.shape[1])
    return (_scaled(query, key) + _bias(table, _offsets(*positions))).softmax(-1)


def softmax_over_queries(query, key, table, query_positions, key_positions):
    """Your softmax runs over the queries. The weights of each query should sum to one over the keys: look at the
    axis."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions))).softmax(1)


def scores_not_weights(query, key, table, query_positions, key_positions):
    """These are the scores, and they are right. Return the weights: one step is left."""
    return _scaled(query, key) + _bias(table, _offsets(query_positions, key_positions))


def nothing_beyond_the_table(query, key, table, query_positions, key_positions):
    """Keys beyond the range of the table get no bias from you. They share the outermost number."""
    offsets = _offsets(query_positions, key_positions)
    return (_scaled(query, key) + _bias(table, offsets) * (offsets.abs() <= table.shape[1] // 2)).softmax(-1)


def position_of_the_key(query, key, table, query_positions, key_positions):
    """You look up the key's own position, whatever the query. What is its offset from the query?"""
    return (_scaled(query, key) + _bias(table, _offsets(0 * query_positions, key_positions))).softmax(-1)


def not_clipped(query, key, table, query_positions, key_positions):
    """For keys beyond the range, your column is outside the table. They share the outermost number."""
    columns = _offsets(query_positions, key_positions) + table.shape[1] // 2
    return (
        _scaled(query, key) + table.gather(1, columns.flatten().expand(len(table), -1)).unflatten(1, columns.shape)
    ).softmax(-1)


def r_max_is_the_number_of_columns(query, key, table, query_positions, key_positions):
    """You take the number of columns for r_max, so that your columns start too far to the right or lie outside the
    table. The table has 2 r_max + 1 columns."""
    r_max = table.shape[1]
    return (
        _scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max]
    ).softmax(-1)


def r_max_one_too_large(query, key, table, query_positions, key_positions):
    """Your r_max is too large by one, so that near offsets read the column to the right of their own. Columns are
    counted from 0, and offset 0 has one too."""
    r_max = table.shape[1] // 2 + 1
    return (
        _scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max]
    ).softmax(-1)


def r_max_one_too_small(query, key, table, query_positions, key_positions):
    """Your r_max is too small by one, so that the last two columns are never read and the others one
    too early. The table has a column for offset 0 too."""
    r_max = table.shape[1] // 2 - 1
    return (
        _scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max]
    ).softmax(-1)


def heads_last(query, key, table, query_positions, key_positions):
    """Your bias has its axis of heads at the end, where the scores have their keys. One matrix for each head: heads
    come first."""
    r_max = table.shape[1] // 2
    columns = _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max
    return (_scaled(query, key) + table.T[columns]).softmax(-1)


def keys_in_rows(query, key, table, query_positions, key_positions):
    """Your matrix of offsets has a row for each key, while the scores have a row for each query. Look where you put the
    new axis."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions).T)).softmax(-1)


def rows_and_columns_exchanged(query, key, table, query_positions, key_positions):
    """Your matrix of offsets has a row for each key, and the sign is that of query minus key. Rows belong to queries,
    and the offset is key minus query."""
    return (_scaled(query, key) + _bias(table, -_offsets(query_positions, key_positions).T)).softmax(-1)


def future_hidden(query, key, table, query_positions, key_positions):
    """You hide the keys of the future. Here nothing is masked."""
    offsets = _offsets(query_positions, key_positions)
    scores = _scaled(query, key) + _bias(table, offsets)
    return scores.masked_fill(offsets > 0, float("-inf")).softmax(-1)


def softmax_over_heads(query, key, table, query_positions, key_positions):
    """Your softmax runs over the heads. The weights of each query should sum to one over the keys: look at the axis."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions))).softmax(0)


def no_root(query, key, table, query_positions, key_positions):
    """You divide by the width of a head itself. Divide by its root."""
    scaled = query @ key.mT / query.shape[2]
    return (scaled + _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def root_of_the_number_of_queries(query, key, table, query_positions, key_positions):
    """Your root is of the number of queries. It is of the width of a head, the last axis of the queries."""
    scaled = query @ key.mT * query.shape[1] ** -0.5
    return (scaled + _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def lower_bound_missing(query, key, table, query_positions, key_positions):
    """You clip the future, but a key far in the past gets a negative column, which counts from the end. The past has a
    bound too."""
    r_max = table.shape[1] // 2
    return (_scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(max=r_max) + r_max]).softmax(
        -1
    )


def upper_bound_missing(query, key, table, query_positions, key_positions):
    """You clip the past, but a key far in the future has a column outside the table. The future has a bound too."""
    r_max = table.shape[1] // 2
    return (_scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(min=-r_max) + r_max]).softmax(
        -1
    )


def clipped_at_r_max_after_the_shift(query, key, table, query_positions, key_positions):
    """Your future all has the number of offset 0: the second half of the table is never read. Which columns are there
    once r_max is added?"""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions).clamp(max=0))).softmax(-1)


def past_in_the_first_column(query, key, table, query_positions, key_positions):
    """The past all reads column 0, and offset 0 too. Column 0 belongs to offset -r_max: add something before you
    clip."""
    columns = _offsets(query_positions, key_positions).clamp(0, table.shape[1] - 1)
    return (_scaled(query, key) + table[:, columns]).softmax(-1)


def past_in_the_first_column_up_to_r_max(query, key, table, query_positions, key_positions):
    """The past all reads column 0, and offset 0 too. Column 0 belongs to offset -r_max: the bounds are not 0 and
    r_max."""
    columns = _offsets(query_positions, key_positions).clamp(0, table.shape[1] // 2)
    return (_scaled(query, key) + table[:, columns]).softmax(-1)


def weights_times_bias(query, key, table, query_positions, key_positions):
    """You multiply the weights by the numbers of the table. Add the numbers to the scores, before the softmax."""
    return _scaled(query, key).softmax(-1) * _bias(table, _offsets(query_positions, key_positions))
