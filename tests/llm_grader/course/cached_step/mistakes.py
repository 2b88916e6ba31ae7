import math

import torch


def _attend(query, keys, values, scale=None):
    scores = torch.einsum("hd,htd->ht", query, keys) / (scale or math.sqrt(query.shape[-1]))
    return torch.einsum("ht,htd->hd", torch.softmax(scores, -1), values)


def _appended(key, value, cache):
    return tuple(torch.cat((cache[n], x[:, None]), 1) for n, x in (("keys", key), ("values", value)))


def no_scale(query, key, value, cache):
    """The scores go into the softmax as they are. The scale is missing."""
    keys, values = _appended(key, value, cache)
    return _attend(query, keys, values, 1), {"keys": keys, "values": values}


def cache_not_extended(query, key, value, cache):
    """You return the old cache. The next token would not see this one."""
    return _attend(query, *_appended(key, value, cache)), dict(cache)


def past_alone(query, key, value, cache):
    """Your new token attends to those before it, and not to itself."""
    keys, values = _appended(key, value, cache)
    return _attend(query, cache["keys"], cache["values"]), {"keys": keys, "values": values}


def itself_alone(query, key, value, cache):
    """Your new token attends to itself alone, so the cache is of no use."""
    keys, values = _appended(key, value, cache)
    return value.clone(), {"keys": keys, "values": values}


def new_token_in_front(query, key, value, cache):
    """You put the new token before the others. The cache keeps the order of time: append."""
    keys, values = (x.roll(1, 1) for x in _appended(key, value, cache))
    return _attend(query, keys, values), {"keys": keys, "values": values}
