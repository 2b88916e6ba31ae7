import torch


def _run(q, k, v, offsets, rows, factor=1.0, of_values=False):
    m, outputs = len(offsets) - 1, []
    for t in range(len(q)):
        vectors = factor * offsets[rows(t, m)]
        scores = (k[: t + 1] + vectors) @ q[t] / q.shape[1] ** 0.5
        outputs.append(scores.softmax(0) @ (v[: t + 1] + (vectors if of_values else 0)))
    return torch.stack(outputs)


def _right(t, m):
    return (t - torch.arange(t + 1)).clamp(max=m)


def absolute_positions(q, k, v, offsets):
    """Your offset vectors belong to the positions of the keys, counted from the beginning of the text. They should
    belong to the distances from the newest token."""
    return _run(q, k, v, offsets, lambda t, m: torch.arange(t + 1).clamp(max=m))


def all_sums_cached(q, k, v, offsets):
    """You add the offset vectors to what is in the cache, so each key keeps all the vectors of earlier steps as well.
    Leave the cached keys as they are."""
    m, keys, outputs = len(offsets) - 1, k[:0], []
    for t in range(len(q)):
        keys = torch.cat((keys, k[t : t + 1])) + offsets[_right(t, m)]
        outputs.append((keys @ q[t] / q.shape[1] ** 0.5).softmax(0) @ v[: t + 1])
    return torch.stack(outputs)


def one_too_far(q, k, v, offsets):
    """Your distances are too large by one. The distance of the newest token from itself is 0."""
    return _run(q, k, v, offsets, lambda t, m: (t + 1 - torch.arange(t + 1)).clamp(max=m))


def one_too_near(q, k, v, offsets):
    """Your distances are too small by one, except that of the newest token. That of the token before it is 1."""
    return _run(q, k, v, offsets, lambda t, m: (t - 1 - torch.arange(t + 1)).clamp(0, m))


def zero_beyond(q, k, v, offsets):
    """Near keys are right, but keys beyond the distance m get no offset vector. They get the last one."""
    m, outputs = len(offsets) - 1, []
    for t in range(len(q)):
        distance = t - torch.arange(t + 1)
        vectors = offsets[distance.clamp(max=m)] * (distance <= m)[:, None]
        outputs.append(((k[: t + 1] + vectors) @ q[t] / q.shape[1] ** 0.5).softmax(0) @ v[: t + 1])
    return torch.stack(outputs)


def wrapped_round(q, k, v, offsets):
    """Near keys are right, but beyond the distance m your distances start from 0 again. They should stay at m."""
    return _run(q, k, v, offsets, lambda t, m: (t - torch.arange(t + 1)) % (m + 1))


def window(q, k, v, offsets):
    """Keys beyond the distance m are not attended to any more. Only their offset is clipped."""
    m, outputs = len(offsets) - 1, []
    for t in range(len(q)):
        start = max(0, t - m)
        vectors = offsets[t - torch.arange(start, t + 1)]
        scores = (k[start : t + 1] + vectors) @ q[t] / q.shape[1] ** 0.5
        outputs.append(scores.softmax(0) @ v[start : t + 1])
    return torch.stack(outputs)


def offsets_for_values(q, k, v, offsets):
    """The scores are right, but you add the offset vectors to the values, too, which have none here."""
    return _run(q, k, v, offsets, _right, of_values=True)


def sign(q, k, v, offsets):
    """You subtract the offset vectors. They are added."""
    return _run(q, k, v, offsets, _right, factor=-1.0)


def bias_not_scaled(q, k, v, offsets):
    """The offset part of your scores is not divided by the root of d_head. The root stands under the whole sum."""
    return _run(q, k, v, offsets, _right, factor=q.shape[1] ** 0.5)


def negative_distances(q, k, v, offsets):
    """Your distances are negative, and a negative index counts from the end of `offsets`. The distance is the position
    of the newest token minus that of the key."""
    return _run(q, k, v, offsets, lambda t, m: (torch.arange(t + 1) - t).clamp(min=-m))
