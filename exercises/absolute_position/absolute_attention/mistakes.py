import math

import torch

from llm_anatomy.layers.positions.absolute import Sinusoidal


def _code(positions, like):
    return Sinusoidal(like.shape[-1]).encoding(positions).to(like.dtype)


def _hide(scores, positions):
    return scores.masked_fill((positions < 0)[:, None, :], -math.inf)


def _scores(query, key):
    return query @ key.transpose(1, 2) / math.sqrt(key.shape[-1])


def _attend(query, key, value, positions):
    return torch.softmax(_hide(_scores(query, key), positions), -1) @ value


def no_positions(x, positions, w_query, w_key, w_value):
    """Your tokens carry no positions, so their order makes no difference. What is added to an embedding?"""
    return _attend(x @ w_query, x @ w_key, x @ w_value, positions)


def values_without_positions(x, positions, w_query, w_key, w_value):
    """Your queries and keys carry positions, but your values do not. For which t does the first formula hold?"""
    placed = x + _code(positions, x)
    return _attend(placed @ w_query, placed @ w_key, x @ w_value, positions)


def keys_without_positions(x, positions, w_query, w_key, w_value):
    """Your keys carry no positions. For which t does the first formula hold?"""
    placed = x + _code(positions, x)
    return _attend(placed @ w_query, x @ w_key, placed @ w_value, positions)


def queries_without_positions(x, positions, w_query, w_key, w_value):
    """Your queries carry no positions. For which t does the first formula hold?"""
    placed = x + _code(positions, x)
    return _attend(x @ w_query, placed @ w_key, placed @ w_value, positions)


def queries_alone_with_positions(x, positions, w_query, w_key, w_value):
    """Your queries carry positions, but your keys and values do not. For which t does the first formula hold?"""
    return _attend((x + _code(positions, x)) @ w_query, x @ w_key, x @ w_value, positions)


def keys_alone_with_positions(x, positions, w_query, w_key, w_value):
    """Your keys carry positions, but your queries and values do not. For which t does the first formula hold?"""
    return _attend(x @ w_query, (x + _code(positions, x)) @ w_key, x @ w_value, positions)


def values_alone_with_positions(x, positions, w_query, w_key, w_value):
    """Your values carry positions, but your queries and keys do not. For which t does the first formula hold?"""
    return _attend(x @ w_query, x @ w_key, (x + _code(positions, x)) @ w_value, positions)


