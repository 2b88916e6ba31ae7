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
    """The root divides what the words give to a score, but not what the offset gives. Look at what stands above it."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    vectors = key_vectors[rows] * query.shape[3] ** 0.5
    return _averaged(_weights(_scores(query, key, vectors), mask), value, value_vectors[rows])


def no_scale(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your scores are not divided by the root. Both of their parts should be."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    scores = _scores(query, key, key_vectors[rows]) * query.shape[3] ** 0.5
    return _averaged(_weights(scores, mask), value, value_vectors[rows])


def query_minus_key(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your tables run backwards: past and future have changed places. Look at the sign of your offsets."""
    rows = _rows(-_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def distance_only(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """A key before the query gets the vector of the one as far behind it. The sign of the offset is lost."""
    rows = _rows(_offsets(query_positions, key_positions).abs(), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def offset_as_index(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You index the tables with the offset itself. A negative index counts from the end: which offset has row 0?"""
    r_max = len(key_vectors) // 2
    rows = _offsets(query_positions, key_positions).clamp(-r_max, r_max)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def no_clip(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Keys further away than the tables reach are looked up outside them. They share the outermost vector."""
    rows = _offsets(query_positions, key_positions) + len(key_vectors) // 2
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def clipped_one_too_early(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """The outermost vectors of your tables are never used. Look at the bounds of your clip."""
    bound = len(key_vectors) // 2 - 1
    rows = _rows(_offsets(query_positions, key_positions).clamp(-bound, bound), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def key_asks(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You multiply the vector of the offset by the key. It stands beside the key: who asks both of them?"""
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
    """You average the value vectors with weights that know only the words. Both sums have the same weights."""
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


def positions_not_positions(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You count queries and keys from 0. Take the positions that you were given."""
    positions = torch.arange(query.shape[2])[None], torch.arange(key.shape[2])[None]
    rows = _rows(_offsets(*positions), key_vectors).expand(len(query), -1, -1)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def one_sequence_for_all(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """All sequences get the offsets of the first one. Each has positions of its own: keep the batch axis."""
    rows = _rows(_offsets(query_positions[:1], key_positions[:1]), key_vectors).expand(len(query), -1, -1)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)


def no_mask(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Your mask hides nothing: tokens look at their future or at padding."""
    rows = _rows(_offsets(query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, torch.ones_like(mask))


def position_not_masked(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You hide words with a zero, and then the offset's part is added. What is hidden must stay so: mask last."""
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
    """Keys further away than the tables reach get no vector from you. They share the outermost one."""
    offsets = _offsets(query_positions, key_positions)
    rows, near = _rows(offsets, key_vectors), (offsets.abs() <= len(key_vectors) // 2).unsqueeze(-1)
    weights = _weights(_scores(query, key, key_vectors[rows] * near), mask)
    return _averaged(weights, value, value_vectors[rows] * near)


def position_of_the_key(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """You look up the key's own position, whoever asks. How far is it from the query?"""
    rows = _rows(_offsets(0 * query_positions, key_positions), key_vectors)
    return _attention(query, key, value, key_vectors, value_vectors, rows, mask)
