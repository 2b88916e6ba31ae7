import math

import torch


def _top_k(z, k):
    return z.masked_fill(z < z.topk(min(k, len(z)))[0][-1], -math.inf)


def _top_p(z, p, shift=1, source=None):
    ordered, order = (z if source is None else source).softmax(0).sort(descending=True, stable=True)
    dropped = (ordered.cumsum(0) - shift * ordered >= p) & (p < 1)
    return z.masked_fill(torch.empty_like(dropped).scatter(0, order, dropped), -math.inf)


def multiplied_by_the_temperature(logits, temperature, k, p):
    """You multiply by the temperature. A high temperature should make the distribution flatter: divide by it."""
    return _top_p(_top_k(logits * temperature, k), p).softmax(0)


def no_temperature(logits, temperature, k, p):
    """The temperature has no effect in your function."""
    return _top_p(_top_k(logits, k), p).softmax(0)


def probabilities_divided(logits, temperature, k, p):
    """Your temperature divides the probabilities instead of the logits, so it has no effect once they add up to one
    again, or it acts on a second softmax."""
    z = logits.softmax(0) / temperature
    return _top_p(_top_k(z, k), p).softmax(0)


def temperature_at_the_end(logits, temperature, k, p):
    """You apply the temperature at the end. It comes first, because it changes how many tokens top-p keeps."""
    return (_top_p(_top_k(logits, k), p) / temperature).softmax(0)


def no_top_k(logits, temperature, k, p):
    """k has no effect in your function."""
    return _top_p(logits / temperature, p).softmax(0)


def no_top_p(logits, temperature, k, p):
    """p has no effect in your function."""
    return _top_k(logits / temperature, k).softmax(0)


def crossing_token_dropped(logits, temperature, k, p):
    """You drop the token with which the sum reaches p. It is the last one that stays: without it the sum is below p."""
    z = _top_k(logits / temperature, k)
    kept = _top_p(z, p, shift=0)
    return (kept if kept.isfinite().any() else z.masked_fill(z < z.max(), -math.inf)).softmax(0)


def one_token_too_many(logits, temperature, k, p):
    """Top-p keeps one token too many. The token with which the sum reaches p is the last one that stays."""
    z = _top_k(logits / temperature, k)
    ordered, order = z.softmax(0).sort(descending=True, stable=True)
    dropped = (ordered.cumsum(0) - ordered >= p) & (p < 1)
    later = torch.cat((dropped.new_zeros(1), dropped[:-1]))
    return z.masked_fill(torch.empty_like(later).scatter(0, order, later), -math.inf).softmax(0)


def top_p_before_top_k(logits, temperature, k, p):
    """You apply top-p before top-k, or to probabilities that top-k has not changed. Top-p looks at the tokens that
    top-k has left, and their probabilities add up to one."""
    z = logits / temperature
    return _top_p(_top_k(z, k), p, source=z).softmax(0)


def not_normalized(logits, temperature, k, p):
    """Your probabilities no longer add up to one after tokens are dropped. Divide by what is left."""
    z = logits / temperature
    kept = _top_p(_top_k(z, k), p)
    return z.softmax(0) * kept.isfinite()


def dropped_with_logit_zero(logits, temperature, k, p):
    """A token that you drop gets the logit 0, and exp(0) is 1. A logit that gives no probability is minus infinity."""
    kept = _top_p(_top_k(logits / temperature, k), p)
    return kept.masked_fill(kept.isinf(), 0.0).softmax(0)


def threshold_instead_of_sum(logits, temperature, k, p):
    """You compare the probability of each single token with p. Top-p adds up the probabilities of the most likely
    tokens."""
    z = _top_k(logits / temperature, k)
    shares = z.softmax(0)
    return z.masked_fill((shares < p) & (shares < shares.max()), -math.inf).softmax(0)


def sum_from_below(logits, temperature, k, p):
    """You begin to add up with the least likely token. Begin with the most likely one."""
    z = _top_k(logits / temperature, k)
    ordered, order = z.softmax(0).sort()
    dropped = (ordered.cumsum(0) - ordered >= p) & (p < 1)
    return z.masked_fill(torch.empty_like(dropped).scatter(0, order, dropped), -math.inf).softmax(0)


def ties_dropped(logits, temperature, k, p):
    """Top-k drops tokens that tie with the k-th one. All of them stay, however many there are."""
    z = logits / temperature
    order = z.argsort(descending=True, stable=True)
    dropped = torch.arange(len(z)) >= k
    return _top_p(z.masked_fill(torch.empty_like(dropped).scatter(0, order, dropped), -math.inf), p).softmax(0)


def all_ties_kept_by_top_p(logits, temperature, k, p):
    """Top-p keeps all tokens that tie with the last one it needs. There it keeps the smallest number that suffices."""
    z = _top_k(logits / temperature, k)
    kept = _top_p(z, p)
    return z.masked_fill(z < kept[kept.isfinite()].min(), -math.inf).softmax(0)


def vocabulary_in_sorted_order(logits, temperature, k, p):
    """You return the probabilities in another order than that of the vocabulary. The sorting has to be undone."""
    return _top_p(_top_k(logits / temperature, k), p).softmax(0).sort(descending=True).values


def logits_returned(logits, temperature, k, p):
    """You return logits. A softmax makes them probabilities."""
    return _top_p(_top_k(logits / temperature, k), p)


def second_softmax(logits, temperature, k, p):
    """You apply a softmax to probabilities. One softmax is enough; afterwards only divide by the sum."""
    return _top_p(_top_k(logits / temperature, k), p).softmax(0).softmax(0)


def dropped_by_top_k_with_logit_zero(logits, temperature, k, p):
    """Tokens that top-k drops still have probability: exp(0) is 1. Set their scores to minus infinity."""
    z = _top_k(logits / temperature, k)
    return _top_p(z.masked_fill(z.isinf(), 0.0), p).softmax(0)


def not_normalized_after_top_p(logits, temperature, k, p):
    """Your probabilities no longer add up to one after top-p. Divide by what is left."""
    z = _top_k(logits / temperature, k)
    return z.softmax(0) * _top_p(z, p).isfinite()


def threshold_of_the_rest(logits, temperature, k, p):
    """You compare the probability of each single token with 1 − p. Top-p adds up the probabilities of the most likely
    tokens."""
    z = _top_k(logits / temperature, k)
    shares = z.softmax(0)
    return z.masked_fill((shares < 1 - p) & (shares < shares.max()), -math.inf).softmax(0)
