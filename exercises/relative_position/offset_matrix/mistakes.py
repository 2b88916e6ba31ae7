import torch


def _right(query_positions, key_positions):
    return key_positions.unsqueeze(1) - query_positions.unsqueeze(2)


def query_minus_key(query_positions, key_positions):
    """You subtract the key's position from the query's, as some papers do. Here keys of the past are negative."""
    return -_right(query_positions, key_positions)


def distance(query_positions, key_positions):
    """You return distances. An offset has a sign: it tells the token before from the token after."""
    return _right(query_positions, key_positions).abs()


def keys_in_rows(query_positions, key_positions):
    """Your matrix has a row for each key. It should have a row for each query: look where you put the new axes."""
    return _right(query_positions, key_positions).mT


def positions_not_used(query_positions, key_positions):
    """You count queries and keys from 0 and leave the positions that you were given unused."""
    rows, columns = torch.arange(query_positions.shape[1]), torch.arange(key_positions.shape[1])
    return (columns - rows[:, None]).expand(len(query_positions), -1, -1)


def one_sequence_for_all(query_positions, key_positions):
    """All sequences get the offsets of the first one. Each has positions of its own: keep the batch axis."""
    return _right(query_positions[:1], key_positions[:1]).expand(len(query_positions), -1, -1)


def first_key_as_origin(query_positions, key_positions):
    """You count the keys from the first of them but not the queries. A difference needs both on one scale."""
    return _right(query_positions, key_positions - key_positions[:, :1])


def past_only(query_positions, key_positions):
    """Keys of the future all have offset 0 in your matrix. Hiding the future is the task of a mask."""
    return _right(query_positions, key_positions).clamp(max=0)


def rows_of_a_table(query_positions, key_positions):
    """You move all offsets so that the smallest is 0, which makes them rows of a table. Return the offsets."""
    offsets = _right(query_positions, key_positions)
    return offsets - offsets.min()


def rows_and_columns_exchanged(query_positions, key_positions):
    """Your matrix has a row for each key and a column for each query, and the sign is that of query minus key. Rows
    belong to queries, and the offset is key minus query."""
    return -_right(query_positions, key_positions).mT


def axes_beside_the_batch(query_positions, key_positions):
    """You compare sequences of the batch with each other. A query meets only the keys of its own sequence: put the new
    axes behind the batch axis."""
    return key_positions[None, :] - query_positions[:, None]


def axes_before_the_batch(query_positions, key_positions):
    """You compare sequences of the batch with each other. A query meets only the keys of its own sequence: the batch
    axis comes first in both tensors."""
    return key_positions[:, None] - query_positions[None, :]


def token_with_token(query_positions, key_positions):
    """You subtract the two tensors as they are, which pairs each query with one key. All pairs are asked for, and they
    need an axis more."""
    return key_positions - query_positions


def first_sequence_alone(query_positions, key_positions):
    """You return a matrix for the first sequence alone. Keep the batch as the first axis: one matrix for each
    sequence."""
    return _right(query_positions, key_positions)[0]


def counted_without_batch(query_positions, key_positions):
    """You count queries and keys from 0 and return one matrix. The positions are given, and each sequence of the batch
    has its own."""
    rows, columns = torch.arange(query_positions.shape[1]), torch.arange(key_positions.shape[1])
    return columns - rows[:, None]


def counted_from_the_end(query_positions, key_positions):
    """You take the queries for the last tokens and count. The positions are given: use them."""
    n_queries, n_keys = query_positions.shape[1], key_positions.shape[1]
    rows = torch.arange(n_queries) + n_keys - n_queries
    return (torch.arange(n_keys) - rows[:, None]).expand(len(query_positions), -1, -1)


def sum_of_positions(query_positions, key_positions):
    """You add the two positions. An offset is their difference."""
    return key_positions.unsqueeze(1) + query_positions.unsqueeze(2)


def future_only(query_positions, key_positions):
    """Keys of the past all have offset 0 in your matrix. They have negative offsets."""
    return _right(query_positions, key_positions).clamp(min=0)


def future_by_index(query_positions, key_positions):
    """You set the entries above the diagonal to 0. Hiding the future is the task of a mask; here every pair has an
    offset."""
    return _right(query_positions, key_positions).tril()


def each_from_its_own_start(query_positions, key_positions):
    """You count the queries and the keys from the first of each. A difference needs both on one scale: leave the
    positions as they are."""
    return _right(query_positions - query_positions[:, :1], key_positions - key_positions[:, :1])
