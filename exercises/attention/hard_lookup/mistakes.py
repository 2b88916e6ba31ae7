import torch


def index_not_value(queries, keys, values):
    """You return the index of the winning key. The lookup should return the value that is stored there."""
    return (queries @ keys.T).argmax(-1)


def key_not_value(queries, keys, values):
    """You return the winning key itself. A dictionary finds the key and returns the value beside it."""
    return keys[(queries @ keys.T).argmax(-1)]


def score_not_value(queries, keys, values):
    """You return how well the best key fits. The fit only decides which value is returned."""
    return (queries @ keys.T).max(-1).values


def worst_fit(queries, keys, values):
    """You pick the key that fits worst. Look at the direction of your comparison: the largest product should win."""
    return values[(queries @ keys.T).argmin(-1)]


def nearest_key(queries, keys, values):
    """You pick the key at the smallest distance. The scalar product can prefer a longer key that is further away."""
    return values[torch.cdist(queries, keys).argmin(-1)]


def cosine_not_product(queries, keys, values):
    """You compare angles only, as if all keys had length one. Here the length of a key counts too."""
    return values[(queries @ (keys / keys.norm(dim=-1, keepdim=True)).T).argmax(-1)]


def soft_lookup(queries, keys, values):
    """You mix all values by softmax weights. That is the soft lookup; here a single value is returned."""
    return torch.softmax(queries @ keys.T, -1) @ values


def wrong_axis(queries, keys, values):
    """You find the best query for each key. Find the best key for each query: look at the axis of argmax."""
    return values[(queries @ keys.T).argmax(0)]


def one_winner_for_all(queries, keys, values):
    """You search the whole table of scores for one largest entry. Each query, that is each row, has its own winner."""
    return values[(queries @ keys.T).argmax()]


def one_query_only(queries, keys, values):
    """This is the chapter's lookup for a single query. Here each row is a query: compare the shapes in your product."""
    return values[torch.argmax(keys @ queries)]


def last_of_equals(queries, keys, values):
    """Where two keys fit equally well you take the last of them. The first one counts."""
    return values[len(keys) - 1 - (queries @ keys.T).flip(-1).argmax(-1)]


def equals_added(queries, keys, values):
    """Where several keys fit equally well you add up their values. Only the value of the first counts."""
    scores = queries @ keys.T
    return (scores == scores.amax(-1, keepdim=True)).to(values.dtype) @ values


def equals_averaged(queries, keys, values):
    """Where several keys fit equally well you average their values. Only the value of the first counts."""
    scores = queries @ keys.T
    best = (scores == scores.amax(-1, keepdim=True)).to(values.dtype)
    return best @ values / best.sum(-1, keepdim=True)


def largest_in_size(queries, keys, values):
    """You compare products without their signs. A key that points away from the query has a large negative product, and
    that is a bad fit."""
    return values[(queries @ keys.T).abs().argmax(-1)]


def keys_not_transposed(queries, keys, values):
    """In your product the queries meet the columns of keys. A key is a row: what has to happen to keys before the
    product?"""
    return values[(queries @ keys).argmax(-1)]


def query_by_query_with_its_own_key(queries, keys, values):
    """You multiply queries and keys entry by entry, so the first query meets the first key only. Each query has to meet
    every key."""
    return values[(queries * keys).sum(-1).argmax(-1)]


def soft_and_scaled(queries, keys, values):
    """You mix all values by softmax weights, as attention does. That is the soft lookup; here a single value is
    returned."""
    return torch.softmax(queries @ keys.T / keys.shape[-1] ** 0.5, -1) @ values


def values_added_by_score(queries, keys, values):
    """You add up all values, each multiplied by its score. Only one value is returned for each query, and as it is."""
    return queries @ keys.T @ values


def value_times_score(queries, keys, values):
    """You multiply the right value by its score. The score only decides which value is returned."""
    scores = queries @ keys.T
    return values[scores.argmax(-1)] * scores.amax(-1, keepdim=True)


def one_number_of_each_value(queries, keys, values):
    """You return one number for each query. A value is a row: return all its numbers."""
    return values.gather(0, (queries @ keys.T).argmax(-1, keepdim=True))


def first_query_only(queries, keys, values):
    """You look up the first query alone. Each row of queries is one."""
    return values[(keys @ queries[0]).argmax()]


def queries_meet_values(queries, keys, values):
    """Your scores compare queries with values. A query is compared with keys; values are what is returned."""
    return values[(queries @ values.T).argmax(-1)]
