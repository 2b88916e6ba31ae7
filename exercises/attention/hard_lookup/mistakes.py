import torch


def index_not_value(queries, keys, values):
    """You return the index of the winning key. The lookup should return the value stored at that index."""
    return (queries @ keys.T).argmax(-1)


def key_not_value(queries, keys, values):
    """You return the winning key itself. A dictionary uses the key to find an entry, and returns the value of that
    entry."""
    return keys[(queries @ keys.T).argmax(-1)]


def score_not_value(queries, keys, values):
    """You return the score of the best key. The score only decides which value is returned: return that value."""
    return (queries @ keys.T).max(-1).values


def worst_fit(queries, keys, values):
    """You pick the key that fits worst. The largest product should win, so look at the direction of your comparison."""
    return values[(queries @ keys.T).argmin(-1)]


def nearest_key(queries, keys, values):
    """You pick the key at the smallest distance. Use the scalar product: it can prefer a longer key that is further
    away."""
    return values[torch.cdist(queries, keys).argmin(-1)]


def cosine_not_product(queries, keys, values):
    """You compare only the angles, as if all keys had length one. In the scalar product, the length of a key counts
    too."""
    return values[(queries @ (keys / keys.norm(dim=-1, keepdim=True)).T).argmax(-1)]


def soft_lookup(queries, keys, values):
    """You mix all values with softmax weights. That is the soft lookup; here each query gets a single value."""
    return torch.softmax(queries @ keys.T, -1) @ values


def wrong_axis(queries, keys, values):
    """You find the best query for each key. Find the best key for each query instead: look at the axis of argmax."""
    return values[(queries @ keys.T).argmax(0)]


def one_winner_for_all(queries, keys, values):
    """You search the whole table of scores for one largest entry. Each query, that is, each row of scores, has its own
    winner."""
    return values[(queries @ keys.T).argmax()]


def one_query_only(queries, keys, values):
    """This is the chapter's lookup for a single query. Here each row of queries is a query: look at the shapes in your
    product."""
    return values[torch.argmax(keys @ queries)]


def last_of_equals(queries, keys, values):
    """When several keys fit a query equally well, you take the last of them. Take the first."""
    return values[len(keys) - 1 - (queries @ keys.T).flip(-1).argmax(-1)]


def equals_added(queries, keys, values):
    """When several keys fit a query equally well, you add up their values. Return only the value of the first."""
    scores = queries @ keys.T
    return (scores == scores.amax(-1, keepdim=True)).to(values.dtype) @ values


def equals_averaged(queries, keys, values):
    """When several keys fit a query equally well, you average their values. Return only the value of the first."""
    scores = queries @ keys.T
    best = (scores == scores.amax(-1, keepdim=True)).to(values.dtype)
    return best @ values / best.sum(-1, keepdim=True)


def largest_in_size(queries, keys, values):
    """You ignore the signs of the products. A key that points away from the query has a large negative product, and
    that is a bad fit."""
    return values[(queries @ keys.T).abs().argmax(-1)]


def keys_not_transposed(queries, keys, values):
    """Your product compares the queries with the columns of keys, but each key is a row. What has to happen to keys
    before the product?"""
    return values[(queries @ keys).argmax(-1)]


def query_by_query_with_its_own_key(queries, keys, values):
    """You multiply queries and keys entry by entry, so the first query is compared only with the first key, the second
    only with the second, and so on. Compare every query with every key."""
    return values[(queries * keys).sum(-1).argmax(-1)]


def soft_and_scaled(queries, keys, values):
    """You mix all values with softmax weights, as attention does. That is the soft lookup; here each query gets a
    single value."""
    return torch.softmax(queries @ keys.T / keys.shape[-1] ** 0.5, -1) @ values


def values_added_by_score(queries, keys, values):
    """You add up all values, each multiplied by its score. Return a single value for each query, and do not change
    it."""
    return queries @ keys.T @ values


def value_times_score(queries, keys, values):
    """You find the right value but multiply it by its score. The score only decides which value is returned."""
    scores = queries @ keys.T
    return values[scores.argmax(-1)] * scores.amax(-1, keepdim=True)


def one_number_of_each_value(queries, keys, values):
    """You return one number for each query. A value is a whole row: return all its numbers."""
    return values.gather(0, (queries @ keys.T).argmax(-1, keepdim=True))


def first_query_only(queries, keys, values):
    """You look up only the first query. Every row of queries is a query."""
    return values[(keys @ queries[0]).argmax()]


def queries_meet_values(queries, keys, values):
    """You compare the queries with the values. Compare them with the keys; the values are only returned."""
    return values[(queries @ values.T).argmax(-1)]
