import math

import torch


def _split(x, n_heads):
    return x.reshape(len(x), n_heads, -1).transpose(0, 1)


def _split_in_turn(x, n_heads):
    return x.reshape(len(x), -1, n_heads).permute(2, 0, 1)


def _split_at_once(x, n_heads):
    return x.reshape(n_heads, len(x), -1)


def _join(heads):
    return heads.transpose(0, 1).flatten(1)


def _join_in_turn(heads):
    return heads.permute(1, 2, 0).flatten(1)


def _join_at_once(heads):
    return heads.reshape(heads.shape[1], -1)


def _project(x, w_query, w_key, w_value, n_heads, split=_split):
    return [split(x @ w, n_heads) for w in (w_query, w_key, w_value)]


def _weights(queries, keys, mask, width=None):
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(width or keys.shape[-1])
    return torch.softmax(scores.masked_fill(~mask, -math.inf), -1)


def _attend(queries, keys, values, mask, width=None):
    return _weights(queries, keys, mask, width) @ values


def no_output_matrix(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You return the joined heads. One matrix has not been used yet: the one that mixes what they found."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask))


def no_scale(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """The scores go into the softmax as they are. The scale that keeps it soft at any width is missing."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, 1)) @ w_output


def scale_by_d_model(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale comes from the width of a token. A score is a sum over the numbers of one head: count those."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, x.shape[-1])) @ w_output


def scale_by_all_heads(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale comes from the width of all heads together. Each head has scores of its own: count its numbers."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, w_key.shape[-1])) @ w_output


def scale_by_a_share_of_d_model(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale takes d_model / n_heads for the width of a head. A head can be wider or narrower: look at its keys."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, x.shape[-1] / n_heads)) @ w_output


def scale_by_width_of_values(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale comes from the width of the values. The scores are made of queries and keys: use their width."""
    width = w_value.shape[-1] // n_heads
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, width)) @ w_output


def never_split(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You attend once over the full width, which is a single head. Split first, so that each head has its weights."""
    return _attend(x @ w_query, x @ w_key, x @ w_value, mask) @ w_output


def split_in_turn(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You deal the columns to the heads in turn and collect them likewise. A head is a block of adjacent columns."""
    return _join_in_turn(_attend(*_project(x, w_query, w_key, w_value, n_heads, _split_in_turn), mask)) @ w_output


def joined_in_turn(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Up to the join all is right. There you take one number of each head in turn, and the rows of W^O do not fit."""
    return _join_in_turn(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output


def split_only_in_turn(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """When you split you deal the columns to the heads in turn. A head is a block of adjacent columns."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads, _split_in_turn), mask)) @ w_output


def reshaped_at_once(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You reshape straight to heads and straight back, which mixes tokens. Does each head have one row for each
    token?"""
    return _join_at_once(_attend(*_project(x, w_query, w_key, w_value, n_heads, _split_at_once), mask)) @ w_output


def split_by_reshape_at_once(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You split by a single reshape, which mixes tokens. Does each of your heads have one row for each token?"""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads, _split_at_once), mask)) @ w_output


def joined_by_reshape_at_once(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Up to the join all is right. There a reshape alone mixes tokens: something has to come before it."""
    return _join_at_once(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output


def heads_attend_to_heads(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scores compare the heads of one token with each other. Which axes come last when tokens are compared?"""
    queries, keys, values = ((x @ w).reshape(len(x), n_heads, -1) for w in (w_query, w_key, w_value))
    return _attend(queries, keys, values, mask).flatten(1) @ w_output


def one_head_for_all(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """All heads average their values with the weights of the first. Each head has queries and keys of its own, and so
    weights of its own."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    return _join(_weights(queries, keys, mask)[0] @ values) @ w_output


def weights_averaged(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You average the weights of the heads and use the mean in each. Heads differ so that each can look elsewhere."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    return _join(_weights(queries, keys, mask).mean(0) @ values) @ w_output


def heads_averaged(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your output is divided by the number of heads. W^O adds up what they found, and no mean is taken."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output / n_heads


def softmax_over_queries(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your softmax runs over the queries. The weights of each query should sum to one over the keys: look at the
    axis."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return _join(torch.softmax(scores.masked_fill(~mask, -math.inf), 1) @ values) @ w_output


def softmax_over_heads(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your softmax runs over the heads. In each head the weights should sum to one over the keys: look at the axis."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return _join(torch.softmax(scores.masked_fill(~mask, -math.inf), 0) @ values) @ w_output


def queries_and_keys_exchanged(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You have exchanged queries and keys. The scores have a row for each query and a column for each key."""
    return _join(_attend(*_project(x, w_key, w_query, w_value, n_heads), mask)) @ w_output


def no_mask(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your mask hides nothing: tokens attend to what they may not see."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), torch.ones_like(mask))) @ w_output


def mask_inverted(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your mask is inverted. True means: may attend."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), ~mask)) @ w_output


def mask_after_softmax(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You hide tokens after the softmax, so the weights left over do not add up to one. Hide them before it."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    return _join(_weights(queries, keys, torch.ones_like(mask)) * mask @ values) @ w_output


def tokens_added(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You add the tokens to the output. That is the residual connection; it is outside this layer."""
    return x + _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output
