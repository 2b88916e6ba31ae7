import math

import torch


def _all(n_queries, n_keys):
    return torch.ones(n_queries, n_keys, dtype=torch.bool)


def nothing_hidden(n_queries, n_keys):
    """Every query sees every key, even the token that it should predict. Which corner of the mask should be hidden?"""
    return _all(n_queries, n_keys)


def past_hidden(n_queries, n_keys):
    """Each query sees itself and its future, but not its past. In each row of the mask, the past is on the left."""
    return _all(n_queries, n_keys).triu(n_keys - n_queries)


def most_recent_first(n_queries, n_keys):
    """This mask is for tokens that are listed with the most recent first. Here the past is on the left of each
    query."""
    return _all(n_queries, n_keys).triu()


def true_means_hidden(n_queries, n_keys):
    """You mark the keys that are hidden. True should mark the keys that a query may attend to."""
    return ~_all(n_queries, n_keys).tril(n_keys - n_queries)


def itself_hidden(n_queries, n_keys):
    """No query sees its own token, and the first token of a text sees nothing at all. Look at the edge of your
    triangle."""
    return _all(n_queries, n_keys).tril(n_keys - n_queries - 1)


def one_token_ahead(n_queries, n_keys):
    """Each query sees one token of its future, which is the token to be predicted. Look at the edge of your
    triangle."""
    return _all(n_queries, n_keys).tril(n_keys - n_queries + 1)


def counted_from_the_first_key(n_queries, n_keys):
    """You align the first query with the first key. If there are fewer queries than keys, the last query belongs to the
    last key."""
    return _all(n_queries, n_keys).tril()


def shifted_the_wrong_way(n_queries, n_keys):
    """If there are fewer queries than keys, you shift the edge so that each query sees less. The queries belong to the
    newest tokens, so they see more."""
    return _all(n_queries, n_keys).tril(n_queries - n_keys)


def keys_in_rows(n_queries, n_keys):
    """Your mask has a row for each key. It should have a row for each query."""
    return _all(n_queries, n_keys).tril(n_keys - n_queries).T


def square_of_queries(n_queries, n_keys):
    """Your mask has only as many columns as there are queries. Every key needs a column, including the earlier keys."""
    return _all(n_queries, n_queries).tril()


def square_of_keys(n_queries, n_keys):
    """Your mask has as many rows as there are keys. Only the newest tokens have a query, and each query has one row."""
    return _all(n_keys, n_keys).tril()


def numbers_to_add(n_queries, n_keys):
    """You return zeros and minus infinities, which can be added to scores. Return the boolean mask itself."""
    return torch.zeros(n_queries, n_keys).masked_fill(~_all(n_queries, n_keys).tril(n_keys - n_queries), -math.inf)


def hidden_from_the_first_key(n_queries, n_keys):
    """Your mask is inverted: True should mark the keys that a query may attend to. Also, if there are fewer queries
    than keys, the last query belongs to the last key."""
    return _all(n_queries, n_keys).triu(1)


def hidden_and_square(n_queries, n_keys):
    """Your mask is inverted: True should mark the keys that a query may attend to. Also, it has a row for each key, but
    it needs a row for each query."""
    return _all(n_keys, n_keys).triu(1)


def hidden_and_a_column_for_each_query(n_queries, n_keys):
    """Your mask is inverted: True should mark the keys that a query may attend to. Also, it has a column for each
    query, but it needs a column for each key."""
    return _all(n_queries, n_queries).triu(1)


def only_the_past(n_queries, n_keys):
    """You hide each query's own token, and you align the first query with the first key. A token may attend to itself,
    and the last query belongs to the last key."""
    return _all(n_queries, n_keys).tril(-1)


def diagonal_moved_by_one(n_queries, n_keys):
    """You move the diagonal by one, whatever the sizes are. How far must it move if there are more keys than queries,
    and how far if there are equally many?"""
    return _all(n_queries, n_keys).tril(1)


def rows_and_columns_exchanged(n_queries, n_keys):
    """Your mask has a row for each key and a column for each query. It should be the other way round."""
    return _all(n_keys, n_queries).tril()


def earlier_keys_hidden(n_queries, n_keys):
    """You hide the keys that come before the first query. They are the past of every query, so every query sees all of
    them."""
    return torch.cat((~_all(n_queries, n_keys - n_queries), _all(n_queries, n_queries).tril()), 1)


def triangle_on_the_left(n_queries, n_keys):
    """Your triangle is on the left, at the earliest keys. The queries belong to the newest tokens: in which columns are
    their own keys?"""
    return torch.cat((_all(n_queries, n_queries).tril(), _all(n_queries, n_keys - n_queries)), 1)


def numbers_from_the_first_key(n_queries, n_keys):
    """You return zeros and minus infinities, which can be added to scores; return the boolean mask itself. Also, if
    there are fewer queries than keys, the last query belongs to the last key."""
    return torch.zeros(n_queries, n_keys).masked_fill(_all(n_queries, n_keys).triu(1), -math.inf)


def only_itself(n_queries, n_keys):
    """Each query sees only one key. It should see its own key and all keys before it."""
    return torch.eye(n_queries, n_keys, dtype=torch.bool)


def large_numbers_to_add(n_queries, n_keys):
    """You return numbers, which can be added to scores. Return the boolean mask itself."""
    return torch.zeros(n_queries, n_keys).masked_fill(~_all(n_queries, n_keys).tril(n_keys - n_queries), -1e9)


def lists_of_booleans(n_queries, n_keys):
    """You return lists. The booleans in them are right; make one tensor of them."""
    return _all(n_queries, n_keys).tril(n_keys - n_queries).tolist()
