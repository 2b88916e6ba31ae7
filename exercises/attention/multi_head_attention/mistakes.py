import math

import torch
from einops import rearrange


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
    """You return the joined heads. One matrix is still unused: the one that mixes the outputs of the heads."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask))


def no_scale(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You pass the scores to the softmax as they are. The scale that keeps the softmax soft at any width is missing."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, 1)) @ w_output


def scale_by_d_model(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale comes from the width of a token. A score is a sum over the width of one head, so use that width."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, x.shape[-1])) @ w_output


def scale_by_all_heads(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale comes from the width of all heads together. Each head has its own scores, so use the width of one
    head."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, w_key.shape[-1])) @ w_output


def scale_by_a_share_of_d_model(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale takes d_model / n_heads for the width of a head. A head can be wider or narrower: look at its keys."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, x.shape[-1] / n_heads)) @ w_output


def scale_by_width_of_values(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale comes from the width of the values. The scores are products of queries and keys, so use their
    width."""
    width = w_value.shape[-1] // n_heads
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, width)) @ w_output


def never_split(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You attend once over the full width, as a single head would. Split first, so that each head has its own
    weights."""
    return _attend(x @ w_query, x @ w_key, x @ w_value, mask) @ w_output


def split_in_turn(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You deal the columns to the heads in turn and collect them in the same way. A head is a block of adjacent
    columns."""
    return _join_in_turn(_attend(*_project(x, w_query, w_key, w_value, n_heads, _split_in_turn), mask)) @ w_output


def joined_in_turn(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Everything is right up to the join. There you take one number from each head in turn, which does not fit the rows
    of W^O."""
    return _join_in_turn(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output


def split_only_in_turn(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """In the split, you deal the columns to the heads in turn. A head is a block of adjacent columns."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads, _split_in_turn), mask)) @ w_output


def reshaped_at_once(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You reshape straight into heads and straight back, which mixes tokens. Does each of your heads have one row for
    each token?"""
    return _join_at_once(_attend(*_project(x, w_query, w_key, w_value, n_heads, _split_at_once), mask)) @ w_output


def split_by_reshape_at_once(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You split with a single reshape, which mixes tokens. Does each of your heads have one row for each token?"""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads, _split_at_once), mask)) @ w_output


