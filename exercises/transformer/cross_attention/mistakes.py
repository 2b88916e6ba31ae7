import math

import torch


def _finish(q, k, v, hidden, scale=None, axis=-1):
    scores = q @ k.mT / math.sqrt(scale or k.shape[-1])
    weights = torch.softmax(scores.masked_fill(hidden, -math.inf), axis)
    return weights @ v, weights


def _hidden(is_word):
    return ~is_word[:, None]


def no_padding_mask(x, source, is_word, w_query, w_key, w_value):
    """Your padding gets weight. Hide it before the softmax, so that its weight is zero."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, torch.tensor(False))


def mask_inverted(x, source, is_word, w_query, w_key, w_value):
    """Your mask is inverted: it hides the words and shows the padding. `is_word` is True for what may be seen."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, is_word[:, None])


def padding_with_score_zero(x, source, is_word, w_query, w_key, w_value):
    """Your padding gets the score 0, and exp(0) is 1. A score that gives no weight is minus infinity."""
    scores = (x @ w_query @ (source @ w_key).mT / math.sqrt(w_key.shape[1])).masked_fill(_hidden(is_word), 0.0)
    weights = scores.softmax(-1)
    return weights @ (source @ w_value), weights


def padding_set_to_zero(x, source, is_word, w_query, w_key, w_value):
    """You set the padding of the source to zero. Its scores are then 0, and exp(0) is 1, so it still takes weight from
    the words. Hide its scores instead."""
    source = source * is_word[..., None]
    return _finish(x @ w_query, source @ w_key, source @ w_value, torch.tensor(False))


def mask_added(x, source, is_word, w_query, w_key, w_value):
    """You add the mask to the scores as zeros and ones, which hides nothing. What is hidden needs a score of minus
    infinity."""
    scores = x @ w_query @ (source @ w_key).mT / math.sqrt(w_key.shape[1]) + is_word[:, None]
    weights = scores.softmax(-1)
    return weights @ (source @ w_value), weights


def mask_on_the_queries(x, source, is_word, w_query, w_key, w_value):
    """You hide rows of the scores, which belong to the target, instead of columns. `is_word` says which source tokens
    are words, so its new axis goes into the middle."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, ~is_word[..., None])


def low_scores_on_the_queries(x, source, is_word, w_query, w_key, w_value):
    """You lower rows of the scores, which belong to the target, instead of columns. `is_word` says which source tokens
    are words, so its new axis goes into the middle."""
    scores = x @ w_query @ (source @ w_key).mT / math.sqrt(w_key.shape[1])
    weights = scores.masked_fill(~is_word[..., None], -1e9).softmax(-1)
    return weights @ (source @ w_value), weights


def mask_without_a_new_axis(x, source, is_word, w_query, w_key, w_value):
    """Your mask lacks an axis for the target tokens, so its rows, which are the texts of the batch, are taken for
    target tokens. Where these are equally many, nothing raises, and the result is wrong."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, ~is_word)


def multiplied_by_the_root(x, source, is_word, w_query, w_key, w_value):
    """You multiply the scores by the root of d_head. Divide by it."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word), 1 / w_key.shape[1])


def source_for_values(x, source, is_word, w_query, w_key, w_value):
    """You mix the encoder's states themselves. Multiply them by `w_value` first."""
    return _finish(x @ w_query, source @ w_key, source, _hidden(is_word))


def mask_after_softmax(x, source, is_word, w_query, w_key, w_value):
    """You hide the padding after the softmax, so the weights of the words no longer add up to one. Hide it before."""
    weights = _finish(x @ w_query, source @ w_key, source @ w_value, torch.tensor(False))[1]
    weights = weights.masked_fill(_hidden(is_word), 0.0)
    return weights @ (source @ w_value), weights


def over_the_targets(x, source, is_word, w_query, w_key, w_value):
    """Your softmax runs over the target tokens. Each target token divides its own weight among the source tokens."""
    scores = (x @ w_query @ (source @ w_key).mT / math.sqrt(w_key.shape[1])).masked_fill(_hidden(is_word), -1e9)
    weights = scores.softmax(1)
    return weights @ (source @ w_value), weights


