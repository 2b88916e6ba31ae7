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
    """Your tokens carry no positions, so their order does not matter. What is added to an embedding?"""
    return _attend(x @ w_query, x @ w_key, x @ w_value, positions)


def values_without_positions(x, positions, w_query, w_key, w_value):
    """Your queries and keys know their positions and your values do not. For which t does the first formula hold?"""
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


def one_position_for_all(x, positions, w_query, w_key, w_value):
    """You give all tokens of a sequence the same code, as the slide's k would have it (erratum E-03)."""
    placed = x + _code(positions, x)[:, -1:]
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def counted_within_the_row(x, positions, w_query, w_key, w_value):
    """You number the tokens of a row yourself. The positions are given, and need not start at 0 or where the row
    does."""
    placed = x + _code(torch.arange(x.shape[1])[None], x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def counted_from_one(x, positions, w_query, w_key, w_value):
    """Each token carries the code of the next position. Use the positions as they are given."""
    placed = x + _code(positions + 1, x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def added_after_the_projections(x, positions, w_query, w_key, w_value):
    """You add the codes to queries, keys and values. They belong to what the three matrices are applied to."""
    return _attend(*(x @ w + _code(positions, x @ w) for w in (w_query, w_key, w_value)), positions)


def multiplied(x, positions, w_query, w_key, w_value):
    """You multiply embeddings and codes. They are added."""
    placed = x * _code(positions, x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def tokens_scaled_up(x, positions, w_query, w_key, w_value):
    """You multiply the embeddings by the root of their width, as the first Transformer did. Here they stay as given."""
    placed = x * math.sqrt(x.shape[-1]) + _code(positions, x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions)


def no_scale(x, positions, w_query, w_key, w_value):
    """The scores go into the softmax as they are. The root of the width of a head is missing."""
    placed = x + _code(positions, x)
    query, key = placed @ w_query, placed @ w_key
    return torch.softmax(_hide(query @ key.transpose(1, 2), positions), -1) @ (placed @ w_value)


def scale_by_d_model(x, positions, w_query, w_key, w_value):
    """Your scale comes from the width of a token. A score is a sum over the width of a head."""
    placed = x + _code(positions, x)
    query, key = placed @ w_query, placed @ w_key
    scores = query @ key.transpose(1, 2) / math.sqrt(x.shape[-1])
    return torch.softmax(_hide(scores, positions), -1) @ (placed @ w_value)


def softmax_over_queries(x, positions, w_query, w_key, w_value):
    """Your softmax runs over the tokens that ask. The sum below the fraction runs over those that are asked."""
    placed = x + _code(positions, x)
    return torch.softmax(_hide(_scores(placed @ w_query, placed @ w_key), positions), 1) @ (placed @ w_value)


def queries_and_keys_exchanged(x, positions, w_query, w_key, w_value):
    """Your keys ask and your queries are asked. Those who ask have the rows of the scores."""
    placed = x + _code(positions, x)
    return _attend(placed @ w_key, placed @ w_query, placed @ w_value, positions)


def padding_seen(x, positions, w_query, w_key, w_value):
    """Padding gets weight as if it were words. Hide it among the keys: look at the axis of your mask."""
    placed = x + _code(positions, x)
    return torch.softmax(_scores(placed @ w_query, placed @ w_key), -1) @ (placed @ w_value)


def hidden_after_the_softmax(x, positions, w_query, w_key, w_value):
    """You hide padding after the softmax, so the weights left over do not add up to one. Hide it before."""
    placed = x + _code(positions, x)
    weights = torch.softmax(_scores(placed @ w_query, placed @ w_key), -1) * (positions >= 0)[:, None, :]
    return weights @ (placed @ w_value)


def first_position_hidden(x, positions, w_query, w_key, w_value):
    """You hide position 0 together with padding. It is a position like any other."""
    placed = x + _code(positions, x)
    return _attend(placed @ w_query, placed @ w_key, placed @ w_value, positions - 1).nan_to_num()


def future_hidden(x, positions, w_query, w_key, w_value):
    """You hide the future. It is not asked for here: every token attends to all words."""
    placed = x + _code(positions, x)
    ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    scores = _hide(_scores(placed @ w_query, placed @ w_key), positions).masked_fill(ahead, -math.inf)
    return torch.softmax(scores, -1) @ (placed @ w_value)
