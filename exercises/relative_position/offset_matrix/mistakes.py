import torch


def _right(query_positions, key_positions):
    return key_positions.unsqueeze(1) - query_positions.unsqueeze(2)


def query_minus_key(query_positions, key_positions):
    """You subtract the key position from the query position, as some papers do. In this book keys in the past have
    negative offsets."""
    return -_right(query_positions, key_positions)


def distance(query_positions, key_positions):
    """You return distances without a sign. An offset has a sign, which distinguishes the token before from the token
    after."""
    return _right(query_positions, key_positions).abs()


def keys_in_rows(query_positions, key_positions):
    """Your matrix has a row for each key. It should have a row for each query: look at where you insert the new
    axes."""
    return _right(query_positions, key_positions).mT


def positions_not_used(query_positions, key_positions):
    """You count queries and keys from 0. Use the positions that are given."""
    rows, columns = torch.arange(query_positions.shape[1]), torch.arange(key_positions.shape[1])
    return (columns - rows[:, None]).expand(len(query_positions), -1, -1)


def one_sequence_for_all(query_positions, key_positions):
    """All sequences get the offsets of the first one. Each sequence has its own positions, so keep the batch axis."""
    return _right(query_positions[:1], key_positions[:1]).expand(len(query_positions), -1, -1)


def first_key_as_origin(query_positions, key_positions):
    """You count the key positions from the first key but leave the query positions as they are. A difference needs both
    on the same scale."""
    return _right(query_positions, key_positions - key_positions[:, :1])


def past_only(query_positions, key_positions):
    """Keys in the future all have offset 0 in your matrix. Hiding the future is the task of the mask."""
    return _right(query_positions, key_positions).clamp(max=0)


def rows_of_a_table(query_positions, key_positions):
    """You shift all offsets so that the smallest is 0, as for the rows of a table. Return the offsets themselves."""
    offsets = _right(query_positions, key_positions)
    return offsets - offsets.min()


def rows_and_columns_exchanged(query_positions, key_positions):
    """Your matrix has a row for each key and a column for each query, and it holds query minus key. Rows belong to
    queries, and the offset is key minus query."""
    return -_right(query_positions, key_positions).mT


def axes_beside_the_batch(query_positions, key_positions):
    """You compare different sequences of the batch with each other. A query meets only the keys of its own sequence, so
    insert the new axes after the batch axis."""
    return key_positions[None, :] - query_positions[:, None]


def axes_before_the_batch(query_positions, key_positions):
    """You compare different sequences of the batch with each other. A query meets only the keys of its own sequence, so
    the batch axis must come first in both tensors."""
    return key_positions[:, None] - query_positions[None, :]


def token_with_token(query_positions, key_positions):
    """You subtract the two tensors as they are, which matches each query with only one key. To get all pairs, each
    tensor needs another axis."""
    return key_positions - query_positions


def first_sequence_alone(query_positions, key_positions):
    """You return a matrix for the first sequence only. Keep the batch as the first axis, with one matrix for each
    sequence."""
    return _right(query_positions, key_positions)[0]


def counted_without_batch(query_positions, key_positions):
    """You count queries and keys from 0 and return one matrix. The positions are given, and each sequence of the batch
    has its own."""
    rows, columns = torch.arange(query_positions.shape[1]), torch.arange(key_positions.shape[1])
    return columns - rows[:, None]


def counted_from_the_end(query_positions, key_positions):
    """You assume that the queries are the last tokens and count positions yourself. Use the positions that are
    given."""
    n_queries, n_keys = query_positions.shape[1], key_positions.shape[1]
    rows = torch.arange(n_queries) + n_keys - n_queries
    return (torch.arange(n_keys) - rows[:, None]).expand(len(query_positions), -1, -1)


def sum_of_positions(query_positions, key_positions):
    """You add the two positions. An offset is their difference."""
    return key_positions.unsqueeze(1) + query_positions.unsqueeze(2)


def future_only(query_positions, key_positions):
    """Keys in the past all have offset 0 in your matrix. They should have negative offsets."""
    return _right(query_positions, key_positions).clamp(min=0)


def future_by_index(query_positions, key_positions):
    """You set the entries above the diagonal to 0. Every pair has an offset, and hiding the future is the task of the
    mask."""
    return _right(query_positions, key_positions).tril()


def each_from_its_own_start(query_positions, key_positions):
    """You count the queries from the first query and the keys from the first key. A difference needs both on the same
    scale, so use the positions as they are."""
    return _right(query_positions - query_positions[:, :1], key_positions - key_positions[:, :1])
