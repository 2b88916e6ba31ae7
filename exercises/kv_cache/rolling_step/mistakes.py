import torch


def _step(q, k, v, keys, values, n_seen, slot=None, used=None, scale=None):
    keys, values = keys.clone(), values.clone()
    slot = n_seen % len(keys) if slot is None else slot
    keys[slot], values[slot] = k, v
    used = slice(min(n_seen + 1, len(keys))) if used is None else used
    weights = (keys[used] @ q / (len(q) ** 0.5 if scale is None else scale)).softmax(0)
    return weights @ values[used], keys, values


def _shifted(q, k, v, keys, values, n_seen):
    keys, values = torch.cat((keys[1:], k[None])), torch.cat((values[1:], v[None]))
    used = slice(-min(n_seen + 1, len(keys)), None)
    return (keys[used] @ q / len(q) ** 0.5).softmax(0) @ values[used], keys, values


def unused_slots_read(q, k, v, keys, values, n_seen):
    """Your cache is right, but as long as it is not full, you also attend to slots that have not been used."""
    return _step(q, k, v, keys, values, n_seen, used=slice(None))


def new_slot_not_read(q, k, v, keys, values, n_seen):
    """Your cache is right, but as long as it is not full, the new token does not attend to itself. It counts as used
    once it is stored."""
    return _step(q, k, v, keys, values, n_seen, used=slice(min(n_seen, len(keys))))


def up_to_the_slot(q, k, v, keys, values, n_seen):
    """Your cache is right, but you attend only to the slots up to the new token's. In a full cache, older tokens stand
    in the slots behind it."""
    return _step(q, k, v, keys, values, n_seen, used=slice(n_seen % len(keys) + 1))


def next_slot(q, k, v, keys, values, n_seen):
    """Your new token goes one slot too far. The first token, with `n_seen` = 0, goes into the first slot."""
    slot = (n_seen + 1) % len(keys)
    return _step(q, k, v, keys, values, n_seen, slot=slot)


def slot_before(q, k, v, keys, values, n_seen):
    """Your new token goes one slot too near: it overwrites the newest of the earlier tokens, and not the oldest."""
    return _step(q, k, v, keys, values, n_seen, slot=(n_seen - 1) % len(keys))


def last_slot_when_full(q, k, v, keys, values, n_seen):
    """In a full cache, your new token always goes into the last slot. It should overwrite the oldest token."""
    return _step(q, k, v, keys, values, n_seen, slot=min(n_seen, len(keys) - 1))


def shifted(q, k, v, keys, values, n_seen):
    """In a full cache, you move all tokens up by one row and put the new one last. No token changes its slot: the new
    one overwrites the oldest."""
    if n_seen < len(keys):
        return _step(q, k, v, keys, values, n_seen)
    return _shifted(q, k, v, keys, values, n_seen)


def shifted_in_each_step(q, k, v, keys, values, n_seen):
    """In each step, you move all tokens up by one row and put the new one last. No token changes its slot, and unused
    slots are filled from the first on."""
    return _shifted(q, k, v, keys, values, n_seen)


def attends_first(q, k, v, keys, values, n_seen):
    """Your cache is right, but you attend before the new token is stored: the token does not attend to itself, and in
    a full cache still sees the one that has left the window."""
    n_used = min(n_seen, len(keys))
    weights = (keys[:n_used] @ q / len(q) ** 0.5).softmax(0)
    return weights @ values[:n_used], *_step(q, k, v, keys, values, n_seen)[1:]


def first_slot_when_full(q, k, v, keys, values, n_seen):
    """In a full cache, your new token always goes into the first slot. That is where the oldest token stands only
    once in each round."""
    return _step(q, k, v, keys, values, n_seen, slot=n_seen if n_seen < len(keys) else 0)


def not_scaled(q, k, v, keys, values, n_seen):
    """Your cache is right, but your scores are not divided by the root of d_head."""
    return _step(q, k, v, keys, values, n_seen, scale=1)


def grown(q, k, v, keys, values, n_seen):
    """Your cache grows by one row. A rolling cache keeps its number of slots."""
    keys, values = torch.cat((keys, k[None])), torch.cat((values, v[None]))
    return (keys @ q / len(q) ** 0.5).softmax(0) @ values, keys, values


def cut_to_the_used(q, k, v, keys, values, n_seen):
    """Your output is right, but you cut off the unused slots. The cache keeps its number of slots."""
    output, keys, values = _step(q, k, v, keys, values, n_seen)
    return output, keys[: n_seen + 1].clone(), values[: n_seen + 1].clone()


def changed_in_place(q, k, v, keys, values, n_seen):
    """Your results are right, but you also change the caller's tensors. Write into copies."""
    output, new_keys, new_values = _step(q, k, v, keys, values, n_seen)
    keys.copy_(new_keys)
    values.copy_(new_values)
    return output, keys, values


def values_not_stored(q, k, v, keys, values, n_seen):
    """You store the new key, but not the new value."""
    n_used = min(n_seen + 1, len(keys))
    _, new_keys, _ = _step(q, k, v, keys, values, n_seen)
    weights = (new_keys[:n_used] @ q / len(q) ** 0.5).softmax(0)
    return weights @ values[:n_used], new_keys, values.clone()
