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
    """This is attention without position: neither kind of vector has any influence."""
    return _weights(query @ key.mT * query.shape[3] ** -0.5, mask) @ value


def keys_only(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """The scores know the offsets, but the values do not. One of the two tables has not been used yet."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _weights(_scores(query, key, key_vectors[rows]), mask) @ value


def values_only(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """The values know the offsets, but the scores do not. One of the two tables has not been used yet."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(query @ key.mT * query.shape[3] ** -0.5, mask)
    return _averaged(weights, value, value_vectors[rows])


def position_not_scaled(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You divide the product of query and key by the root, but not the product with the vector. The root divides
    both."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    vectors = key_vectors[rows] * query.shape[3] ** 0.5
    return _averaged(_weights(_scores(query, key, vectors), mask), value, value_vectors[rows])


def no_scale(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores are not divided by the root. Both of their parts should be."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]) * query.shape[3] ** 0.5
    return _averaged(_weights(scores, mask), value, value_vectors[rows])


def query_minus_key(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your tables run backwards: past and future are exchanged. Look at the sign of your offsets."""
    rows = _rows(-_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def distance_only(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """A key before the query gets the vector of the key that is as far after it. The sign of the offset is lost."""
    rows = _rows(_offsets(query_positions, key_positions).abs(), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def offset_as_index(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You index the tables with the offset itself. A negative index counts from the end: which offset has row 0?"""
    r_max = len(key_vectors) // 2
    rows = _offsets(query_positions, key_positions).clamp(-r_max, r_max)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def no_clip(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You look up keys beyond the range of the tables outside of them. They share the outermost vector."""
    rows = _offsets(query_positions, key_positions) + len(key_vectors) // 2
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def clipped_one_too_early(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """The outermost vectors of your tables are never used. Look at the bounds of your clip."""
    bound = len(key_vectors) // 2 - 1
    rows = _rows(_offsets(query_positions, key_positions).clamp(-bound, bound), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def key_asks(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You multiply the vector of the offset by the key. It is added to the key: what multiplies both of them?"""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    position = (key.unsqueeze(2) * key_vectors[rows].unsqueeze(1)).sum(-1)
    weights = _weights((query @ key.mT + position) * query.shape[3] ** -0.5, mask)
    return _averaged(weights, value, value_vectors[rows])


def value_vectors_unweighted(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """The value vectors are added to your output in full. They are averaged with the weights, as the values are."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    return weights @ value + value_vectors[rows].sum(2).unsqueeze(1)


def value_vectors_by_words_alone(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You average the value vectors with weights that know only the words. Both sums use the same weights."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    words = _weights(query @ key.mT * query.shape[3] ** -0.5, mask)
    return weights @ value + _averaged(words, torch.zeros_like(value), value_vectors[rows])


def one_table_for_both(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You use the vectors of the keys for the values too. The values have a table of their own."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, key_vectors, rows, mask)


def tables_exchanged(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You use the table of the values in the scores, and that of the keys in the output."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, value_vectors, key_vectors, rows, mask)


def positions_not_used(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You count queries and keys from 0. Take the positions that you were given."""
    positions = torch.arange(query.shape[2])[None], torch.arange(key.shape[2])[None]
    rows = _rows(_offsets(*positions), key_vectors).expand(len(query), -1, -1)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def one_sequence_for_all(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """All sequences get the offsets of the first one. Each has positions of its own: keep the batch axis."""
    rows = _rows(_offsets(query_positions[:1], key_positions[:1]), key_vectors).expand(len(query), -1, -1)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def no_mask(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your mask hides nothing: tokens attend to their future or to padding."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, torch.ones_like(mask))


def position_not_masked(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You mask before you add the offset's part, so hidden keys become visible again. Mask last."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    words = (query @ key.mT).masked_fill(~mask.unsqueeze(1), 0.0)
    position = (query.unsqueeze(3) * key_vectors[rows].unsqueeze(1)).sum(-1)
    weights = ((words + position) * query.shape[3] ** -0.5).softmax(-1)
    return _averaged(weights, value, value_vectors[rows])


def mask_after_softmax(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You hide keys after the softmax, so the weights left over do not add up to one. Hide them before it."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _scores(query, key, key_vectors[rows]).softmax(-1) * mask.unsqueeze(1)
    return _averaged(weights, value, value_vectors[rows])


def nothing_beyond_the_tables(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Keys beyond the range of the tables get no vector from you. They share the outermost one."""
    offsets = _offsets(query_positions, key_positions)
    rows, near = _rows(offsets, key_vectors), (offsets.abs() <= len(key_vectors) // 2).unsqueeze(-1)
    weights = _weights(_scores(query, key, key_vectors[rows] * near), mask)
    return _averaged(weights, value, value_vectors[rows] * near)


def position_of_the_key(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You look up the key's own position, whatever the query. What is its offset from the query?"""
    rows = _rows(_offsets(0 * query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def values_reversed(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores are right, but on the side of the values past and future are exchanged. Both tables are read in the
    same order."""
    offsets = _offsets(query_positions, key_positions)
    weights = _weights(_scores(query, key, key_vectors[_rows(offsets, key_vectors)]), mask)
    return _averaged(weights, value, value_vectors[_rows(-offsets, key_vectors)])


def keys_reversed(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """On the side of the keys past and future are exchanged, and not on that of the values. Both tables are read in the
    same order."""
    offsets = _offsets(query_positions, key_positions)
    weights = _weights(_scores(query, key, key_vectors[_rows(-offsets, key_vectors)]), mask)
    return _averaged(weights, value, value_vectors[_rows(offsets, key_vectors)])


def mask_without_heads(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your mask has no axis for the heads, so its sequences meet the heads of the scores. Put in the axis behind the
    batch."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _scores(query, key, key_vectors[rows]).masked_fill(~mask, float("-inf")).softmax(-1)
    return weights @ value + torch.einsum("bhqk,bqkd->bhqd", weights, value_vectors[rows])


def mask_inverted(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You hide the keys that may be attended to. The mask is True where a query may look."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, ~mask)


def zero_for_hidden(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Hidden keys get a score of 0 from you, which still has weight after the softmax. Which score has none?"""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = (_scores(query, key, key_vectors[rows]) * mask.unsqueeze(1)).softmax(-1)
    return _averaged(weights, value, value_vectors[rows])


def own_causal_mask(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You hide keys by their index, each after the query's own. The mask is given: it also hides padding, and it may
    hide nothing."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, torch.ones_like(mask).tril())


def softmax_over_queries(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your softmax runs over the queries. The weights of each query should sum to one over the keys: look at the
    axis."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]).masked_fill(~mask.unsqueeze(1), float("-inf"))
    return _averaged(scores.softmax(2), value, value_vectors[rows])


def no_root(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You divide by the width of a head itself. Divide by its root."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]) * query.shape[3] ** -0.5
    return _averaged(_weights(scores, mask), value, value_vectors[rows])


def words_not_scaled(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You divide the product with the vector by the root, but not the product of query and key. The root divides
    both."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key * query.shape[3] ** 0.5, key_vectors[rows])
    return _averaged(_weights(scores, mask), value, value_vectors[rows])


def root_of_the_width_of_values(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your root is of the width of the values. A score is a sum over the numbers of a query: count those."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]) * (query.shape[3] / value.shape[3]) ** 0.5
    return _averaged(_weights(scores, mask), value, value_vectors[rows])


def r_max_is_the_number_of_rows(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You take the number of rows for r_max, so that your rows start too far down or lie outside the tables. A table
    has 2 r_max + 1 rows."""
    r_max = len(key_vectors)
    rows = _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def r_max_one_too_small(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your r_max is too small by one, so that the last two rows are never read. The tables have a row for offset 0
    too."""
    r_max = len(key_vectors) // 2 - 1
    rows = _offsets(query_positions, key_positions).clamp(-r_max, r_max) + r_max
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def not_clipped(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """For keys beyond the range, your row is outside the tables. They share the outermost vector."""
    rows = _offsets(query_positions, key_positions) + len(key_vectors) // 2
    rows = rows.unsqueeze(1).expand(-1, query.shape[1], -1, -1)
    position = (query @ key_vectors.T).gather(3, rows)
    weights = _weights((query @ key.mT + position) * query.shape[3] ** -0.5, mask)
    by_row = weights.new_zeros(*weights.shape[:3], len(key_vectors)).scatter_add(3, rows, weights)
    return weights @ value + by_row @ value_vectors


def value_vectors_alone(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your output averages the vectors of the offsets, but not the values. It is the sum of both averages."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    return _averaged(weights, torch.zeros_like(value), value_vectors[rows])


def words_left_out_of_the_scores(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores compare the query with the vectors of the offsets, but not with the keys. They are the sum of both
    products."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _averaged(_weights(_scores(query, 0 * key, key_vectors[rows]), mask), value, value_vectors[rows])


def heads_side_by_side(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You put the outputs of the heads side by side. Leave them apart, on the axis of the heads."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask).transpose(1, 2).flatten(2)


def weights_returned(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You return the weights. Average the values and their vectors with them."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _weights(_scores(query, key, key_vectors[rows]), mask)


def lower_bound_missing(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You clip the future, but a key far in the past gets a negative row, which counts from the end. The past has a
    bound too."""
    r_max = len(key_vectors) // 2
    rows = _offsets(query_positions, key_positions).clamp(max=r_max) + r_max
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def past_in_the_first_row(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """The past all reads row 0, and offset 0 too. Row 0 belongs to offset -r_max: add something before you clip."""
    rows = _offsets(query_positions, key_positions).clamp(0, len(key_vectors) - 1)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def softmax_over_heads(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your softmax runs over the heads. The weights of each query should sum to one over the keys: look at the axis."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]).masked_fill(~mask.unsqueeze(1), float("-inf"))
    return _averaged(scores.softmax(1), value, value_vectors[rows])


def mask_added(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You add the mask to the scores, as 0 and 1, so hidden keys keep nearly all their weight. Which score has none?"""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = (_scores(query, key, key_vectors[rows]) + mask.unsqueeze(1)).softmax(-1)
    return _averaged(weights, value, value_vectors[rows])


def future_in_the_middle(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """All of the future has the vectors of offset 0: the second half of the tables is never read. Which rows are there
    once r_max is added?"""
    rows = _rows(_offsets(query_positions, key_positions).clamp(max=0), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def plain_mean_of_value_vectors(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You take the plain mean of the value vectors. They are averaged with the weights, as the values are."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    return weights @ value + value_vectors[rows].mean(2).unsqueeze(1)


def offset_as_index_of_the_values(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores are right, but the value vectors come from other rows: the offset itself is the row. A negative one
    counts from the end."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    weights = _weights(_scores(query, key, key_vectors[rows]), mask)
    return _averaged(weights, value, value_vectors[rows - len(key_vectors) // 2])
