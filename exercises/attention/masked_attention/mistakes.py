import math

import torch


def _scores(queries, keys):
    return queries @ keys.T / math.sqrt(keys.shape[-1])


def _attend(scores, mask, values):
    return torch.softmax(scores.masked_fill(~mask, -math.inf), -1) @ values


def no_scale(queries, keys, values, mask):
    """You pass the scores to the softmax as they are. The scale that keeps the softmax soft at any width is missing."""
    return _attend(queries @ keys.T, mask, values)


def scale_without_root(queries, keys, values, mask):
    """In effect, you divide the scores by the width of the keys instead of its root. The variance of the scores grows
    with the width: which divisor brings it back to one?"""
    return _attend(queries @ keys.T / keys.shape[-1], mask, values)


def scale_by_width_of_values(queries, keys, values, mask):
    """Your scale comes from the width of the values. The scores are products of queries and keys, so use their
    width."""
    return _attend(queries @ keys.T / math.sqrt(values.shape[-1]), mask, values)


def scale_by_number_of_keys(queries, keys, values, mask):
    """Your scale comes from the number of keys. It should come from the number of terms in one scalar product."""
    return _attend(queries @ keys.T / math.sqrt(len(keys)), mask, values)


def multiplied_by_the_scale(queries, keys, values, mask):
    """You make the scores larger by the root of the width. Make them smaller by this factor instead."""
    return _attend(queries @ keys.T * math.sqrt(keys.shape[-1]), mask, values)


def scale_after_softmax(queries, keys, values, mask):
    """You scale the weights, so they no longer add up to one. Scale the scores, before the softmax."""
    return _attend(queries @ keys.T, mask, values) / math.sqrt(keys.shape[-1])


def softmax_over_queries(queries, keys, values, mask):
    """Your softmax runs over the queries. The weights of each query should sum to one over the keys: look at the
    axis."""
    return torch.softmax(_scores(queries, keys).masked_fill(~mask, -math.inf), 0) @ values


def no_mask(queries, keys, values, mask):
    """You hide nothing: this is the output without a mask. Do you use the mask, and do you keep the masked scores?
    Methods such as masked_fill return a new tensor."""
    return torch.softmax(_scores(queries, keys), -1) @ values


def mask_inverted(queries, keys, values, mask):
    """Your mask is inverted: True should mark the keys that a query may attend to."""
    return _attend(_scores(queries, keys), ~mask, values)


def causal_whatever_the_mask(queries, keys, values, mask):
    """You hide the future, as in the chapter, whatever the mask says. Use the mask that you are given."""
    return _attend(_scores(queries, keys), torch.ones_like(mask).tril(), values)


def mask_after_softmax(queries, keys, values, mask):
    """You hide keys after the softmax, so the remaining weights do not add up to one. Hide the keys before the
    softmax."""
    return torch.softmax(_scores(queries, keys), -1) * mask @ values


def scores_set_to_zero(queries, keys, values, mask):
    """You give hidden keys a score of zero, and a score of zero still gets weight. Which score gets none?"""
    return torch.softmax(_scores(queries, keys) * mask, -1) @ values


def mask_added_as_numbers(queries, keys, values, mask):
    """You add True and False to the scores as 1 and 0. A mask that is added must hold 0 and minus infinity."""
    return torch.softmax(_scores(queries, keys) + mask, -1) @ values


def changes_the_queries(queries, keys, values, mask):
    """The output is right, but you change the queries in place, and the caller still needs them. Make a new tensor."""
    queries /= math.sqrt(keys.shape[-1])
    return _attend(queries @ keys.T, mask, values)


def scale_by_number_of_queries(queries, keys, values, mask):
    """Your scale comes from the number of queries. It should come from the number of terms in one scalar product."""
    return _attend(queries @ keys.T / math.sqrt(len(queries)), mask, values)


def own_exponentials(queries, keys, values, mask):
    """You compute the exponentials yourself. If all visible scores of a row are very low, their exponentials are
    rounded to zero and the row becomes 0/0; if one is very high, it overflows. torch.softmax prevents both."""
    exponentials = _scores(queries, keys).masked_fill(~mask, -math.inf).exp()
    return exponentials / exponentials.sum(-1, keepdim=True) @ values


