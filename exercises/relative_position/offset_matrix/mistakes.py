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
    """Your matrix has a row for each key. Those who ask have the rows; look where you put the new axes."""
    return _right(query_positions, key_positions).mT


def positions_not_positions(query_positions, key_positions):
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
    """Keys of the future all have offset 0 in your matrix. To close the future is the business of a mask."""
    return _right(query_positions, key_positions).clamp(max=0)


def rows_of_a_table(query_positions, key_positions):
    """You move all offsets so that the smallest is 0, which makes them rows of a table. Asked are the offsets."""
    offsets = _right(query_positions, key_positions)
    return offsets - offsets.min()
