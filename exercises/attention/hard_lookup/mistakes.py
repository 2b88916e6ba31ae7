import torch


def index_not_value(queries, keys, values):
    """You return the position of the winning key. The lookup should hand over what is stored there."""
    return (queries @ keys.T).argmax(-1)


def key_not_value(queries, keys, values):
    """You return the winning key itself. A dictionary is asked by key and answers with the value beside it."""
    return keys[(queries @ keys.T).argmax(-1)]


def score_not_value(queries, keys, values):
    """You return how well the best key fits. The fit only decides which value is handed over."""
    return (queries @ keys.T).max(-1).values


def worst_fit(queries, keys, values):
    """You pick the key that fits worst. Look at the direction of your comparison: the largest product should win."""
    return values[(queries @ keys.T).argmin(-1)]


def nearest_key(queries, keys, values):
    """You pick the key at the smallest distance. The scalar product can prefer a longer key that lies further away."""
    return values[torch.cdist(queries, keys).argmin(-1)]


def cosine_not_product(queries, keys, values):
    """You compare angles only, as if all keys had length one. Here the length of a key counts too."""
    return values[(queries @ (keys / keys.norm(dim=-1, keepdim=True)).T).argmax(-1)]


def soft_lookup(queries, keys, values):
    """You mix all values by softmax weights. That is the soft lookup; here one value is handed over whole."""
    return torch.softmax(queries @ keys.T, -1) @ values


def wrong_axis(queries, keys, values):
    """You find the best query for each key. Ask it the other way round and look at which axis argmax runs over."""
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
