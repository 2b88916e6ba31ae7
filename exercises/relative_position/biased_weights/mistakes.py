import torch


def _offsets(query_positions, key_positions):
    return key_positions[None, :] - query_positions[:, None]


def _bias(table, offsets):
    r_max = (table.shape[1] - 1) // 2
    return table[:, torch.clamp(offsets, min=-r_max, max=r_max) + r_max]


def _scaled(query, key):
    return query @ key.transpose(1, 2) * query.shape[2] ** -0.5


def bias_after_softmax(query, key, table, query_positions, key_positions):
    """You add the biases to the weights, so the weights no longer sum to one. Add them to the scores, before the
    softmax."""
    return _scaled(query, key).softmax(-1) + _bias(table, _offsets(query_positions, key_positions))


def bias_over_the_root(query, key, table, query_positions, key_positions):
    """You divide the biases by the root too. Look at what is inside the fraction and what is outside."""
    root = query.shape[2] ** 0.5
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions)) / root).softmax(-1)


def no_scale(query, key, table, query_positions, key_positions):
    """Your scores are not scaled. T5 leaves out the root, but this scheme divides by it."""
    return (query @ key.mT + _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def bias_as_a_factor(query, key, table, query_positions, key_positions):
    """You multiply the scores by the numbers in the table. Add these numbers to the scores."""
    return (_scaled(query, key) * _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def no_bias(query, key, table, query_positions, key_positions):
    """The table has no influence on your result: this is attention without positions."""
    return _scaled(query, key).softmax(-1)


def query_minus_key(query, key, table, query_positions, key_positions):
    """You read the table in reverse, so past and future are exchanged. Look at the sign of your offsets."""
    return (_scaled(query, key) + _bias(table, -_offsets(query_positions, key_positions))).softmax(-1)


def distance_only(query, key, table, query_positions, key_positions):
    """A key before the query gets the bias of a key equally far after it. Your offsets have lost their sign."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions).abs())).softmax(-1)


def offset_as_index(query, key, table, query_positions, key_positions):
    """You index the table with the offset itself, and a negative index counts from the end. Which offset does column 0
    belong to?"""
    r_max = table.shape[1] // 2
    offsets = _offsets(query_positions, key_positions).clamp(-r_max, r_max)
    return (_scaled(query, key) + table[:, offsets]).softmax(-1)


def no_clip(query, key, table, query_positions, key_positions):
    """For keys beyond the range, your column lies outside the table or counts from its end. These keys share the
    outermost biases."""
    return (_scaled(query, key) + table[:, _offsets(query_positions, key_positions) + table.shape[1] // 2]).softmax(-1)


def clipped_one_too_early(query, key, table, query_positions, key_positions):
    """You never use the first and the last column of the table. Look at the bounds of your clipping."""
    offsets, r_max = _offsets(query_positions, key_positions), table.shape[1] // 2
    return (_scaled(query, key) + _bias(table, offsets.clamp(1 - r_max, r_max - 1))).softmax(-1)


def one_head_for_all(query, key, table, query_positions, key_positions):
    """All heads use the biases of the first head. Each row of the table belongs to one head."""
    return (_scaled(query, key) + _bias(table[:1], _offsets(query_positions, key_positions))).softmax(-1)


def positions_not_used(query, key, table, query_positions, key_positions):
    """You count queries and keys from 0. Use the positions that are given."""
    positions = torch.arange(query.shape[1]), torch.arange(key.shape[1])
    return (_scaled(query, key) + _bias(table, _offsets(*positions))).softmax(-1)


def softmax_over_queries(query, key, table, query_positions, key_positions):
    """Your softmax runs over the queries. The weights of each query should sum to one over the keys, so look at the
    axis."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions))).softmax(1)


def scores_not_weights(query, key, table, query_positions, key_positions):
    """You return the scores, and they are right. One step is missing: turn them into weights."""
    return _scaled(query, key) + _bias(table, _offsets(query_positions, key_positions))


def nothing_beyond_the_table(query, key, table, query_positions, key_positions):
    """Keys beyond the range of the table get no bias in your answer. They should share the outermost biases."""
    offsets = _offsets(query_positions, key_positions)
    return (_scaled(query, key) + _bias(table, offsets) * (offsets.abs() <= table.shape[1] // 2)).softmax(-1)


def position_of_the_key(query, key, table, query_positions, key_positions):
    """You look up the bias by the key's own position, whatever the query is. Use its offset from the query."""
    return (_scaled(query, key) + _bias(table, _offsets(0 * query_positions, key_positions))).softmax(-1)


def not_clipped(query, key, table, query_positions, key_positions):
    """For keys beyond the range, your column lies outside the table. These keys share the outermost biases."""
    columns = _offsets(query_positions, key_positions) + table.shape[1] // 2
    return (
        _scaled(query, key) + table.gather(1, columns.flatten().expand(len(table), -1)).unflatten(1, columns.shape)
    ).softmax(-1)


def r_max_is_the_number_of_columns(query, key, table, query_positions, key_positions):
    """You use the number of columns as r_max, so your columns begin too far to the right or lie outside the table. The
    table has 2 r_max + 1 columns."""
    r_max = table.shape[1]
    return (
        _scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max]
    ).softmax(-1)


def r_max_one_too_large(query, key, table, query_positions, key_positions):
    """Your r_max is too large by one, so near offsets read the column to the right of their own. Columns are counted
    from 0, and offset 0 has one too."""
    r_max = table.shape[1] // 2 + 1
    return (
        _scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max]
    ).softmax(-1)


def r_max_one_too_small(query, key, table, query_positions, key_positions):
    """Your r_max is too small by one, so the last two columns are never read and the other offsets read one column too
    early. The table also has a column for offset 0."""
    r_max = table.shape[1] // 2 - 1
    return (
        _scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max]
    ).softmax(-1)


def heads_last(query, key, table, query_positions, key_positions):
    """Your bias has its heads on the last axis, where the scores have their keys. Heads come first: one matrix for each
    head."""
    r_max = table.shape[1] // 2
    columns = _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max
    return (_scaled(query, key) + table.T[columns]).softmax(-1)


def keys_in_rows(query, key, table, query_positions, key_positions):
    """Your matrix of offsets has a row for each key, while the scores have a row for each query. Look at where you
    insert the new axis."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions).T)).softmax(-1)


def rows_and_columns_exchanged(query, key, table, query_positions, key_positions):
    """Your matrix of offsets has a row for each key and holds query minus key. Rows belong to queries, and the offset
    is key minus query."""
    return (_scaled(query, key) + _bias(table, -_offsets(query_positions, key_positions).T)).softmax(-1)


def future_hidden(query, key, table, query_positions, key_positions):
    """You mask the keys in the future. There is no mask in this exercise."""
    offsets = _offsets(query_positions, key_positions)
    scores = _scaled(query, key) + _bias(table, offsets)
    return scores.masked_fill(offsets > 0, float("-inf")).softmax(-1)


def softmax_over_heads(query, key, table, query_positions, key_positions):
    """Your softmax runs over the heads. The weights of each query should sum to one over the keys, so look at the
    axis."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions))).softmax(0)


def no_root(query, key, table, query_positions, key_positions):
    """You divide by the width of a head itself. Divide by its square root."""
    scaled = query @ key.mT / query.shape[2]
    return (scaled + _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def root_of_the_number_of_queries(query, key, table, query_positions, key_positions):
    """You divide by the root of the number of queries. Use the width of a head, which is the last axis of the
    queries."""
    scaled = query @ key.mT * query.shape[1] ** -0.5
    return (scaled + _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def lower_bound_missing(query, key, table, query_positions, key_positions):
    """You clip offsets into the future, but a key far in the past gets a negative column, which counts from the end.
    The past needs a bound too."""
    r_max = table.shape[1] // 2
    return (_scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(max=r_max) + r_max]).softmax(
        -1
    )


def upper_bound_missing(query, key, table, query_positions, key_positions):
    """You clip offsets into the past, but a key far in the future gets a column outside the table. The future needs a
    bound too."""
    r_max = table.shape[1] // 2
    return (_scaled(query, key) + table[:, _offsets(query_positions, key_positions).clamp(min=-r_max) + r_max]).softmax(
        -1
    )


def clipped_at_r_max_after_the_shift(query, key, table, query_positions, key_positions):
    """All keys in the future get the bias of offset 0, because you never read the second half of the table. After you
    add r_max, up to which column does the table go?"""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions).clamp(max=0))).softmax(-1)


def past_in_the_first_column(query, key, table, query_positions, key_positions):
    """All keys in the past read column 0, and so does offset 0. Column 0 belongs to offset -r_max, so what do you have
    to add before you clip?"""
    columns = _offsets(query_positions, key_positions).clamp(0, table.shape[1] - 1)
    return (_scaled(query, key) + table[:, columns]).softmax(-1)


def past_in_the_first_column_up_to_r_max(query, key, table, query_positions, key_positions):
    """All keys in the past read column 0, and so does offset 0. Column 0 belongs to offset -r_max, so the bounds of the
    offsets are not 0 and r_max."""
    columns = _offsets(query_positions, key_positions).clamp(0, table.shape[1] // 2)
    return (_scaled(query, key) + table[:, columns]).softmax(-1)


def weights_times_bias(query, key, table, query_positions, key_positions):
    """You multiply the weights by the numbers in the table. Add these numbers to the scores, before the softmax."""
    return _scaled(query, key).softmax(-1) * _bias(table, _offsets(query_positions, key_positions))