def no_scale(x, source, is_word, w_query, w_key, w_value):
    """The scale is missing: divide the scores by the root of d_head."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word), 1)


def scale_by_d_model(x, source, is_word, w_query, w_key, w_value):
    """Your scale comes from the width of the decoder's states. A score is a sum over the d_head entries of a query."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word), x.shape[-1])


def scale_by_d_source(x, source, is_word, w_query, w_key, w_value):
    """Your scale comes from the width of the encoder's states. A score is a sum over the d_head entries of a query."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word), source.shape[-1])


def scale_by_d_value(x, source, is_word, w_query, w_key, w_value):
    """Your scale comes from the width of the values. A score is a sum over the d_head entries of a query."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word), w_value.shape[-1])


def divided_by_d_head(x, source, is_word, w_query, w_key, w_value):
    """You divide the scores by d_head itself. Divide them by its root."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word), w_key.shape[1] ** 2)


def self_attention_of_the_decoder(x, source, is_word, w_query, w_key, w_value):
    """Your keys and values come from the decoder, as they do in self-attention; this can be seen where all widths are
    equal. In cross-attention they come from the encoder."""
    return _finish(x @ w_query, x @ w_key, x @ w_value, _hidden(is_word))


def self_attention_of_the_encoder(x, source, is_word, w_query, w_key, w_value):
    """Your queries come from the encoder, as keys and values do; this can be seen where all widths are equal. In
    cross-attention the queries come from the decoder."""
    return _finish(source @ w_query, source @ w_key, source @ w_value, _hidden(is_word))


def directions_exchanged(x, source, is_word, w_query, w_key, w_value):
    """Your queries come from the encoder, and your keys and values from the decoder; this can be seen where all widths
    are equal. It is the other way round."""
    return _finish(source @ w_query, x @ w_key, x @ w_value, _hidden(is_word))


def values_from_the_decoder(x, source, is_word, w_query, w_key, w_value):
    """Your values come from the decoder; this can be seen where all widths are equal. What a target token takes over is
    what the encoder says."""
    return _finish(x @ w_query, source @ w_key, x @ w_value, _hidden(is_word))


def causal(x, source, is_word, w_query, w_key, w_value):
    """You also apply a causal mask. The whole source sentence is known, so every target token may see all of it."""
    future = torch.ones(x.shape[1], source.shape[1], dtype=torch.bool).triu(1)
    return _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word) | future)


def results_exchanged(x, source, is_word, w_query, w_key, w_value):
    """Your two results are exchanged: the output comes first, then the weights."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word))[::-1]


def weights_transposed(x, source, is_word, w_query, w_key, w_value):
    """Your output is right, but the weights are transposed: they should have a row for each target token."""
    output, weights = _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word))
    return output, weights.mT


def output_alone(x, source, is_word, w_query, w_key, w_value):
    """Your output is right, but the second result is missing: return the weights, too."""
    return _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word))[0]


def scores_for_weights(x, source, is_word, w_query, w_key, w_value):
    """Your output is right, but you return the scores with it. The second result should be the weights, after the
    softmax."""
    output, _ = _finish(x @ w_query, source @ w_key, source @ w_value, _hidden(is_word))
    scores = x @ w_query @ (source @ w_key).mT / math.sqrt(w_key.shape[1])
    return output, scores.masked_fill(_hidden(is_word), -math.inf)


def low_scores_for_the_words(x, source, is_word, w_query, w_key, w_value):
    """Your mask is inverted: it lowers the scores of the words and leaves those of the padding. `is_word` is True for
    what may be seen."""
    scores = x @ w_query @ (source @ w_key).mT / math.sqrt(w_key.shape[1])
    weights = scores.masked_fill(is_word[:, None], -1e9).softmax(-1)
    return weights @ (source @ w_value), weights
