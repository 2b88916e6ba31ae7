import math

import torch


def _scores(queries, keys):
    return queries @ keys.T / math.sqrt(keys.shape[-1])


def _attend(scores, mask, values):
    return torch.softmax(scores.masked_fill(~mask, -math.inf), -1) @ values


def no_scale(queries, keys, values, mask):
    """The scores go into the softmax as they are. The scale that keeps it soft at any width is missing."""
    return _attend(queries @ keys.T, mask, values)


def scale_without_root(queries, keys, values, mask):
    """You divide by the width of the keys itself. It is the variance that grows with the width; what brings it back to
    one?"""
    return _attend(queries @ keys.T / keys.shape[-1], mask, values)


def scale_by_width_of_values(queries, keys, values, mask):
    """Your scale comes from the width of the values. The scores are made of queries and keys: use their width."""
    return _attend(queries @ keys.T / math.sqrt(values.shape[-1]), mask, values)


def scale_by_number_of_keys(queries, keys, values, mask):
    """Your scale comes from the number of keys. It should come from the number of terms in one scalar product."""
    return _attend(queries @ keys.T / math.sqrt(len(keys)), mask, values)


def multiplied_by_the_scale(queries, keys, values, mask):
    """You make the scores larger by the root of the width. They should become smaller by it."""
    return _attend(queries @ keys.T * math.sqrt(keys.shape[-1]), mask, values)


def scale_after_softmax(queries, keys, values, mask):
    """You scale the weights, so that they no longer add up to one. The scale belongs to what enters the softmax."""
    return _attend(queries @ keys.T, mask, values) / math.sqrt(keys.shape[-1])


def softmax_over_queries(queries, keys, values, mask):
    """Your softmax runs over the queries. The weights of each query should sum to one over the keys: look at the
    axis."""
    return torch.softmax(_scores(queries, keys).masked_fill(~mask, -math.inf), 0) @ values


def no_mask(queries, keys, values, mask):
    """Your mask hides nothing. Methods such as masked_fill return a new tensor and leave the old one as it was."""
    return torch.softmax(_scores(queries, keys), -1) @ values


def mask_inverted(queries, keys, values, mask):
    """Your mask is inverted. True means: may attend."""
    return _attend(_scores(queries, keys), ~mask, values)


def causal_whatever_the_mask(queries, keys, values, mask):
    """You hide the future, as in the chapter, whatever the mask says. Here the mask is given: use it as it comes."""
    return _attend(_scores(queries, keys), torch.ones_like(mask).tril(), values)


def mask_after_softmax(queries, keys, values, mask):
    """You hide keys after the softmax, so the weights left over do not add up to one. Hide them before it."""
    return torch.softmax(_scores(queries, keys), -1) * mask @ values


def scores_set_to_zero(queries, keys, values, mask):
    """You give hidden keys a score of zero, and a score of zero still earns weight. Which score earns none?"""
    return torch.softmax(_scores(queries, keys) * mask, -1) @ values


def mask_added_as_numbers(queries, keys, values, mask):
    """You add True and False as 1 and 0 to the scores. A mask that is added must hold 0 and minus infinity."""
    return torch.softmax(_scores(queries, keys) + mask, -1) @ values


def changes_the_queries(queries, keys, values, mask):
    """The output is right, but the queries are changed in place, and the caller still needs them. Make a new tensor."""
    queries /= math.sqrt(keys.shape[-1])
    return _attend(queries @ keys.T, mask, values)