def codes_added_twice(x, positions, w_query, w_key, w_value):
    """Your tokens carry twice their codes. Do you add the codes more than once?"""
    placed = x + 2 * _code(positions, x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def first_row_for_all(x, positions, w_query, w_key, w_value):
    """You use the positions of the first sequence for all sequences. Each row has its own positions."""
    placed = x + _code(positions[:1], x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def changes_the_tokens(x, positions, w_query, w_key, w_value):
    """The result is right, but you add the codes to the caller's tokens in place. Make a new tensor."""
    x += _code(positions, x)
    return _attend(x @ w_query, x @ w_key, x @ w_value, positions)


def one_position_for_all(x, positions, w_query, w_key, w_value):
    """You give all tokens of a sequence the same code, as the slide's k suggests (erratum E-03). Each token has its own
    position."""
    placed = x + _code(positions, x)[:, -1:]
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def counted_within_the_row(x, positions, w_query, w_key, w_value):
    """You number the tokens of a row yourself. Use the positions that you are given: they need not start at 0, and
    padding may come before them."""
    placed = x + _code(torch.arange(x.shape[1])[None], x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def counted_from_one(x, positions, w_query, w_key, w_value):
    """Each token carries the code of the next position. Use the positions as you are given them."""
    placed = x + _code(positions + 1, x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def added_after_the_projections(x, positions, w_query, w_key, w_value):
    """You add the codes to the queries, keys and values. Add them to the embeddings, before the three products."""
    return _attend(*(x @ w + _code(positions, x @ w) for w in (w_query, w_key, w_value)), positions)


def added_to_queries_and_keys(x, positions, w_query, w_key, w_value):
    """You add the codes to the queries and keys. Add them to the embeddings, before the three products."""
    queries, keys = (x @ w + _code(positions, x @ w) for w in (w_query, w_key))
    return _attend(queries, keys, x @ w_value, positions)


def codes_as_wide_as_tokens_added_late(x, positions, w_query, w_key, w_value):
    """You add the codes after the three products, which is possible only if all widths are equal. Add them to the
    embeddings, before the products."""
    code = _code(positions, x)
    return _attend(x @ w_query + code, x @ w_key + code, x @ w_value + code, positions)


def late_codes_in_queries_and_keys(x, positions, w_query, w_key, w_value):
    """You add the codes to the queries and keys, which is possible only if all widths are equal. Add them to the
    embeddings, before the three products."""
    code = _code(positions, x)
    return _attend(x @ w_query + code, x @ w_key + code, x @ w_value, positions)


def codes_projected_alone(x, positions, w_query, w_key, w_value):
    """You leave the embeddings out: you multiply only the codes by the three matrices. What is added to what?"""
    code = _code(positions, x)
    return _attend(code @ w_query, code @ w_key, code @ w_value, positions)


def multiplied(x, positions, w_query, w_key, w_value):
    """You multiply the embeddings by the codes. Add the codes instead."""
    placed = x * _code(positions, x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def tokens_scaled_up(x, positions, w_query, w_key, w_value):
    """You multiply the embeddings by the root of their width, as the first Transformer did. Here they stay as they
    are."""
    placed = x * math.sqrt(x.shape[-1]) + _code(positions, x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def no_scale(x, positions, w_query, w_key, w_value):
    """You pass the scores to the softmax as they are. The root of the width of a head is missing."""
    placed = x + _code(positions, x)
    query, key = placed @ w_query, placed @ w_key
    return torch.softmax(_hide(query @ key.transpose(1, 2), positions), -1) @ (placed @ w_value)


def scaled_up(x, positions, w_query, w_key, w_value):
    """You multiply the scores by the root of the width of a head. Divide by it."""
    placed = x + _code(positions, x)
    query, key = placed @ w_query, placed @ w_key
    scores = query @ key.transpose(1, 2) * math.sqrt(key.shape[-1])
    return torch.softmax(_hide(scores, positions), -1) @ (placed @ w_value)


def scale_by_the_number_of_tokens(x, positions, w_query, w_key, w_value):
    """Your scale comes from the number of tokens. A score is a sum over the width of a head, so use that width."""
    placed = x + _code(positions, x)
    scores = (placed @ w_query) @ (placed @ w_key).transpose(1, 2) / math.sqrt(x.shape[1])
    return torch.softmax(_hide(scores, positions), -1) @ (placed @ w_value)


def not_normalized(x, positions, w_query, w_key, w_value):
    """Your weights are only the exponentials. Divide them by their sum over the keys."""
    placed = x + _code(positions, x)
    return _hide(_scores(placed @ w_query, placed @ w_key), positions).exp() @ (placed @ w_value)


def weights_transposed(x, positions, w_query, w_key, w_value):
    """You transpose the weights before they meet the values, so you sum over the queries. The sum runs over n, the
    keys."""
    placed = x + _code(positions, x)
    weights = torch.softmax(_hide(_scores(placed @ w_query, placed @ w_key), positions), -1)
    return weights.transpose(1, 2) @ (placed @ w_value)


def scale_without_the_root(x, positions, w_query, w_key, w_value):
    """You divide the scores by the width of a head. Divide by its root."""
    placed = x + _code(positions, x)
    query, key = placed @ w_query, placed @ w_key
    return torch.softmax(_hide(query @ key.transpose(1, 2) / key.shape[-1], positions), -1) @ (placed @ w_value)


def no_softmax(x, positions, w_query, w_key, w_value):
    """You multiply the values by the scores themselves. The weights are the softmax of the scores."""
    placed = x + _code(positions, x)
    scores = _scores(placed @ w_query, placed @ w_key).masked_fill((positions < 0)[:, None, :], 0)
    return scores @ (placed @ w_value)


def scale_by_d_model(x, positions, w_query, w_key, w_value):
    """Your scale comes from the width of a token. A score is a sum over the width of a head, so use that width."""
    placed = x + _code(positions, x)
    query, key = placed @ w_query, placed @ w_key
    scores = query @ key.transpose(1, 2) / math.sqrt(x.shape[-1])
    return torch.softmax(_hide(scores, positions), -1) @ (placed @ w_value)


def softmax_over_queries(x, positions, w_query, w_key, w_value):
    """Your softmax runs over the queries. The sum in the denominator runs over the keys."""
    placed = x + _code(positions, x)
    return torch.softmax(_hide(_scores(placed @ w_query, placed @ w_key), positions), 1) @ (placed @ w_value)


def queries_and_keys_exchanged(x, positions, w_query, w_key, w_value):
    """You have exchanged queries and keys. The scores should have a row for each query and a column for each key."""
    placed = x + _code(positions, x)
    return _attend(placed @ w_key, placed @ w_query, placed @ w_value, positions)


def padding_seen(x, positions, w_query, w_key, w_value):
    """Padding gets weight like any other token. Hide it among the keys. If you have a mask, look at its axes."""
    placed = x + _code(positions, x)
    return torch.softmax(_scores(placed @ w_query, placed @ w_key), -1) @ (placed @ w_value)


def mask_without_an_axis(x, positions, w_query, w_key, w_value):
    """Your code works for one sequence with equal widths and raises an error otherwise. Does your mask have an axis for
    the queries, between the axis of the sequences and that of the keys?"""
    placed = x + _code(positions, x)
    scores = _scores(placed @ w_query, placed @ w_key).masked_fill(positions < 0, -math.inf)
    return torch.softmax(scores, -1) @ (placed @ w_value)


def tokens_hidden(x, positions, w_query, w_key, w_value):
    """Your mask is inverted: you hide the tokens and keep the padding, so a sequence without padding has nothing to
    attend to."""
    placed = x + _code(positions, x)
    scores = _scores(placed @ w_query, placed @ w_key).masked_fill((positions >= 0)[:, None, :], -math.inf)
    return torch.softmax(scores, -1) @ (placed @ w_value)


def tokens_hidden_by_a_finite_score(x, positions, w_query, w_key, w_value):
    """Your mask is inverted: you hide the tokens and keep the padding. In a sequence without padding, all keys then get
    the same weight."""
    placed = x + _code(positions, x)
    scores = _scores(placed @ w_query, placed @ w_key).masked_fill((positions >= 0)[:, None, :], -1e9)
    return torch.softmax(scores, -1) @ (placed @ w_value)


def scores_of_padding_zero(x, positions, w_query, w_key, w_value):
    """You give padding a score of 0, which still gets weight, because exp(0) is 1. Which score has an exponential of
    0?"""
    placed = x + _code(positions, x)
    scores = _scores(placed @ w_query, placed @ w_key).masked_fill((positions < 0)[:, None, :], 0)
    return torch.softmax(scores, -1) @ (placed @ w_value)


def padding_set_to_zero(x, positions, w_query, w_key, w_value):
    """You set padding to zero, but a key of zeros still has a score of 0, and a score of 0 gets weight. Hide the
    scores."""
    placed = (x + _code(positions, x)) * (positions >= 0)[..., None]
    return torch.softmax(_scores(placed @ w_query, placed @ w_key), -1) @ (placed @ w_value)


def codes_of_padding_zero(x, positions, w_query, w_key, w_value):
    """You add no code to padding, but every token still attends to it. Hide the scores of padding."""
    placed = x + _code(positions, x) * (positions >= 0)[..., None]
    return torch.softmax(_scores(placed @ w_query, placed @ w_key), -1) @ (placed @ w_value)


def hidden_after_the_softmax(x, positions, w_query, w_key, w_value):
    """Padding contributes no value, but it takes its share in the softmax, so the weights of the tokens do not add up
    to one. Hide its scores before the softmax."""
    placed = x + _code(positions, x)
    weights = torch.softmax(_scores(placed @ w_query, placed @ w_key), -1) * (positions >= 0)[:, None, :]
    return weights @ (placed @ w_value)


def first_position_hidden(x, positions, w_query, w_key, w_value):
    """You hide position 0 together with padding. It is a position like any other."""
    placed = x + _code(positions, x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions - 1).nan_to_num()


def future_hidden(x, positions, w_query, w_key, w_value):
    """You hide the future. There is no causal mask here: every token attends to all tokens except padding."""
    placed = x + _code(positions, x)
    ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    scores = _hide(_scores(placed @ w_query, placed @ w_key), positions).masked_fill(ahead, -math.inf)
    return torch.softmax(scores, -1) @ (placed @ w_value)


def later_positions_hidden(x, positions, w_query, w_key, w_value):
    """You hide later positions. There is no causal mask here: every token attends to all tokens except padding."""
    placed = x + _code(positions, x)
    ahead = positions[:, None, :] > positions[:, :, None]
    scores = _hide(_scores(placed @ w_query, placed @ w_key), positions).masked_fill(ahead, -math.inf)
    return torch.softmax(scores, -1) @ (placed @ w_value)


def residual_added(x, positions, w_query, w_key, w_value):
    """You add the token's own value to the output. The output is only the weighted sum of the values."""
    placed = x + _code(positions, x)
    value = placed @ w_value
    return value + _attend(placed @ w_query, placed @ w_key, value, positions)
