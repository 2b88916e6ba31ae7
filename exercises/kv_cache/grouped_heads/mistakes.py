import torch


def _attend(q, k, v, scale=None, hidden=1, dim=-1):
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(hidden)
    scores = q @ k.mT / (q.shape[-1] ** 0.5 if scale is None else scale)
    return scores.masked_fill(mask, -torch.inf).softmax(dim) @ v


def _copies(x, n_heads):
    return x.repeat_interleave(n_heads // len(x), dim=0)


def _grouped(q, k, v, **how):
    return _attend(q, _copies(k, len(q)), _copies(v, len(q)), **how)


def heads_take_turns(q, k, v):
    """Your query heads take turns: the first reads key-value head 1, the second 2, and so on, and then from the
    beginning. Neighbouring query heads should share one."""
    n = len(q) // len(k)
    return _attend(q, k.repeat(n, 1, 1), v.repeat(n, 1, 1))


def values_take_turns(q, k, v):
    """Your keys go to the right query heads, but the values take turns. Both should be shared in the same way."""
    return _attend(q, _copies(k, len(q)), v.repeat(len(q) // len(k), 1, 1))


def one_head_too_early(q, k, v):
    """Your formula takes the query heads by Python's indices, which start at 0, and so the first head of each group
    reads the key-value head of the group before it. The formula counts from 1."""
    table = [max(0, -(-i * len(k) // len(q)) - 1) for i in range(len(q))]
    return _attend(q, k[table], v[table])


def first_head_reads_the_last(q, k, v):
    """The first query head of each of your groups reads the key-value head of the group before, and the very first one
    the last, by the index −1. The formula counts query heads from 1."""
    table = [-(-i * len(k) // len(q)) - 1 for i in range(len(q))]
    return _attend(q, k[table], v[table])


def floor_for_ceiling(q, k, v):
    """You round hG/H down, so the last head of each group goes on to the next key-value head. Round up if you
    count from 1."""
    table = [min(len(k), (i + 1) * len(k) // len(q)) for i in range(len(q))]
    table = [min(len(k) - 1, g) for g in table]
    return _attend(q, k[table], v[table])


def last_group_first(q, k, v):
    """Your groups are read in reverse order: the first query heads share the last key-value head."""
    return _grouped(q, k.flip(0), v.flip(0))


def first_head_for_all(q, k, v):
    """All of your query heads read the first key-value head. Each group has its own."""
    return _attend(q, k[:1], v[:1])


def keys_and_values_averaged(q, k, v):
    """All of your query heads read the mean of the key-value heads. Each group has its own."""
    return _attend(q, k.mean(0, keepdim=True), v.mean(0, keepdim=True))


def queries_averaged(q, k, v):
    """You average the queries of a group, so that all heads of a group have the same output. They share keys and
    values, and each has its own query."""
    mean = q.reshape(len(k), -1, *q.shape[1:]).mean(1)
    return _copies(_attend(mean, k, v), len(q))


def one_output_for_each_group(q, k, v):
    """You return one output for each key-value head, the mean of its group. Return that of every query head."""
    return _grouped(q, k, v).reshape(len(k), -1, *q.shape[1:]).mean(1)


def groups_kept_as_an_axis(q, k, v):
    """Your numbers are right, but the groups have an axis of their own. The first axis should hold all query heads."""
    return _grouped(q, k, v).reshape(len(k), -1, *q.shape[1:])


def no_mask(q, k, v):
    """Your tokens attend to later tokens. The mask is missing."""
    return _grouped(q, k, v, hidden=q.shape[1])


def itself_hidden(q, k, v):
    """Your tokens do not attend to themselves."""
    mask = torch.ones(q.shape[-2], q.shape[-2]).triu()
    scores = q @ _copies(k, len(q)).mT / q.shape[-1] ** 0.5
    return scores.masked_fill(mask > 0, -1e9).softmax(-1) @ _copies(v, len(q))


def not_scaled(q, k, v):
    """Your scores are not divided by the root of the width of a head."""
    return _grouped(q, k, v, scale=1)


def scaled_by_all_heads(q, k, v):
    """You divide the scores by the root of the width of all query heads together. Divide by that of one head."""
    return _grouped(q, k, v, scale=(len(q) * q.shape[2]) ** 0.5)


def masked_after_the_softmax(q, k, v):
    """You mask after the softmax, so the weights do not sum to one. Mask the scores."""
    scores = q @ _copies(k, len(q)).mT / q.shape[-1] ** 0.5
    return scores.softmax(-1).tril() @ _copies(v, len(q))


def scaled_without_root(q, k, v):
    """You divide the scores by the width of a head. Divide by its root."""
    return _grouped(q, k, v, scale=q.shape[2])
