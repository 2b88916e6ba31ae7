import math

import torch


def _scores(queries, keys):
    return queries @ keys.mT / math.sqrt(queries.shape[-1])


def _future(queries):
    return torch.ones(2 * queries.shape[-2:-1], dtype=torch.bool).triu(1)


def over_the_heads(queries, keys, values):
    """Your softmax now runs over the heads, and what is hidden in all heads becomes 0/0. Heads do not compete for a
    token; what does each query share out?"""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -math.inf), 0) @ values


def rows_divided_again(queries, keys, values):
    """Your rows add up to one now, but the future still leaks: you divide by the sums of the rows after a softmax whose
    denominators were already wrong. Mend the softmax itself."""
    weights = torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -math.inf), 1)
    return weights / weights.sum(-1, keepdim=True) @ values


def mask_after_softmax(queries, keys, values):
    """The axis is right now, but you hide the future only after the softmax, so its scores still stand in the
    denominators. Hide it before."""
    return torch.softmax(_scores(queries, keys), -1).masked_fill(_future(queries), 0.0) @ values


def mask_after_the_old_softmax(queries, keys, values):
    """You have moved the mask behind the softmax, and the softmax still runs over the queries. The mask was
    right where it was: along which axis do the weights add up to one?"""
    return torch.softmax(_scores(queries, keys), 1).masked_fill(_future(queries), 0.0) @ values


def mask_turned(queries, keys, values):
    """You have turned the mask, and the softmax still runs over the queries. The mask was right: every weight on a
    later token was zero."""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries).mT, -math.inf), 1) @ values


def mask_turned_too(queries, keys, values):
    """The axis is right now, but you have turned the mask as well, and it was right: now the past is hidden."""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries).mT, -math.inf), -1) @ values


def one_softmax_for_each_head(queries, keys, values):
    """Your weights add up to one over the whole table of a head. Each query should share out a weight of one by
    itself."""
    scores = _scores(queries, keys).masked_fill(_future(queries), -math.inf)
    return torch.softmax(scores.flatten(1), -1).view_as(scores) @ values


def scores_turned(queries, keys, values):
    """You have exchanged queries and keys in the product, but mask and weights still expect a row for each query. The
    product was right."""
    return torch.softmax(_scores(keys, queries).masked_fill(_future(queries), -math.inf), 1) @ values


def weights_turned(queries, keys, values):
    """You transpose the weights before they meet the values. The softmax still runs over the queries, and the past is
    now hidden instead of the future."""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -math.inf), 1).mT @ values


def without_the_scale(queries, keys, values):
    """The axis is right now, but the scale is lost. It had nothing to do with the leak: divide by the root of
    d_head."""
    root = math.sqrt(queries.shape[-1])
    return torch.softmax((root * _scores(queries, keys)).masked_fill(_future(queries), -math.inf), -1) @ values


def without_the_mask(queries, keys, values):
    """The axis is right now, but the mask is lost, and every token sees the future."""
    return torch.softmax(_scores(queries, keys), -1) @ values


def itself_hidden(queries, keys, values):
    """The axis is right now, but you have moved the mask: each token's own score is hidden, and the first row is 0/0.
    The mask was right."""
    return torch.softmax(_scores(queries, keys).masked_fill(~_future(queries).mT, -math.inf), -1) @ values


def heads_compete(queries, keys, values):
    """Your softmax now runs over the heads. Heads do not compete for a token; what does each query share out?"""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -1e9), 0) @ values


def second_softmax(queries, keys, values):
    """You have added a second softmax after the first, whose denominators were already wrong. Mend the first."""
    shares = torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -math.inf), 1)
    return torch.softmax(shares, -1) @ values


def scale_of_the_tokens(queries, keys, values):
    """The axis is right now, but the scale comes from the number of tokens. It was right: a score is a sum over the
    width of a head."""
    scores = queries @ keys.mT * queries.shape[-2] ** -0.5
    return torch.softmax(scores.masked_fill(_future(queries), -math.inf), -1) @ values
