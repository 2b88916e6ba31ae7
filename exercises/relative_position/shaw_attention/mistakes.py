import torch


def _offsets(query_positions, key_positions):
    return key_positions.unsqueeze(1) - query_positions.unsqueeze(2)


def _rows(offsets, vectors):
    r_max = (vectors.shape[0] - 1) // 2
    return torch.clamp(offsets, min=-r_max, max=r_max) + r_max


def _scores(query, key, vectors):
    """Content and position, both divided by the root; vectors (batch, queries, keys, d_head)."""
    position = (query.unsqueeze(3) * vectors.unsqueeze(1)).sum(-1)
    return (query @ key.transpose(2, 3) + position) * query.shape[3] ** -0.5


def _weights(scores, mask):
    return scores.masked_fill(mask.unsqueeze(1).logical_not(), float("-inf")).softmax(-1)


def _averaged(weights, value, vectors):
    return weights @ value + (weights.unsqueeze(4) * vectors.unsqueeze(1)).sum(3)


def _attention(query, key, value, key_vectors, value_vectors, rows, mask):
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    return _averaged(weights, value, value_vectors[rows])


def no_vectors(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """This is attention without positions: neither of the two tables has any influence."""
    return _weights(query @ key.mT * query.shape[3] ** -0.5, mask) @ value


def keys_only(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores depend on the offsets, but your values do not. You have not used one of the two tables yet."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _weights(_scores(query, key, key_vectors[rows]), mask) @ value


def values_only(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your values depend on the offsets, but your scores do not. You have not used one of the two tables yet."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(query @ key.mT * query.shape[3] ** -0.5, mask)
    return _averaged(weights, value, value_vectors[rows])


def position_not_scaled(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You divide the product of query and key by the root, but not the product of the query and the vector. The root
    divides both."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    vectors = key_vectors[rows] * query.shape[3] ** 0.5
    return _averaged(_weights(_scores(query, key, vectors), mask), value, value_vectors[rows])


def no_scale(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores are not divided by the root. It divides both of their parts."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]) * query.shape[3] ** 0.5
    return _averaged(_weights(scores, mask), value, value_vectors[rows])


def query_minus_key(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You read the tables in reverse, so past and future are exchanged. Look at the sign of your offsets."""
    rows = _rows(-_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def distance_only(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """A key before the query gets the vector of a key equally far after it. Your offsets have lost their sign."""
    rows = _rows(_offsets(query_positions, key_positions).abs(), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def offset_as_index(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You index the tables with the offset itself, and a negative index counts from the end. Which offset does row 0
    belong to?"""
    r_max = len(key_vectors) // 2
    rows = _offsets(query_positions, key_positions).clamp(-r_max, r_max)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def no_clip(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """For keys beyond the range, you look up rows outside the tables. These keys share the outermost vectors."""
    rows = _offsets(query_positions, key_positions) + len(key_vectors) // 2
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def clipped_one_too_early(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You never use the first and the last row of the tables. Look at the bounds of your clipping."""
    bound = len(key_vectors) // 2 - 1
    rows = _rows(_offsets(query_positions, key_positions).clamp(-bound, bound), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def key_asks(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You multiply the vector of the offset by the key. The vector is added to the key, so what multiplies both of
    them?"""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    position = (key.unsqueeze(2) * key_vectors[rows].unsqueeze(1)).sum(-1)
    weights = _weights((query @ key.mT + position) * query.shape[3] ** -0.5, mask)
    return _averaged(weights, value, value_vectors[rows])


def value_vectors_unweighted(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You add the value vectors to the output without weights. They are averaged with the attention weights, as the
    values are."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    return weights @ value + value_vectors[rows].sum(2).unsqueeze(1)


def value_vectors_by_words_alone(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You average the value vectors with weights that ignore the offsets. Both sums use the same weights."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    words = _weights(query @ key.mT * query.shape[3] ** -0.5, mask)
    return weights @ value + _averaged(words, torch.zeros_like(value), value_vectors[rows])


def one_table_for_both(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You use key_vectors for the values too. The values have their own table."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, key_vectors, rows, mask)


def tables_exchanged(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You use value_vectors in the scores and key_vectors in the output. Exchange them."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, value_vectors, key_vectors, rows, mask)


def positions_not_used(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You count queries and keys from 0. Use the positions that are given."""
    positions = torch.arange(query.shape[2])[None], torch.arange(key.shape[2])[None]
    rows = _rows(_offsets(*positions), key_vectors).expand(len(query), -1, -1)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def one_sequence_for_all(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """All sequences get the offsets of the first one. Each sequence has its own positions, so keep the batch axis."""
    rows = _rows(_offsets(query_positions[:1], key_positions[:1]), key_vectors).expand(len(query), -1, -1)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def no_mask(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You do not apply the mask, so tokens attend to the future or to padding."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, torch.ones_like(mask))


def position_not_masked(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You mask the scores before you add the part of the offsets, so masked keys become visible again. Apply the mask
    last."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    words = (query @ key.mT).masked_fill(~mask.unsqueeze(1), 0.0)
    position = (query.unsqueeze(3) * key_vectors[rows].unsqueeze(1)).sum(-1)
    weights = ((words + position) * query.shape[3] ** -0.5).softmax(-1)
    return _averaged(weights, value, value_vectors[rows])


def mask_after_softmax(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You mask after the softmax, so the remaining weights do not sum to one. Mask the scores before the softmax."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _scores(query, key, key_vectors[rows]).softmax(-1) * mask.unsqueeze(1)
    return _averaged(weights, value, value_vectors[rows])


def nothing_beyond_the_tables(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Keys beyond the range of the tables get no vector in your answer. They should share the outermost vectors."""
    offsets = _offsets(query_positions, key_positions)
    rows, near = _rows(offsets, key_vectors), (offsets.abs() <= len(key_vectors) // 2).unsqueeze(-1)
    weights = _weights(_scores(query, key, key_vectors[rows] * near), mask)
    return _averaged(weights, value, value_vectors[rows] * near)


def position_of_the_key(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You look up the vectors by the key's own position, whatever the query is. Use its offset from the query."""
    rows = _rows(_offsets(0 * query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def values_reversed(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores are right, but for the values past and future are exchanged. Read both tables in the same order."""
    offsets = _offsets(query_positions, key_positions)
    weights = _weights(_scores(query, key, key_vectors[_rows(offsets, key_vectors)]), mask)
    return _averaged(weights, value, value_vectors[_rows(-offsets, key_vectors)])


def keys_reversed(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """For the keys past and future are exchanged, while for the values they are right. Read both tables in the same
    order."""
    offsets = _offsets(query_positions, key_positions)
    weights = _weights(_scores(query, key, key_vectors[_rows(-offsets, key_vectors)]), mask)
    return _averaged(weights, value, value_vectors[_rows(offsets, key_vectors)])


def mask_without_heads(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your mask has no axis for the heads, so its batch axis is matched with the heads of the scores. Insert an axis
    after the batch axis."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _scores(query, key, key_vectors[rows]).masked_fill(~mask, float("-inf")).softmax(-1)
    return weights @ value + torch.einsum("bhqk,bqkd->bhqd", weights, value_vectors[rows])


def mask_inverted(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You mask the keys that may be attended to. The mask is True where a query may attend."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, ~mask)


def zero_for_hidden(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You give masked keys a score of 0, which still has a weight after the softmax. Which score gets a weight of
    zero?"""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = (_scores(query, key, key_vectors[rows]) * mask.unsqueeze(1)).softmax(-1)
    return _averaged(weights, value, value_vectors[rows])


def own_causal_mask(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You mask every key whose index is larger than the query's. Use the mask that is given: it also masks padding, and
    it may mask nothing."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, torch.ones_like(mask).tril())


def softmax_over_queries(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your softmax runs over the queries. The weights of each query should sum to one over the keys, so look at the
    axis."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]).masked_fill(~mask.unsqueeze(1), float("-inf"))
    return _averaged(scores.softmax(2), value, value_vectors[rows])


def no_root(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You divide by the width of a head itself. Divide by its square root."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]) * query.shape[3] ** -0.5
    return _averaged(_weights(scores, mask), value, value_vectors[rows])


def words_not_scaled(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You divide the product of the query and the vector by the root, but not the product of query and key. The root
    divides both."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key * query.shape[3] ** 0.5, key_vectors[rows])
    return _averaged(_weights(scores, mask), value, value_vectors[rows])


def root_of_the_width_of_values(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You divide by the root of the width of the values. A score is a sum over the entries of a query, so use their
    number."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]) * (query.shape[3] / value.shape[3]) ** 0.5
    return _averaged(_weights(scores, mask), value, value_vectors[rows])


def r_max_is_the_number_of_rows(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You use the number of rows as r_max, so your rows begin too far down or lie outside the tables. A table has 2
    r_max + 1 rows."""
    r_max = len(key_vectors)
    rows = _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def r_max_one_too_small(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your r_max is too small by one, so the last two rows are never read. The tables also have a row for offset 0."""
    r_max = len(key_vectors) // 2 - 1
    rows = _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def not_clipped(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """For keys beyond the range, your row lies outside the tables. These keys share the outermost vectors."""
    rows = _offsets(query_positions, key_positions) + len(key_vectors) // 2
    rows = rows.unsqueeze(1).expand(-1, query.shape[1], -1, -1)
    position = (query @ key_vectors.T).gather(3, rows)
    weights = _weights((query @ key.mT + position) * query.shape[3] ** -0.5, mask)
    by_row = weights.new_zeros(*weights.shape[:3], len(key_vectors)).scatter_add(3, rows, weights)
    return weights @ value + by_row @ value_vectors


def value_vectors_alone(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your output averages the vectors of the offsets, but not the values. It should be the sum of both averages."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    return _averaged(weights, torch.zeros_like(value), value_vectors[rows])


def words_left_out_of_the_scores(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores contain the products of queries with the vectors of the offsets, but not the products with the keys.
    They should be the sum of both."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _averaged(_weights(_scores(query, 0 * key, key_vectors[rows]), mask), value, value_vectors[rows])


def heads_side_by_side(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You concatenate the outputs of the heads. Keep the heads on their own axis."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask).transpose(1, 2).flatten(2)


def weights_returned(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You return the weights. Use them to average the values and their vectors."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _weights(_scores(query, key, key_vectors[rows]), mask)


def lower_bound_missing(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You clip offsets into the future, but a key far in the past gets a negative row, which counts from the end. The
    past needs a bound too."""
    r_max = len(key_vectors) // 2
    rows = _offsets(query_positions, key_positions).clamp(max=r_max) + r_max
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def wrapped_round(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Beyond the range of the tables, you go on at their other end. Keys that are farther away share the outermost
    vectors."""
    rows = (_offsets(query_positions, key_positions) + len(key_vectors) // 2) % len(key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def past_in_the_first_row(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """All keys in the past read row 0, and so does offset 0. Row 0 belongs to offset -r_max, so what do you have to add
    before you clip?"""
    rows = _offsets(query_positions, key_positions).clamp(0, len(key_vectors) - 1)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def softmax_over_heads(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your softmax runs over the heads. The weights of each query should sum to one over the keys, so look at the
    axis."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]).masked_fill(~mask.unsqueeze(1), float("-inf"))
    return _averaged(scores.softmax(1), value, value_vectors[rows])


def mask_added(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You add the mask to the scores as zeros and ones, so masked keys still get weight. Which score gets a weight of
    zero?"""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = (_scores(query, key, key_vectors[rows]) + mask.unsqueeze(1)).softmax(-1)
    return _averaged(weights, value, value_vectors[rows])


def future_in_the_middle(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """All keys in the future get the vectors of offset 0, because you never read the second half of the tables. After
    you add r_max, up to which row do the tables go?"""
    rows = _rows(_offsets(query_positions, key_positions).clamp(max=0), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def plain_mean_of_value_vectors(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You take the plain mean of the value vectors. They are averaged with the attention weights, as the values are."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    return weights @ value + value_vectors[rows].mean(2).unsqueeze(1)


def offset_as_index_of_the_values(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores are right, but for the values you use the offset itself as the row, and a negative row counts from
    the end. Use the same rows as for the keys."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    return _averaged(weights, value, value_vectors[rows - len(key_vectors) // 2])
