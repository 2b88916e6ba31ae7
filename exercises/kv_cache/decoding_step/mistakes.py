import torch


def _step(x, w_query, w_key, w_value, keys, values, scale=None, weights=lambda scores: scores.softmax(0)):
    keys = torch.cat((keys, (x @ w_key)[None]))
    values = torch.cat((values, (x @ w_value)[None]))
    scores = keys @ (x @ w_query) / (w_query.shape[1] ** 0.5 if scale is None else scale)
    return weights(scores) @ values, keys, values


def attends_before_appending(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but the new token does not attend to itself."""
    scores = keys @ (x @ w_query) / w_query.shape[1] ** 0.5
    return scores.softmax(0) @ values, *_step(x, w_query, w_key, w_value, keys, values)[1:]


def only_itself(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but your output is the value of the new token. It should attend to the earlier ones, too."""
    return x @ w_value, *_step(x, w_query, w_key, w_value, keys, values)[1:]


def mask_of_a_square(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but your output is the value of the oldest token alone, as if all later ones were masked. A
    single row of scores, that of the newest token, needs no causal mask."""
    _, keys, values = _step(x, w_query, w_key, w_value, keys, values)
    return values[0].clone(), keys, values


def not_scaled(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but your scores are not divided by the root of the width of a key."""
    return _step(x, w_query, w_key, w_value, keys, values, scale=1)


def scaled_by_d_model(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but you divide the scores by the root of d_model. Divide by that of the width of a key."""
    return _step(x, w_query, w_key, w_value, keys, values, scale=len(x) ** 0.5)


def scaled_without_root(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but you divide the scores by the width of a key. Divide by its root."""
    return _step(x, w_query, w_key, w_value, keys, values, scale=w_query.shape[1])


def no_softmax(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but your weights are the scores themselves. The softmax is missing."""
    return _step(x, w_query, w_key, w_value, keys, values, weights=lambda scores: scores)


def weights_all_equal(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but your output is the plain mean of the values: the weights are all the same. A softmax
    over the wrong axis, followed by a mean, also does this."""
    return _step(x, w_query, w_key, w_value, keys, values, weights=lambda scores: torch.ones_like(scores) / len(scores))


def sum_of_the_values(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but your output is the plain sum of the values, as if each weight were 1. The softmax should
    run over the keys."""
    return _step(x, w_query, w_key, w_value, keys, values, weights=torch.ones_like)


def new_row_first(x, w_query, w_key, w_value, keys, values):
    """Your output is right, but the new token stands at the beginning of the cache. It should come last."""
    output, keys, values = _step(x, w_query, w_key, w_value, keys, values)
    return output, keys.roll(1, 0), values.roll(1, 0)


def old_cache_returned(x, w_query, w_key, w_value, keys, values):
    """Your output is right, but you return the cache without the new token, which would be lost for the next step."""
    return _step(x, w_query, w_key, w_value, keys, values)[0], keys.clone(), values.clone()


def key_as_query(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but you attend with the new token's key. Its query should be compared with the keys."""
    return _step(x, w_key, w_key, w_value, keys, values)


def query_cached(x, w_query, w_key, w_value, keys, values):
    """You append the query of the new token to the keys. Append its key."""
    return _step(x, w_query, w_query, w_value, keys, values)


def row_for_a_vector(x, w_query, w_key, w_value, keys, values):
    """Your numbers are right, but your output is a table with one row. Return the row itself, a vector."""
    output, keys, values = _step(x, w_query, w_key, w_value, keys, values)
    return output[None], keys, values


def oldest_dropped(x, w_query, w_key, w_value, keys, values):
    """You drop the oldest token from the cache for each new one, as in a sliding window. Keep all of them."""
    return _step(x, w_query, w_key, w_value, keys[1:], values[1:])


def values_and_keys_exchanged(x, w_query, w_key, w_value, keys, values):
    """Your tensors are right, but you return the values before the keys."""
    output, keys, values = _step(x, w_query, w_key, w_value, keys, values)
    return output, values, keys


def scaled_by_d_value(x, w_query, w_key, w_value, keys, values):
    """Your cache is right, but you divide the scores by the root of the width of a value. Divide by that of the width
    of a key."""
    return _step(x, w_query, w_key, w_value, keys, values, scale=w_value.shape[1] ** 0.5)


def new_row_alone(x, w_query, w_key, w_value, keys, values):
    """Your output is right, but you return the key and the value of the new token alone. Return the whole cache."""
    output, keys, values = _step(x, w_query, w_key, w_value, keys, values)
    return output, keys[-1].clone(), values[-1].clone()
