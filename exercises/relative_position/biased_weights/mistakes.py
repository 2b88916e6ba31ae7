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
    """Your numbers are divided by the root too. Look at what stands inside the fraction and what beside it."""
    root = query.shape[2] ** 0.5
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions)) / root).softmax(-1)


def no_scale(query, key, table, query_positions, key_positions):
    """Your products are not scaled. T5 leaves the root out, this scheme has it."""
    return (query @ key.mT + _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def bias_as_a_factor(query, key, table, query_positions, key_positions):
    """You multiply the scores by the numbers of the table. They are added."""
    return (_scaled(query, key) * _bias(table, _offsets(query_positions, key_positions))).softmax(-1)


def no_bias(query, key, table, query_positions, key_positions):
    """The table has no influence: this is attention without any position."""
    return _scaled(query, key).softmax(-1)


def query_minus_key(query, key, table, query_positions, key_positions):
    """Your table runs backwards: past and future have changed places. Look at the sign of your offsets."""
    return (_scaled(query, key) + _bias(table, -_offsets(query_positions, key_positions))).softmax(-1)


def distance_only(query, key, table, query_positions, key_positions):
    """A key before the query gets the number of the key as far behind it. The sign of the offset is lost."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions).abs())).softmax(-1)


def offset_as_index(query, key, table, query_positions, key_positions):
    """You index the table with the offset itself. A negative index counts from the end: which offset has column 0?"""
    r_max = table.shape[1] // 2
    offsets = _offsets(query_positions, key_positions).clamp(-r_max, r_max)
    return (_scaled(query, key) + table[:, offsets]).softmax(-1)


def no_clip(query, key, table, query_positions, key_positions):
    """Keys that are further away than the table reaches are looked up outside it. They share the outermost number."""
    return (_scaled(query, key) + table[:, _offsets(query_positions, key_positions) + table.shape[1] // 2]).softmax(-1)


def clipped_one_too_early(query, key, table, query_positions, key_positions):
    """The two outermost numbers of your table are never used. Look at the bounds of your clip."""
    offsets, r_max = _offsets(query_positions, key_positions), table.shape[1] // 2
    return (_scaled(query, key) + _bias(table, offsets.clamp(1 - r_max, r_max - 1))).softmax(-1)


def one_head_for_all(query, key, table, query_positions, key_positions):
    """All heads get the numbers of the first. Each row of the table belongs to one head."""
    return (_scaled(query, key) + _bias(table[:1], _offsets(query_positions, key_positions))).softmax(-1)


def positions_not_positions(query, key, table, query_positions, key_positions):
    """You count queries and keys from 0. Take the positions that you were given."""
    positions = torch.arange(query.shape[1]), torch.arange(key.shape[1])
    return (_scaled(query, key) + _bias(table, _offsets(*positions))).softmax(-1)


def softmax_over_queries(query, key, table, query_positions, key_positions):
    """Your softmax runs over the tokens that ask. Each shares its weight among those asked: look at the axis."""
    return (_scaled(query, key) + _bias(table, _offsets(query_positions, key_positions))).softmax(1)


def scores_not_weights(query, key, table, query_positions, key_positions):
    """These are the scores, and they are right. Asked are the weights: one step is left."""
    return _scaled(query, key) + _bias(table, _offsets(query_positions, key_positions))


def nothing_beyond_the_table(query, key, table, query_positions, key_positions):
    """Keys further away than the table reaches get nothing from you. They share the outermost number."""
    offsets = _offsets(query_positions, key_positions)
    return (_scaled(query, key) + _bias(table, offsets) * (offsets.abs() <= table.shape[1] // 2)).softmax(-1)


def position_of_the_key(query, key, table, query_positions, key_positions):
    """You look up the key's own position, whoever asks. How far is it from the query?"""
    return (_scaled(query, key) + _bias(table, _offsets(0 * query_positions, key_positions))).softmax(-1)