def weights_that_vanish(queries, keys, values, mask):
    """If the visible scores of a row are far below the hidden ones, all its weights are rounded to zero and the row
    becomes 0/0. Hide the keys first, and then let torch.softmax treat each row on its own."""
    weights = torch.softmax(_scores(queries, keys), -1) * mask
    return weights / weights.sum(-1, keepdim=True) @ values


def hidden_scores_not_low_enough(queries, keys, values, mask):
    """The score that you give hidden keys is not low enough: if all visible scores are even lower, the hidden keys win.
    Which score is below all others?"""
    return torch.softmax(_scores(queries, keys).masked_fill(~mask, -100.0), -1) @ values


def plus_infinity(queries, keys, values, mask):
    """You give hidden keys the highest possible score, so every row with a hidden key becomes ∞ divided by ∞. Which
    score gets no weight?"""
    return torch.softmax(_scores(queries, keys).masked_fill(~mask, math.inf), -1) @ values


def mask_on_the_values(queries, keys, values, mask):
    """You set a value to zero if no query may see it. Its key still takes weight from the others, and a key that only
    some queries may see is not hidden from the others. Apply the mask to the scores."""
    return torch.softmax(_scores(queries, keys), -1) @ (values * mask.any(0)[:, None])


def mask_on_the_keys(queries, keys, values, mask):
    """You set a key to zero if no query may see it. Its score of zero still gets weight, and a key that only some
    queries may see is not hidden from the others. Apply the mask to the scores."""
    return torch.softmax(_scores(queries, keys * mask.any(0)[:, None]), -1) @ values


def softmax_down_the_columns(queries, keys, values, mask):
    """Your softmax runs over the queries. The weights of each query should sum to one over the keys: look at the
    axis."""
    return torch.softmax(_scores(queries, keys).masked_fill(~mask, -1e9), 0) @ values


def no_softmax(queries, keys, values, mask):
    """You multiply the values by the scores themselves. The step that turns scores into weights is missing."""
    return _scores(queries, keys) * mask @ values


def keys_in_the_rows(queries, keys, values, mask):
    """Your scores have a row for each key and a column for each query, but the mask has a row for each query. Look at
    the order of the factors in your product."""
    return _attend(keys @ queries.T / math.sqrt(keys.shape[-1]), mask, values)


def weights_turned(queries, keys, values, mask):
    """Your weights are right, but you transpose them before you multiply. A row of weights belongs to one query, and
    each row should meet the values."""
    return torch.softmax(_scores(queries, keys).masked_fill(~mask, -math.inf), -1).T @ values


def weights_without_values(queries, keys, values, mask):
    """You return the weights. One step is missing: use them to average the values."""
    return torch.softmax(_scores(queries, keys).masked_fill(~mask, -math.inf), -1)


def hidden_keys_favoured(queries, keys, values, mask):
    """Your mask is inverted: True should mark the keys that a query may attend to."""
    return torch.softmax(_scores(queries, keys).masked_fill(mask, -1e9), -1) @ values


def own_exponentials_over_a_little_more(queries, keys, values, mask):
    """You compute the exponentials yourself. If all visible scores of a row are very low, all exponentials are rounded
    to zero; if one is very high, it overflows. torch.softmax prevents both."""
    exponentials = _scores(queries, keys).exp() * mask
    return exponentials / (exponentials.sum(-1, keepdim=True) + 1e-9) @ values


def winner_takes_all(queries, keys, values, mask):
    """You return only the value of the best visible key. That is the hard lookup; attention mixes the values with
    softmax weights."""
    return values[_scores(queries, keys).masked_fill(~mask, -math.inf).argmax(-1)]


def equal_weights(queries, keys, values, mask):
    """You give all visible keys the same weight. The weights should depend on the scores."""
    return mask.float() / mask.sum(-1, keepdim=True) @ values


def neither_scale_nor_mask(queries, keys, values, mask):
    """Two things are missing: the scale, and the mask, which should hide keys before the softmax."""
    return torch.softmax(queries @ keys.T, -1) @ values


def weights_too(queries, keys, values, mask):
    """You return the weights as well. Return only the output."""
    weights = torch.softmax(_scores(queries, keys).masked_fill(~mask, -math.inf), -1)
    return weights @ values, weights