def joined_by_reshape_at_once(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Everything is right up to the join. There, a reshape alone mixes tokens: another step has to come before it."""
    return _join_at_once(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output


def heads_attend_to_heads(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scores compare the heads of one token with each other. Which axes must come last to compare tokens?"""
    queries, keys, values = ((x @ w).reshape(len(x), n_heads, -1) for w in (w_query, w_key, w_value))
    return _attend(queries, keys, values, mask).flatten(1) @ w_output


def one_head_for_all(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """All your heads average their values with the weights of the first head. Each head has its own queries and keys,
    and so its own weights."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    return _join(_weights(queries, keys, mask)[0] @ values) @ w_output


def weights_averaged(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You average the weights of the heads and use the mean in each head. Each head should use its own weights, so that
    different heads can attend to different tokens."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    return _join(_weights(queries, keys, mask).mean(0) @ values) @ w_output


def heads_averaged(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your output is divided by the number of heads. W^O adds up the contributions of the heads; do not take a mean."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output / n_heads


def softmax_over_queries(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your softmax runs over the queries. The weights of each query should sum to one over the keys: look at the
    axis."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return _join(torch.softmax(scores.masked_fill(~mask, -math.inf), 1) @ values) @ w_output


def softmax_over_heads(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your softmax runs over the heads. In each head, the weights should sum to one over the keys: look at the axis."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return _join(torch.softmax(scores.masked_fill(~mask, -math.inf), 0) @ values) @ w_output


def queries_and_keys_exchanged(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You have exchanged queries and keys. The scores should have a row for each query and a column for each key."""
    return _join(_attend(*_project(x, w_key, w_query, w_value, n_heads), mask)) @ w_output


def no_mask(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your mask hides nothing, so tokens attend to tokens that they may not see."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), torch.ones_like(mask))) @ w_output


def mask_inverted(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your mask is inverted: True should mark the tokens that a token may attend to."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), ~mask)) @ w_output


def mask_after_softmax(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You hide tokens after the softmax, so the remaining weights do not add up to one. Hide the tokens before the
    softmax."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    return _join(_weights(queries, keys, torch.ones_like(mask)) * mask @ values) @ w_output


def tokens_added(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You add the tokens to the output. That is the residual connection, which is outside this layer."""
    return x + _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output


def width_from_d_model(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your code works if n_heads * d_head is d_model, and raises an error otherwise. Do you take d_model // n_heads for
    the width of a head? The width follows from the number of columns of each matrix."""
    d_head = x.shape[1] // n_heads
    queries, keys, values = ((x @ w).view(len(x), n_heads, d_head).transpose(0, 1) for w in (w_query, w_key, w_value))
    return _join(_attend(queries, keys, values, mask)) @ w_output


def d_model_in_the_pattern(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your code works if n_heads * d_head is d_model; otherwise einops raises an error. Do you take d_model // n_heads
    for the width of a head? The width follows from the number of columns of each matrix."""
    d_head = x.shape[1] // n_heads
    queries, keys, values = (
        rearrange(x @ w, "t (h d) -> h t d", h=n_heads, d=d_head) for w in (w_query, w_key, w_value)
    )
    return _join(_attend(queries, keys, values, mask)) @ w_output


def joined_by_a_view(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your code works with one head, or with values one number wide, and raises an error otherwise. Do you call view
    after a transpose? A view cannot move numbers in memory. Which method can?"""
    heads = _attend(*_project(x, w_query, w_key, w_value, n_heads), mask)
    return heads.transpose(0, 1).view(len(x), -1) @ w_output


def never_split_but_scaled_for_one_head(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You attend once over the full width, as a single head would. Split first, so that each head has its own
    weights."""
    return _attend(x @ w_query, x @ w_key, x @ w_value, mask, w_key.shape[-1] // n_heads) @ w_output


def scale_by_number_of_tokens(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale comes from the number of tokens. A score is a sum over the width of one head, so use that width."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, len(x))) @ w_output


def scale_by_number_of_heads(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your scale comes from the number of heads. A score is a sum over the width of one head, so use that width."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask, n_heads)) @ w_output


def scale_without_root(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """In effect, you divide the scores by the width of a head. Divide by its root."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    return _join(_attend(queries, keys, values, mask, keys.shape[-1] ** 2)) @ w_output


def softmax_across_heads(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your softmax runs over the heads. In each head, the weights should sum to one over the keys: look at the axis."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return _join(torch.softmax(scores.masked_fill(~mask, -1e9), 0) @ values) @ w_output


def keys_made_of_queries(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You compute the keys with the matrix of the queries. The keys have their own matrix, so that a token can ask for
    something other than what it offers."""
    return _join(_attend(*_project(x, w_query, w_query, w_value, n_heads), mask)) @ w_output


def causal_whatever_the_mask(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You hide the future, as in the chapter, whatever the mask says. Use the mask that you are given."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), torch.ones_like(mask).tril())) @ w_output


def scores_set_to_zero(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You give hidden tokens a score of zero, and a score of zero still gets weight. Which score gets none?"""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return _join(torch.softmax(scores * mask, -1) @ values) @ w_output


def output_matrix_transposed(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """The output matrix is transposed. Do you multiply with F.linear? It transposes the matrix that it is given."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output.T


def all_matrices_transposed(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """All four matrices are transposed. Do you multiply with F.linear? It transposes the matrix that it is given."""
    return _join(_attend(*_project(x, w_query.T, w_key.T, w_value.T, n_heads), mask)) @ w_output.T


def output_matrix_twice(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You multiply by the output matrix twice, perhaps once within the heads. It is needed only once, after the
    join."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask)) @ w_output @ w_output


def values_as_wide_as_keys(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your code works if the values are as wide as the keys, and raises an error otherwise. The width of a head's
    values follows from the number of columns of w_value and need not be d_head."""
    queries, keys = (_split(x @ w, n_heads) for w in (w_query, w_key))
    values = (x @ w_value).view(len(x), n_heads, keys.shape[-1]).transpose(0, 1)
    return _join(_attend(queries, keys, values, mask)) @ w_output


def values_in_the_pattern_of_keys(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your code works if the values are as wide as the keys; otherwise einops raises an error. The width of a head's
    values follows from the number of columns of w_value and need not be d_head."""
    queries, keys = (_split(x @ w, n_heads) for w in (w_query, w_key))
    values = rearrange(x @ w_value, "t (h d) -> h t d", h=n_heads, d=keys.shape[-1])
    return _join(_attend(queries, keys, values, mask)) @ w_output


def mask_added_as_numbers(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You add True and False to the scores as 1 and 0. A mask that is added must hold 0 and minus infinity."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return _join(torch.softmax(scores + mask, -1) @ values) @ w_output


def neither_scale_nor_mask(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Two things are missing: the scale, and the mask, which should hide tokens before the softmax."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), torch.ones_like(mask), 1)) @ w_output


def hidden_tokens_favoured(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your mask is inverted: True should mark the tokens that a token may attend to."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return _join(torch.softmax(scores.masked_fill(mask, -1e9), -1) @ values) @ w_output


def joined_along_the_tokens(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your code works with a single head and raises an error with several. Look at the shapes where you split and join
    the heads: after the join, each token should have one row, as wide as all heads together."""
    return torch.cat(list(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask))) @ w_output


def no_softmax(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You multiply the values by the scores themselves. The step that turns scores into weights is missing."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    return _join(scores * mask @ values) @ w_output


def mask_turned(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your mask is transposed. Row i says which tokens token i may attend to, not which tokens may attend to token
    i."""
    return _join(_attend(*_project(x, w_query, w_key, w_value, n_heads), mask.T)) @ w_output


def multiplied_by_the_scale(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You make the scores larger by the root of the width. Make them smaller by this factor instead."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    return _join(_attend(queries, keys, values, mask, 1 / keys.shape[-1])) @ w_output


def last_head_only(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your output holds only the contribution of the last head. Are the results of the others overwritten in a loop?"""
    d_value = w_value.shape[1] // n_heads
    heads = _attend(*_project(x, w_query, w_key, w_value, n_heads), mask)
    return heads[-1] @ w_output[-d_value:]


def mask_inverted_for_ready_made_attention(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """Your mask is inverted. In the mask that you are given, True means that a token may attend, and PyTorch's
    scaled_dot_product_attention reads it in the same way."""
    heads = torch.nn.functional.scaled_dot_product_attention(
        *_project(x, w_query, w_key, w_value, n_heads), attn_mask=~mask
    )
    return _join(heads) @ w_output


def weights_too(x, w_query, w_key, w_value, w_output, n_heads, mask):
    """You return the weights as well. Return only the output."""
    queries, keys, values = _project(x, w_query, w_key, w_value, n_heads)
    weights = _weights(queries, keys, mask)
    return _join(weights @ values) @ w_output, weights
