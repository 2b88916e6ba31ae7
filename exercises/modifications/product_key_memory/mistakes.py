import torch


def _scores(q, first, second, product=False):
    """All scores, (queries, n, n)."""
    d_half = first.shape[1]
    a, b = q[:, :d_half] @ first.T, q[:, d_half:] @ second.T
    return a[:, :, None] * b[:, None, :] if product else a[:, :, None] + b[:, None, :]


def _read(scores, values, k, weigh=lambda best: best.softmax(-1)):
    best, indices = scores.flatten(1).topk(k)
    return torch.einsum("qk, qkd -> qd", weigh(best), values[indices])


def all_values_read(q, first, second, values, k):
    """Your softmax runs over all values. Only the `k` best are read."""
    return _scores(q, first, second).flatten(1).softmax(-1) @ values


def softmax_before_the_choice(q, first, second, values, k):
    """Your weights do not sum to one: the softmax comes before the choice of the `k` best."""
    probabilities = _scores(q, first, second).flatten(1).softmax(-1)
    return _read(probabilities, values, k, lambda best: best)


def softmax_twice(q, first, second, values, k):
    """You take the softmax twice, once over all scores and once over the best of these weights."""
    return _read(_scores(q, first, second).flatten(1).softmax(-1), values, k)


def tables_exchanged_in_the_index(q, first, second, values, k):
    """Your indices are those of other values: the sub-key of the first table counts in steps of n."""
    return _read(_scores(q, first, second).mT, values, k)


def halves_exchanged(q, first, second, values, k):
    """You compare the first half of the query with the second table, and the second half with the first."""
    return _read(_scores(q.roll(first.shape[1], -1), first, second), values, k)


def best_with_best(q, first, second, values, k):
    """You join the best sub-keys of both tables, the second best of both, and so on. The best with the second best may
    score more than these."""
    n, d_half = first.shape
    (a, i), (b, j) = (q[:, :d_half] @ first.T).topk(k), (q[:, d_half:] @ second.T).topk(k)
    return torch.einsum("qk, qkd -> qd", (a + b).softmax(-1), values[n * i + j])


def scores_multiplied(q, first, second, values, k):
    """You multiply the scores of the two sub-keys. They are added."""
    return _read(_scores(q, first, second, product=True), values, k)


def equal_weights(q, first, second, values, k):
    """You average the values that are read. Their weights are the softmax of their scores."""
    return _read(_scores(q, first, second), values, k, lambda best: torch.full_like(best, 1 / k))


def scores_as_weights(q, first, second, values, k):
    """Your weights are the scores themselves. Their softmax is missing."""
    return _read(_scores(q, first, second), values, k, lambda best: best)


def smallest_scores(q, first, second, values, k):
    """You read the values with the smallest scores."""
    best, indices = _scores(q, first, second).flatten(1).topk(k, largest=False)
    return torch.einsum("qk, qkd -> qd", best.softmax(-1), values[indices])


def all_pairs_of_the_best(q, first, second, values, k):
    """You read all pairs of the best sub-keys, which are k² values. Only the `k` best of these pairs are read."""
    n, d_half = first.shape
    (a, i), (b, j) = (q[:, :d_half] @ first.T).topk(k), (q[:, d_half:] @ second.T).topk(k)
    weights = (a[:, :, None] + b[:, None, :]).flatten(1).softmax(-1)
    return torch.einsum("qk, qkd -> qd", weights, values[(n * i[:, :, None] + j[:, None, :]).flatten(1)])


def best_value_alone(q, first, second, values, k):
    """You read the best value only."""
    return _read(_scores(q, first, second), values, 1)


def scaled(q, first, second, values, k):
    """You divide the scores by the square root of the width of the query. These scores are not scaled."""
    return _read(_scores(q, first, second) / q.shape[1] ** 0.5, values, k)


def scaled_by_a_half(q, first, second, values, k):
    """You divide the scores by the square root of the width of half a query. These scores are not scaled."""
    return _read(_scores(q, first, second) / first.shape[1] ** 0.5, values, k)


def steps_of_k(q, first, second, values, k):
    """Your index counts the first table in steps of `k`. Its sub-keys count in steps of n, however many are read."""
    d_half = first.shape[1]
    (a, i), (b, j) = (q[:, :d_half] @ first.T).topk(k), (q[:, d_half:] @ second.T).topk(k)
    best, pairs = (a[:, :, None] + b[:, None, :]).flatten(1).topk(k)
    indices = (k * i[:, :, None] + j[:, None, :]).flatten(1).gather(1, pairs)
    return torch.einsum("qk, qkd -> qd", best.softmax(-1), values[indices])


def index_among_the_best(q, first, second, values, k):
    """You use the position of a pair among the k² pairs as the index of its value. The index is n i + j, with the
    numbers of the two sub-keys in their tables."""
    d_half = first.shape[1]
    a, b = (q[:, :d_half] @ first.T).topk(k).values, (q[:, d_half:] @ second.T).topk(k).values
    return _read(a[:, :, None] + b[:, None, :], values, k)
