import math

import torch


def _scores(queries, keys):
    return queries @ keys.mT / math.sqrt(queries.shape[-1])


def _future(queries):
    return torch.ones(2 * queries.shape[-2:-1], dtype=torch.bool).triu(1)


def over_the_heads(queries, keys, values):
    """Your softmax now runs over the heads, so what is hidden in all heads becomes 0/0. The heads do not compete for
    weight. Along which axis does each query divide its weight?"""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -math.inf), 0) @ values


def rows_divided_again(queries, keys, values):
    """Your rows add up to one now, but the future still leaks. You divide by the sums of the rows after a softmax whose
    denominators were already wrong. Correct the softmax itself."""
    weights = torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -math.inf), 1)
    return weights / weights.sum(-1, keepdim=True) @ values


def mask_after_softmax(queries, keys, values):
    """The axis is right now, but you hide the future only after the softmax, so its scores are still in the
    denominators. Hide the future before the softmax."""
    return torch.softmax(_scores(queries, keys), -1).masked_fill(_future(queries), 0.0) @ values


def mask_after_the_old_softmax(queries, keys, values):
    """You now apply the mask after the softmax, and the softmax still runs over the queries. The mask was right where
    it was. Along which axis do the weights add up to one?"""
    return torch.softmax(_scores(queries, keys), 1).masked_fill(_future(queries), 0.0) @ values


def mask_turned(queries, keys, values):
    """You have transposed the mask, and the softmax still runs over the queries. The mask was right: every weight on a
    later token was zero."""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries).mT, -math.inf), 1) @ values


def mask_turned_too(queries, keys, values):
    """The axis is right now, but you have also transposed the mask, which was right. Now it hides the past."""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries).mT, -math.inf), -1) @ values


def one_softmax_for_each_head(queries, keys, values):
    """Your weights add up to one over the whole table of a head. The weights of each query should add up to one on
    their own."""
    scores = _scores(queries, keys).masked_fill(_future(queries), -math.inf)
    return torch.softmax(scores.flatten(1), -1).view_as(scores) @ values


def scores_turned(queries, keys, values):
    """You have exchanged queries and keys in the product, but the mask and the product with the values still expect a
    row for each query. The first product was right."""
    return torch.softmax(_scores(keys, queries).masked_fill(_future(queries), -math.inf), 1) @ values


def weights_turned(queries, keys, values):
    """You transpose the weights before they meet the values. The softmax still runs over the queries, and now the past
    is hidden instead of the future."""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -math.inf), 1).mT @ values


def without_the_scale(queries, keys, values):
    """The axis is right now, but the scale is missing. It had nothing to do with the leak: divide by the root of
    d_head."""
    root = math.sqrt(queries.shape[-1])
    return torch.softmax((root * _scores(queries, keys)).masked_fill(_future(queries), -math.inf), -1) @ values


def without_the_mask(queries, keys, values):
    """The axis is right now, but the mask is missing, so every token sees the future."""
    return torch.softmax(_scores(queries, keys), -1) @ values


def itself_hidden(queries, keys, values):
    """The axis is right now, but you have moved the mask: it hides each token from itself, and the first row becomes
    0/0. The mask was right."""
    return torch.softmax(_scores(queries, keys).masked_fill(~_future(queries).mT, -math.inf), -1) @ values


def heads_compete(queries, keys, values):
    """Your softmax now runs over the heads. The heads do not compete for weight. Along which axis does each query
    divide its weight?"""
    return torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -1e9), 0) @ values


def second_softmax(queries, keys, values):
    """You have added a second softmax after the first, whose denominators were already wrong. Correct the first."""
    shares = torch.softmax(_scores(queries, keys).masked_fill(_future(queries), -math.inf), 1)
    return torch.softmax(shares, -1) @ values


def scale_of_the_tokens(queries, keys, values):
    """The axis is right now, but your scale comes from the number of tokens. The old scale was right: a score is a sum
    over the width of a head."""
    scores = queries @ keys.mT * queries.shape[-2] ** -0.5
    return torch.softmax(scores.masked_fill(_future(queries), -math.inf), -1) @ values
