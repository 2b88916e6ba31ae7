import math

import torch


def _all(n_queries, n_keys):
    return torch.ones(n_queries, n_keys, dtype=torch.bool)


def nothing_hidden(n_queries, n_keys):
    """Every query sees every key, so the answer would lie on the table. Which corner of the mask should be closed?"""
    return _all(n_queries, n_keys)


def past_hidden(n_queries, n_keys):
    """Each query sees itself and its future, and the past is hidden. In a row of your mask the past is on the left."""
    return _all(n_queries, n_keys).triu(n_keys - n_queries)


def most_recent_first(n_queries, n_keys):
    """This is the mask for tokens listed with the most recent first. Here the past is on the left of each query."""
    return _all(n_queries, n_keys).triu()


def true_means_hidden(n_queries, n_keys):
    """You mark the keys that are hidden. True means: may attend."""
    return ~_all(n_queries, n_keys).tril(n_keys - n_queries)


def itself_hidden(n_queries, n_keys):
    """No query sees its own token, and the first of all sees nothing. Look at the edge of your triangle."""
    return _all(n_queries, n_keys).tril(n_keys - n_queries - 1)


def one_token_ahead(n_queries, n_keys):
    """Each query sees one token of its future, and that one is to be predicted. Look at the edge of your triangle."""
    return _all(n_queries, n_keys).tril(n_keys - n_queries + 1)


def counted_from_the_first_key(n_queries, n_keys):
    """You position the first query at the first key. Where queries are fewer, the last one stands at the last key."""
    return _all(n_queries, n_keys).tril()


def shifted_the_wrong_way(n_queries, n_keys):
    """Where queries are fewer you shift the edge so that each sees less. They are the newest tokens: they see more."""
    return _all(n_queries, n_keys).tril(n_queries - n_keys)


def keys_in_rows(n_queries, n_keys):
    """Your mask has a row for each key. Those who ask have the rows."""
    return _all(n_queries, n_keys).tril(n_keys - n_queries).T


def square_of_queries(n_queries, n_keys):
    """Your mask has as many columns as there are queries. Each key needs a column, the earlier ones too."""
    return _all(n_queries, n_queries).tril()


def square_of_keys(n_queries, n_keys):
    """Your mask has as many rows as there are keys. Only the newest tokens ask, and only they have a row."""
    return _all(n_keys, n_keys).tril()


def numbers_to_add(n_queries, n_keys):
    """You return zeros and minus infinities, as they are added to scores. Asked is the mask itself, as booleans."""
    return torch.zeros(n_queries, n_keys).masked_fill(~_all(n_queries, n_keys).tril(n_keys - n_queries), -math.inf)
